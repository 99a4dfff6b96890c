// SPDX-License-Identifier: Apache-2.0
//
// Every value is one of three: shared (the same for all items; it does not depend on the batch at all), items
// (one of its dims is the batch, or a multiple of it, and the i-th slice along it depends on shared values
// and on i-th slices only), or mixed (anything else). Each operator has a rule for when its result is items;
// one that is not listed makes mixed results. By induction over the graph, a network whose outputs are all
// items gives the same numbers when it runs on parts of the batch.
//
// The symbol may occur in one dim only, as itself or times a constant: a table with an entry per pair of
// items is mixed. Most operators want it as their first dim; products, what goes over elements or along
// another axis, and moves take it anywhere (rows of all items as one matrix, and a result for each of several
// right operands in front of them, are what products of transformers become).
#include "builder/batch_items.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace lathe {
namespace {

enum class ItemKind : uint8_t { Shared, Items, Mixed };

class Finder {
 public:
  Finder(const Graph& graph, std::string symbol)
      : graph_(graph), symbol_(std::move(symbol)), kinds_(graph.value_count(), ItemKind::Shared) {}

  BatchItems run() {
    for (const ValueId id : graph_.inputs())
      kinds_[index(id)] =
          mentions(shape(id)) && !is_first(id) ? ItemKind::Mixed : kind_by_shape(graph_.value(id));
    for (const NodeId id : graph_.order()) {
      const ItemKind kind = kind_of(graph_.node(id));
      for (const ValueId output : graph_.node(id).outputs)
        if (output != kNoValue) kinds_[index(output)] = kind == ItemKind::Items ? shape_kind(output) : kind;
      if (kind == ItemKind::Mixed && reason_.empty())
        reason_ = "'" + graph_.node(id).name + "' mixes items of the batch";
    }
    for (const ValueId id : graph_.outputs())
      if (kinds_[index(id)] != ItemKind::Items || !is_first(id))
        return {.symbol = {},
                .reason = reason_.empty() ? "output '" + graph_.value(id).name + "' is no batch" : reason_,
                .batch = symbol_};
    return {.symbol = symbol_, .reason = {}, .batch = {}};
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  bool mentions(const Dim& dim) const { return dim.symbols().contains(symbol_); }
  bool mentions(const Shape& shape) const {
    return std::any_of(shape.begin(), shape.end(), [&](const Dim& dim) { return mentions(dim); });
  }
  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }
  size_t rank(ValueId id) const { return shape(id).size(); }
  ItemKind kind(ValueId id) const { return kinds_[index(id)]; }

  ItemKind kind_by_shape(const Value& value) const {
    const Shape& s = value.shape;
    if (value.contents && mentions(*value.contents)) return ItemKind::Mixed;
    if (!mentions(s)) return ItemKind::Shared;
    return place_of(s) && dtype_info(value.dtype).bits >= 8 ? ItemKind::Items : ItemKind::Mixed;
  }

  // The dim that is so many times the batch.
  struct Place {
    size_t axis = 0;
    int64_t factor = 1;
    bool operator==(const Place&) const = default;
  };
  std::optional<Place> place_of(const Shape& s) const {
    const auto found = std::find_if(s.begin(), s.end(), [&](const Dim& dim) { return mentions(dim); });
    if (found == s.end() || mentions(Shape(found + 1, s.end()))) return std::nullopt;
    const Dim one = found->substitute({{symbol_, Dim(1)}});
    if (!one.is_constant() || one.value() < 1 || !(*found == Dim::symbol(symbol_) * one)) return std::nullopt;
    return Place{static_cast<size_t>(found - s.begin()), one.value()};
  }
  // Of a value that is items.
  Place place(ValueId id) const { return *place_of(shape(id)); }
  bool is_first(ValueId id) const { return place_of(shape(id)) == Place{}; }
  ItemKind shape_kind(ValueId id) const {
    return kind_by_shape(graph_.value(id)) == ItemKind::Items ? ItemKind::Items : ItemKind::Mixed;
  }

  ItemKind kind_of(const Node& node) const {
    bool any_items = false;
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      if (kind(id) == ItemKind::Mixed) return ItemKind::Mixed;
      any_items |= kind(id) == ItemKind::Items;
    }
    if (!any_items) return without_items(node);
    for (const ValueId id : node.outputs)
      if (id != kNoValue && shape_kind(id) != ItemKind::Items) return ItemKind::Mixed;
    const auto& in = node.inputs;
    for (size_t i = node.op_input_count(); i < in.size(); ++i)
      if (!aligned(in[i], node.outputs[0])) return ItemKind::Mixed;
    if (!takes_any_place(node) && !all_first(node)) return ItemKind::Mixed;
    return std::visit([&](const auto& op) { return keeps_items(op, node); }, node.op) ? ItemKind::Items
                                                                                      : ItemKind::Mixed;
  }

  // Nothing of the batch goes in: the result may still be one copy per item, or say how many items there are.
  ItemKind without_items(const Node& node) const {
    if (const auto* tensor = std::get_if<ShapeTensor>(&node.op); tensor && mentions(tensor->dims))
      return ItemKind::Mixed;
    ItemKind kind = ItemKind::Shared;
    for (const ValueId id : node.outputs)
      if (id != kNoValue && kind_by_shape(graph_.value(id)) != ItemKind::Shared)
        kind = kind_by_shape(graph_.value(id));
    if (kind != ItemKind::Items) return kind;
    if (std::holds_alternative<Fill>(node.op) && is_first(node.outputs[0]))
      return node.epilogue.empty() ? ItemKind::Items : ItemKind::Mixed;
    const bool copies = std::holds_alternative<Expand>(node.op) && node.epilogue.empty() &&
                        is_first(node.outputs[0]) && aligned(node.inputs[0], node.outputs[0]);
    return copies ? ItemKind::Items : ItemKind::Mixed;
  }

  static bool takes_any_place(const Node& node) {
    return std::visit(
        [](const auto& op) {
          using Op = std::decay_t<decltype(op)>;
          return std::is_same_v<Op, Pointwise> || std::is_same_v<Op, Cast> || std::is_same_v<Op, MatMul> ||
                 std::is_same_v<Op, Softmax> || std::is_same_v<Op, LayerNorm> ||
                 std::is_same_v<Op, ReshapeOp> || std::is_same_v<Op, Transpose> || std::is_same_v<Op, Split>;
        },
        node.op);
  }
  bool all_first(const Node& node) const {
    const auto first = [&](ValueId id) {
      return id == kNoValue || kind_by_shape(graph_.value(id)) != ItemKind::Items || is_first(id);
    };
    return std::all_of(node.inputs.begin(), node.inputs.end(), first) &&
           std::all_of(node.outputs.begin(), node.outputs.end(), first);
  }

  // As an operand that is broadcast to that result: its batch is the result's, or it has none.
  bool aligned(ValueId id, ValueId result) const {
    if (id == kNoValue) return true;
    if (kind(id) == ItemKind::Items) return rank(id) == rank(result) && place(id) == place(result);
    const size_t missing = rank(result) - std::min(rank(id), rank(result)), axis = place(result).axis;
    return axis < missing || shape(id)[axis - missing].is_constant(1);
  }
  bool all_aligned(const Node& node, size_t first = 0) const {
    for (size_t i = first; i < node.op_input_count(); ++i)
      if (!aligned(node.inputs[i], node.outputs[0])) return false;
    return true;
  }
  bool items(const Node& node, size_t i) const {
    return node.has_op_input(i) && kind(node.inputs[i]) == ItemKind::Items;
  }
  // Input 0 is the batch, the rest are weights and the like.
  bool only_first(const Node& node) const {
    for (size_t i = 1; i < node.op_input_count(); ++i)
      if (items(node, i)) return false;
    return items(node, 0);
  }
  // The axis is another than the batch of the first input, or comes after it.
  int64_t from_batch(int64_t axis, const Node& node) const {
    const ValueId id = node.inputs[0];
    return (axis < 0 ? axis + static_cast<int64_t>(rank(id)) : axis) -
           (kind(id) == ItemKind::Items ? static_cast<int64_t>(place(id).axis) : 0);
  }
  bool beside(int64_t axis, const Node& node) const { return from_batch(axis, node) != 0; }

  template <class T>
  bool keeps_items(const T&, const Node&) const {
    return false;
  }
  bool keeps_items(const Pointwise&, const Node& node) const { return all_aligned(node); }
  bool keeps_items(const PointwiseChain&, const Node& node) const { return all_aligned(node); }
  bool keeps_items(const Cast&, const Node&) const { return true; }
  bool keeps_items(const Conv&, const Node& node) const { return only_first(node); }
  bool keeps_items(const ConvTranspose&, const Node& node) const { return only_first(node); }
  bool keeps_items(const Pool&, const Node& node) const {
    // Indices count from the start of the whole batch.
    return only_first(node) && (node.outputs.size() == 1 || node.outputs[1] == kNoValue);
  }
  bool keeps_items(const BatchNorm&, const Node& node) const { return only_first(node); }
  bool keeps_items(const GroupNorm&, const Node& node) const { return only_first(node); }
  bool keeps_items(const Lrn&, const Node&) const { return true; }
  bool keeps_items(const DepthToSpace&, const Node&) const { return true; }
  bool keeps_items(const MatMul& op, const Node& node) const {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    if (rank(a) < 2 || rank(b) < 2) return false;
    // Rows of the left operand are items as well, as long as they are rows of the result.
    if (items(node, 0) && !items(node, 1) && !op.transpose_a && place(a).axis + 2 == rank(a))
      return place(node.outputs[0]) == Place{rank(node.outputs[0]) - 2, place(a).factor};
    // Neither the rows, the columns nor what is summed over.
    return place(node.outputs[0]).axis + 2 < rank(node.outputs[0]) && all_aligned(node);
  }
  bool keeps_items(const Attention&, const Node& node) const {
    return items(node, 0) && items(node, 1) && items(node, 2) && all_aligned(node, 3);
  }
  bool keeps_items(const Rotary&, const Node& node) const {
    for (size_t i = Rotary::kOperands; i < node.op_input_count(); ++i)
      if (!items(node, i) || rank(node.inputs[i]) != rank(node.outputs[0]) || rank(node.inputs[i]) < 2)
        return false;
    return aligned(node.inputs[0], node.outputs[0]) && aligned(node.inputs[1], node.outputs[0]);
  }
  bool keeps_items(const Reduce& op, const Node& node) const {
    return op.axes && !op.axes->empty() && only_first(node) &&
           std::all_of(op.axes->begin(), op.axes->end(), [&](int64_t axis) { return beside(axis, node); });
  }
  bool keeps_items(const ArgReduce& op, const Node& node) const { return beside(op.axis, node); }
  bool keeps_items(const Softmax& op, const Node& node) const { return beside(op.axis, node); }
  bool keeps_items(const LayerNorm& op, const Node& node) const {
    return from_batch(op.axis, node) > 0 && only_first(node);
  }
  // Elements in order, as many per item before as after, and as many times all items.
  bool keeps_items(const ReshapeOp& op, const Node& node) const {
    const auto times = [&](ValueId id) {
      Dim product = 1;
      for (size_t i = 0; i < place(id).axis; ++i) product = product * shape(id)[i];
      return product;
    };
    return op.shape && only_first(node) && times(node.inputs[0]) == times(node.outputs[0]);
  }
  bool keeps_items(const Transpose&, const Node&) const { return true; }
  bool keeps_items(const Concat& op, const Node& node) const {
    for (size_t i = 0; i < node.op_input_count(); ++i)
      if (!items(node, i)) return false;
    return beside(op.axis, node);
  }
  bool keeps_items(const Split& op, const Node& node) const { return beside(op.axis, node); }
  bool keeps_items(const Slice& op, const Node& node) const {
    return op.starts && !op.axes.empty() &&
           std::all_of(op.axes.begin(), op.axes.end(), [&](int64_t axis) { return beside(axis, node); });
  }
  // The shape asked for has the batch, or one, where the result has the batch: another symbol may stand for
  // as many, but not for a part.
  bool keeps_items(const Expand& op, const Node& node) const {
    if (!op.shape || !all_aligned(node)) return false;
    const Shape& result = shape(node.outputs[0]);
    const size_t axis = place(node.outputs[0]).axis, missing = result.size() - op.shape->size();
    if (axis < missing) return true;
    const Dim& asked = (*op.shape)[axis - missing];
    return asked == result[axis] || asked.is_constant(1);
  }
  bool keeps_items(const Pad& op, const Node& node) const {
    return op.pads && only_first(node) && (*op.pads)[0].is_constant(0) &&
           (*op.pads)[op.pads->size() / 2].is_constant(0) && op.pads->size() == 2 * rank(node.inputs[0]);
  }
  bool keeps_items(const Gather& op, const Node& node) const {
    if (items(node, 0)) return !items(node, 1) && beside(op.axis, node);
    return !beside(op.axis, node);  // a table of rows, looked up for each item
  }
  bool keeps_items(const QuantizeLinear& op, const Node& node) const {
    return only_first(node) && beside(op.axis, node);
  }
  bool keeps_items(const DequantizeLinear& op, const Node& node) const {
    return only_first(node) && beside(op.axis, node);
  }

  const Graph& graph_;
  const std::string symbol_;
  std::vector<ItemKind> kinds_;  // by value
  std::string reason_;           // the first operator that mixes
};

bool finds_a_size(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    if (id == kNoValue) return false;
    const Shape& shape = graph.value(id).shape;
    return std::any_of(shape.begin(), shape.end(),
                       [](const Dim& dim) { return !dim.data_dependent_names().empty(); });
  });
}

}  // namespace

BatchItems find_batch_items(const Graph& graph) {
  for (const ValueId id : graph.inputs())
    if (graph.value(id).contents) return {.symbol = {}, .reason = "an input decides shapes", .batch = {}};
  if (graph.outputs().empty() || graph.value(graph.outputs()[0]).shape.empty())
    return {.symbol = {}, .reason = "the first output is no batch", .batch = {}};
  // A split batch has one plan for all parts; a size that each part finds for itself would need plans of its
  // own.
  for (const NodeId id : graph.order())
    if (finds_a_size(graph, graph.node(id)))
      return {.symbol = {}, .reason = "'" + graph.node(id).name + "' finds a size when it runs", .batch = {}};
  const auto symbol = graph.value(graph.outputs()[0]).shape[0].as_symbol();
  const std::vector<std::string> symbols = graph.symbols();
  if (!symbol || std::find(symbols.begin(), symbols.end(), *symbol) == symbols.end())
    return {.symbol = {},
            .reason = "the first dim of the first output is no dynamic dim of an input",
            .batch = {}};
  return Finder(graph, *symbol).run();
}

}  // namespace lathe
