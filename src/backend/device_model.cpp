// SPDX-License-Identifier: Apache-2.0
#include "backend/device_model.h"

#include <algorithm>

namespace lathe {

double DeviceModel::ops_per_ns(DType type) const {
  double fp32 = 1;
  for (const Rate& rate : rates) {
    if (rate.type == type) return rate.ops_per_ns;
    if (rate.type == DType::Float32) fp32 = rate.ops_per_ns;
  }
  return fp32;
}

double DeviceModel::bytes_per_ns(double bytes) const {
  for (const Memory& memory : memories)
    if (bytes <= static_cast<double>(memory.bytes)) return memory.bytes_per_ns;
  return memories.empty() ? 1 : memories.back().bytes_per_ns;
}

double DeviceModel::expected_us(double ops, DType type, double bytes) const {
  return start_us + std::max(ops / ops_per_ns(type), bytes / bytes_per_ns(bytes)) / 1e3;
}

}  // namespace lathe
