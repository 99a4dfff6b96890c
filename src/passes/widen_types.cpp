// SPDX-License-Identifier: Apache-2.0
//
// Types that the device has no kernels for (float16 on every CPU): the whole graph computes in FP32 between
// casts at its inputs and outputs, which keep their types.
//
//   input %x: float16, const %w: float16            input %x: float16, const %w_: float32
//   %y: float16 = Conv(%x, %w)                 ->   %a: float32 = Cast(%x)     %b: float32 = Conv(%a, %w_)
//   output %y                                       %y: float16 = Cast(%b)     output %y
//
// FP32 holds every float16 and bfloat16 number, so constants are the same numbers, and what a layer computes
// is rounded less often than the model asks for. Casts inside of the model then lead from FP32 to FP32 and
// vanish.
//
// A state that a model takes, joins with what is new and gives back (keys and values of the tokens so far)
// is joined as it is stored: only what is new is narrowed, as the model does, and what reads the whole widens
// it.
//
// Must not fire when such a type is only moved, cast or looked up: movement has kernels for elements of any
// size.
#include <algorithm>
#include <map>
#include <set>

#include "ops/build.h"
#include "ops/make_constants.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

template <class... Ops>
bool is_any_of(const Op& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}

bool only_moves(const Op& op) {
  return is_any_of<Cast, ReshapeOp, Transpose, Concat, Split, Slice, Expand, Tile, Pad, Gather,
                   GatherElements, GatherND, DepthToSpace, ShapeOf, ShapeTensor, Fill>(op);
}

bool has_type(const Graph& graph, const std::vector<ValueId>& values, DType type) {
  return std::any_of(values.begin(), values.end(),
                     [&](ValueId v) { return v != kNoValue && graph.value(v).dtype == type; });
}

class Widening {
 public:
  Widening(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), editor_(graph), widened_(context.widened_types) {}

  void run() {
    std::map<ValueId, DType> types;  // of the outputs, as the model has them
    for (const ValueId output : graph_.outputs()) types[output] = graph_.value(output).dtype;
    for (const NodeId id : graph_.order())
      if (joins_state(id)) states_.insert(id);
    for (const ValueId input : graph_.inputs()) widen_input(input);
    for (const NodeId id : std::vector<NodeId>(graph_.order())) widen_node(id);
    infer_shapes(graph_);
    for (const auto& [output, type] : types)
      if (graph_.value(output).dtype != type) narrow_output(output, type);
  }

 private:
  bool is_narrow(DType type) const {
    return std::find(widened_.begin(), widened_.end(), type) != widened_.end();
  }

  void widen_input(ValueId input) {
    std::vector<NodeId> users = graph_.users(input);
    std::erase_if(users, [&](NodeId user) { return states_.contains(user); });
    if (!is_narrow(graph_.value(input).dtype) || users.empty()) return;
    widen_for(input, users);
  }

  void widen_for(ValueId value, const std::vector<NodeId>& users) {
    const std::string name = graph_.value(value).name;
    const ValueId wide = append_node(editor_, "widen " + name, Cast{DType::Float32}, {value}, {},
                                     {name + "_widened"}, 1, users[0])[0];
    borders_.push_back(graph_.value(wide).producer);
    for (const NodeId user : users) replace_operand(user, value, wide);
  }

  // A join of an input and of what is new, which is an output.
  bool joins_state(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto is_input = [&](ValueId v) {
      return std::count(graph_.inputs().begin(), graph_.inputs().end(), v) > 0;
    };
    return std::holds_alternative<Concat>(node.op) && graph_.is_output(node.outputs[0]) &&
           is_narrow(graph_.value(node.outputs[0]).dtype) &&
           std::any_of(node.inputs.begin(), node.inputs.end(), is_input);
  }

  void join_as_stored(NodeId id) {
    const ValueId state = graph_.node(id).outputs[0];
    const DType type = graph_.value(state).dtype;
    for (const ValueId input : std::vector<ValueId>(graph_.node(id).inputs)) {
      const std::string part = graph_.value(input).name;
      if (graph_.value(input).dtype != type)
        replace_operand(
            id, input,
            append_node(editor_, "narrow " + part, Cast{type}, {input}, {}, {part + "_narrowed"}, 1, id)[0]);
    }
    const std::vector<NodeId> users = graph_.users(state);
    if (!users.empty()) widen_for(state, users);
  }

  void replace_operand(NodeId user, ValueId from, ValueId to) {
    std::vector<ValueId> inputs = graph_.node(user).inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
    editor_.set_inputs(user, std::move(inputs));
  }

  void widen_node(NodeId id) {
    if (std::find(borders_.begin(), borders_.end(), id) != borders_.end()) return;
    if (states_.contains(id)) return join_as_stored(id);
    for (const ValueId input : graph_.node(id).inputs)
      if (input != kNoValue && graph_.value(input).is_constant() && is_narrow(graph_.value(input).dtype))
        widen_constant(input);
    Op op = graph_.node(id).op;
    const auto widen = [&]<class F>(std::string_view, F& field) {
      if constexpr (std::is_same_v<F, DType>)
        if (is_narrow(field)) field = DType::Float32;
      if constexpr (std::is_same_v<F, Body>) field = widened_body(field);
    };
    std::visit([&]<class T>(T& fields) { T::visit(fields, widen); }, op);
    editor_.set_op(id, std::move(op));
    for (const ValueId output : graph_.node(id).outputs)
      if (output != kNoValue && is_narrow(graph_.value(output).dtype))
        editor_.set_type(output, DType::Float32, graph_.value(output).format);
  }

  // A body takes and gives FP32 where it took and gave the narrow type, as the graph around it does now.
  Body widened_body(const Body& body) {
    Graph inner = body.graph();
    Widening widening(inner, context_);
    for (const ValueId input : inner.inputs())
      if (is_narrow(inner.value(input).dtype)) widening.editor_.set_type(input, DType::Float32, kLinear);
    for (const NodeId id : std::vector<NodeId>(inner.order())) widening.widen_node(id);
    infer_shapes(inner);
    return Body(std::move(inner));
  }

  // In place, or a copy where the narrow constant is an output of the graph.
  void widen_constant(ValueId id) {
    const Value value = graph_.value(id);
    Tensor wide = evaluate_constant(Cast{DType::Float32}, {value.constant}, DType::Float32, &context_.pool);
    if (!graph_.is_output(id)) return editor_.set_constant(id, std::move(wide));
    const ValueId copy = editor_.add_constant(value.name + "_widened", std::move(wide));
    for (const NodeId user : graph_.users(id)) replace_operand(user, id, copy);
  }

  // The cast takes the output's name; other readers stay with the wide value.
  void narrow_output(ValueId output, DType type) {
    const std::string name = graph_.value(output).name;
    const ValueId narrow =
        append_node(editor_, "narrow " + name, Cast{type}, {output}, {}, {name + "_narrowed"})[0];
    for (size_t i = 0; i < graph_.outputs().size(); ++i)
      if (graph_.outputs()[i] == output) editor_.replace_output(i, narrow);
    editor_.rename_value(output, name + "_wide");
    editor_.rename_value(narrow, name);
  }

  Graph& graph_;
  PassContext& context_;
  GraphEditor editor_;
  const std::vector<DType>& widened_;
  std::vector<NodeId> borders_;  // the casts behind inputs and states
  std::set<NodeId> states_;      // what joins them
};

}  // namespace

bool computes_in(const Graph& graph, DType type) {
  return std::any_of(graph.order().begin(), graph.order().end(), [&](NodeId id) {
    const Node& node = graph.node(id);
    for (const Body& body : bodies_of(node.op))
      if (computes_in(body.graph(), type)) return true;
    return !only_moves(node.op) &&
           (has_type(graph, node.inputs, type) || has_type(graph, node.outputs, type));
  });
}

bool widen_types(Graph& graph, PassContext& context) {
  const auto& types = context.widened_types;
  const bool needed =
      std::any_of(types.begin(), types.end(), [&](DType type) { return computes_in(graph, type); });
  if (!needed || !context.may_change()) return false;
  Widening(graph, context).run();
  return true;
}

}  // namespace lathe
