// SPDX-License-Identifier: Apache-2.0
//
// For tests: an H200, described by the file of one, and the GPU of the machine, where there is one.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/device/device.h"
#include "base/error.h"
#include "base/file.h"

namespace lathe::cuda {

inline std::shared_ptr<const Device> h200(bool tf32 = true) {
  const std::string path = "tests/gpu/h200.json";
  return describe_device(DeviceProperties::from_json(read_file(path), path), tf32);
}

// Null where there is none.
inline std::shared_ptr<const Device> gpu_at_hand() {
  static const std::shared_ptr<const Device> device = []() -> std::shared_ptr<const Device> {
    try {
      return open_device(0, false);
    } catch (const Error&) {
      return nullptr;
    }
  }();
  return device;
}

}  // namespace lathe::cuda
