// SPDX-License-Identifier: Apache-2.0
//
// Pad. Per dim, a table says for each result index which input index it shows, or that it shows the pad
// value: that covers all modes, and negative pads, which cut elements off. ONNX applies a mode to what
// negative pads have left, as numpy does; so the tables are made for the cut extents and shifted back.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"
#include "ops/shape_rules.h"

namespace lathe {
namespace {

constexpr int64_t kPadValue = -1;

int64_t floor_mod(int64_t a, int64_t b) {
  return ((a % b) + b) % b;
}

// The index in [0, count) that position `i` (outside too) shows.
int64_t shown_index(PadMode mode, int64_t i, int64_t count) {
  if (i >= 0 && i < count) return i;
  switch (mode) {
    case PadMode::Constant:
      return kPadValue;
    case PadMode::Edge:
      return std::clamp<int64_t>(i, 0, count - 1);
    case PadMode::Wrap:
      return floor_mod(i, count);
    case PadMode::Reflect: {
      if (count == 1) return 0;
      const int64_t period = 2 * (count - 1), at = floor_mod(i, period);
      return at < count ? at : period - at;
    }
  }
  return kPadValue;
}

std::vector<int64_t> source_table(PadMode mode, int64_t begin, int64_t extent, int64_t end,
                                  int64_t result_extent) {
  const int64_t cut = std::max<int64_t>(0, -begin);
  const int64_t left = extent - cut - std::max<int64_t>(0, -end);
  std::vector<int64_t> table(static_cast<size_t>(result_extent));
  for (int64_t i = 0; i < result_extent; ++i) {
    const int64_t position = i - std::max<int64_t>(0, begin);
    const int64_t shown = left > 0 ? shown_index(mode, position, left) : kPadValue;
    table[static_cast<size_t>(i)] = shown == kPadValue ? kPadValue : shown + cut;
  }
  return table;
}

Extents padded_extents(const Pad& op, const Extents& x, const Extents& pads) {
  Extents extents;
  for (size_t d = 0; d < x.size(); ++d) {
    const int64_t begin = pads[d], end = pads[d + x.size()];
    const int64_t left = x[d] + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0);
    const int64_t extent = (Dim(x[d]) + Dim(begin) + Dim(end)).value();
    if (left < 0 || extent < 0) {
      throw_input_error("pads of " + std::to_string(begin) + " and " + std::to_string(end) +
                        " cut off more than the " + std::to_string(x[d]) + " elements of dim " +
                        std::to_string(d));
    }
    if (left == 0 && extent > 0 && op.mode != PadMode::Constant) {
      throw_input_error("dim " + std::to_string(d) + " has no elements that the mode " +
                        std::string(enum_name(op.mode)) + " could repeat");
    }
    extents.push_back(extent);
  }
  return extents;
}

std::vector<std::byte> pad_value(const EvaluateContext& context, DType dtype, int64_t bytes) {
  std::vector<std::byte> value(static_cast<size_t>(bytes), std::byte{0});
  if (!context.has(2)) return value;
  const Tensor& given = context.input(2);
  if (given.size() != 1)
    throw_input_error("the pad value has " + std::to_string(given.size()) + " elements, expected 1");
  const Tensor converted =
      given.dtype() == dtype ? given : Tensor::from_doubles(dtype, {}, given.to_doubles());
  std::copy_n(converted.bytes().begin(), bytes, value.begin());
  return value;
}

template <class T>
void pad_row(const std::byte* in, const std::vector<int64_t>& table, std::byte* out, const std::byte* value) {
  for (size_t i = 0; i < table.size(); ++i) {
    const std::byte* from = table[i] == kPadValue ? value : in + static_cast<size_t>(table[i]) * sizeof(T);
    std::memcpy(out + i * sizeof(T), from, sizeof(T));
  }
}

void pad_row(const std::byte* in, const std::vector<int64_t>& table, std::byte* out, const std::byte* value,
             int64_t bytes) {
  switch (bytes) {
    case 1:
      return pad_row<uint8_t>(in, table, out, value);
    case 2:
      return pad_row<uint16_t>(in, table, out, value);
    case 4:
      return pad_row<uint32_t>(in, table, out, value);
    default:
      return pad_row<uint64_t>(in, table, out, value);
  }
}

std::vector<Tensor> padded(const Pad& op, const Extents& pads, const EvaluateContext& context) {
  Tensor x = context.input(0);
  if (x.rank() == 0) return {x};
  const Extents& in_extents = x.extents();
  Tensor result = allocate_result(x.dtype(), padded_extents(op, in_extents, pads));
  if (result.size() == 0) return {result};
  const size_t rank = in_extents.size();
  std::vector<std::vector<int64_t>> tables;
  for (size_t d = 0; d < rank; ++d) {
    tables.push_back(source_table(op.mode, pads[d], in_extents[d], pads[d + rank], result.extents()[d]));
  }
  const int64_t bytes = element_bytes(x.dtype());
  const std::vector<std::byte> value = pad_value(context, x.dtype(), bytes);
  const std::vector<int64_t> nothing(tables.back().size(), kPadValue);
  const Extents strides = row_major_strides(in_extents);
  const int64_t row = result.extents().back();
  const std::byte* in = x.bytes().data();
  std::byte* out = result.mutable_bytes().data();
  context.parallel_for(result.size() / row, std::max<int64_t>(1, (1 << 14) / row),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           int64_t offset = 0, rest = i;
                           bool inside = true;
                           for (size_t d = rank - 1; d-- > 0;) {
                             const auto extent = static_cast<int64_t>(tables[d].size());
                             const int64_t shown = tables[d][static_cast<size_t>(rest % extent)];
                             rest /= extent;
                             inside = inside && shown != kPadValue;
                             offset += shown * strides[d];
                           }
                           pad_row(inside ? in + offset * bytes : in, inside ? tables.back() : nothing,
                                   out + i * row * bytes, value.data(), bytes);
                         }
                       });
  return {result};
}

std::vector<Tensor> evaluate_pad(const Pad& op, const EvaluateContext& context) {
  const int64_t rank = context.input(0).rank();
  const std::optional<Ints> axes =
      context.has(3) ? std::optional(context.input(3).to_int64s()) : std::nullopt;
  const Extents given = op.pads ? context.extents(*op.pads) : context.input(1).to_int64s();
  const Extents pads = to_extents(pads_of_all_dims(to_shape(given), axes, rank));
  return move_elements(context, [&](const EvaluateContext& c) { return padded(op, pads, c); });
}

std::vector<ResultInfo> infer_pad(const Pad& op, const InferContext& context) {
  const Value& x = context.input(0);
  const int64_t rank = context.rank(0);
  if (context.has(2)) expect_elements(context, 2, "the value", 1);
  const auto given = op.pads ? op.pads : known_integers(context, 1, "the pads");
  const auto axes = known_integers(context, 3, "the axes");
  if (!given && (!context.has(3) || axes))
    expect_elements(context, 1, "the pads", 2 * (axes ? static_cast<int64_t>(axes->size()) : rank));
  if (!given || (context.has(3) && (!axes || !is_static(*axes)))) {
    return {{x.dtype, data_dependent_shape(context, rank, kUnboundedUpper)}};
  }
  const Shape pads = pads_of_all_dims(*given, axes ? std::optional(to_extents(*axes)) : std::nullopt, rank);
  Shape shape;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    shape.push_back(x.shape[d] + pads[d] + pads[d + x.shape.size()]);
    if (shape.back().is_constant() && shape.back().value() < 0) {
      throw_input_error("pads of " + pads[d].to_string() + " and " + pads[d + x.shape.size()].to_string() +
                        " cut off more than the " + x.shape[d].to_string() + " elements of dim " +
                        std::to_string(d));
    }
  }
  return {{x.dtype, shape}};
}

}  // namespace

std::vector<OpDef> pad_ops() {
  return {op_def<Pad, infer_pad, evaluate_pad>(no_flops)};
}

}  // namespace lathe
