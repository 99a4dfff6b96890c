// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/recurrent/recurrent_plan.h"

#include <cmath>

#include "base/error.h"

namespace lathe::cuda {
namespace {

// Words of a thread's registers for rows of r: half of what 512 threads can have.
constexpr int kKeptWords = 64;
// Of a thread's sums; more would spill.
constexpr int kMostSums = 64;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct Layout {
  int rows, k;  // of a fragment
};
Layout layout_of(bool tensor_cores) {
  return tensor_cores ? Layout{16, 16} : Layout{32, 4};
}

RecurrentRows share_out(const RecurrentPlan& plan, int64_t first_gate, int64_t gates, int products) {
  const Layout fragment = layout_of(plan.has_tensor_cores());
  RecurrentRows p{.first_gate = first_gate, .gates = gates};
  const int64_t strips = divide_up(gates * plan.units, fragment.rows);
  // Of plain multiply-adds, two rows of a thread share what it reads of the state.
  const int64_t least = plan.has_tensor_cores() ? 1 : std::min<int64_t>(strips, 2);
  p.each = static_cast<int>(std::max(least, divide_up(strips, kRecurrentWarps)));
  p.groups = static_cast<int>(divide_up(strips, p.each));
  const int64_t k_steps = divide_up(plan.blocks * plan.units, fragment.k);
  p.slices = static_cast<int>(std::min<int64_t>({kRecurrentWarps / p.groups, 8, k_steps}));
  p.steps = static_cast<int>(divide_up(k_steps, p.slices));
  p.kept = std::min(p.steps, kKeptWords / products / (4 * p.each));
  // Sums of tensor cores lie in pairs of sequences; four more floats keep them in different banks.
  p.pitch = p.groups * p.each * fragment.rows + (plan.has_tensor_cores() ? 4 : 0);
  return p;
}

}  // namespace

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
  const int64_t word = plan.units_of_thread();
  plan.units = divide_up(divide_up(sizes.hidden, blocks), word) * word;
  const int products = sizes.multiplies_twice ? 2 : 1;
  const int64_t together = sizes.multiplies_twice ? 2 : sizes.gates;
  plan.products.push_back(share_out(plan, 0, together, products));
  if (sizes.multiplies_twice) plan.products.push_back(share_out(plan, 2, 1, products));

  const Layout fragment = layout_of(plan.has_tensor_cores());
  int64_t k = 0, parts = 0;
  for (const RecurrentRows& p : plan.products) {
    const int sums = plan.has_tensor_cores() ? p.each * sequences / 2 : p.each * sequences;
    if (sums > kMostSums) return std::nullopt;
    k = std::max<int64_t>(k, int64_t{p.slices} * p.steps * fragment.k);
    parts = std::max<int64_t>(parts, int64_t{4} * p.slices * sequences * p.pitch);
  }
  // Rows of states begin in different banks.
  plan.state_pitch = k + (plan.has_tensor_cores() ? 8 : 0);
  const auto aligned = [](int64_t bytes) { return divide_up(bytes, 16) * 16; };
  plan.parts_at = aligned(16 + 2 * sequences * plan.state_pitch * dtype_size(type));
  plan.staged_at = aligned(plan.parts_at + parts);
  plan.shared_bytes = plan.staged_at;
  if (plan.shared_bytes > gpu.shared_bytes_per_block) return std::nullopt;
  for (RecurrentRows& p : plan.products) {
    const int64_t step = int64_t{kRecurrentWarps} * p.each * 512;
    p.staged = static_cast<int>(
        std::min<int64_t>(p.steps - p.kept, (gpu.shared_bytes_per_block - plan.shared_bytes) / step));
    plan.shared_bytes += p.staged_bytes();
  }
  return plan;
}

double RecurrentPlan::microseconds(const DeviceProperties& gpu, int64_t steps, int64_t batch) const {
  double cycles = 0;
  for (const RecurrentRows& p : products) {
    const double fragments = static_cast<double>(p.warps()) * p.each;
    // A multiprocessor does 128 multiply-adds a cycle, or starts a product of tensor cores every eight.
    cycles += fragments * p.steps *
              (has_tensor_cores() ? 8.0 * std::ceil(sequences / 8.0) : 128.0 * sequences / 128);
    cycles += fragments * 512 * (p.staged / 128.0 + (p.steps - p.kept - p.staged) / 40.0);
    cycles += 300 + (blocks > 1 ? 450 : 50);
  }
  const double clusters = std::ceil(static_cast<double>(batch) / sequences);
  const double resident = std::max(1.0, std::floor(0.9 * gpu.multiprocessors / blocks));
  return std::ceil(clusters / resident) * static_cast<double>(steps) * cycles * 1000 / gpu.clock_khz;
}

PackedBlock recurrent_rows_block(const RecurrentPlan& plan, const RecurrentRows& rows, const Tensor& r) {
  const int64_t elements = 16 / dtype_size(plan.type);
  const int64_t count = int64_t{plan.blocks} * rows.warps() * rows.fragments() * 32 * elements;
  return {dtype_bytes(plan.type, count), [plan, rows, r, elements, count] {
            const Layout fragment = layout_of(plan.has_tensor_cores());
            const std::vector<double> values = r.to_doubles();
            const int64_t hidden = plan.sizes.hidden;
            std::vector<double> packed(static_cast<size_t>(count), 0.0);
            for (int64_t i = 0; i < count; ++i) {
              const int64_t e = i % elements, lane = i / elements % 32;
              const int64_t f = i / elements / 32 % rows.fragments();
              const int64_t warp = i / elements / 32 / rows.fragments() % rows.warps();
              const int64_t rank = i / elements / 32 / rows.fragments() / rows.warps();
              const int64_t strip = warp % rows.groups * rows.each + f % rows.each;
              const int64_t step = warp / rows.groups * rows.steps + f / rows.each;
              int64_t row = strip * fragment.rows, k = step * fragment.k;
              if (plan.has_tensor_cores()) {  // a lane's place in the left operand of a 16x8x16 product
                row += lane / 4 + e / 2 % 2 * 8;
                k += lane % 4 * 2 + e % 2 + e / 4 * 8;
              } else {
                row += lane;
                k += e;
              }
              const int64_t unit = rank * plan.units + row % plan.units;
              if (row >= rows.gates * plan.units || unit >= hidden || k >= hidden) continue;
              const int64_t gate = rows.first_gate + row / plan.units;
              packed[static_cast<size_t>(i)] =
                  values[static_cast<size_t>((gate * hidden + unit) * hidden + k)];
            }
            const Tensor t = Tensor::from_doubles(plan.type, {count}, packed);
            return std::vector<std::byte>(t.bytes().begin(), t.bytes().end());
          }};
}

}  // namespace lathe::cuda
