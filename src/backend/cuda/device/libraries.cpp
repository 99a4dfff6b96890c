// SPDX-License-Identifier: Apache-2.0
//
// dlopen looks where the dynamic linker looks: LD_LIBRARY_PATH, this library's run path (the wheels that it
// was built with), the system's folders. Libraries are never closed, since they keep state per process.
#include "backend/cuda/device/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace lathe::cuda {
namespace {

// The library by its first name that opens; null, with a line in `missing`, when none does.
void* open_library(const char* soname, std::string_view name, std::string_view cost,
                   std::vector<std::string>& missing) {
  if (void* library = dlopen(soname, RTLD_NOW | RTLD_GLOBAL)) return library;
  const char* why = dlerror();
  missing.push_back(fmt::format("{} is not there ({}): {}", name, why ? why : soname, cost));
  return nullptr;
}

std::unique_ptr<Nvrtc> open_nvrtc(std::vector<std::string>& missing) {
  void* library =
      open_library("libnvrtc.so.13", "NVRTC",
                   "no kernels of our own can be generated, so engines can be run but hardly built", missing);
  if (library == nullptr) return nullptr;
  auto table = std::make_unique<Nvrtc>();
  const char* absent = nullptr;
#define LATHE_FIND(function)                                                            \
  table->function = reinterpret_cast<decltype(&::function)>(dlsym(library, #function)); \
  if (table->function == nullptr) absent = #function;
  LATHE_NVRTC_FUNCTIONS(LATHE_FIND)
  if (absent != nullptr) {
    missing.push_back(fmt::format("NVRTC has no {}: another version is installed", absent));
    return nullptr;
  }
  int major = 0, minor = 0;
  table->nvrtcVersion(&major, &minor);
  table->version = major * 1000 + minor * 10;
  // NVRTC opens it by name and has no run path of its own, so it has to be in the process already when only
  // ours leads there.
  dlopen(fmt::format("libnvrtc-builtins.so.{}.{}", major, minor).c_str(), RTLD_NOW | RTLD_GLOBAL);
  return table;
}

// In the folder of NVRTC, which the toolkit and the wheels have it in.
std::string find_device_runtime(const Nvrtc& nvrtc) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(nvrtc.nvrtcVersion), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code ignored;
  const std::filesystem::path path =
      std::filesystem::canonical(info.dli_fname, ignored).parent_path() / "libcudadevrt.a";
  return std::filesystem::is_regular_file(path, ignored) ? path.string() : std::string();
}

std::unique_ptr<Cudnn> open_cudnn(std::vector<std::string>& missing) {
  void* library = open_library("libcudnn.so.9", "cuDNN", "convolutions lose their cuDNN tactics", missing);
  if (library == nullptr) return nullptr;
  auto table = std::make_unique<Cudnn>();
  const char* absent = nullptr;
  LATHE_CUDNN_FUNCTIONS(LATHE_FIND)
  if (absent != nullptr) {
    missing.push_back(fmt::format("cuDNN has no {}: another version is installed", absent));
    return nullptr;
  }
  table->version = static_cast<int>(table->cudnnGetVersion());
  return table;
}

std::unique_ptr<CublasLt> open_cublaslt(std::vector<std::string>& missing) {
  void* library =
      open_library("libcublasLt.so.13", "cuBLASLt", "matrix products lose their cuBLASLt tactics", missing);
  if (library == nullptr) return nullptr;
  auto table = std::make_unique<CublasLt>();
  const char* absent = nullptr;
  LATHE_CUBLASLT_FUNCTIONS(LATHE_FIND)
#undef LATHE_FIND
  if (absent != nullptr) {
    missing.push_back(fmt::format("cuBLASLt has no {}: another version is installed", absent));
    return nullptr;
  }
  table->version = static_cast<int>(table->cublasLtGetVersion());
  return table;
}

}  // namespace

std::shared_ptr<const Libraries> Libraries::open() {
  auto libraries = std::make_shared<Libraries>();
  libraries->nvrtc = open_nvrtc(libraries->missing);
  if (libraries->nvrtc != nullptr) libraries->device_runtime = find_device_runtime(*libraries->nvrtc);
  libraries->cublaslt = open_cublaslt(libraries->missing);  // before cuDNN, which opens it by name
  libraries->cudnn = open_cudnn(libraries->missing);
  return libraries;
}

}  // namespace lathe::cuda
