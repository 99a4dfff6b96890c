// SPDX-License-Identifier: Apache-2.0
//
// Attention: softmax(q k^T * scale + mask) v per batch and head of q, all in double. One block of query rows
// at a time, so that the whole score matrix never exists. A row that the mask forbids entirely gives zeros.

#include <cmath>
#include <limits>

#include "ops/broadcast.h"
#include "ops/families.h"
#include "ops/gemm.h"
#include "ops/movement.h"

namespace lathe {

namespace {

// Sizes by name; the layout decides only where they stand in the operand.
template <class Extent>
struct Heads {
  Extent batch, heads, length, width;
};

template <class List>
auto heads_of(const List& dims, AttentionLayout layout) {
  const bool bhsd = layout == AttentionLayout::BHSD;
  return Heads<typename List::value_type>{dims[0], dims[bhsd ? 1 : 2], dims[bhsd ? 2 : 1], dims[3]};
}

void require_same(const Dim& a, const Dim& b, std::string_view what) {
  if (a.is_constant() && b.is_constant() && !(a == b)) {
    throw_input_error(std::string(what) + " differ: " + a.to_string() + " and " + b.to_string());
  }
}

void require_multiple(const Dim& heads, const Dim& shared) {
  if (heads == shared || !heads.is_constant() || !shared.is_constant()) return;
  if (shared.value() < 1 || heads.value() % shared.value() != 0)
    throw_input_error(heads.to_string() + " heads of q cannot share " + shared.to_string() + " of k and v");
}

std::vector<ResultInfo> infer_attention(const Attention& op, const InferContext& context) {
  for (size_t i = 0; i < 3; ++i) {
    if (context.rank(i) != 4) {
      throw_input_error("q, k and v must have rank 4, input " + std::to_string(i) + " has " +
                        to_string(context.input(i).shape));
    }
  }
  const auto q = heads_of(context.input(0).shape, op.layout), k = heads_of(context.input(1).shape, op.layout);
  const auto v = heads_of(context.input(2).shape, op.layout);
  require_same(q.width, k.width, "head sizes of q and k");
  require_same(q.batch, k.batch, "batches of q and k");
  require_same(q.batch, v.batch, "batches of q and v");
  require_same(k.length, v.length, "lengths of k and v");
  require_same(k.heads, v.heads, "head counts of k and v");
  require_multiple(q.heads, k.heads);
  if (context.has(3)) {
    const Shape scores = {q.batch, q.heads, q.length, k.length};
    if (!(broadcast(scores, context.input(3).shape) == scores)) {
      throw_input_error("a mask of " + to_string(context.input(3).shape) +
                        " does not broadcast to the scores " + to_string(scores));
    }
  }
  Shape shape = {q.batch, q.heads, q.length, v.width};
  if (op.layout == AttentionLayout::BSHD) std::swap(shape[1], shape[2]);
  return {{context.input(0).dtype, std::move(shape)}};
}

// Where head (b, h) of an operand starts and how far its rows are apart.
struct Rows {
  int64_t batch_stride, head_stride, row_stride;
  int64_t start(int64_t batch, int64_t head) const { return batch * batch_stride + head * head_stride; }
};

Rows rows_of(const Tensor& tensor, AttentionLayout layout) {
  const Extents strides = row_major_strides(tensor.extents());
  const bool bhsd = layout == AttentionLayout::BHSD;
  return {strides[0], strides[bhsd ? 1 : 2], strides[bhsd ? 2 : 1]};
}

// A block of operand rows as doubles, row-major.
void load_rows(const Tensor& tensor, int64_t first, int64_t row_stride, int64_t count, int64_t width,
               double* out) {
  for (int64_t i = 0; i < count; ++i) load_doubles(tensor, first + i * row_stride, width, out + i * width);
}

// c = a (rows x depth, row-major) times b (depth x columns at the given strides).
void multiply(const double* a, int64_t rows, int64_t depth, const double* b, int64_t b_row, int64_t b_column,
              int64_t columns, double* c) {
  const auto pack_a = [&](int64_t, int64_t row, int64_t count, int64_t k, int64_t block, double* out) {
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t d = 0; d < block; ++d) out[gemm::panel_index(r, d, block)] = a[(row + r) * depth + k + d];
    }
  };
  const auto pack_b = [&](int64_t, int64_t column, int64_t count, int64_t k, int64_t block, double* out) {
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t d = 0; d < block; ++d) {
        out[gemm::panel_index(j, d, block)] = b[(k + d) * b_row + (column + j) * b_column];
      }
    }
  };
  const auto store = [&](int64_t, int64_t row, int64_t column, int64_t count, const double* values) {
    std::copy_n(values, count, c + row * columns + column);
  };
  blocked_gemm(EvaluateContext{}, {1, rows, columns, depth}, pack_a, pack_b, store);
}

// Adds the mask to a row of scores: element `first` on of the broadcast (B, H, Sq, Sk) mask.
void apply_mask(const Tensor& mask, const BroadcastRuns& runs, int64_t first, int64_t count, double* scores) {
  constexpr double kForbidden = -std::numeric_limits<double>::infinity();
  std::vector<double> values(static_cast<size_t>(count));
  runs.for_each(first, count, [&](int64_t offset, int64_t step, int64_t at, int64_t length) {
    load_doubles(mask, offset, step == 0 ? 1 : length, &values[static_cast<size_t>(at)]);
    for (int64_t i = 0; i < length; ++i) {
      const double value = values[static_cast<size_t>(at + i * step)];
      if (mask.dtype() != DType::Bool) {
        scores[at + i] += value;
      } else if (value == 0) {
        scores[at + i] = kForbidden;
      }
    }
  });
}

void softmax_row(double* row, int64_t count) {
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count && !std::isnan(top); ++i)
    if (!(row[i] <= top)) top = row[i];  // NaN too: a row with one is not one whose keys are all forbidden
  if (top == -std::numeric_limits<double>::infinity()) {
    std::fill_n(row, count, 0.0);
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += row[i] = std::exp(row[i] - top);
  for (int64_t i = 0; i < count; ++i) row[i] /= sum;
}

std::vector<Tensor> evaluate_attention(const Attention& op, const EvaluateContext& context) {
  const Tensor &q = context.input(0), &k = context.input(1), &v = context.input(2);
  const auto sizes = heads_of(q.extents(), op.layout);
  const auto of_k = heads_of(k.extents(), op.layout), of_v = heads_of(v.extents(), op.layout);
  const int64_t keys = of_k.length, value_width = of_v.width;
  if (keys != of_v.length || sizes.width != of_k.width || sizes.batch != of_k.batch ||
      sizes.batch != of_v.batch || of_k.heads != of_v.heads || of_k.heads < 1 ||
      sizes.heads % of_k.heads != 0) {
    throw_input_error("k of " + to_string(k.extents()) + " does not fit q of " + to_string(q.extents()) +
                      " and v of " + to_string(v.extents()));
  }
  Extents extents = q.extents();
  extents[3] = value_width;
  Tensor result = allocate_result(q.dtype(), extents);
  const ElementWriter writer(result);
  const Rows q_rows = rows_of(q, op.layout), k_rows = rows_of(k, op.layout), v_rows = rows_of(v, op.layout);
  const Rows out_rows = rows_of(result, op.layout);
  std::optional<BroadcastRuns> mask;
  if (context.has(3))
    mask.emplace(context.input(3).extents(), Extents{sizes.batch, sizes.heads, sizes.length, keys});
  if (keys == 0) return {std::move(result)};

  constexpr int64_t kBlock = 128;
  const int64_t sharing = sizes.heads / of_k.heads;
  context.parallel_for(sizes.batch * sizes.heads, 1, [&](int64_t first, int64_t last) {
    std::vector<double> q_block(kBlock * sizes.width), k_head(keys * sizes.width), v_head(keys * value_width);
    std::vector<double> scores(kBlock * keys), out(kBlock * value_width);
    for (int64_t head = first; head < last; ++head) {
      const int64_t b = head / sizes.heads, h = head % sizes.heads;
      load_rows(k, k_rows.start(b, h / sharing), k_rows.row_stride, keys, sizes.width, k_head.data());
      load_rows(v, v_rows.start(b, h / sharing), v_rows.row_stride, keys, value_width, v_head.data());
      for (int64_t row = 0; row < sizes.length; row += kBlock) {
        const int64_t rows = std::min(kBlock, sizes.length - row);
        load_rows(q, q_rows.start(b, h) + row * q_rows.row_stride, q_rows.row_stride, rows, sizes.width,
                  q_block.data());
        multiply(q_block.data(), rows, sizes.width, k_head.data(), 1, sizes.width, keys, scores.data());
        for (int64_t r = 0; r < rows; ++r) {
          double* row_scores = scores.data() + r * keys;
          for (int64_t i = 0; i < keys; ++i) row_scores[i] *= op.scale;
          if (mask)
            apply_mask(context.input(3), *mask, (head * sizes.length + row + r) * keys, keys, row_scores);
          for (int64_t i = row + r + 1; op.causal && i < keys; ++i) {
            row_scores[i] = -std::numeric_limits<double>::infinity();
          }
          softmax_row(row_scores, keys);
        }
        multiply(scores.data(), rows, keys, v_head.data(), value_width, 1, value_width, out.data());
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t at = out_rows.start(b, h) + (row + r) * out_rows.row_stride;
          writer.store_doubles(at, value_width, out.data() + r * value_width);
        }
      }
    }
  });
  return {std::move(result)};
}

// Two products, and about five operations for every score.
double attention_flops(const Op& op, const CostContext& context) {
  const auto layout = std::get<Attention>(op).layout;
  const auto q = heads_of(context.inputs[0], layout), k = heads_of(context.inputs[1], layout);
  const double scores = static_cast<double>(q.batch * q.heads * q.length) * static_cast<double>(k.length);
  return scores * (2.0 * static_cast<double>(q.width + context.inputs[2][3]) + 5);
}

}  // namespace

std::vector<OpDef> attention_ops() {
  return {op_def<Attention, infer_attention, evaluate_attention>(attention_flops)};
}

}  // namespace lathe
