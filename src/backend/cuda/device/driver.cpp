// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"

namespace lathe::cuda {

std::shared_ptr<const Driver> Driver::open(std::string& reason) {
  // Never closed: the driver keeps threads of its own.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    reason = "there is no NVIDIA driver (libcuda.so.1 was not found)";
    return nullptr;
  }
  auto driver = std::make_shared<Driver>();
  const char* missing = nullptr;
#define LATHE_NAME_OF(text) #text
#define LATHE_FIND(function)                                                                           \
  driver->function = reinterpret_cast<decltype(&::function)>(dlsym(library, LATHE_NAME_OF(function))); \
  if (driver->function == nullptr) missing = LATHE_NAME_OF(function);
  LATHE_DRIVER_FUNCTIONS(LATHE_FIND)
#undef LATHE_FIND
#undef LATHE_NAME_OF
  if (missing != nullptr) {
    reason = fmt::format("the NVIDIA driver is too old: it has no {} (CUDA 13 needs driver 580 or later)",
                         missing);
    return nullptr;
  }
  if (const CUresult result = driver->cuInit(0); result != CUDA_SUCCESS) {
    reason = fmt::format("the NVIDIA driver does not start: {}", driver->describe(result));
    return nullptr;
  }
  return driver;
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  return fmt::format("{} ({})", text ? text : "unknown error", name ? name : std::to_string(result).c_str());
}

void Driver::fail(CUresult result, std::string_view what) const {
  throw_system_error(fmt::format("{}: {}", what, describe(result)), result == CUDA_ERROR_OUT_OF_MEMORY
                                                                        ? ErrorCode::FailedAllocation
                                                                        : ErrorCode::FailedExecution);
}

}  // namespace lathe::cuda
