// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/onednn/onednn_matmul_problem.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::cpu {
namespace {

using Dims = dnnl::memory::dims;

bool all_ones(const Extents& extents) {
  return std::all_of(extents.begin(), extents.end(), [](int64_t e) { return e == 1; });
}

void merge_batch(MatMulProblem& problem) {
  const int64_t total = element_count(problem.batch);
  if (total == 1) {
    problem.batch = problem.batch_a = problem.batch_b = {};
  } else if (problem.batch_a == problem.batch_b || all_ones(problem.batch_a) || all_ones(problem.batch_b)) {
    problem.batch_a = {all_ones(problem.batch_a) ? 1 : total};
    problem.batch_b = {all_ones(problem.batch_b) ? 1 : total};
    problem.batch = {total};
  }
}

Dims with_batch(const Extents& batch, const MatMulPart& part, int64_t rows, int64_t columns) {
  Dims dims(batch.begin(), batch.end());
  if (!dims.empty() && dims[0] != 1) dims[0] = part.batches;
  dims.push_back(rows);
  dims.push_back(columns);
  return dims;
}

// Strides of a stack of stored matrices of `rows` x `columns` elements, seen as their transposes if so
// wanted.
Dims matrix_strides(const Extents& batch, int64_t rows, int64_t columns, bool transposed) {
  Dims strides(batch.size() + 2);
  int64_t step = rows * columns;
  for (size_t i = batch.size(); i-- > 0;) {
    strides[i] = step;
    step *= batch[i];
  }
  strides[batch.size()] = transposed ? 1 : columns;
  strides[batch.size() + 1] = transposed ? columns : 1;
  return strides;
}

int64_t batch_offset(const Extents& batch, int64_t index, int64_t matrix) {
  if (batch.empty() || batch[0] == 1) return 0;
  return index * (element_count(batch) / batch[0]) * matrix;
}

template <class Product>
typename Product::primitive_desc make_desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                           const dnnl::memory::desc& result,
                                           const dnnl::primitive_attr& attributes) {
  if constexpr (requires { typename Product::desc; })
    return {typename Product::desc(a, b, result), attributes, onednn_engine()};
  else
    return {onednn_engine(), a, b, result, attributes};
}

}  // namespace

MatMulProblem MatMulProblem::at(const MatMul& op, const Extents& a, const Extents& b) {
  MatMulProblem problem{.transpose_a = op.transpose_a && a.size() > 1,
                        .transpose_b = op.transpose_b && b.size() > 1};
  const Extents left = a.size() > 1 ? a : Extents{1, a.at(0)}, right = b.size() > 1 ? b : Extents{b.at(0), 1};
  const size_t ra = left.size(), rb = right.size();
  problem.m = left[ra - (problem.transpose_a ? 1 : 2)];
  // Of b: constant weights have what they have, whatever stands for a size that a run finds.
  problem.k = right[rb - (problem.transpose_b ? 1 : 2)];
  problem.n = right[rb - (problem.transpose_b ? 2 : 1)];
  Extents batch_a(left.begin(), left.end() - 2), batch_b(right.begin(), right.end() - 2);
  problem.batch = broadcast(batch_a, batch_b);
  batch_a.insert(batch_a.begin(), problem.batch.size() - batch_a.size(), 1);
  batch_b.insert(batch_b.begin(), problem.batch.size() - batch_b.size(), 1);
  problem.batch_a = std::move(batch_a);
  problem.batch_b = std::move(batch_b);
  if (all_ones(problem.batch_b) && !problem.transpose_a) {  // one b for all: the batch is more rows
    problem.m *= element_count(problem.batch);
    problem.batch = problem.batch_a = problem.batch_b = {};
  }
  merge_batch(problem);
  return problem;
}

MatMulProblem MatMulProblem::without_batch() const {
  MatMulProblem one = *this;
  one.batch = one.batch_a = one.batch_b = {};
  return one;
}

bool is_stack_product(const Value& a, const Value& b) {
  return b.is_constant() && a.shape.size() == 2 && b.shape.size() == 3 && b.constant.size() > 0;
}

MatMulPart column_part(const MatMulProblem& problem, int index, int parts) {
  const auto range = Worker{index, parts}.slice(problem.n, 64);
  return {.rows = problem.m,
          .column = range.begin,
          .columns = range.end - range.begin,
          .batches = problem.batch.empty() ? 1 : problem.batch[0]};
}

std::vector<MatMulPart> matmul_parts(const MatMulProblem& problem, const MatMulVariant& variant,
                                     int threads) {
  const MatMulPart whole = column_part(problem, 0, 1);
  std::vector<MatMulPart> parts;
  switch (variant.split) {
    case MatMulSplit::Whole:
      return {whole};
    case MatMulSplit::Columns:
      for (int i = 0; i < variant.parts; ++i) parts.push_back(column_part(problem, i, variant.parts));
      return parts;
    case MatMulSplit::Rows: {
      const int64_t count = std::min<int64_t>(threads, problem.m);
      for (int64_t i = 0; i < count; ++i) {
        parts.push_back(whole);
        parts.back().row = problem.m * i / count;
        parts.back().rows = problem.m * (i + 1) / count - parts.back().row;
      }
      return parts;
    }
    case MatMulSplit::Batch: {
      const int64_t total = whole.batches, count = std::min<int64_t>(threads, total);
      for (int64_t i = 0; i < count; ++i) {
        parts.push_back(whole);
        parts.back().batch = total * i / count;
        parts.back().batches = total * (i + 1) / count - parts.back().batch;
      }
      return parts;
    }
  }
  return parts;
}

bool through_scratch(const MatMulProblem& problem, const MatMulPart& part) {
  return part.columns != problem.n && (part.rows > 1 || !problem.batch.empty());
}

int64_t a_offset(const MatMulProblem& problem, const MatMulPart& part) {
  return batch_offset(problem.batch_a, part.batch, problem.m * problem.k) +
         part.row * (problem.transpose_a ? 1 : problem.k);
}

int64_t b_offset(const MatMulProblem& problem, const MatMulPart& part) {
  return batch_offset(problem.batch_b, part.batch, problem.k * problem.n) +
         part.matrix * problem.k * problem.n + part.column * (problem.transpose_b ? problem.k : 1);
}

int64_t result_offset(const MatMulProblem& problem, const MatMulPart& part) {
  return batch_offset(problem.batch, part.batch, problem.m * problem.n) +
         part.matrix * problem.m * problem.n + part.row * problem.n + part.column;
}

dnnl::memory::desc plain_b(const MatMulProblem& problem, const MatMulPart& part, DType dtype) {
  const bool t = problem.transpose_b;
  return {with_batch(problem.batch_b, part, problem.k, part.columns), onednn_type(dtype),
          matrix_strides(problem.batch_b, t ? problem.n : problem.k, t ? problem.k : problem.n, t)};
}

ResultPart result_part(const MatMulProblem& problem, const MatMulVariant& variant, const MatMulPart& part) {
  const bool dense = through_scratch(problem, part);
  const Dims dims = with_batch(problem.batch, part, part.rows, part.columns);
  Extents batch(dims.begin(), dims.end() - 2);
  const Dims strides =
      dense ? matrix_strides(batch, part.rows, part.columns, false)
            : matrix_strides(problem.batch, problem.m, part.rows == 1 ? part.columns : problem.n, false);
  const DType dtype = dense ? DType::Float32 : variant.result;
  return {dnnl::memory::desc(dims, onednn_type(dtype), strides),
          dtype_bytes(variant.result, result_offset(problem, part)), part.column, part.matrix,
          dims.size() - 1};
}

std::optional<MatMulPlan> plan_matmul(const MatMulProblem& problem, const MatMulVariant& variant,
                                      const MatMulPart& part, const PostOpChain* chain,
                                      const dnnl::memory::desc* weights) {
  // oneDNN 2.6 divides by zero when a dimension is empty (SIGFPE while it lists implementations).
  if (part.rows == 0 || part.columns == 0 || part.batches == 0 || problem.k == 0) return std::nullopt;
  const bool t = problem.transpose_a;
  const dnnl::memory::desc a(
      with_batch(problem.batch_a, part, part.rows, problem.k), onednn_type(variant.source),
      matrix_strides(problem.batch_a, t ? problem.k : problem.m, t ? problem.m : problem.k, t));
  dnnl::memory::desc b = plain_b(problem, part, variant.source);
  if (variant.constant_b) b = {onednn_dims(b), onednn_type(variant.source), dnnl::memory::format_tag::any};
  if (weights != nullptr) b = *weights;
  const ResultPart result = result_part(problem, variant, part);
  const bool may_fuse = chain != nullptr && !through_scratch(problem, part);
  for (const bool fused : {true, false}) {
    if (fused && !may_fuse) continue;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (fused) attributes.set_post_ops(chain->post_ops(result));
    try {
      auto desc = with_onednn_memory([&] { return make_desc<dnnl::matmul>(a, b, result.desc, attributes); });
      if (!is_onednn_reference(desc.impl_info_str())) return MatMulPlan{std::move(desc), fused};
    } catch (const dnnl::error&) {
      // oneDNN's way to say that no implementation takes this
    }
  }
  return std::nullopt;
}

}  // namespace lathe::cpu
