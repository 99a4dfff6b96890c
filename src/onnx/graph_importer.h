// SPDX-License-Identifier: Apache-2.0
//
// Walks the nodes of a model, its functions and its branches, and asks the importers. Internal to onnx/;
// import.h is for callers.
#pragma once

#include <set>
#include <string>
#include <variant>

#include "base/observer.h"
#include "onnx/bodies.h"
#include "onnx/import.h"
#include "onnx/import_log.h"
#include "onnx/import_node.h"
#include "onnx/model.h"
#include "onnx/sequences.h"

namespace lathe::onnx {

// The outputs of a node that is not supported: nodes that read them are skipped.
inline constexpr ValueId kPoison = -2;

// The names of a graph's outputs.
std::vector<std::string_view> output_names(const GraphProto& graph);

class GraphImporter {
 public:
  GraphImporter(const ModelProto& model, TensorSource& tensors, const ImportOptions& options, Graph& graph,
                Observer& observer)
      : model_(model), tensors_(tensors), options_(options), builder_(graph), log_(observer) {}

  // Fills the graph. Throws UnsupportedError that lists all nodes that cannot be imported, Input errors for
  // wrong models.
  void run();
  // The names of inputs and outputs that are strings.
  const std::set<std::string, std::less<>>& strings() const { return strings_; }

 private:
  // Names in sight while a list of nodes is imported: a graph, a branch or body (sees its parent's names) or
  // a function (does not).
  struct Scope {
    Scope* parent = nullptr;
    GraphBuilder* builder = nullptr;  // of the graph that the nodes become part of
    BodyBuilder* body = nullptr;      // that graph is this body: what it reads of its parent becomes an input
    std::string prefix;               // of layer and value names: "call/"
    std::map<std::string_view, ValueId> values;
    // Not yet constants of the graph.
    std::map<std::string_view, std::variant<const TensorProto*, const SparseTensorProto*>> initializers;
    const std::vector<OpsetId>* opsets = nullptr;
    const AttributeMap* attributes = nullptr;
    std::map<std::string, int, std::less<>> unnamed;  // running numbers of unnamed nodes, by operator
    int depth = 0;
  };

  void add_inputs(Scope& scope);
  // An input that is a tensor, and one of any type: a tensor, a list of them, or nothing.
  ValueId add_tensor_input(const std::string& name, const TypeProto& type);
  ValueId add_input(const std::string& name, const TypeProto& type);
  ValueId add_list_input(const std::string& name, const TypeProto& type);
  Shape input_shape(const std::string& name, const TypeProto& type);
  // What an output is that is a sequence; nothing for a tensor.
  using Forms = std::vector<std::optional<SequenceForm>>;
  // The sequence of an output has no room in the form that was asked for.
  struct SequenceDiffers {
    size_t output = 0;
    SequenceType type;
    size_t leading = 0;  // how many leading dims it has at least
  };
  // Outputs become values: a sequence 'y' of known length y_0, y_1, ..., slices of one tensor y
  // (sequence_slices.h), and others y and y.shapes (ragged_sequence.h). `wanted`: those that a body must
  // give in a form.
  Forms add_outputs(const std::vector<ValueInfo>& outputs, Scope& scope, const Origin& node,
                    const Forms& wanted = {});
  void add_output(const std::string& name, ValueId value, GraphBuilder& builder);
  // `outputs`: what the nodes are there for. Those that no output needs are left out, the others sorted.
  void import_nodes(const std::vector<NodeProto>& nodes, const std::vector<std::string_view>& outputs,
                    Scope& scope);
  void import_node(const NodeProto& node, const std::string& name, Scope& scope);
  // A node that reads what is not there is not imported, but its operator is looked at.
  void skip_node(const NodeProto& node, const std::string& name, Scope& scope);
  // Notes the node and those of its bodies whose operators nothing knows.
  void look_at_operators(const NodeProto& node, const std::string& name, const Scope& scope);
  Values import_by_operator(const NodeProto& node, Scope& scope, const std::string& name, Values inputs);
  Values import_function(const FunctionProto& function, const NodeProto& node, Scope& scope,
                         const std::string& name, const Values& inputs);
  Scope inner_scope(NodeImport& node, Scope& scope) const;
  // What an output of a graph or body stands for; throws where it is no value.
  ValueId body_result(std::string_view name, Scope& scope);
  Values import_inline(const GraphProto& graph, Scope& inner);
  Values import_if(NodeImport& node, Scope& scope);
  Values import_choice(NodeImport& node, Scope& scope);
  Values import_choice_of(NodeImport& node, Scope& scope, const Forms& wanted);
  Values import_loop(NodeImport& node, Scope& scope);
  Values import_repetition(NodeImport& node, Scope& scope);
  // Nothing where a body does more with a sequence than to append to it.
  std::optional<Values> import_appending_loop(NodeImport& node, Scope& scope);
  Values import_loop_of_sequences(NodeImport& node, Scope& scope);
  Values make_loop_of_sequences(NodeImport& node, Scope& scope);
  // The loop with its sequences in these forms (per output of its body).
  Values make_loop_of_forms(NodeImport& node, Scope& scope, const Forms& forms);
  // The form in which a loop carries a sequence, which may be empty.
  SequenceForm carried_form(NodeImport& node, Scope& scope, size_t carried);
  // What an iteration puts into an empty sequence, as it was found for these operands of the loop.
  struct FirstElement {
    std::vector<Shape> operands;
    SequenceType type;
    bool is_reused = false;
  };
  SequenceType type_of_first(NodeImport& node, Scope& scope, size_t carried);
  std::optional<Values> unroll_loop(NodeImport& node, const GraphProto& proto, Scope& scope);
  Values import_scan(NodeImport& node, Scope& scope);
  Values import_batched_scan(NodeImport& node, Scope& scope);
  Values import_flex_attention(NodeImport& node, Scope& scope);
  ValueId modify(std::string_view attribute, ValueId value, NodeImport& node, Scope& scope);
  Values import_sequence_map(NodeImport& node, Scope& scope);
  Values map_by_loop(NodeImport& node, const GraphProto& proto, Scope& scope);
  // `bound`: what the body's own inputs stand for in it.
  Forms import_body(const GraphProto& proto, NodeImport& node, Scope& scope, BodyBuilder& body,
                    const Values& bound, const Forms& wanted = {});
  void import_whole_body(const GraphProto& proto, NodeImport& node, Scope& scope, BodyBuilder& body);
  ValueId capture(ValueId outer, Scope& scope);
  // Whether importing the node imports graphs that it has, or leaves no node behind.
  static bool is_structure(const NodeProto& node);
  std::optional<Values> import_by_structure(NodeImport& node, Scope& scope);
  void bind_outputs(const NodeProto& node, Scope& scope, const Values& results, size_t first_new);
  void bind_poison(const NodeProto& node, Scope& scope);
  void add_initializers(const GraphProto& graph, Scope& scope);
  ValueId look_up(std::string_view name, Scope& scope);
  static bool in_sight(std::string_view name, const Scope& scope);
  const FunctionProto* find_function(const NodeProto& node) const;
  int64_t opset_of(const NodeProto& node, const Scope& scope) const;
  // Why nothing knows the operator of a node that is not a call; empty when it is known.
  std::string why_unknown(const NodeProto& node, const Scope& scope) const;
  void throw_problems() const;

  const ModelProto& model_;
  TensorSource& tensors_;
  const ImportOptions& options_;
  GraphBuilder builder_;
  std::vector<UnsupportedNode> problems_;
  int64_t nodes_seen_ = 0;
  ImportLog log_;
  Sequences sequences_;
  // By loop, for the next time that the body around it is imported; without, loops in loops would import
  // theirs as often as there are ways to import those around.
  std::map<std::string, ChangingDims, std::less<>> changing_dims_;
  std::map<std::string, FirstElement, std::less<>> first_elements_;  // "loop/carried value"
  // By loop and carried value, those whose tensors differ in shape; and by If, where its branches give
  // other forms.
  std::map<std::string, SequenceForm, std::less<>> ragged_forms_;
  std::map<std::string, Forms, std::less<>> choice_forms_;
  std::set<std::string, std::less<>> strings_;
};

}  // namespace lathe::onnx
