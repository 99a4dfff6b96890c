// SPDX-License-Identifier: Apache-2.0
//
// Products and depthwise convolutions of bytes with exact sums of 32 bits, and what happens to the sums on
// their way out. One table per kind of instruction:
//
//   pairs   vpmaddwd: two products of 16-bit integers per lane. Bytes are widened before, because the
//           instruction for bytes (vpmaddubsw) saturates the sum of its two products at 16 bits.
//   quads   vpdpbusd (VNNI): four products of an unsigned and a signed byte per lane, exact.
//   tiles   tdpbusd (AMX): the same, 16 rows and 16 columns at a time.
//
// All read the same weights but for the width of a group, the integers of k that one lane multiplies:
// [panel of columns][segment][group of k][column][integers of the group].
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/vector/register_tail.h"

namespace lathe::cpu {

// What happens to a sum: value = sum * scale + bias (per channel), then the steps below from top to bottom.
struct IntegerTail {
  float first_low = -__builtin_inff(), first_high = __builtin_inff();
  float first_step = 0;  // multiple to which the value is rounded before an operand joins it; 0: not
  bool has_operand = false;
  bool operand_is_bytes = false;  // else FP32
  float operand_scale = 1, operand_zero = 0;
  Activation function = Activation::Clamp;  // Clamp: none
  float alpha = 1;
  // Then the value is multiplied by the output's `factor`, where it has one.
  float low = -__builtin_inff(), high = __builtin_inff();
  float step = 0;             // multiple to which an FP32 result is rounded; 0: not
  bool stores_bytes = false;  // round(value * inverse) + zero; else FP32
  float inverse = 1, zero = 0;
};

// The same in fewer instructions, where bytes are stored and there is no function. Scales and biases of the
// output are those of the sums divided by a unit: the step of the result, or of the rounding before the
// operand joins.
struct ByteTail {
  enum class Operand : uint8_t { None, Bytes, Floats };
  Operand operand = Operand::None;
  // With an operand: value = clamp(sum * scale + bias), rounded or not; then value * unit + operand * ratio +
  // offset. `unit`, `ratio`: steps of the result in the value's unit and in the operand's.
  bool rounds_first = false;
  float first_low = -__builtin_inff(), first_high = __builtin_inff();
  float unit = 1, ratio = 0, offset = 0;
  // Then it is clamped, rounded, and the zero point added.
  float low = -__builtin_inff(), high = __builtin_inff();
  int32_t zero = 0;
};

// What both kernels write: `rows` pixels of `columns` channels.
struct IntegerOutput {
  const float* scale = nullptr;  // of the first channel; readable up to the end of its vector, like bias
  const float* bias = nullptr;
  const float* factor = nullptr;  // like these; null: 1, as with `bytes` always
  const IntegerTail* tail = nullptr;
  const ByteTail* bytes = nullptr;  // instead of `tail`
  const void* operand = nullptr;
  int64_t operand_stride = 0;                // elements, like out_stride
  int64_t operand_bytes = 4, out_bytes = 4;  // of an element
  void* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 1, columns = 1;
};

// Groups of k that lie in one piece, `offset` bytes from where a row begins.
struct IntegerSegment {
  int64_t offset = 0, groups = 0;
};

// Rows at even distances, whose results are consecutive.
struct RowRun {
  const std::byte* a = nullptr;  // where the first one begins
  int64_t rows = 0, first = 0;   // run_rows at most; the number of the first result
};

// Rows with one panel of columns.
struct IntegerPanel {
  const RowRun* runs = nullptr;
  int64_t run_count = 0, stride = 0;  // bytes between the rows of a run
  const IntegerSegment* segments = nullptr;
  int64_t segment_count = 0;
  const std::byte* b = nullptr;    // [segment][group][columns rounded up to `lanes`][4 bytes]
  const int32_t* start = nullptr;  // per column, what is in each sum from the beginning; null: nothing
  IntegerOutput output;            // of result 0; `rows` says nothing
};

// How far windows extend along a line, and from one to the next. A kernel that shares columns turns each
// column of the image around once for all windows that have it.
struct DepthwiseStep {
  int64_t kernel = 1, stride = 1;  // of one column: nothing is shared

  // How many windows are computed for a line of `pixels`, and the columns that they have.
  static int64_t windows(int64_t pixels) { return (pixels + 3) / 4 * 4; }
  int64_t columns(int64_t pixels) const { return (windows(pixels) - 1) * stride + kernel; }
};

// Where the numbers of a channel lie among those of its block of 64: a kernel that turns 64 channels around
// at once gets them in this order, four of each 16 in a vector.
inline int64_t place_in_block(int64_t channel) {
  return channel / 64 * 64 + channel % 16 / 4 * 16 + channel % 64 / 16 * 4 + channel % 4;
}

// One row of pixels of a depthwise convolution, for all channels that are there.
struct DepthwiseRow {
  // The address of each tap for each pixel, [pixel][taps], or, where columns are shared, of each tap of a
  // column, [column][taps]. `taps` is a multiple of depthwise_taps.
  const uint8_t* const* tap_addresses = nullptr;
  int64_t taps = 0;
  DepthwiseStep shared;
  // [channel vector][taps / depthwise_taps][columns of a window that are shared][lanes][4 bytes]
  const std::byte* weights = nullptr;
  const int32_t* zero_products = nullptr;  // [channel]: what the zero point adds to a sum
  // So many channels, the first ones, have weights, zero products, scales and biases in the order of
  // place_in_block. Only where the table has blocks, columns are shared and the output is bytes alone.
  int64_t in_blocks = 0;
  IntegerOutput output;  // rows: pixels
};

struct IntegerTable {
  const char* name;        // "avx2"
  int64_t per_group;       // 2: 16-bit integers, less the zero point; 4: bytes as they are
  int64_t lanes;           // columns that are multiplied at once
  int64_t panel;           // columns of one call at most, a multiple of `lanes`
  int64_t run_rows;        // rows of a run at most
  int64_t tile_rows;       // rows that are multiplied at once
  double rate;             // of products, against that of FP32 in vectors
  int64_t group_multiple;  // segments have a multiple of so many groups; weights are padded with zeros to it
  void (*multiply)(const IntegerPanel& panel);
  // count bytes as 16-bit integers, less `zero`. Writes no further.
  void (*widen)(const uint8_t* from, int64_t count, int zero, int16_t* to);
  void (*depthwise)(const DepthwiseRow& row);
  int64_t depthwise_lanes;  // of a vector of channels
  int64_t depthwise_taps;   // that a lane multiplies at once: 2 with weights of 16 bits, 4 with bytes
  bool (*shares_columns)(const DepthwiseStep& step);  // null: never
  int64_t depthwise_block;  // channels that may be computed in the order of place_in_block; 0: none
  // Of windows: the largest byte of each channel; and (sum of the taps + start) * scale.
  void (*largest)(const uint8_t* const* taps, int64_t count, int64_t channels, uint8_t* out);
  void (*average)(const uint8_t* const* taps, int64_t count, int64_t channels, int32_t start, float scale,
                  float* out);
};

// Pairs:
const IntegerTable& integer_table_avx2();
const IntegerTable& integer_table_avx512();
// Quads:
const IntegerTable& integer_table_avxvnni();
const IntegerTable& integer_table_avx512_vnni();
// Tiles:
const IntegerTable& integer_table_amx();

}  // namespace lathe::cpu
