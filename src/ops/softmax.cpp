// SPDX-License-Identifier: Apache-2.0
//
// Softmax and its logarithm over one axis, in double, with the largest element subtracted first.

#include <algorithm>
#include <cmath>

#include "ir/elements.h"
#include "ops/families.h"

namespace lathe {

namespace {

std::vector<ResultInfo> infer_softmax(const Softmax& op, const InferContext& context) {
  const Value& x = context.input(0);
  if (!is_float(x.dtype)) throw_input_error("takes floating point, not " + std::string(dtype_name(x.dtype)));
  normalize_axis(op.axis, std::max<int64_t>(context.rank(0), 1), "the axis of Softmax");
  return {{x.dtype, x.shape}};
}

void softmax_line(std::vector<double>& line, bool log) {
  const double top = *std::max_element(line.begin(), line.end());
  double sum = 0;
  for (double value : line) sum += std::exp(value - top);
  const double log_sum = std::log(sum);
  for (double& value : line) value = log ? value - top - log_sum : std::exp(value - top) / sum;
}

std::vector<Tensor> evaluate_softmax(const Softmax& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  Tensor result = Tensor::allocate(x.dtype(), x.extents());
  if (x.size() == 0) return {std::move(result)};
  int64_t length = 1, inner = 1;
  if (x.rank() > 0) {
    const int64_t axis = normalize_axis(op.axis, x.rank(), "the axis of Softmax");
    length = x.extents()[static_cast<size_t>(axis)];
    for (size_t i = static_cast<size_t>(axis) + 1; i < x.extents().size(); ++i) inner *= x.extents()[i];
  }
  const ElementWriter writer(result);
  const int64_t block = length * inner;
  context.parallel_for(
      x.size() / block, std::max<int64_t>(1, 2048 / block), [&](int64_t first, int64_t last) {
        std::vector<double> values(static_cast<size_t>(block)), line(static_cast<size_t>(length));
        for (int64_t outer = first; outer < last; ++outer) {
          load_doubles(x, outer * block, block, values.data());
          for (int64_t i = 0; i < inner; ++i) {
            for (int64_t j = 0; j < length; ++j)
              line[static_cast<size_t>(j)] = values[static_cast<size_t>(j * inner + i)];
            softmax_line(line, op.log);
            for (int64_t j = 0; j < length; ++j)
              values[static_cast<size_t>(j * inner + i)] = line[static_cast<size_t>(j)];
          }
          writer.store_doubles(outer * block, block, values.data());
        }
      });
  return {std::move(result)};
}

// Maximum, subtraction, exponential (as one), sum, division.
double softmax_flops(const Op&, const CostContext& context) {
  return 5.0 * static_cast<double>(element_count(context.inputs[0]));
}

}  // namespace

std::vector<OpDef> softmax_ops() {
  return {op_def<Softmax, infer_softmax, evaluate_softmax>(softmax_flops)};
}

}  // namespace lathe
