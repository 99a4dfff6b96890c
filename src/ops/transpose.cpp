// SPDX-License-Identifier: Apache-2.0
//
// Transpose and DepthToSpace (which is a reshape, a transpose and a reshape) as one strided copy each.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

// `values` in the order of `perm`.
template <class V>
V permuted(const V& values, const Ints& perm) {
  V result;
  for (const int64_t p : perm) result.push_back(values[static_cast<size_t>(p)]);
  return result;
}

std::vector<Tensor> transposed(const EvaluateContext& context, const Tensor& x, const Ints& perm) {
  const StridedSource source{0, permuted(row_major_strides(x.extents()), perm)};
  return {gather_strided(context, x, source, permuted(x.extents(), perm))};
}

// --- Transpose
std::vector<Tensor> evaluate_transpose(const Transpose& op, const EvaluateContext& context) {
  return move_elements(context, [&](const EvaluateContext& c) { return transposed(c, c.input(0), op.perm); });
}

std::vector<ResultInfo> infer_transpose(const Transpose& op, const InferContext& context) {
  const Value& x = context.input(0);
  Ints sorted = op.perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == x.shape.size();
  for (size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<int64_t>(i);
  if (!valid) {
    throw_input_error("perm = " + to_string(to_shape(op.perm)) + " is not a permutation of the " +
                      std::to_string(x.shape.size()) + " dims of the input");
  }
  ResultInfo result{x.dtype, permuted(x.shape, op.perm)};
  if (is_static(result.shape))
    result.contents = moved_contents(context, {0}, bind_evaluation(evaluate_transpose, op))[0];
  return {result};
}

// --- DepthToSpace
// The six dims between which the transpose happens. b: block.
//   depth to space, DCR  (N, b, b, C', H, W) -> (N, C', H, b, W, b)
//   depth to space, CRD  (N, C', b, b, H, W) -> (N, C', H, b, W, b)
//   space to depth, DCR  (N, C, H', b, W', b) -> (N, b, b, C, H', W');   CRD: -> (N, C, b, b, H', W')
struct BlockMove {
  Extents split;
  Ints perm;
  Extents result;
};

BlockMove block_move(const DepthToSpace& op, const Extents& x) {
  const int64_t b = op.block, n = x[0], c = x[1], h = x[2], w = x[3];
  if (op.inverse) {
    return {{n, c, h / b, b, w / b, b},
            op.crd ? Ints{0, 1, 3, 5, 2, 4} : Ints{0, 3, 5, 1, 2, 4},
            {n, c * b * b, h / b, w / b}};
  }
  const int64_t channels = c / (b * b);
  if (op.crd) return {{n, channels, b, b, h, w}, {0, 1, 4, 2, 5, 3}, {n, channels, h * b, w * b}};
  return {{n, b, b, channels, h, w}, {0, 3, 4, 1, 5, 2}, {n, channels, h * b, w * b}};
}

std::vector<Tensor> evaluate_depth_to_space(const DepthToSpace& op, const EvaluateContext& context) {
  const Extents& x = context.input(0).extents();
  const int64_t b = op.block;
  if (op.inverse ? x[2] % b != 0 || x[3] % b != 0 : x[1] % (b * b) != 0) {
    throw_input_error("an input of " + to_string(x) + " does not divide into blocks of " + std::to_string(b));
  }
  return move_elements(context, [&](const EvaluateContext& c) -> std::vector<Tensor> {
    const BlockMove move = block_move(op, x);
    return {transposed(c, c.input(0).reshaped(move.split), move.perm)[0].reshaped(move.result)};
  });
}

Dim divided(const Dim& dim, int64_t divisor, std::string_view what) {
  if (dim.is_constant() && dim.value() % divisor != 0) {
    throw_input_error(std::string(what) + " of " + dim.to_string() + " does not divide by " +
                      std::to_string(divisor));
  }
  return floor_div(dim, Dim(divisor));
}

std::vector<ResultInfo> infer_depth_to_space(const DepthToSpace& op, const InferContext& context) {
  const Value& x = context.input(0);
  constexpr int64_t kMaxBlock = 1 << 15;
  if (op.block < 1 || op.block > kMaxBlock) {
    throw_input_error("the block size is " + std::to_string(op.block) + "; it must be at least 1");
  }
  if (x.shape.size() != 4)
    throw_input_error("the input must have four dims (N, C, H, W), it has " + to_string(x.shape));
  const Dim b = op.block;
  const int64_t area = op.block * op.block;
  Shape shape = x.shape;
  if (op.inverse) {
    shape[1] = x.shape[1] * Dim(area);
    shape[2] = divided(x.shape[2], op.block, "a height");
    shape[3] = divided(x.shape[3], op.block, "a width");
  } else {
    shape[1] = divided(x.shape[1], area, "a number of channels");
    shape[2] = x.shape[2] * b;
    shape[3] = x.shape[3] * b;
  }
  return {{x.dtype, shape}};
}

}  // namespace

std::vector<OpDef> transpose_ops() {
  return {op_def<Transpose, infer_transpose, evaluate_transpose>(no_flops),
          op_def<DepthToSpace, infer_depth_to_space, evaluate_depth_to_space>(no_flops)};
}

}  // namespace lathe
