// SPDX-License-Identifier: Apache-2.0
//
// Members share groups of 16 rows or panels of 32 columns, whatever reads less from afar. Four orders, for
// the tuner to choose: all rows of a block meet a panel before the next one (weights come from afar once, 32
// columns at a time); the same with a chunk along k at a time, which stays in L1 while partial sums go out
// and in; or all panels meet 32 rows (a short row stays in L1, weights in L2); or, for rows of a few steps,
// 128 rows in groups of 16 (AmxProduct::by_groups). Rows go in blocks that leave a part of L2 to the weights.
//
// Operations: 2 M N K. Bytes: weights, rows and results once each. The floor is the tiles' arithmetic
// (tile/amx_product.inc), or the weights' way from L3 or memory below some 200 rows.
// Reached (one core of an Emerald Rapids, cold, of 2,850 GFLOP/s; in parentheses oneDNN's): 128x768 by
// 768x768 990 (790), by 768x3072 with GELU 720 (480), 128x3072 by 3072x768 with an operand 950 (700), 197
// rows of it 920 (590); 1x1 256-64@56 960 (980), 64-256@56 550 (560), where results count, 512-128@28 1,240
// hot. What is missing: a tile of rows from L2 takes as long as two products, and 32x32 results take 350
// cycles beside their products.
// In chunks that stay in L1 (384 to 512 elements) only rows come from L2: 197x768 by 768x3072 with GELU 1,010
// where whole panels give 860, 197x3072 by 3072x768 1,100 where they give 850. Where another thread uses the
// same core, and L1 with it, whole panels are quicker.
//
// FP32 in parts: 12 M N K operations in BF16, 6 bytes a weight, and rows are split as they are copied (0.4
// cycles a value). Long rows go in chunks, so that a block's parts stay in L2. Reached there in GFLOP/s of
// FP32, where AVX-512 has 163 and the floor is 445: 128x768 by 768x768 221, by 768x3072 with GELU 279,
// 128x3072 by 3072x768 with an operand 227, 1024 rows 244 and 245; 1x1 256-1024@14 with an operand 244.
// (tile_matmul.cpp's in AVX-512: 156, 152, 156, 157, 147; 162.)
#include "backend/cpu/tile/amx_matmul.h"

#include "backend/cpu/tile/product_shares.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kPairBytes = 24 << 10;  // of 32 rows that stay in L1
constexpr int64_t kLeastGroups = 12;      // of a block in parts: weights, 6 bytes each, come at 10 GB/s
constexpr int64_t kSumBytes = 512 << 10;  // of a block between two chunks

}  // namespace

// Strided pixels lie apart; a tile whose rows cross cache lines loads six times slower (18 ns instead of 3);
// and rows that many panels meet out of L2 come in twice the time when a tile is 16 lines apart and not 1 KB
// in one piece.
bool PreparedAmxMatMul::copies() const {
  const bool from_l2 = 2 * kGroup * row_bytes() > kPairBytes && panel_count() >= 8;
  return in_parts || !source.dense() || row_bytes() % 64 != 0 || from_l2;
}

void PreparedAmxMatMul::lay_out() {
  step_ = amx_step(k);
  group_panels_ = panel_count();
  const int64_t whole = kGroup * row_bytes(), for_rows = l2_bytes * (in_parts ? 4 : 5) / 8;
  if (in_parts)
    chunks_ =
        std::clamp<int64_t>((std::min(kLeastGroups, groups()) * whole + for_rows - 1) / for_rows, 1, steps());
  chunk_steps_ = (steps() + chunks_ - 1) / chunks_;
  if ((order == AmxOrder::Rows || order == AmxOrder::Groups) && !copies() && plan) {
    block_groups_ = groups();
  } else {
    const int64_t most = std::clamp<int64_t>(for_rows * chunks_ / whole, 2, groups() + 1);
    const int64_t blocks = (groups() + most - 1) / most;
    block_groups_ = round_up((groups() + blocks - 1) / blocks, 2);
  }
  const int64_t copied = copies() ? std::min(block_groups_, groups()) : 1;
  rows_at_ = round_up(block_groups_ * static_cast<int64_t>(sizeof(std::byte*)), 64);
  sums_at_ = rows_at_ + copied * group_bytes();
  const int64_t sums_bytes = block_groups_ * kGroup * kPanel * 4;
  partial_at_ = sums_at_ + (plan ? 0 : sums_bytes);
  if (chunks_ > 1) group_panels_ = std::clamp<int64_t>(kSumBytes / sums_bytes, 1, panel_count());
  const bool waits = order == AmxOrder::Chunks || chunks_ > 1;
  member_bytes_ = partial_at_ + (waits ? (chunks_ > 1 ? group_panels_ : 1) * sums_bytes : 0) + 64;
}

// As tiles: [step][part][row][64 bytes].
void PreparedAmxMatMul::copy_group(const std::byte* data, int64_t first, int64_t rows,
                                   const Worker::Range& steps, std::byte* to) const {
  const int64_t element_bytes = source_bytes() / k, pitch = source.stride_x * source_bytes();
  for (int64_t r = 0, n = 0; r < rows; r += n) {
    const int64_t row = first + r;
    // Rows of one line of pixels lie equally far apart.
    n = source.dense() ? rows : std::min(rows - r, source.width - row % source.width);
    const std::byte* from = data + source.position(row) * source_bytes();
    for (int64_t i = steps.begin; i < steps.end; ++i) {
      const std::byte* step = from + i * step_ * element_bytes;
      std::byte* tile = to + (i - steps.begin) * parts() * AmxProduct::kTileBytes + r * 64;
      if (in_parts)
        table->split_rows(step, pitch, step_, n, tile, 64, AmxProduct::kTileBytes, step_);
      else
        table->copy_rows(step, pitch, 2 * step_, n, tile, 64, 2 * step_);
    }
  }
}

int PreparedAmxMatMul::members(int available) const {
  const double time = arithmetic() + static_cast<double>(row_bytes() * n * matrices) / 20 +
                      static_cast<double>(m * source_bytes()) / 40;
  return members_for(time, available);
}

// Rows: everybody reads all weights. Panels: everybody reads all rows. The larger share counts, at some 30
// GB/s from L3.
bool PreparedAmxMatMul::by_rows(int members) const {
  const ProductShares shares{.arithmetic = arithmetic(),
                             .weights = static_cast<double>(row_bytes() * n * matrices) / 30,
                             .rows = static_cast<double>(m * row_bytes()) / 30,  // in parts, to split them
                             .row_units = groups(),
                             .column_units = panel_count()};
  return shares.by_rows(members);
}

void PreparedAmxMatMul::run(const LayerArgs& args, const Worker& worker) const {
  Worker::Range own_groups{0, groups()}, panels{0, panel_count()};
  if (by_rows(worker.count))
    own_groups = worker.slice(groups(), 1, block_groups_);  // a portion reads all weights
  else
    panels = worker.slice(panel_count(), 1, copies() ? Worker::kUncut : 1);
  if (own_groups.begin >= own_groups.end || panels.begin >= panels.end) return;
  std::byte* own = args.scratch + worker.index * member_bytes_;
  table->begin(step_);
  for (int64_t g = own_groups.begin; g < own_groups.end; g += block_groups_) {
    const int64_t first = g * kGroup, end = std::min(g + block_groups_, own_groups.end) * kGroup;
    run_block(args, first, std::min(end, m) - first, panels, own);
  }
  table->end();
}

// Where the groups of a block begin; copied ones hold these steps only.
void PreparedAmxMatMul::place_groups(const LayerArgs& args, int64_t first, int64_t rows,
                                     const Worker::Range& steps, std::byte* own) const {
  const auto* data = static_cast<const std::byte*>(args.inputs[0]);
  const auto** starts = reinterpret_cast<const std::byte**>(own);
  std::byte* copied = own + rows_at_;
  const int64_t count = (rows + kGroup - 1) / kGroup;
  for (int64_t g = 0; g < count; ++g) {
    const int64_t row = first + g * kGroup;
    starts[g] = copies() ? copied + g * group_bytes() : data + row * row_bytes();
    if (copies())
      copy_group(data, row, std::min(kGroup, rows - g * kGroup), steps, copied + g * group_bytes());
  }
  // The last group may have fewer rows than a tile reads; the others stay where they are, so it keeps their
  // pitch.
  if (!copies() && rows % kGroup != 0) {
    starts[count - 1] = copied;
    table->copy_rows(data + (first + rows / kGroup * kGroup) * row_bytes(), row_bytes(), row_bytes(),
                     rows % kGroup, copied, row_bytes(), row_bytes());
  }
}

void PreparedAmxMatMul::run_block(const LayerArgs& args, int64_t first, int64_t rows,
                                  const Worker::Range& panels, std::byte* own) const {
  for (int64_t panel = panels.begin, end = 0; panel < panels.end; panel = end) {
    end = std::min(panel + group_panels_, panels.end);
    for (int64_t c = 0; c < chunks_; ++c) {
      const Worker::Range chunk{steps() * c / chunks_, steps() * (c + 1) / chunks_};
      if (chunks_ > 1 || panel == panels.begin) place_groups(args, first, rows, chunk, own);
      run_chunk(args, first, rows, {panel, end}, chunk, own);
    }
  }
}

void PreparedAmxMatMul::run_chunk(const LayerArgs& args, int64_t first, int64_t rows,
                                  const Worker::Range& panels, const Worker::Range& chunk,
                                  std::byte* own) const {
  const bool copy = copies(), last = chunk.end == steps();
  const int64_t tile_bytes = parts() * AmxProduct::kTileBytes, panel_sums = block_groups_ * kGroup * kPanel;
  AmxProduct p{.groups = reinterpret_cast<const std::byte**>(own),
               .group_count = (rows + kGroup - 1) / kGroup,
               .row_bytes = copy ? 64 : row_bytes(),
               .group_bytes = copy ? 0 : kGroup * row_bytes(),
               .step_bytes = copy ? tile_bytes : 2 * step_,
               .steps = steps(),
               .step = step_,
               .part_bytes = in_parts ? AmxProduct::kTileBytes : 0,
               .panel_bytes = row_bytes() * kPanel,
               .rows_first = order == AmxOrder::Rows || order == AmxOrder::Groups,
               .rows = rows,
               .by_groups = order == AmxOrder::Groups,
               .first_step = chunk.begin,
               .end_step = chunk.end,
               .partial_panel = chunks_ > 1 ? panel_sums : 0};
  if (order == AmxOrder::Chunks) p.chunk_steps = amx_chunk_steps(k, step_, in_parts);
  auto* sums = reinterpret_cast<float*>(own + sums_at_);
  p.out_stride = plan ? n : kPanel;
  p.operand_stride = n;
  if (plan) p.tail = plan->tail;
  if (plan) p.stored = stored_as(result);
  const int64_t padded = round_up(n, kPanel / 2);
  for (int64_t panel = panels.begin, end = 0; panel < panels.end; panel = end) {
    const int64_t matrix = panel / matrix_panels(), begin = panel % matrix_panels();
    end = plan ? std::min(panels.end, (matrix + 1) * matrix_panels()) : panel + 1;
    const int64_t column = begin * kPanel, at = matrix * m * n + first * n + column;
    p.columns = std::min(n, (end - matrix * matrix_panels()) * kPanel) - column;
    p.b = weights + row_bytes() * (matrix * padded + column);
    p.bias = bias + matrix * padded + column;
    p.out = plan ? static_cast<std::byte*>(args.outputs[0]) + dtype_bytes(result, at)
                 : reinterpret_cast<std::byte*>(sums);
    if (order == AmxOrder::Chunks || chunks_ > 1)
      p.partial = reinterpret_cast<float*>(own + partial_at_) + (panel - panels.begin) * p.partial_panel;
    if (plan && plan->operand >= 0)
      p.operand = static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan->operand)]) +
                  dtype_bytes(result, at);
    table->run(p);
    if (!plan && last) epilogue->apply(args, sums, kPanel, at, rows, n, p.columns);
  }
}

}  // namespace lathe::cpu
