// SPDX-License-Identifier: Apache-2.0
//
// Cast and Reformat. A cast goes through double (from float types) or int64 (from integers), both of which
// hold every value of their side exactly, so only the last step rounds.

#include <algorithm>

#include "ir/elements.h"
#include "ops/families.h"

namespace lathe {

namespace {

constexpr int64_t kCastPiece = 4096;

// Contents that survive the cast: integers keep their value (dims are small); bool only where "not zero" is
// decided.
std::optional<Shape> cast_contents(const std::optional<Shape>& contents, DType to) {
  if (!contents || is_float(to)) return std::nullopt;
  if (to != DType::Bool) return contents;
  Shape result;
  for (const Dim& dim : *contents) {
    if (!dim.is_constant()) return std::nullopt;
    result.push_back(Dim(dim.value() != 0));
  }
  return result;
}

std::vector<ResultInfo> infer_cast(const Cast& op, const InferContext& context) {
  if (op.to == DType::Undefined) throw_input_error("the target type of a Cast is not set");
  return {{op.to, context.input(0).shape, cast_contents(context.contents(0), op.to)}};
}

// The one type that is rounded in a way that can be chosen.
Tensor cast_to_powers(const Cast& op, const Tensor& x) {
  const std::vector<double> values = x.to_doubles();
  Tensor result = Tensor::allocate(op.to, x.extents());
  const auto to = result.mutable_data<uint8_t>();
  for (size_t i = 0; i < values.size(); ++i)
    to[i] = float_to_e8m0(static_cast<float>(values[i]), op.round, op.saturate);
  return result;
}

std::vector<Tensor> evaluate_cast(const Cast& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  if (x.dtype() == op.to) return {x};
  if (op.to == DType::Float8E8M0) return {cast_to_powers(op, x)};
  Tensor result = Tensor::allocate(op.to, x.extents());
  const ElementWriter writer(result);
  // To 4 bits even floats keep their low bits, as ONNX's node tests have it; to other integers they saturate.
  const bool through_reals = is_float(x.dtype()) && (dtype_info(op.to).bits >= 8 || is_float(op.to));
  const bool from_unsigned = x.dtype() == DType::UInt64;
  const int64_t total = x.size(), pieces = (total + kCastPiece - 1) / kCastPiece;
  context.parallel_for(pieces, 8, [&](int64_t first, int64_t last) {
    std::vector<double> reals(kCastPiece);
    std::vector<int64_t> integers(kCastPiece);
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kCastPiece, count = std::min(kCastPiece, total - begin);
      if (through_reals) {
        load_doubles(x, begin, count, reals.data());
        writer.store_doubles(begin, count, reals.data(), op.saturate);
      } else {
        load_int64s(x, begin, count, integers.data());
        writer.store_int64s(begin, count, integers.data(), from_unsigned);
      }
    }
  });
  return {std::move(result)};
}

// The result's type stands at the node's output value (evaluate_node converts to it).
std::vector<ResultInfo> infer_reformat(const Reformat&, const InferContext& context) {
  return {{context.input(0).dtype, context.input(0).shape, context.contents(0)}};
}

std::vector<Tensor> evaluate_reformat(const Reformat&, const EvaluateContext& context) {
  return {context.input(0)};
}

}  // namespace

std::vector<OpDef> cast_ops() {
  return {op_def<Cast, infer_cast, evaluate_cast>(), op_def<Reformat, infer_reformat, evaluate_reformat>()};
}

}  // namespace lathe
