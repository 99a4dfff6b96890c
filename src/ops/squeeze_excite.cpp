// SPDX-License-Identifier: Apache-2.0
//
// SqueezeExcite: every channel times a gate that two small products compute from the means of all channels.
// Written as its definition says, in double, image by image.
#include "base/error.h"
#include "ir/elements.h"
#include "ops/families.h"
#include "ops/pointwise.h"

namespace lathe {

namespace {

void require_weights(const Shape& w, const Dim& rows, const Dim& columns, const char* which) {
  const auto differ = [](const Dim& a, const Dim& b) {
    return a.is_constant() && b.is_constant() && !(a == b);
  };
  bool fits = w.size() >= 2 && !differ(w[0], rows) && !differ(w[1], columns);
  for (size_t d = 2; d < w.size(); ++d) fits = fits && !differ(w[d], Dim(1));
  if (!fits)
    throw_input_error(std::string(which) + " must be " + rows.to_string() + " x " + columns.to_string() +
                      " with ones behind, has shape " + to_string(w));
}

void require_bias(const InferContext& context, size_t input, const Dim& size) {
  if (!context.has(input)) return;
  const Shape& shape = context.input(input).shape;
  if (shape.size() != 1 || (shape[0].is_constant() && size.is_constant() && !(shape[0] == size)))
    throw_input_error("input " + std::to_string(input) + " must be a bias of " + size.to_string() +
                      " elements, has shape " + to_string(shape));
}

void require_unary(const PointwiseProgram& program, const char* which) {
  if (program.input_count != 1 && !program.empty())
    throw_input_error(std::string(which) + " must be a function of one number, has " +
                      std::to_string(program.input_count) + " operands");
}

std::vector<ResultInfo> infer_squeeze_excite(const SqueezeExcite& op, const InferContext& context) {
  const Value& x = context.input(0);
  if (!is_float(x.dtype)) throw_input_error("takes floating point, not " + std::string(dtype_name(x.dtype)));
  if (x.shape.size() < 3) throw_input_error("needs data (N, C, spatial...), has " + to_string(x.shape));
  const Shape& w1 = context.input(1).shape;
  if (w1.empty()) throw_input_error("the first weights are a scalar");
  require_weights(w1, w1[0], x.shape[1], "the first weights");
  require_weights(context.input(3).shape, x.shape[1], w1[0], "the second weights");
  require_bias(context, 2, w1[0]);
  require_bias(context, 4, x.shape[1]);
  require_unary(op.squeeze, "squeeze");
  require_unary(op.excite, "excite");
  return {{x.dtype, x.shape}};
}

// function(weights * values + bias)
std::vector<double> layer(const Tensor& weights, const Tensor& bias, const std::vector<double>& values,
                          const PointwiseProgram& function, const EvaluateContext& context) {
  const std::vector<double> w = weights.to_doubles();
  const size_t rows = static_cast<size_t>(weights.extents()[0]);
  if (w.size() != rows * values.size())
    throw_input_error("weights of " + to_string(weights.extents()) + " for " + std::to_string(values.size()) +
                      " values");
  std::vector<double> sums = bias ? bias.to_doubles() : std::vector<double>(rows, 0.0);
  if (sums.size() != rows)
    throw_input_error("a bias of " + std::to_string(sums.size()) + " elements for " + std::to_string(rows) +
                      " rows");
  for (size_t r = 0; r < rows; ++r)
    for (size_t k = 0; k < values.size(); ++k) sums[r] += w[r * values.size() + k] * values[k];
  const std::vector<Tensor> inputs = {Tensor::from<double>({static_cast<int64_t>(rows)}, sums)};
  return evaluate_program(function, inputs, DType::Float64, context).to_doubles();
}

std::vector<Tensor> evaluate_squeeze_excite(const SqueezeExcite& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  Tensor y = Tensor::allocate(x.dtype(), x.extents());
  if (x.size() == 0) return {std::move(y)};
  const int64_t images = x.extents()[0], channels = x.extents()[1], size = x.size() / (images * channels);
  const Tensor none;
  const Tensor &first_bias = context.has(2) ? context.input(2) : none,
               &second_bias = context.has(4) ? context.input(4) : none;
  const ElementWriter writer(y);
  for (int64_t n = 0; n < images; ++n) {
    std::vector<double> values(static_cast<size_t>(channels * size)), means(static_cast<size_t>(channels));
    load_doubles(x, n * channels * size, channels * size, values.data());
    for (int64_t i = 0; i < channels * size; ++i)
      means[static_cast<size_t>(i / size)] += values[static_cast<size_t>(i)] / static_cast<double>(size);
    const std::vector<double> squeezed = layer(context.input(1), first_bias, means, op.squeeze, context);
    const std::vector<double> gates = layer(context.input(3), second_bias, squeezed, op.excite, context);
    if (gates.size() != means.size())
      throw_input_error(std::to_string(gates.size()) + " gates for " + std::to_string(channels) +
                        " channels");
    for (int64_t i = 0; i < channels * size; ++i)
      values[static_cast<size_t>(i)] *= gates[static_cast<size_t>(i / size)];
    writer.store_doubles(n * channels * size, channels * size, values.data());
  }
  return {std::move(y)};
}

// Mean and gate touch every element once each; two products an image, each with its function.
double squeeze_excite_flops(const Op& op, const CostContext& context) {
  const auto& [squeeze, excite] = std::get<SqueezeExcite>(op);
  const Extents& x = context.inputs[0];
  const double images = x.empty() ? 0 : static_cast<double>(x[0]);
  const double channels = x.size() < 2 ? 0 : static_cast<double>(x[1]);
  const double middle = context.inputs[1].empty() ? 0 : static_cast<double>(context.inputs[1][0]);
  return 2.0 * static_cast<double>(element_count(x)) +
         images *
             (2.0 * static_cast<double>(element_count(context.inputs[1]) + element_count(context.inputs[3])) +
              middle * static_cast<double>(squeeze.steps.size()) +
              channels * static_cast<double>(excite.steps.size()));
}

}  // namespace

std::vector<OpDef> squeeze_excite_ops() {
  return {op_def<SqueezeExcite, infer_squeeze_excite, evaluate_squeeze_excite>(squeeze_excite_flops)};
}

}  // namespace lathe
