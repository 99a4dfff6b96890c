// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend. Bindings are device memory; everything is enqueued on the caller's stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/device.h"

namespace lathe::cuda {

// For a device that is only described, the backend lists tactics and compiles sources; whatever needs the GPU
// throws.
std::unique_ptr<Backend> create_cuda_backend(std::shared_ptr<const Device> device);

}  // namespace lathe::cuda
