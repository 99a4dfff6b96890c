// SPDX-License-Identifier: Apache-2.0
//
// Names are TensorRT's: "Reformatting CopyNode for Input Tensor 0 to X" gives "Reformatted Input Tensor 0 to
// X". A value that several layers want in one other format is turned once, before the first of them.
#include "tune/insert_reformats.h"

#include <algorithm>
#include <map>

#include "ir/edit.h"
#include "ir/symbol_extents.h"
#include "ir/verify.h"
#include "memory/views.h"
#include "tune/pbqp.h"
#include "tune/signature.h"

namespace lathe {
namespace {

bool is_data(const Graph& graph, ValueId id) {
  return id != kNoValue && !graph.value(id).is_constant();
}

class Inserter {
 public:
  Inserter(const Graph& graph, const std::vector<LayerState>& chosen, ReformatCosts& reformats,
           const SymbolRanges& ranges, Observer& observer)
      : original_(graph), reformats_(reformats), ranges_(ranges), observer_(observer) {
    result_.graph = graph;
    for (size_t i = 0; i < chosen.size(); ++i) choices_[graph.order()[i]] = {chosen[i].tactic, chosen[i].ms};
  }

  TunedGraph run(bool in_body) {
    set_types();
    const std::vector<NodeId> layers = graph().order();
    for (const NodeId id : layers) reformat_inputs(id);
    reformat_outputs();
    if (!in_body) copy_where_views_fail();
    finish();
    return std::move(result_);
  }

 private:
  const Graph& graph() const { return result_.graph; }
  TensorType type_of(ValueId id) const { return {graph().value(id).dtype, graph().value(id).format}; }
  // The value of the graph before us that holds the same elements: the costs are asked by it.
  ValueId origin(ValueId id) const {
    const auto it = origin_.find(id);
    return it == origin_.end() ? id : it->second;
  }

  void set_types() {
    for (const auto& [id, choice] : choices_) {
      const std::vector<ValueId>& outputs = graph().node(id).outputs;
      for (size_t k = 0; k < outputs.size(); ++k)
        if (outputs[k] != kNoValue)
          editor_.set_type(outputs[k], choice.tactic.outputs[k].dtype, choice.tactic.outputs[k].format);
    }
  }

  // Appends a Reformat (or copy) of `from` before `before`, and its choice.
  ValueId add_reformat(ValueId from, const TensorType& to, const std::string& node_name,
                       const std::string& value_name, NodeId before) {
    const TensorType type = type_of(from);
    const ReformatCosts::Answer& answer =
        type == to ? reformats_.find_copy(origin(from), to) : reformats_.find(origin(from), type, to);
    if (!answer.tactic)
      throw_input_error("the backend cannot turn '" + graph().value(from).name + "' from " + to_string(type) +
                        " into " + to_string(to) + " (needed as " + value_name + ")");
    const Shape shape = graph().value(from).shape;
    const NodeId id = editor_.add_node(node_name, Reformat{}, {from},
                                       {{.name = value_name,
                                         .dtype = to.dtype,
                                         .shape = shape,
                                         .format = to.format,
                                         .quantization = graph().value(from).quantization}},
                                       {}, before);
    choices_[id] = {*answer.tactic, answer.ms};
    const ValueId result = graph().node(id).outputs[0];
    origin_[result] = origin(from);
    return result;
  }

  void announce(ValueId from, ValueId to) {
    const SymbolValues opt = LayerQuery{graph(), kNoNode, ranges_}.opt_values();
    const Extents extents = bounded_extents(graph().value(from).shape, opt, ranges_);
    observer_.on(ReformatAdded{graph().value(to).name + " (" + graph().value(from).name + ")",
                               describe_operand(type_of(from), extents),
                               describe_operand(type_of(to), extents)});
  }

  void reformat_inputs(NodeId id) {
    const std::vector<ValueId> inputs = graph().node(id).inputs;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!is_data(graph(), inputs[k])) continue;
      const TensorType& wanted = choices_.at(id).tactic.inputs[k];
      if (type_of(inputs[k]) == wanted) continue;
      const auto [known, is_new] = reformatted_.try_emplace({inputs[k], to_string(wanted)}, kNoValue);
      if (is_new) {
        const std::string suffix = "Input Tensor " + std::to_string(k) + " to " + graph().node(id).name;
        known->second = add_reformat(inputs[k], wanted, "Reformatting CopyNode for " + suffix,
                                     "Reformatted " + suffix, id);
        announce(inputs[k], known->second);
      }
      editor_.replace_input(id, k, known->second);
    }
  }

  // A graph output has its own type and format. The new node gives the value with the output's name.
  void reformat_outputs() {
    for (size_t k = 0; k < graph().outputs().size(); ++k) {
      const ValueId v = graph().outputs()[k];
      const TensorType wanted{original_.value(v).dtype, original_.value(v).format};
      if (!is_data(graph(), v) || graph().value(v).producer == kNoNode || type_of(v) == wanted) continue;
      const NodeId writer = graph().value(v).producer;
      const auto& outputs = graph().node(writer).outputs;
      const auto index = std::find(outputs.begin(), outputs.end(), v) - outputs.begin();
      const std::string suffix =
          "Output Tensor " + std::to_string(index) + " to " + graph().node(writer).name;
      replace_output(k, wanted, "Reformatting CopyNode for " + suffix, "Reformatted " + suffix);
    }
  }

  // The output's name goes to the new value; the old one is called `inner`, or keeps a name that others know
  // (an input, another output of the same value).
  void replace_output(size_t k, const TensorType& wanted, const std::string& node_name,
                      const std::string& inner) {
    const ValueId v = graph().outputs()[k];
    const std::string name = graph().value(v).name;
    const bool keeps_name = graph().value(v).producer == kNoNode ||
                            std::count(graph().outputs().begin(), graph().outputs().end(), v) > 1;
    if (!keeps_name) editor_.rename_value(v, inner);
    const ValueId copy = add_reformat(v, wanted, node_name, keeps_name ? name + " copy" : name, kNoNode);
    editor_.replace_output(k, copy);
    announce(v, copy);
  }

  std::vector<Choice> choices_in_order() const {
    std::vector<Choice> result;
    for (const NodeId id : graph().order()) result.push_back(choices_.at(id));
    return result;
  }

  void copy_where_views_fail() {
    // Every round settles what it found; a copy can uncover a conflict behind it, so a few rounds.
    for (int round = 0; round < 8; ++round) {
      const ViewAnalysis analysis = analyze_views(graph(), choices_in_order());
      if (analysis.conflicts.empty()) return;
      for (const ViewConflict& c : analysis.conflicts) settle(c);
    }
    check(false, "copies do not settle the conflicts between views");
  }

  void settle(const ViewConflict& conflict) {
    if (conflict.kind == ViewConflict::Kind::Output) {
      const ValueId v = graph().outputs()[conflict.index];
      const std::string name = graph().value(v).name;
      const TensorType type =
          is_data(graph(), v) ? type_of(v) : TensorType{graph().value(v).constant.dtype(), kLinear};
      replace_output(conflict.index, type, "Copy of Output Tensor " + name, name + " before copy");
      return;
    }
    const ValueId v = graph().node(conflict.node).inputs[conflict.index];
    const std::string suffix =
        "Input Tensor " + std::to_string(conflict.index) + " to " + graph().node(conflict.node).name;
    const ValueId copy = add_reformat(v, type_of(v), "Copy of " + suffix, "Copied " + suffix, conflict.node);
    editor_.replace_input(conflict.node, conflict.index, copy);
    announce(v, copy);
  }

  void finish() {
    result_.choices = choices_in_order();
    editor_.compact();  // keeps the order
    verify_structure(graph());
    verify_choices(graph(), result_.choices);
    for (const Choice& c : result_.choices) result_.layers_ms += c.time_ms;
  }

  const Graph& original_;
  ReformatCosts& reformats_;
  const SymbolRanges& ranges_;
  Observer& observer_;
  TunedGraph result_;
  GraphEditor editor_{result_.graph};
  std::map<NodeId, Choice> choices_;
  std::map<ValueId, ValueId> origin_;
  std::map<std::pair<ValueId, std::string>, ValueId> reformatted_;  // by value and wanted type
};

}  // namespace

TunedGraph insert_reformats(const Graph& graph, const std::vector<LayerState>& chosen,
                            ReformatCosts& reformats, const SymbolRanges& ranges, Observer& observer,
                            bool in_body) {
  return Inserter(graph, chosen, reformats, ranges, observer).run(in_body);
}

void verify_choices(const Graph& graph, const std::vector<Choice>& choices) {
  check(choices.size() == graph.order().size(), "one choice per layer expected");
  for (size_t i = 0; i < choices.size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    const auto agree = [&](const std::vector<ValueId>& values, const std::vector<TensorType>& types) {
      check(values.size() == types.size(), "layer '" + node.name + "': a tactic types every operand");
      for (size_t k = 0; k < values.size(); ++k) {
        if (!is_data(graph, values[k])) continue;
        const Value& v = graph.value(values[k]);
        check(types[k] == TensorType{v.dtype, v.format}, "layer '" + node.name + "' expects '" + v.name +
                                                             "' as " + to_string(types[k]) + ", but it is " +
                                                             to_string(TensorType{v.dtype, v.format}));
      }
    };
    agree(node.inputs, choices[i].tactic.inputs);
    agree(node.outputs, choices[i].tactic.outputs);
  }
}

}  // namespace lathe
