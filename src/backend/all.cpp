// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend is a shared object of its own (liblathe_cuda.so), opened when a GPU is asked for: where
// there is no driver, or none of this backend was installed, everything else works.
#include "backend/all.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "backend/cpu/run/cpu_backend.h"
#include "lathe_version.h"

namespace lathe {
namespace {

constexpr const char* kCudaLibrary = "liblathe_cuda.so";

// Where the shared object may lie: beside the program or library that this code is in, in lib/ beside its
// bin/, or where the dynamic linker looks.
std::vector<std::string> cuda_library_paths() {
  std::vector<std::string> paths;
  Dl_info here{};
  if (dladdr(reinterpret_cast<void*>(&open_backend), &here) != 0 && here.dli_fname != nullptr) {
    std::error_code ignored;
    std::filesystem::path own = here.dli_fname;
    if (!own.has_parent_path())
      own = "/proc/self/exe";  // a program found through PATH is known as it was called
    const auto folder = std::filesystem::canonical(own, ignored).parent_path();
    if (!folder.empty()) {
      paths.push_back(folder / kCudaLibrary);
      paths.push_back(folder.parent_path() / "lib" / kCudaLibrary);
    }
  }
  paths.emplace_back(kCudaLibrary);
  return paths;
}

void* open_cuda_library(std::string& reason) {
  for (const std::string& path : cuda_library_paths()) {
    if (path.find('/') != std::string::npos && !std::filesystem::exists(path)) continue;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* error = dlerror();
    reason = fmt::format("{} cannot be opened: {}", path, error ? error : "unknown reason");
  }
  if (reason.find("No such file") != std::string::npos)
    reason = fmt::format("this installation has no {} (make cuda builds it)", kCudaLibrary);
  return nullptr;
}

// Null with the reason when there is no usable GPU.
std::shared_ptr<const Backend> open_gpu(int ordinal, const DeviceOptions& options, std::string& reason) {
  void* library = open_cuda_library(reason);
  if (library == nullptr) return nullptr;
  using Version = const char*();
  using Create = Backend*(int, bool, const std::shared_ptr<v1::Allocator>&, char*, size_t);
  const auto version = reinterpret_cast<Version*>(dlsym(library, "lathe_cuda_version"));
  const auto create = reinterpret_cast<Create*>(dlsym(library, "lathe_cuda_create"));
  if (version == nullptr || create == nullptr || std::string(version()) != LATHE_VERSION) {
    reason = fmt::format("{} is of another version of Lathe (this is {})", kCudaLibrary, LATHE_VERSION);
    return nullptr;
  }
  char error[2048] = "";
  std::shared_ptr<const Backend> backend(
      create(ordinal, options.tf32, options.allocator, error, sizeof error));
  if (backend == nullptr) reason = error;
  return backend;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 6 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::shared_ptr<const Backend> open_backend(const DeviceOptions& options) {
  const bool any = options.device == "auto";
  if (any || is_number(options.device)) {
    std::string reason;
    if (auto backend = open_gpu(any ? 0 : std::stoi(options.device), options, reason)) return backend;
    if (!any)
      throw_input_error(fmt::format("device {} is a GPU: {}; use --device=cpu", options.device, reason),
                        ErrorCode::FailedInitialization);
  } else if (options.device != "cpu") {
    throw_input_error("unknown device '" + options.device +
                      "'; there are: cpu, auto, and the numbers of GPUs");
  }
  auto pool = options.pool ? options.pool : std::make_shared<ThreadPool>(options.threads);
  return cpu::create_cpu_backend(
      {.threads = options.threads, .isa_cap = options.cpu_isa, .allocator = options.allocator},
      std::move(pool));
}

}  // namespace lathe
