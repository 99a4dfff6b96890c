// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/expected.h"

#include <algorithm>

#include "backend/layer_work.h"

namespace lathe::cpu {

// A core does two vectors of multiply-adds a cycle, or 16 x 16 x 32 products in tiles in 16; it reads 32
// bytes a cycle from its L2 and 8 from L3, and two cores take what one memory channel gives.
DeviceModel model_of(const Machine& machine) {
  constexpr double kCyclesPerNs = 2.5;
  const double cores = machine.threads, lanes = machine.has(CpuFeature::Avx512) ? 16 : 8;
  const double fp32 = 4 * lanes * kCyclesPerNs * cores;
  double bf16 = machine.has(CpuFeature::Bf16) ? 2 * fp32 : fp32;
  if (machine.amx) bf16 = 1024 * kCyclesPerNs * cores;
  return {.units = machine.threads,
          .memories = {{"L2", machine.l2_bytes * machine.threads, 32 * kCyclesPerNs * cores},
                       {"L3", machine.l3_bytes, 8 * kCyclesPerNs * cores},
                       {"memory", int64_t{1} << 40, 12 * std::max(1.0, cores / 2)}},
          .rates = {{DType::Float32, fp32}, {DType::BFloat16, bf16}},
          .start_us = machine.threads > 1 ? 2.0 : 0.5};
}

double expected_product_us(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                           double share_of_rate, double share_of_memory) {
  const Node& node = query.layer();
  if (!std::holds_alternative<MatMul>(node.op) || !query.graph.value(node.inputs[1]).is_constant() ||
      machine.has(CpuFeature::Avx512) || !tactic.support.ok)
    return 0;
  const DeviceModel model = model_of(machine);
  const LayerWork work = work_of(query, tactic);
  const double computing = work.ops / (model.ops_per_ns(DType::Float32) * share_of_rate),
               moving = work.bytes / (model.bytes_per_ns(work.bytes) * share_of_memory);
  return model.start_us + std::max(computing, moving) / 1e3;
}

}  // namespace lathe::cpu
