// SPDX-License-Identifier: Apache-2.0
//
// The pointwise parts of a strip in AMX tiles: as depthwise_strips.cpp's expand() and project(), but for all
// pixels at once. Pixels that are no whole cache lines, and a last group of fewer than 16, are copied first.
#include "backend/cpu/conv/depthwise_strips.h"
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kGroup = AmxProduct::kGroup, kPanel = AmxProduct::kPanel;

int64_t group_count(int64_t rows) {
  return (rows + kGroup - 1) / kGroup;
}

}  // namespace

bool PreparedStrips::copies_input() const {
  return 2 * in_channels % 64 != 0;
}
int64_t PreparedStrips::input_pitch() const {
  return round_up(2 * in_channels, 64);
}

// The ring may end once within a strip's fresh rows.
int64_t PreparedStrips::groups_bytes() const {
  const int64_t groups = group_count(std::max(ring_rows_ * x.input, strip_rows_ * x.output)) + 2;
  const int64_t copied = expands ? (copies_input() ? groups : 2) * kGroup * input_pitch() : 0;
  // The projection's last group reads 15 pixels beyond the strip, which lies in front.
  const int64_t beyond = projects ? kGroup * 2 * stride_ : 0;
  return round_up(std::max(groups * static_cast<int64_t>(sizeof(std::byte*)) + copied + 64, beyond), 64);
}

void PreparedStrips::expand_amx(const LayerArgs& args, const Piece& p, int64_t image, int64_t c,
                                const Range& rows) const {
  const int64_t pixel_bytes = 2 * in_channels;
  const int64_t pitch = copies_input() ? input_pitch() : pixel_bytes;
  const auto** starts = reinterpret_cast<const std::byte**>(p.groups);
  const int64_t most = group_count(std::max(ring_rows_ * x.input, strip_rows_ * x.output)) + 2;
  std::byte* copied = p.groups + round_up(most * static_cast<int64_t>(sizeof(std::byte*)), 64);
  AmxProduct product{.row_bytes = pitch,
                     .group_bytes = copies_input() ? 0 : kGroup * pitch,
                     .step_bytes = 2 * amx_step(in_channels),
                     .steps = in_channels / amx_step(in_channels),
                     .step = amx_step(in_channels),
                     .b = weights.expand + pixel_bytes * chunk() * c,
                     .panel_bytes = pixel_bytes * kPanel,
                     .columns = chunk_width(c),
                     .bias = weights.expand_bias + c * chunk(),
                     .out_stride = ring_width(p, c),
                     .tail = expand_tail,
                     .finish_rows = p.fp16 ? fp16_expansion : nullptr,
                     .finish_state = p.largest,
                     .by_groups = by_groups,
                     .near = true};
  amx->begin(product.step);
  for (int64_t row = rows.begin, n = 0; row < rows.end; row += n) {
    n = std::min(rows.end - row, ring_rows_ - row % ring_rows_);  // the ring ends
    product.rows = n * x.input;
    product.groups = starts;
    product.group_count = group_count(product.rows);
    if (c == p.chunks.begin) {  // for the chunks that follow, too
      const auto* from =
          static_cast<const std::byte*>(args.inputs[0]) + (image * y.input + row) * x.input * pixel_bytes;
      const int64_t whole = copies_input() ? 0 : product.rows / kGroup;
      for (int64_t g = 0; g < whole; ++g) starts[g] = from + g * kGroup * pitch;
      for (int64_t g = whole; g < product.group_count; ++g, copied += kGroup * pitch) {
        starts[g] = copied;
        amx->copy_rows(from + g * kGroup * pixel_bytes, pixel_bytes, pixel_bytes,
                       std::min(kGroup, product.rows - g * kGroup), copied, pitch, pixel_bytes);
      }
    }
    starts += product.group_count;
    product.out = ring_row(p, c, row);
    amx->run(product);
  }
  amx->end();
}

void PreparedStrips::project_amx(const LayerArgs& args, const Piece& p, int64_t image, int64_t row,
                                 int64_t count) const {
  const int64_t pixels = count * x.output, all = round_up(channels, chunk() / 2);
  const int64_t first = p.chunks.begin * chunk(), k = std::min(all, p.chunks.end * chunk()) - first;
  const int64_t at = (image * y.output + row) * x.output * out_channels;
  const auto** starts = reinterpret_cast<const std::byte**>(p.groups);
  for (int64_t g = 0; g < group_count(pixels); ++g) starts[g] = p.strip + g * kGroup * 2 * stride_;
  AmxProduct product{.groups = starts,
                     .group_count = group_count(pixels),
                     .row_bytes = 2 * stride_,
                     .step_bytes = 2 * amx_step(k),
                     .steps = k / amx_step(k),
                     .step = amx_step(k),
                     .panel_bytes = 2 * all * kPanel,
                     .rows = pixels,
                     .out_stride = out_channels,
                     .operand_stride = out_channels,
                     .stored = p.sums ? Stored::F32 : stored_as(type)};
  if (!p.sums) product.tail = tail.tail;
  amx->begin(product.step);
  // The last panel may be half as wide: its weights of our channels begin elsewhere.
  const int64_t wide = out_channels % kPanel != 0 && out_channels % kPanel <= kPanel / 2
                           ? out_channels / kPanel * kPanel
                           : out_channels;
  for (int64_t column = 0, end = 0; column < out_channels; column = end) {
    end = column < wide ? wide : out_channels;
    const int64_t to = at + column;
    product.columns = end - column;
    product.b = weights.project + 2 * (all * column + first * (column < wide ? kPanel : kPanel / 2));
    product.bias = p.sums ? nullptr : weights.project_bias + column;
    if (const std::byte* operand = operand_of_projection(args, p))
      product.operand = operand + dtype_bytes(p.sums ? DType::Float32 : type, to);
    product.out = p.sums ? reinterpret_cast<std::byte*>(p.sums + to)
                         : static_cast<std::byte*>(args.outputs[0]) + dtype_bytes(type, to);
    amx->run(product);
  }
  amx->end();
}

}  // namespace lathe::cpu
