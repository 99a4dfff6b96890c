// SPDX-License-Identifier: Apache-2.0
//
// MatMul with numpy's rules: batch dims broadcast, operands of rank 1 are a row or a column that the result
// drops again. Float types go through the shared double product; integers wrap around in their own
// arithmetic.

#include <utility>

#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/gemm.h"
#include "ops/movement.h"

namespace lathe {

namespace {

// One operand as a stack of matrices.
template <class List>
struct Matrix {
  List batch;
  typename List::value_type rows, columns;  // after the transposition
  bool was_vector = false;
};

template <class List>
Matrix<List> as_matrix(const List& dims, bool transpose, bool is_left) {
  if (dims.empty()) throw_input_error("operands must have rank 1 or more");
  if (dims.size() == 1) {
    using Extent = typename List::value_type;
    return is_left ? Matrix<List>{{}, Extent(1), dims[0], true} : Matrix<List>{{}, dims[0], Extent(1), true};
  }
  const auto &rows = dims[dims.size() - 2], &columns = dims.back();
  return {List(dims.begin(), dims.end() - 2), transpose ? columns : rows, transpose ? rows : columns, false};
}

template <class List>
List result_dims(const Matrix<List>& a, const Matrix<List>& b) {
  List dims = broadcast(a.batch, b.batch);
  if (!a.was_vector) dims.push_back(a.rows);
  if (!b.was_vector) dims.push_back(b.columns);
  return dims;
}

std::vector<ResultInfo> infer_matmul(const MatMul& op, const InferContext& context) {
  const Value &a = context.input(0), &b = context.input(1);
  const Matrix<Shape> left = as_matrix(a.shape, op.transpose_a, true),
                      right = as_matrix(b.shape, op.transpose_b, false);
  if (left.columns.is_constant() && right.rows.is_constant() && !(left.columns == right.rows)) {
    throw_input_error("inner dims differ: " + left.columns.to_string() + " and " + right.rows.to_string());
  }
  if (is_float(a.dtype) != is_float(b.dtype)) {
    throw_input_error("needs operands of one type, has " + std::string(dtype_name(a.dtype)) + " and " +
                      std::string(dtype_name(b.dtype)));
  }
  return {{a.dtype, result_dims(left, right)}};
}

// Index of the operand's matrix for every matrix of the result.
std::vector<int64_t> batch_indices(const Extents& operand, const Extents& result) {
  std::vector<int64_t> indices(static_cast<size_t>(element_count(result)));
  BroadcastRuns(operand, result)
      .for_each(0, element_count(result), [&](int64_t offset, int64_t step, int64_t at, int64_t length) {
        for (int64_t i = 0; i < length; ++i) indices[static_cast<size_t>(at + i)] = offset + i * step;
      });
  return indices;
}

// Where an operand's matrices lie, and its strides as seen after the transposition.
struct MatrixLayout {
  std::vector<int64_t> batch;  // first element of the matrix for each result matrix
  int64_t row_stride, column_stride;
};

MatrixLayout layout_of(const Matrix<Extents>& matrix, const Extents& batch, bool transpose) {
  MatrixLayout layout{batch_indices(matrix.batch, batch), matrix.columns, 1};
  if (transpose && !matrix.was_vector) layout = {std::move(layout.batch), 1, matrix.rows};
  for (int64_t& index : layout.batch) index *= matrix.rows * matrix.columns;
  return layout;
}

template <class Real>
void multiply_reals(const GemmSize& size, const MatrixLayout& left, const MatrixLayout& right, const Real* a,
                    const Real* b, const ElementWriter& writer, const EvaluateContext& context) {
  const auto pack_a = [&](int64_t batch, int64_t row, int64_t rows, int64_t k, int64_t depth, double* out) {
    const Real* from =
        a + left.batch[static_cast<size_t>(batch)] + row * left.row_stride + k * left.column_stride;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t d = 0; d < depth; ++d) {
        out[gemm::panel_index(r, d, depth)] =
            static_cast<double>(from[r * left.row_stride + d * left.column_stride]);
      }
    }
  };
  const auto pack_b = [&](int64_t batch, int64_t column, int64_t columns, int64_t k, int64_t depth,
                          double* out) {
    const Real* from =
        b + right.batch[static_cast<size_t>(batch)] + k * right.row_stride + column * right.column_stride;
    const auto put = [&](int64_t d, int64_t j) {
      out[gemm::panel_index(j, d, depth)] =
          static_cast<double>(from[d * right.row_stride + j * right.column_stride]);
    };
    if (right.row_stride == 1) {  // walk memory in its own order
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t d = 0; d < depth; ++d) put(d, j);
      }
    } else {
      for (int64_t d = 0; d < depth; ++d) {
        for (int64_t j = 0; j < columns; ++j) put(d, j);
      }
    }
  };
  const auto store = [&](int64_t batch, int64_t row, int64_t column, int64_t columns, const double* values) {
    writer.store_doubles((batch * size.rows + row) * size.columns + column, columns, values);
  };
  blocked_gemm(context, size, pack_a, pack_b, store);
}

void multiply_integers(const GemmSize& size, const MatrixLayout& left, const MatrixLayout& right,
                       const Tensor& a_tensor, const Tensor& b_tensor, const ElementWriter& writer,
                       const EvaluateContext& context) {
  std::vector<int64_t> a(static_cast<size_t>(a_tensor.size())), b(static_cast<size_t>(b_tensor.size()));
  load_int64s(a_tensor, 0, a_tensor.size(), a.data());
  load_int64s(b_tensor, 0, b_tensor.size(), b.data());
  context.parallel_for(size.batches * size.rows, 1, [&](int64_t first, int64_t last) {
    std::vector<int64_t> sums(static_cast<size_t>(size.columns));
    for (int64_t i = first; i < last; ++i) {
      const size_t batch = static_cast<size_t>(i / size.rows);
      const int64_t* a_row = a.data() + left.batch[batch] + i % size.rows * left.row_stride;
      std::fill(sums.begin(), sums.end(), 0);
      for (int64_t k = 0; k < size.depth; ++k) {
        const uint64_t factor = static_cast<uint64_t>(a_row[k * left.column_stride]);
        const int64_t* b_row = b.data() + right.batch[batch] + k * right.row_stride;
        for (int64_t j = 0; j < size.columns; ++j) {
          const uint64_t product = factor * static_cast<uint64_t>(b_row[j * right.column_stride]);
          int64_t& sum = sums[static_cast<size_t>(j)];
          sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + product);
        }
      }
      writer.store_int64s(i * size.columns, size.columns, sums.data());
    }
  });
}

std::vector<Tensor> evaluate_matmul(const MatMul& op, const EvaluateContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  const Matrix<Extents> left = as_matrix(a.extents(), op.transpose_a, true);
  const Matrix<Extents> right = as_matrix(b.extents(), op.transpose_b, false);
  if (left.columns != right.rows) {
    throw_input_error("inner dims differ: " + to_string(a.extents()) + " and " + to_string(b.extents()));
  }
  const Extents batch = broadcast(left.batch, right.batch);
  const MatrixLayout left_layout = layout_of(left, batch, op.transpose_a);
  const MatrixLayout right_layout = layout_of(right, batch, op.transpose_b);
  Tensor result = allocate_result(a.dtype(), result_dims(left, right));
  const ElementWriter writer(result);
  GemmSize size{element_count(batch), left.rows, right.columns, left.columns};
  if (element_count(right.batch) == 1 && left_layout.column_stride == 1) {
    // One matrix for all batches: their rows lie one after the other, so it is one product of more rows.
    size.rows *= std::exchange(size.batches, 1);
  }
  if (!is_float(a.dtype())) {
    multiply_integers(size, left_layout, right_layout, a, b, writer, context);
  } else {
    with_real_arrays(a, b, [&](const auto* a_data, const auto* b_data) {
      multiply_reals(size, left_layout, right_layout, a_data, b_data, writer, context);
    });
  }
  return {std::move(result)};
}

double matmul_flops(const Op& op, const CostContext& context) {
  const Matrix<Extents> left = as_matrix(context.inputs[0], std::get<MatMul>(op).transpose_a, true);
  return 2.0 * static_cast<double>(element_count(context.outputs[0])) * static_cast<double>(left.columns);
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {op_def<MatMul, infer_matmul, evaluate_matmul>(matmul_flops)};
}

}  // namespace lathe
