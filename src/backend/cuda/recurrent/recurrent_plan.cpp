// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/recurrent/recurrent_plan.h"

#include <bit>
#include <cmath>

namespace lathe::cuda {
namespace {

constexpr int kMostWarps = 16;
// Of a thread's sums, and of the values that it makes; more would spill.
constexpr int kMostSums = 64, kMostItems = 16;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int power_above(int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(n)));
}

// Words of a thread's registers for rows of r: what sums and addresses leave.
int kept_words(int warps) {
  return warps <= 8 ? 160 : 64;
}

// Hidden values of a strip of tensor core rows.
int64_t strip_units(const RecurrentPlan& plan) {
  return plan.joins_gates() ? 4 : 16;
}
// A warp sends 16 bytes at once: it has a multiple of so many hidden values.
int64_t least_units(const RecurrentPlan& plan) {
  return plan.has_tensor_cores() ? std::max<int64_t>(8, strip_units(plan)) : 4;
}

// k of a step.
int64_t step_width(const RecurrentPlan& plan, const RecurrentRows& rows) {
  return plan.has_tensor_cores() ? 16 : 4 * (32 / power_above(rows.gates));
}

RecurrentRows share_out(const RecurrentPlan& plan, int64_t first_gate, int64_t gates, int products) {
  RecurrentRows p{.first_gate = first_gate, .gates = gates};
  p.each = static_cast<int>(plan.warp_units);
  if (plan.has_tensor_cores())
    p.each = static_cast<int>(plan.warp_units / strip_units(plan) * (plan.joins_gates() ? 1 : gates));
  p.steps = static_cast<int>(divide_up(plan.blocks * plan.units, step_width(plan, p)));
  p.kept = std::min(p.steps, kept_words(plan.warps) / products / (4 * p.each));
  return p;
}

void share_out_units(RecurrentPlan& plan) {
  const int64_t least = least_units(plan);
  plan.units = divide_up(plan.sizes.hidden, plan.blocks * least) * least;
  plan.warp_units = divide_up(plan.units, kMostWarps * least) * least;
  plan.warps = static_cast<int>(divide_up(plan.units, plan.warp_units));
  if (plan.has_tensor_cores()) {
    const auto columns = plan.sequences / 8;
    const auto strips = static_cast<int>(plan.warp_units / strip_units(plan));
    plan.items = strips * columns * (plan.joins_gates() ? 1 : 4);
  } else {
    plan.items = std::max(1, plan.padded_values() / (32 / plan.lane_groups()));
  }
}

}  // namespace

int RecurrentPlan::padded_values() const {
  return power_above(warp_units * sequences);
}

RecurrentSizes recurrent_sizes(const LayerQuery& query) {
  const Node& node = query.layer();
  const Shape &x = input_shape(query, kX), &r = input_shape(query, kR);
  RecurrentSizes s{.steps = x[0], .batch = x[1]};
  s.width = input_shape(query, kW)[1].value();
  s.hidden = r[1].value();
  s.gates = s.hidden == 0 ? 1 : r[0].value() / s.hidden;
  if (const auto* gru = std::get_if<GRU>(&node.op)) s.multiplies_twice = !gru->linear_before_reset;
  return s;
}

std::optional<RecurrentPlan> plan_recurrent(const RecurrentSizes& sizes, DType type, int blocks,
                                            int sequences, const DeviceProperties& gpu) {
  RecurrentPlan plan{.sizes = sizes, .type = type, .blocks = blocks, .sequences = sequences};
  share_out_units(plan);
  // Each block has something to wait for.
  if ((blocks - 1) * plan.units >= sizes.hidden || plan.items > kMostItems) return std::nullopt;
  if (sizes.multiplies_twice)
    plan.products = {share_out(plan, 0, 2, 2), share_out(plan, 2, 1, 2)};
  else
    plan.products = {share_out(plan, 0, sizes.gates, 1)};
  int64_t k = 0;
  for (const RecurrentRows& p : plan.products) {
    const int sums = plan.has_tensor_cores() ? p.each * sequences / 2 : plan.padded_values();
    if (sums > kMostSums) return std::nullopt;
    k = std::max<int64_t>(k, p.steps * step_width(plan, p));
  }
  // Rows of states begin in different banks.
  plan.state_pitch = k + (plan.has_tensor_cores() ? 8 : 0);
  plan.staged_at = divide_up(16 + 2 * sequences * plan.state_pitch * dtype_size(type), 16) * 16;
  plan.shared_bytes = plan.staged_at;
  if (plan.shared_bytes > gpu.shared_bytes_per_block) return std::nullopt;
  for (RecurrentRows& p : plan.products) {
    const int64_t step = int64_t{plan.warps} * p.each * 512;
    p.staged = static_cast<int>(
        std::min<int64_t>(p.steps - p.kept, (gpu.shared_bytes_per_block - plan.shared_bytes) / step));
    plan.shared_bytes += plan.staged_bytes(p);
  }
  return plan;
}

double RecurrentPlan::microseconds(const DeviceProperties& gpu, int64_t steps, int64_t batch) const {
  double cycles = 0;
  for (const RecurrentRows& p : products) {
    const double fragments = static_cast<double>(warps) * p.each;
    // A multiprocessor does 128 multiply-adds a cycle, or starts a product of tensor cores every three.
    cycles += fragments * p.steps * (has_tensor_cores() ? 3.3 * (sequences / 8) : 1.0 * sequences);
    cycles += fragments * 512 * (p.staged / 128.0 + (p.steps - p.kept - p.staged) / 40.0);
    // The way through a cluster, and what each message of 16 bytes takes where it arrives.
    const double messages =
        static_cast<double>(sizes.hidden * dtype_size(type)) / 16 * std::min<double>(sequences, batch);
    cycles += 350 + (blocks > 1 ? 550 + 1.3 * messages : 50);
  }
  const double clusters = std::ceil(static_cast<double>(batch) / sequences);
  const double resident = std::max(1.0, std::floor(1.0 * gpu.multiprocessors / blocks));
  return std::ceil(clusters / resident) * static_cast<double>(steps) * cycles * 1000 / gpu.clock_khz;
}

namespace {

// Which gate (of the product), hidden value (of the warp) and k an element of a fragment belongs to.
struct Element {
  int64_t gate = 0, unit = 0, k = 0;
};
Element element_at(const RecurrentPlan& plan, const RecurrentRows& rows, int64_t fragment, int64_t lane,
                   int64_t e) {
  const int64_t step = fragment / rows.each, i = fragment % rows.each;
  if (!plan.has_tensor_cores()) {
    const int64_t lanes = 32 / power_above(rows.gates);
    return {lane / lanes, i, (step * lanes + lane % lanes) * 4 + e};
  }
  // A lane's place in the left operand of a 16x8x16 product.
  const int64_t row = lane / 4 + e / 2 % 2 * 8, k = step * 16 + lane % 4 * 2 + e % 2 + e / 4 * 8;
  if (plan.joins_gates()) return {row / 4, i * 4 + row % 4, k};
  return {i % rows.gates, i / rows.gates * 16 + row, k};
}

}  // namespace

int64_t recurrent_rows_count(const RecurrentPlan& plan, const RecurrentRows& rows) {
  return int64_t{plan.blocks} * plan.warps * rows.fragments() * 32 * (16 / dtype_size(plan.type));
}

PackedBlock recurrent_rows_block(const RecurrentPlan& plan, const RecurrentRows& rows, const Tensor& r) {
  const int64_t elements = 16 / dtype_size(plan.type);
  const int64_t of_warp = int64_t{rows.fragments()} * 32 * elements, of_block = plan.warps * of_warp;
  const int64_t count = recurrent_rows_count(plan, rows);
  return {dtype_bytes(plan.type, count), [=] {
            const std::vector<double> values = r.to_doubles();
            const int64_t hidden = plan.sizes.hidden;
            std::vector<double> packed(static_cast<size_t>(count), 0.0);
            for (int64_t i = 0; i < count; ++i) {
              const Element at =
                  element_at(plan, rows, i % of_warp / (32 * elements), i / elements % 32, i % elements);
              const int64_t own = i % of_block / of_warp * plan.warp_units + at.unit;
              const int64_t unit = i / of_block * plan.units + own;
              if (at.gate >= rows.gates || own >= plan.units || unit >= hidden || at.k >= hidden) continue;
              packed[static_cast<size_t>(i)] =
                  values[static_cast<size_t>(((rows.first_gate + at.gate) * hidden + unit) * hidden + at.k)];
            }
            const Tensor t = Tensor::from_doubles(plan.type, {count}, packed);
            return std::vector<std::byte>(t.bytes().begin(), t.bytes().end());
          }};
}

}  // namespace lathe::cuda
