// SPDX-License-Identifier: Apache-2.0
//
// A DepthwiseBlock at concrete extents: what depthwise_block.cpp's tactics run.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/conv/depthwise.h"
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"

namespace lathe::cpu {

// Packed constants of a block; null where a part is absent. Channels between the parts are padded to half
// panels.
struct BlockWeights {
  const std::byte *expand = nullptr, *project = nullptr;  // column panels
  const std::byte* depthwise = nullptr;                   // pack_depthwise()
  const std::byte* depthwise_fp16 =
      nullptr;  // [vector][tap][lane], then biases, then scales (depthwise_block.cpp)
  const float *expand_bias = nullptr, *project_bias = nullptr;
  const float* plain_bias = nullptr;  // of the projection, without what its epilogue adds
};

class PreparedStrips final : public PreparedLayer {
 public:
  static constexpr int64_t kThinBytes = 32 << 10;
  // Of a portion: the products want some rows of a tile, and read all weights for them.
  static constexpr int64_t kLeastPixels = 28;
  // Where channels are shared: each portion reads and writes all sums.
  static constexpr int64_t kLeastChunks = 2;

  int64_t batch = 1, in_channels = 1, channels = 1, out_channels = 1;
  WindowAxis y, x;
  bool expands = false, projects = false;
  bool by_channels = false;     // members share the channels between the parts, not the rows
  bool thin = false;            // strips for L1
  bool by_groups = false;       // the expansion takes 16 pixels at a time (AmxProduct)
  DType type = DType::Float32;  // of data, result and what the projection reads
  BlockWeights weights;
  RegisterTail expand_tail, depthwise_tail;
  TailPlan tail;                                     // after the last part
  std::shared_ptr<const PreparedEpilogue> epilogue;  // the same, for sums of several members
  std::vector<WindowRows> window_rows;               // per output row
  Isa isa = Isa::Avx512;
  const AmxTable* amx = nullptr;  // products in AMX tiles (depthwise_strips_amx.cpp); null: in registers
  // With AMX: what makes expanded rows FP16; null: they are FP32. Strips with a value beyond the limit are
  // done again in FP32.
  AmxProduct::FinishRows fp16_expansion = nullptr;
  uint16_t fp16_limit = 0;  // in FP16
  int threads = 1;
  int64_t l2_bytes = 1 << 20;

  // To be called once everything above is set.
  void plan();

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads); }
  int members(int available) const override;
  bool meets(int count) const override { return adds_up() && count > 1; }
  void run(const LayerArgs& args, const Worker& worker) const override;

 private:
  struct Range {
    int64_t begin = 0, end = 0;
    int64_t size() const { return end - begin; }
  };
  // Channels that somebody works on, and memory for them.
  struct Piece {
    Range chunks;
    // [chunk][row][column][channel] of expanded rows, or dense ones of a vector.
    std::byte* ring = nullptr;
    bool fp16 = false;            // what the ring's rows are
    uint16_t* largest = nullptr;  // of those in FP16, in each of 32 columns
    std::byte* strip = nullptr;   // [pixel][channel]: what the projection reads
    float* sums = nullptr;        // the projection of what it has done, when channels are shared
    std::byte* groups = nullptr;  // AMX: addresses of groups of rows, then copied rows
  };

  bool gathers_whole() const {
    return !expands && DenseRows::suit_whole(type, y, x, in_channels, depthwise_table(isa).vector);
  }
  bool gathers_some() const {
    return !expands && DenseRows::suit_some(type, y, x, in_channels, depthwise_table(isa).vector);
  }
  bool adds_up() const { return shares_ > 1 && projects; }
  int64_t chunk() const;  // channels that go through the first two parts together: a panel
  int64_t chunks() const { return (channels + chunk() - 1) / chunk(); }
  int64_t chunk_width(int64_t c) const;
  int64_t rows_for(int64_t strip) const;
  int64_t ring_bytes(int64_t strip, int64_t element_bytes) const;
  int64_t strip_bytes(int64_t strip) const;
  Piece piece(const LayerArgs& args, int member) const;  // all chunks, and the member's memory

  void run_channels(const LayerArgs& args, Piece& own, const Worker& worker) const;
  const std::byte* operand_of_projection(const LayerArgs& args, const Piece& p) const;
  Range input_rows(int64_t begin, int64_t end) const;
  // `follows`: the ring holds what the rows before `begin` wanted.
  void run_rows(const LayerArgs& args, const Piece& p, int64_t image, int64_t begin, int64_t end,
                bool follows) const;
  // The first two parts of a strip; `fresh`: the rows to expand.
  void fill_strip(const LayerArgs& args, const Piece& p, int64_t image, int64_t row, int64_t count,
                  const Range& fresh) const;
  bool overflows(const Piece& p) const;
  // A row of the ring in a chunk: pixels of so many channels.
  int64_t ring_width(const Piece& p, int64_t c) const { return p.fp16 ? chunk() : chunk_width(c); }
  std::byte* ring_row(const Piece& p, int64_t c, int64_t row) const;
  void expand(const LayerArgs& args, const Piece& p, int64_t image, int64_t c, const Range& rows) const;
  void depthwise(const LayerArgs& args, const Piece& p, int64_t image, int64_t c, int64_t row,
                 int64_t count) const;
  void project(const LayerArgs& args, const Piece& p, int64_t image, int64_t row, int64_t count) const;
  void expand_amx(const LayerArgs& args, const Piece& p, int64_t image, int64_t c, const Range& rows) const;
  void project_amx(const LayerArgs& args, const Piece& p, int64_t image, int64_t row, int64_t count) const;
  bool copies_input() const;
  int64_t input_pitch() const;
  int64_t groups_bytes() const;
  void add_up(const LayerArgs& args, const Worker& worker) const;

  int shares_ = 1;                                       // of the channels
  int64_t share_chunks_ = 1;                             // of the largest share
  int64_t strip_rows_ = 1, ring_rows_ = 1, stride_ = 1;  // stride: channels between pixels of the strip
  int64_t sums_bytes_ = 0, ring_bytes_ = 0, groups_bytes_ = 0, member_bytes_ = 0;
};

}  // namespace lathe::cpu
