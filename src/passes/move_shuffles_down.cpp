// SPDX-License-Identifier: Apache-2.0
//
// Moves shuffles below the matrix products and pointwise operations that do not mind, so that they meet
// others and vanish.
//
//   matmul(shuffle(x), W)      ->  shuffle(matmul(x', W))   W a constant matrix; the rows of x' are in the
//                                                           source's order
//   pointwise(shuffle(x), c)   ->  shuffle(pointwise(x, c)) c a scalar, or along a last dim that the shuffle
//                                  leaves alone; also a rounding to a grid
//   add(unsqueeze(x), y)       ->  unsqueeze(add(x, squeeze(y)))
//
// The last one lets a product of a single batch take the sum behind it: flattened rows get their batch dim of
// 1 back between the two. It must not fire where the other operand comes from a shuffle, too: they would
// change places forever.
//
// Exporters compute self-attention sequence first, (S, B, E), or flatten to (B*S, E) for Gemm; both are only
// orders of the rows of a product, which does not depend on them. It must not fire when the order and
// grouping of the rows is the source's already (so it ends), nor when x' would need more shuffles than before
// without a change of order.
#include <algorithm>

#include "ops/build.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/shuffle_map.h"

namespace lathe {
namespace {

bool is_identity(const ShuffleMap& map) {
  return map.shortest().length() == 0;
}

// The chain of shuffles that gives a value, composed.
struct Above {
  std::vector<NodeId> chain;
  ValueId source = kNoValue;
  ShuffleMap map;
};

// Only for a value that one node reads, so that the chain dies with the rewrite.
std::optional<Above> shuffles_above(const Graph& graph, ValueId value) {
  const std::vector<NodeId> chain = shuffle_chain(graph, value);
  if (chain.empty() || graph.users(value).size() != 1 || graph.is_output(value)) return std::nullopt;
  const ValueId source = graph.node(chain.front()).inputs[0];
  Above above{chain, source, ShuffleMap(graph.value(source).shape)};
  for (const NodeId link : chain)
    if (!above.map.apply(graph, link)) return std::nullopt;
  return above;
}

// Puts `map` between the node's result, which gets the shape `product`, and its readers. A name stands for
// one order of elements: where the map changes it, the name goes to what the readers get.
void shuffle_below(GraphEditor& editor, NodeId id, const Shape& product, const ShuffleMap& map,
                   NodeId last_above) {
  const Graph& graph = editor.graph();
  const ValueId result = graph.node(id).outputs[0];
  const std::vector<NodeId> users = graph.users(result);
  editor.set_shape(result, product);
  editor.set_contents(result, std::nullopt);
  const ValueId shuffled =
      map.emit(editor, result, graph.node(last_above).name, graph.node(last_above).origins, kNoNode);
  if (map.shortest().perm) {
    const std::string name = graph.value(result).name;
    editor.rename_value(result, name + "_before");
    editor.rename_value(shuffled, name);
  }
  for (const NodeId user : users)
    for (size_t i = 0; i < graph.node(user).inputs.size(); ++i)
      if (graph.node(user).inputs[i] == result) editor.replace_input(user, i, shuffled);
  editor.sort();
}

// Atoms of each leading dim of the operand, in the order of the source.
struct Rows {
  std::vector<std::vector<int>> dims;
};

Rows rows_in_source_order(const ShuffleMap& map) {
  const std::vector<int> positions = map.source_positions();
  std::vector<int> atoms;
  for (size_t d = 0; d + 1 < map.result_atoms().size(); ++d)
    atoms.insert(atoms.end(), map.result_atoms()[d].begin(), map.result_atoms()[d].end());
  const std::vector<int> before = atoms;
  std::sort(atoms.begin(), atoms.end(), [&](int a, int b) {
    return positions[static_cast<size_t>(a)] < positions[static_cast<size_t>(b)];
  });
  Rows rows;
  for (const int atom : atoms) {
    // Atoms of one source dim that also followed each other before stay together.
    if (!rows.dims.empty()) {
      const int last = rows.dims.back().back();
      const auto at = std::find(before.begin(), before.end(), last);
      const bool adjacent = at + 1 != before.end() && *(at + 1) == atom;
      bool same_dim = false;
      for (const auto& dim : map.source_atoms())
        same_dim |=
            std::count(dim.begin(), dim.end(), last) == 1 && std::count(dim.begin(), dim.end(), atom) == 1;
      if (adjacent && same_dim) {
        rows.dims.back().push_back(atom);
        continue;
      }
    }
    rows.dims.push_back({atom});
  }
  return rows;
}

bool move_below_matmul(Graph& graph, NodeId id, PassContext& context) {
  const Node& node = graph.node(id);
  const auto* op = std::get_if<MatMul>(&node.op);
  if (op == nullptr || op->transpose_a || !node.epilogue.empty()) return false;
  const Value& weights = graph.value(node.inputs[1]);
  if (!weights.is_constant() || weights.shape.size() != 2 || graph.value(node.inputs[0]).shape.size() < 2)
    return false;
  const auto found = shuffles_above(graph, node.inputs[0]);
  if (!found || graph.is_output(node.outputs[0])) return false;
  const auto& [chain, source, map] = *found;
  const Rows rows = rows_in_source_order(map);

  // The new operand: rows in source order, then K.
  Shape operand;
  for (const auto& dim : rows.dims) operand.push_back(atoms_size(dim, map.sizes()));
  operand.push_back(map.result().back());
  if (operand.size() < 2) return false;

  // From the chain's result back to rows in source order: a map of the result's leading atoms.
  Shape atoms_shape;
  std::vector<int> order;
  for (const auto& dim : map.result_atoms()) {
    if (&dim == &map.result_atoms().back()) break;
    for (const int atom : dim) {
      order.push_back(atom);
      atoms_shape.push_back(map.sizes()[static_cast<size_t>(atom)]);
    }
  }
  std::vector<int> wanted;
  for (const auto& dim : rows.dims) wanted.insert(wanted.end(), dim.begin(), dim.end());
  const auto permute = [](ShuffleMap& m, const std::vector<int>& from, const std::vector<int>& to) {
    Ints perm;
    for (const int atom : to) perm.push_back(std::find(from.begin(), from.end(), atom) - from.begin());
    perm.push_back(static_cast<int64_t>(from.size()));
    m.transpose(perm);
  };
  Shape split = atoms_shape;
  split.push_back(map.result().back());
  ShuffleMap above = map;
  if (!above.reshape(split)) return false;
  permute(above, order, wanted);
  if (!above.reshape(operand)) return false;
  const bool reordered = order != wanted;
  const int above_length = above.shortest().length();
  // Rows that are in order already are only grouped as in the source, so that a later reshape can undo this
  // one.
  if (!reordered && (operand == map.result() || above_length > static_cast<int>(chain.size()))) return false;

  // The way back, for the product's result.
  Shape product = operand;
  product.back() = weights.shape[op->transpose_b ? 0 : 1];
  ShuffleMap below(product);
  Shape split_product;
  for (const int atom : wanted) split_product.push_back(map.sizes()[static_cast<size_t>(atom)]);
  split_product.push_back(product.back());
  if (!below.reshape(split_product)) return false;
  permute(below, wanted, order);
  if (!below.reshape(graph.value(node.outputs[0]).shape)) return false;
  if (!context.may_change()) return false;

  GraphEditor editor(graph);
  const NodeId last = chain.back();
  context.observer.on(FusionApplied{"ShuffleMatMulSwap", graph.node(last).name, node.name});
  editor.replace_input(id, 0,
                       above.emit(editor, source, graph.node(last).name, graph.node(last).origins, id));
  shuffle_below(editor, id, product, below, last);
  return true;
}

// A constant that is the same for all elements of the leading dims: a scalar, or a vector along the last dim.
bool along_last_dim(const Value& constant, const Dim& last) {
  for (size_t d = 0; d + 1 < constant.shape.size(); ++d)
    if (!constant.shape[d].is_constant(1)) return false;
  return constant.shape.empty() || constant.shape.back().is_constant(1) || constant.shape.back() == last;
}

bool move_below_pointwise(Graph& graph, NodeId id, PassContext& context) {
  const Node& node = graph.node(id);
  if (!is_pointwise_layer(node) || !node.epilogue.empty()) return false;
  int moved = -1;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& value = graph.value(node.inputs[i]);
    if (value.is_constant()) continue;
    if (moved >= 0) return false;
    moved = static_cast<int>(i);
  }
  if (moved < 0) return false;
  const ValueId operand = node.inputs[static_cast<size_t>(moved)];
  const auto found = shuffles_above(graph, operand);
  if (!found || graph.is_output(node.outputs[0])) return false;
  if (graph.value(operand).shape != graph.value(node.outputs[0]).shape) return false;
  const auto& [chain, source, map] = *found;
  if (map.result().empty()) return false;
  bool scalars = true;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (static_cast<int>(i) == moved) continue;
    const Value& constant = graph.value(node.inputs[i]);
    if (!along_last_dim(constant, map.result().back())) return false;
    scalars &= constant.constant.size() == 1;
  }
  const bool last_kept = !map.source().empty() && map.source_atoms().back() == map.result_atoms().back() &&
                         map.source().back() == map.result().back();
  if (!scalars && !last_kept) return false;
  // Scalars of higher rank than the source would raise the result's rank.
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (static_cast<int>(i) != moved && graph.value(node.inputs[i]).shape.size() > map.source().size())
      return false;
  if (is_identity(map) || !context.may_change()) return false;

  GraphEditor editor(graph);
  context.observer.on(FusionApplied{"ShufflePointwiseSwap", graph.node(chain.back()).name, node.name});
  editor.replace_input(id, static_cast<size_t>(moved), source);
  shuffle_below(editor, id, map.source(), map, chain.back());
  return true;
}

// The second shape is the first with dims of 1 in front.
bool adds_leading_ones(const Shape& from, const Shape& to) {
  const size_t added = to.size() - from.size();
  return to.size() > from.size() &&
         std::equal(from.begin(), from.end(), to.begin() + static_cast<int64_t>(added)) &&
         std::all_of(to.begin(), to.begin() + static_cast<int64_t>(added),
                     [](const Dim& d) { return d.is_constant(1); });
}

bool move_below_sum(Graph& graph, NodeId id, PassContext& context) {
  const Node& node = graph.node(id);
  const auto* op = std::get_if<Pointwise>(&node.op);
  if (op == nullptr || op->code != PointwiseCode::Add || node.inputs.size() != 2 || !node.epilogue.empty() ||
      graph.is_output(node.outputs[0]))
    return false;
  const Shape result = graph.value(node.outputs[0]).shape;
  for (const size_t moved : {size_t{0}, size_t{1}}) {
    const ValueId other = node.inputs[1 - moved];
    const auto found = shuffles_above(graph, node.inputs[moved]);
    if (!found || graph.value(other).is_constant() || graph.value(other).shape != result ||
        graph.value(node.inputs[moved]).shape != result || !shuffle_chain(graph, other).empty())
      continue;
    const Shape narrow = graph.value(found->source).shape;
    ShuffleMap down(result);
    if (!adds_leading_ones(narrow, result) || found->map.shortest().perm || !down.reshape(narrow)) continue;
    if (!context.may_change()) return false;
    GraphEditor editor(graph);
    const NodeId last = found->chain.back();
    context.observer.on(FusionApplied{"ShuffleSumSwap", graph.node(last).name, node.name});
    editor.replace_input(id, moved, found->source);
    editor.replace_input(id, 1 - moved,
                         down.emit(editor, other, graph.node(last).name, graph.node(last).origins, id));
    shuffle_below(editor, id, narrow, found->map, last);
    return true;
  }
  return false;
}

}  // namespace

bool move_shuffles_down(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order())) {
    if (graph.node(id).removed) continue;
    changed |= move_below_matmul(graph, id, context) || move_below_pointwise(graph, id, context) ||
               move_below_sum(graph, id, context);
  }
  return changed;
}

}  // namespace lathe
