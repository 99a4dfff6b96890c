// SPDX-License-Identifier: Apache-2.0
//
// Det and Inverse of each matrix, by elimination with the largest pivot of a column.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

void expect_square(const InferContext& context) {
  expect_real(context, 0, "x");
  const Value& x = context.input(0);
  const size_t rank = x.shape.size();
  if (rank < 2) throw_input_error("x must have at least two dims, its shape is " + to_string(x.shape));
  const Dim &rows = x.shape[rank - 2], &columns = x.shape[rank - 1];
  if (rows.is_constant() && columns.is_constant() && !(rows == columns))
    throw_input_error("matrices of " + rows.to_string() + "x" + columns.to_string() + " are not square");
}

std::vector<ResultInfo> infer_det(const Det&, const InferContext& context) {
  expect_square(context);
  const Value& x = context.input(0);
  return {{x.dtype, Shape(x.shape.begin(), x.shape.end() - 2)}};
}

std::vector<ResultInfo> infer_inverse(const Inverse&, const InferContext& context) {
  expect_square(context);
  return {{context.input(0).dtype, context.input(0).shape}};
}

// Of the n x n matrix m, which is used up.
double determinant(double* m, int64_t n) {
  double result = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(m[i * n + k]) > std::fabs(m[pivot * n + k])) pivot = i;
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(m + k * n, m + (k + 1) * n, m + pivot * n);
      result = -result;
    }
    result *= m[k * n + k];
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (int64_t j = k; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return result;
}

std::vector<Tensor> evaluate_det(const Det& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_det);
  const Tensor& x = context.input(0);
  const int64_t n = x.extents().back();
  std::vector<double> data = x.to_doubles(), out(static_cast<size_t>(results[0].size()));
  context.parallel_for(results[0].size(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      out[static_cast<size_t>(i)] = determinant(data.data() + i * n * n, n);
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

// Turns the n x n matrix m, which is used up, into the identity, and the identity into its inverse.
void invert(double* m, double* inverse, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) inverse[i * n + j] = i == j ? 1 : 0;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(m[i * n + k]) > std::fabs(m[pivot * n + k])) pivot = i;
    if (pivot != k) {
      std::swap_ranges(m + k * n, m + (k + 1) * n, m + pivot * n);
      std::swap_ranges(inverse + k * n, inverse + (k + 1) * n, inverse + pivot * n);
    }
    const double scale = 1 / m[k * n + k];
    for (int64_t j = 0; j < n; ++j) {
      m[k * n + j] *= scale;
      inverse[k * n + j] *= scale;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double factor = i == k ? 0 : m[i * n + k];
      if (factor == 0) continue;
      for (int64_t j = 0; j < n; ++j) {
        m[i * n + j] -= factor * m[k * n + j];
        inverse[i * n + j] -= factor * inverse[k * n + j];
      }
    }
  }
}

std::vector<Tensor> evaluate_inverse(const Inverse& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_inverse);
  const Tensor& x = context.input(0);
  const int64_t n = x.extents().back(), count = n == 0 ? 0 : x.size() / (n * n);
  std::vector<double> data = x.to_doubles(), out(data.size());
  context.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) invert(data.data() + i * n * n, out.data() + i * n * n, n);
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

double inverse_flops(const Op&, const CostContext& context) {
  return 4 * static_cast<double>(context.inputs[0].back()) *
         static_cast<double>(element_count(context.outputs[0]));
}

double det_flops(const Op&, const CostContext& context) {
  const auto n = static_cast<double>(context.inputs[0].back());
  return n * n * n * 2 / 3 * static_cast<double>(element_count(context.outputs[0]));
}

}  // namespace

std::vector<OpDef> det_ops() {
  return {op_def<Det, infer_det, evaluate_det>(det_flops),
          op_def<Inverse, infer_inverse, evaluate_inverse>(inverse_flops)};
}

}  // namespace lathe
