// SPDX-License-Identifier: Apache-2.0
//
// What liblathe_cuda.so exports: a factory with C linkage. Both sides are of one build (lathe_cuda_version is
// compared), so C++ objects may pass; exceptions do not.
#include <cstring>
#include <exception>

#include "backend/cuda/run/cuda_backend.h"
#include "lathe_version.h"

extern "C" __attribute__((visibility("default"))) const char* lathe_cuda_version() {
  return LATHE_VERSION;
}

// A Backend that the caller owns; null when it cannot be, with the reason in `error`.
extern "C" __attribute__((visibility("default"))) lathe::Backend* lathe_cuda_create(
    int ordinal, bool tf32, const std::shared_ptr<lathe::v1::Allocator>& allocator, char* error,
    size_t error_bytes) {
  try {
    return lathe::cuda::create_cuda_backend(lathe::cuda::open_device(ordinal, tf32, allocator)).release();
  } catch (const std::exception& exception) {
    std::strncpy(error, exception.what(), error_bytes - 1);
    error[error_bytes - 1] = '\0';
    return nullptr;
  }
}
