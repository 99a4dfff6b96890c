// SPDX-License-Identifier: Apache-2.0
//
// A matrix product, the parts it is split into, and oneDNN's primitive for a part.
//
//   Whole    one part
//   Rows     rows of the result; all parts read all of b
//   Columns  columns of the result, each with its own packed piece of a constant b. oneDNN's fast kernels
//            want a dense
//            result, so with more than one row a part is computed into scratch and put into place by the
//            epilogue
//   Batch    along the first batch dim
// One matrix times a stack of constant ones (q, k and v of attention) is a product for each matrix, split
// alike: the parts of a member follow each other, so that it reads its rows again while they are in cache.
#pragma once

#include <dnnl.hpp>
#include <optional>
#include <vector>

#include "backend/cpu/onednn/onednn_post_ops.h"
#include "ir/op.h"

namespace lathe::cpu {

enum class MatMulSplit : uint8_t { Whole, Rows, Columns, Batch };

struct MatMulVariant {
  DType source = DType::Float32, result = DType::Float32;
  MatMulSplit split = MatMulSplit::Whole;
  int parts = 1;           // Columns only
  bool constant_b = true;  // packed
  bool operator==(const MatMulVariant&) const = default;
};

struct MatMulProblem {
  // Batch dims of the result and of the operands (1 where broadcast), merged as far as possible; empty: none.
  Extents batch, batch_a, batch_b;
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;

  static MatMulProblem at(const MatMul& op, const Extents& a, const Extents& b);
  MatMulProblem without_batch() const;
  double flops() const { return 2.0 * static_cast<double>(element_count(batch) * m * n * k); }
};

struct MatMulPart {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  int64_t batch = 0, batches = 1;  // along the first batch dim
  int64_t matrix = 0;              // of a stack; the problem is then that of one matrix
};

// One matrix times a stack of constant ones, which are packed one by one.
bool is_stack_product(const Value& a, const Value& b);

MatMulPart column_part(const MatMulProblem& problem, int index, int parts);
std::vector<MatMulPart> matmul_parts(const MatMulProblem& problem, const MatMulVariant& variant, int threads);
// The part goes through scratch (FP32, dense).
bool through_scratch(const MatMulProblem& problem, const MatMulPart& part);

// Elements into a, b and the result.
int64_t a_offset(const MatMulProblem& problem, const MatMulPart& part);
int64_t b_offset(const MatMulProblem& problem, const MatMulPart& part);
int64_t result_offset(const MatMulProblem& problem, const MatMulPart& part);
// b as it is stored, in type `dtype`.
dnnl::memory::desc plain_b(const MatMulProblem& problem, const MatMulPart& part, DType dtype);
ResultPart result_part(const MatMulProblem& problem, const MatMulVariant& variant, const MatMulPart& part);

struct MatMulPlan {
  dnnl::matmul::primitive_desc desc;
  bool fused = false;
};
// As plan_conv().
std::optional<MatMulPlan> plan_matmul(const MatMulProblem& problem, const MatMulVariant& variant,
                                      const MatMulPart& part, const PostOpChain* chain,
                                      const dnnl::memory::desc* weights = nullptr);

}  // namespace lathe::cpu
