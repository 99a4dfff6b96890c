// SPDX-License-Identifier: Apache-2.0
//
// QuantizeLinear and DequantizeLinear: one scale for the tensor, one per index of an axis, or one per block
// along it. Arithmetic is FP32 as in ONNX, because a quotient that lands on a half decides a whole step.

#include <algorithm>
#include <cmath>

#include "ir/elements.h"
#include "ops/families.h"

namespace lathe {

namespace {

// Which scale belongs to an element.
struct ScaleIndex {
  int64_t inner = 1, length = 1, block = 1, scales = 1;  // scales along the axis; 0: one for all

  int64_t operator()(int64_t element) const {
    if (scales == 0) return 0;
    const int64_t along = element / inner % length;
    if (block == 0) return along;
    return (element / inner / length * scales + along / block) * inner + element % inner;
  }
};

ScaleIndex scale_index(const Extents& x, const Extents& scale, int64_t axis, int64_t block) {
  if (element_count(scale) == 1 && block == 0) return {1, 1, 0, 0};
  const size_t at =
      static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(x.size()), "the quantization axis"));
  ScaleIndex index{1, x[at], block, scale.size() == x.size() ? scale[at] : scale[0]};
  for (size_t i = at + 1; i < x.size(); ++i) index.inner *= x[i];
  return index;
}

void check_scale(const Shape& x, const Value& scale, int64_t axis, int64_t block, std::string_view what) {
  const auto refuse = [&](const std::string& expected) {
    throw_input_error("the " + std::string(what) + " has shape " + to_string(scale.shape) + ", expected " +
                      expected + " for data " + to_string(x));
  };
  if (block < 0) throw_input_error("block_size is " + std::to_string(block) + ", expected 0 or more");
  if (block == 0) {
    if (scale.shape.size() > 1) refuse("one element or one per index of the axis");
    if (scale.shape.empty() || scale.shape[0].is_constant(1)) return;
    const size_t at =
        static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(x.size()), "the quantization axis"));
    if (x[at].is_constant() && scale.shape[0].is_constant() && !(x[at] == scale.shape[0])) {
      refuse(x[at].to_string() + " elements");
    }
    return;
  }
  const size_t at =
      static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(x.size()), "the quantization axis"));
  if (scale.shape.size() != x.size()) refuse("the same rank");
  for (size_t i = 0; i < x.size(); ++i) {
    const Dim expected = i == at ? ceil_div(x[i], Dim(block)) : x[i];
    if (expected.is_constant() && scale.shape[i].is_constant() && !(expected == scale.shape[i])) {
      refuse(expected.to_string() + " in dim " + std::to_string(i));
    }
  }
}

void check_inputs(const InferContext& context, int64_t axis, int64_t block) {
  const Shape& x = context.input(0).shape;
  check_scale(x, context.input(1), axis, block, "scale");
  if (!is_float(context.input(1).dtype)) {
    throw_input_error("the scale must be floating point, is " +
                      std::string(dtype_name(context.input(1).dtype)));
  }
  if (context.has(2)) check_scale(x, context.input(2), axis, block, "zero point");
}

// Calls body(first, count) over pieces of all elements.
template <class Body>
void for_pieces(int64_t total, const EvaluateContext& context, const Body& body) {
  constexpr int64_t kPiece = 4096;  // a multiple of 4: types of 2 bits share bytes
  context.parallel_for((total + kPiece - 1) / kPiece, 4, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      body(piece * kPiece, std::min(kPiece, total - piece * kPiece));
    }
  });
}

// Scales or zero points as numbers; the context's symbolic dims are known now, so sizes are checked again.
std::vector<double> parameters(const EvaluateContext& context, size_t i, const ScaleIndex& index) {
  if (!context.has(i)) return {};
  const Tensor& tensor = context.input(i);
  const int64_t total = context.input(0).size();
  const int64_t needed = total == 0 ? 0 : tensor.size() == 1 ? 1 : index(total - 1) + 1;
  if (tensor.size() < needed || (tensor.size() == 1 && i == 1 && index.scales > 1)) {
    throw_input_error("scale or zero point of " + to_string(tensor.extents()) + " does not fit data of " +
                      to_string(context.input(0).extents()));
  }
  return tensor.to_doubles();
}

// y[i] = of(x[i], scale, zero point), the scale and zero point being those of the element, and stored as
// `to`.
template <class Function>
std::vector<Tensor> evaluate_scaled(const EvaluateContext& context, int64_t axis, int64_t block, DType to,
                                    bool saturate, const Function& of) {
  const Tensor& x = context.input(0);
  const ScaleIndex index = scale_index(x.extents(), context.input(1).extents(), axis, block);
  const std::vector<double> scale = parameters(context, 1, index), zero = parameters(context, 2, index);
  Tensor result = Tensor::allocate(to, x.extents());
  const ElementWriter writer(result);
  for_pieces(x.size(), context, [&](int64_t begin, int64_t count) {
    std::vector<double> values(static_cast<size_t>(count));
    load_doubles(x, begin, count, values.data());
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(index(begin + i));
      const double offset = zero.empty() ? 0 : zero[zero.size() == 1 ? 0 : at];
      values[i] = of(static_cast<float>(values[i]), static_cast<float>(scale[at]), offset);
    }
    writer.store_doubles(begin, count, values.data(), saturate);
  });
  return {std::move(result)};
}

// --- QuantizeLinear

std::vector<ResultInfo> infer_quantize(const QuantizeLinear& op, const InferContext& context) {
  check_inputs(context, op.axis, op.block_size);
  return {{op.to, context.input(0).shape}};
}

std::vector<Tensor> evaluate_quantize(const QuantizeLinear& op, const EvaluateContext& context) {
  const bool rounds = !is_float(op.to);
  return evaluate_scaled(context, op.axis, op.block_size, op.to, op.saturate,
                         [rounds](float x, float scale, double zero) {
                           // Half to even, then the zero point; the writer saturates.
                           const auto quotient = static_cast<double>(x / scale);
                           return (rounds ? std::nearbyint(quotient) : quotient) + zero;
                         });
}

// --- DequantizeLinear

std::vector<ResultInfo> infer_dequantize(const DequantizeLinear& op, const InferContext& context) {
  check_inputs(context, op.axis, op.block_size);
  return {{op.to, context.input(0).shape}};
}

std::vector<Tensor> evaluate_dequantize(const DequantizeLinear& op, const EvaluateContext& context) {
  return evaluate_scaled(
      context, op.axis, op.block_size, op.to, true,
      [](float x, float scale, double zero) -> double { return (x - static_cast<float>(zero)) * scale; });
}

double quantize_flops(const Op&, const CostContext& context) {
  return 3.0 * static_cast<double>(element_count(context.inputs[0]));
}

}  // namespace

std::vector<OpDef> quantize_ops() {
  return {op_def<QuantizeLinear, infer_quantize, evaluate_quantize>(quantize_flops),
          op_def<DequantizeLinear, infer_dequantize, evaluate_dequantize>(quantize_flops)};
}

}  // namespace lathe
