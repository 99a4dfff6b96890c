// SPDX-License-Identifier: Apache-2.0
//
// A product of rows and constant panels in AMX tiles, in BF16 or in FP32 by three BF16 parts a value, at
// concrete extents: what tile_matmul.cpp's tactics for AMX run.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/tile/row_source.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"

namespace lathe::cpu {

// What meets what first: all rows of a block meet a panel, or a chunk along k of it; or all panels meet 32
// rows, or 128 rows in groups of 16.
enum class AmxOrder : uint8_t { Panels, Chunks, Rows, Groups };
constexpr std::string_view amx_order_name(AmxOrder order) {
  constexpr std::string_view kNames[] = {"panels", "chunks", "rows", "groups"};
  return kNames[static_cast<size_t>(order)];
}

// What a tactic for tiles chooses, and that as its parameters. `in_parts`: FP32 by the six products of three
// BF16 parts a value that count, a term of XLA's (BF16_BF16_F32_X6).
struct AmxVariant {
  bool in_parts = false;
  AmxOrder order = AmxOrder::Panels;

  static AmxVariant of(const TacticParams& params) {
    return {params.get("bf16x6") != 0, static_cast<AmxOrder>(params.get("order"))};
  }
  TacticParams params() const {
    return {{"amx", 1}, {"bf16x6", in_parts}, {"order", static_cast<int64_t>(order)}};
  }
  // "amx_bf16x6_rows"
  std::string name() const {
    return std::string(in_parts ? "amx_bf16x6_" : "amx_bf16_") + std::string(amx_order_name(order));
  }
};

// Steps of a chunk along k, of which the panel's part stays in L1; also of all of k where that is short
// enough.
constexpr int64_t amx_chunk_steps(int64_t k, int64_t step, bool in_parts) {
  const int64_t most = in_parts ? 128 : 512, chunks = (k + most - 1) / most;
  return (k / step + chunks - 1) / chunks;
}
// Below it the whole panel is a small part of L1.
constexpr int64_t least_for_chunks(bool in_parts) {
  return in_parts ? 256 : 128;
}
constexpr int64_t kAmxShort = 256;  // Groups: at most so many elements

class PreparedAmxMatMul final : public PreparedLayer {
 public:
  const AmxTable* table = nullptr;
  RowSource source;
  int64_t m = 1, n = 1, k = 1;
  int64_t matrices = 1;  // right operands that meet the same rows; their results follow one another
  AmxOrder order = AmxOrder::Panels;
  bool in_parts = false;  // FP32 rows, and weights by pack_column_parts()
  DType result = DType::BFloat16;
  const std::byte* weights = nullptr;
  const float* bias = nullptr;
  std::optional<TailPlan> plan;
  std::shared_ptr<const PreparedEpilogue> epilogue;  // without a plan
  int64_t l2_bytes = 1 << 20;
  int threads = 1;

  // To be called once everything above is set.
  void lay_out();

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads); }
  int members(int available) const override;
  void run(const LayerArgs& args, const Worker& worker) const override;

 private:
  static constexpr int64_t kGroup = AmxProduct::kGroup, kPanel = AmxProduct::kPanel;

  int64_t parts() const { return in_parts ? kBf16Parts : 1; }
  int64_t source_bytes() const { return (in_parts ? 4 : 2) * k; }  // of a row as it comes
  int64_t row_bytes() const { return 2 * k * parts(); }            // of a row or column in BF16
  double arithmetic() const {                                      // ns
    return (in_parts ? 12.0 : 2.0) * static_cast<double>(m * n * matrices) * static_cast<double>(k) / 1500;
  }
  int64_t groups() const { return (m + kGroup - 1) / kGroup; }
  int64_t matrix_panels() const { return (n + kPanel - 1) / kPanel; }
  int64_t panel_count() const { return matrices * matrix_panels(); }
  int64_t steps() const { return k / step_; }
  // A group of rows as tiles, or its rows as they are.
  int64_t group_bytes() const {
    return round_up(std::max(chunk_steps_ * parts() * 1024, kGroup * row_bytes() / chunks_), 64);
  }
  bool copies() const;
  void copy_group(const std::byte* data, int64_t first, int64_t rows, const Worker::Range& steps,
                  std::byte* to) const;
  bool by_rows(int members) const;
  void place_groups(const LayerArgs& args, int64_t first, int64_t rows, const Worker::Range& steps,
                    std::byte* own) const;
  void run_block(const LayerArgs& args, int64_t first, int64_t rows, const Worker::Range& panels,
                 std::byte* own) const;
  void run_chunk(const LayerArgs& args, int64_t first, int64_t rows, const Worker::Range& panels,
                 const Worker::Range& chunk, std::byte* own) const;

  int64_t step_ = 32, block_groups_ = 1;
  // In parts, k goes in chunks where not enough rows would stay in L2, for so many panels at a time, whose
  // sums wait there.
  int64_t chunks_ = 1, chunk_steps_ = 1, group_panels_ = 1;
  int64_t rows_at_ = 0, sums_at_ = 0, partial_at_ = 0,
          member_bytes_ = 0;  // in a member's scratch, after the groups' addresses
};

}  // namespace lathe::cpu
