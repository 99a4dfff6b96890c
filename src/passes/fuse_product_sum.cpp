// SPDX-License-Identifier: Apache-2.0
//
//   ReduceSum(a [.., m, 1, k] * b [.., 1, n, k], last axis)  ->  MatMul(a [.., m, k], b [.., n, k]^T)
//
// That is how state space models write products of all pairs of positions: the factors' product has m n k
// elements, which are written and read again; the matrix product keeps its sums in registers. m, n and k may
// be any dims of the product: m the one that only a has, n the one that only b has, k the one that is summed
// and both have. All others both have; they become the batch. Transposes bring them into order:
//   a [2, 32, 1, 8, 64] * b [2, 1, 32, 8, 64], last axis: a^T [2, 8, 32, 64], b^T [2, 8, 32, 64], and the
//   result [2, 8, 32, 32] goes back to [2, 32, 32, 8].
//
// Must not fire when the product of the factors is read by anything else, when several axes are summed, when
// more than one dim is a's or b's alone, nor for small m, n or k, where a matrix product has little to read
// again.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

constexpr int64_t kLeastExtent = 4;

bool has_enough(const Dim& dim) {
  return !dim.is_constant() || dim.value() >= kLeastExtent;
}

// Dims of the product of both factors by their role.
struct ProductDims {
  Ints batch;
  int64_t m = -1, n = -1, k = -1;
};

std::optional<ProductDims> product_dims(const Shape& a, const Shape& b, int64_t summed) {
  if (a.size() != b.size() || a.size() < 3) return std::nullopt;
  ProductDims dims{.k = summed};
  for (size_t d = 0; d < a.size(); ++d) {
    const auto axis = static_cast<int64_t>(d);
    if (a[d] == b[d]) {
      if (axis != summed) dims.batch.push_back(axis);
      continue;
    }
    int64_t& only = b[d] == Dim(1) ? dims.m : dims.n;
    if (axis == summed || only >= 0 || (a[d] != Dim(1) && b[d] != Dim(1)) ||
        !has_enough(a[d] == Dim(1) ? b[d] : a[d]))
      return std::nullopt;
    only = axis;
  }
  if (dims.m < 0 || dims.n < 0 || !has_enough(a[static_cast<size_t>(summed)])) return std::nullopt;
  return dims;
}

// The axis, when it is the only one that the node sums.
std::optional<int64_t> summed_axis(const Graph& graph, NodeId id) {
  const auto* op = plain_op<Reduce>(graph, id);
  if (!op || op->kind != ReduceKind::Sum || !op->axes || op->axes->size() != 1) return std::nullopt;
  return positive_axis(graph, graph.node(id).inputs[0], (*op->axes)[0]);
}

// The factor as (batch, `rows`, k).
ValueId as_matrix(Graph& graph, NodeId like, const std::string& name, ValueId factor, const ProductDims& dims,
                  int64_t rows, int64_t absent) {
  Ints order = dims.batch;
  order.insert(order.end(), {rows, dims.k, absent});
  const ValueId turned = insert_layout(graph, like, name + "_order", Transpose{.perm = order}, {factor});
  Shape shape = graph.value(turned).shape;
  shape.pop_back();
  return insert_layout(graph, like, name, ReshapeOp{.shape = shape}, {turned});
}

bool fuse_product_sum_at(Graph& graph, PassContext& context, NodeId mul) {
  const ValueId product = result_of(graph, mul);
  const auto sum = sole_user(graph, product);
  const auto axis = sum ? summed_axis(graph, *sum) : std::nullopt;
  if (!axis || !is_float(graph.value(product).dtype)) return false;
  const ValueId a = graph.node(mul).inputs[0], b = graph.node(mul).inputs[1];
  const auto dims = product_dims(graph.value(a).shape, graph.value(b).shape, *axis);
  if (!dims || !same_float_type(graph, {a, b, product}) || !context.may_change()) return false;
  context.report_fusion(graph, mul, *sum);
  const std::string name = graph.node(mul).name + " + " + graph.node(*sum).name;
  const Shape result = graph.value(result_of(graph, *sum)).shape;
  const ValueId rows = as_matrix(graph, mul, "/rows", a, *dims, dims->m, dims->n),
                columns = as_matrix(graph, mul, "/columns", b, *dims, dims->n, dims->m);
  const ValueId multiplied =
      insert_like(graph, mul, "/product", MatMul{.transpose_b = true}, {rows, columns});
  // Where each dim of the product that is kept stands behind the batch.
  Ints stands = dims->batch, back;
  stands.insert(stands.end(), {dims->m, dims->n});
  for (size_t d = 0; d <= stands.size(); ++d)
    if (const auto at = std::find(stands.begin(), stands.end(), static_cast<int64_t>(d)); at != stands.end())
      back.push_back(at - stands.begin());
  const ValueId turned = insert_layout(graph, mul, "/back", Transpose{.perm = back}, {multiplied});
  const ValueId shaped = insert_layout(graph, mul, "/shape", ReshapeOp{.shape = result}, {turned});
  GraphEditor editor(graph);
  editor.absorb(graph.value(multiplied).producer, *sum);
  editor.rename_node(graph.value(multiplied).producer, name);
  editor.replace_uses(result_of(graph, *sum), shaped);
  remove_if_unread(graph, *sum);
  return true;
}

}  // namespace

bool fuse_product_sum(Graph& graph, PassContext& context) {
  bool changed = false;
  for (NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed && is_pointwise(graph, id, PointwiseCode::Mul))
      changed |= fuse_product_sum_at(graph, context, id);
  return changed;
}

}  // namespace lathe
