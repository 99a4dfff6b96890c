// SPDX-License-Identifier: Apache-2.0
//
// For tests: an H200, described by the file of one.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/device/device.h"
#include "base/file.h"

namespace lathe::cuda {

inline std::shared_ptr<const Device> h200(bool tf32 = true) {
  const std::string path = "tests/gpu/h200.json";
  return describe_device(DeviceProperties::from_json(read_file(path), path), tf32);
}

}  // namespace lathe::cuda
