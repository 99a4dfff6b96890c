// SPDX-License-Identifier: Apache-2.0
//
// One ONNX node while it is imported: its inputs as values of the graph, its attributes, and the means to add
// core nodes. An importer is a function from this to the values of the node's outputs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "onnx/graph_builder.h"
#include "onnx/import_log.h"
#include "onnx/model.h"

namespace lathe::onnx {

inline constexpr int64_t kLatestOpset = 28;
inline constexpr int64_t kLatestIr = 14;
inline constexpr std::string_view kMicrosoftDomain = "com.microsoft";  // what ONNX Runtime's tools write
inline constexpr std::string_view kMlDomain = "ai.onnx.ml";
inline constexpr std::string_view kPreviewDomain = "ai.onnx.preview";  // may change

// Attributes of the call of a function, for the nodes in its body that refer to them.
using AttributeMap = std::map<std::string_view, const AttributeProto*>;

class NodeImport {
 public:
  struct Setup {
    const NodeProto& proto;
    std::string name;   // of the layer
    int64_t opset = 0;  // of the node's domain
    Values inputs;      // kNoValue: absent
    const AttributeMap* function_attributes = nullptr;
    TensorSource& tensors;
    GraphBuilder& builder;
    ImportLog* log = nullptr;  // null: nobody reads notes
  };
  explicit NodeImport(Setup setup);

  const std::string& name() const { return setup_.name; }
  std::string_view op_type() const { return setup_.proto.op_type; }
  const Origin& origin() const { return origins_.front(); }  // what its layers implement
  int64_t opset() const { return setup_.opset; }

  // --- inputs and outputs
  size_t input_count() const { return setup_.inputs.size(); }
  size_t output_count() const { return setup_.proto.outputs.size(); }
  bool wants_output(size_t i) const { return i < output_count() && !setup_.proto.outputs[i].empty(); }
  bool has(size_t i) const { return i < input_count() && setup_.inputs[i] != kNoValue; }
  ValueId in(size_t i) const;  // throws when absent
  ValueId in_or_none(size_t i) const { return has(i) ? setup_.inputs[i] : kNoValue; }
  const Values& inputs() const { return setup_.inputs; }
  const Value& value(size_t i) const { return builder().value(in(i)); }
  const Value& value_of(ValueId id) const { return builder().value(id); }
  Shape shape(size_t i) const { return value(i).shape; }
  Shape shape_of(ValueId id) const { return value_of(id).shape; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  DType dtype(size_t i) const { return value(i).dtype; }
  DType dtype_of(ValueId id) const { return value_of(id).dtype; }

  // --- what is known of an input before anything runs
  // (By value, like shapes above: adding a node moves the graph's values.)
  Tensor constant(size_t i) const { return has(i) ? value(i).constant : Tensor(); }
  // Elements as dims: from a constant integer tensor or a shape computation.
  std::optional<Shape> contents(size_t i) const;
  // Elements of an integer constant (all dims constant).
  std::optional<Ints> known_ints(size_t i) const;
  // An axes-like list: attribute `attribute`, else constant input i; nullopt when neither is there. Throws
  // unsupported when the input is not known.
  std::optional<Ints> ints_or_input(std::string_view attribute, size_t i) const;

  // --- attributes
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  int64_t required_integer(std::string_view name) const;
  float real(std::string_view name, float otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::optional<Ints> ints(std::string_view name) const;
  std::optional<std::vector<float>> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;  // empty when absent
  std::optional<Tensor> tensor(std::string_view name) const;
  // A tensor of strings, as load_strings() makes it; nothing where there is none, or one of another type.
  std::optional<Tensor> string_tensor(std::string_view name) const;
  std::optional<Tensor> sparse_tensor(std::string_view name) const;  // written out
  const GraphProto* graph(std::string_view name) const;
  // An attribute that holds an ONNX element type.
  DType element_type(std::string_view name, DType otherwise) const;
  const AttributeProto* find(std::string_view name) const;

  // --- building. `suffix` names further layers of the same node: "name/suffix".
  ValueId add(Op op, Values inputs, std::string_view suffix = {});
  Values add_multi(Op op, Values inputs, size_t outputs, std::string_view suffix = {});
  ValueId constant(Tensor tensor, std::string_view suffix = "constant");
  ValueId ints_constant(const Ints& values);
  ValueId scalar(double value, DType dtype);
  ValueId dim_scalar(const Dim& dim);  // int64 scalar
  ValueId pointwise(PointwiseCode code, Values inputs, float alpha = 0, float beta = 0,
                    std::string_view suffix = {});
  ValueId pointwise(PointwiseCode code, Values inputs, std::string_view suffix) {
    return pointwise(code, std::move(inputs), 0, 0, suffix);
  }
  ValueId cast(ValueId v, DType to, std::string_view suffix = "cast");
  ValueId reshape(ValueId v, Shape shape, std::string_view suffix = "reshape");
  ValueId transpose(ValueId v, Ints perm, std::string_view suffix = "transpose");
  ValueId reduce(ReduceKind kind, ValueId v, Ints axes, bool keepdims, std::string_view suffix = "reduce");
  ValueId slice(ValueId v, int64_t axis, const Dim& start, const Dim& end, std::string_view suffix = "slice");
  ValueId expand(ValueId v, Shape shape, std::string_view suffix = "expand");

  // The same node, read as an operator of another opset with other inputs.
  NodeImport with(int64_t opset, Values inputs) const;

  GraphBuilder& builder() const { return setup_.builder; }
  // A line of the log about this node: what was chosen for it.
  void note(const std::string& text) const;
  // The input is wrong: names the node, its operator and inputs.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const AttributeProto& typed(const AttributeProto& a, AttributeProto::Type type) const;

  Setup setup_;
  std::vector<Origin> origins_;
};

using ImportFunction = Values (*)(NodeImport& node);

struct Importer {
  std::string_view op_type;
  int64_t since = 1, until = kLatestOpset;
  ImportFunction import = nullptr;
  std::string_view domain = {};  // empty: ONNX's own
  bool takes_strings = false;    // others are never asked about nodes that read strings (strings.h)
};

inline ValueId binary(NodeImport& node, PointwiseCode code, ValueId a, ValueId b, std::string_view suffix) {
  return node.pointwise(code, {a, b}, suffix);
}

}  // namespace lathe::onnx
