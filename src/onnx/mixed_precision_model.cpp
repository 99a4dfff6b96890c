// SPDX-License-Identifier: Apache-2.0
//
// A tensor keeps its name in the type of its producer. What others see by name (inputs and outputs of the
// network, and what bodies read) keeps it in its type of old, or with converted inputs and outputs in the
// narrow one; the other type has the name with a suffix.
#include "onnx/mixed_precision_model.h"

#include <algorithm>
#include <map>

#include "onnx/message_copy.h"
#include "onnx/narrow_operators.h"
#include "onnx/quantization_plan.h"
#include "onnx/raised_opset.h"

namespace lathe::onnx {
namespace {

constexpr uint32_t kInfoName = 1, kInfoType = 2, kTypeTensor = 1, kTensorTypeElement = 1;
constexpr int64_t kRaisedIr = 10;  // came with kRaisedOpset

// The types in which a tensor is needed.
struct Needs {
  bool wide = false, narrow = false;
};

class MixedPrecisionWriter {
 public:
  MixedPrecisionWriter(std::span<const std::byte> bytes, const ModelProto& model, TensorSource& tensors,
                       const MixedPrecisionPlan& plan)
      : bytes_(bytes),
        model_(model),
        graph_(model.graph),
        tensors_(tensors),
        plan_(plan),
        names_(model.graph) {
    constants_ = constant_tensors(graph_);
    raised_ = {opset_of(model), plan.opset};
    note_needs();
    choose_types();
  }

  MixedPrecisionModel run() {
    for (const auto& [name, needs] : needs_)
      if (constants_.contains(name)) add_constant(std::string(name), needs);
    write_model();
    return std::move(result_);
  }

 private:
  bool is_float(std::string_view name) const { return plan_.floats.contains(name); }

  // --- who needs what

  void note_needs() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeProto& node = graph_.nodes[i];
      for (size_t k = 0; k < node.inputs.size(); ++k)
        if (is_float(node.inputs[k]) && !is_alias(node) && !takes_any(node.inputs[k], node))
          (reads_narrow(plan_, node, i, k) ? needs_[node.inputs[k]].narrow : needs_[node.inputs[k]].wide) =
              true;
      for (const AttributeProto& a : node.attributes)
        if (a.g) note_body(*a.g);
    }
    for (const ValueInfo& output : graph_.outputs) {
      if (!is_float(output.name)) continue;
      const bool narrow = is_converted(output.name);
      (narrow ? needs_[output.name].narrow : needs_[output.name].wide) = true;
    }
  }

  // Identity of a constant: its readers read the constant.
  bool is_alias(const NodeProto& node) const {
    return node.op_type == "Identity" && !node.outputs.empty() && constants_.contains(node.outputs[0]);
  }

  // A reader for which no Cast is needed. Constants are not always there in both types.
  bool takes_any(std::string_view tensor, const NodeProto& node) const {
    return reads_any_type(node) && !constants_.contains(tensor);
  }

  void note_body(const GraphProto& body) {
    for (const NodeProto& node : body.nodes) {
      for (const std::string_view input : node.inputs)
        if (is_float(input)) needs_[input].wide = true, read_by_bodies_.insert(input);
      for (const AttributeProto& a : node.attributes)
        if (a.g) note_body(*a.g);
    }
    for (const ValueInfo& output : body.outputs)
      if (is_float(output.name)) needs_[output.name].wide = true, read_by_bodies_.insert(output.name);
  }

  // An input or output of the network that becomes narrow.
  bool is_converted(std::string_view name) const {
    return plan_.converts_io && !read_by_bodies_.contains(name) && !constants_.contains(name);
  }

  void choose_types() {
    std::set<std::string_view> seen;  // from outside
    for (const auto* infos : {&graph_.inputs, &graph_.outputs})
      for (const ValueInfo& info : *infos) seen.insert(info.name);
    const auto note = [&](std::string_view name, bool produced_narrow) {
      produced_narrow_[name] = produced_narrow;
      const bool by_name = seen.contains(name) || read_by_bodies_.contains(name);
      narrow_has_name_[name] = by_name ? is_converted(name) : produced_narrow;
    };
    for (const ValueInfo& input : graph_.inputs)
      if (is_float(input.name)) note(input.name, is_converted(input.name));
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      for (size_t k = 0; k < graph_.nodes[i].outputs.size(); ++k)
        if (const std::string_view name = graph_.nodes[i].outputs[k]; is_float(name))
          note(name, gives_narrow(plan_, graph_.nodes[i], i, k));
  }

  bool is_produced_narrow(std::string_view tensor) const {
    const auto produced = produced_narrow_.find(tensor);
    return produced != produced_narrow_.end() && produced->second;
  }

  // --- names

  std::string name_of(std::string_view tensor, bool narrow) {
    const auto owner = narrow_has_name_.find(tensor);
    const bool owner_is_narrow = owner != narrow_has_name_.end() && owner->second;
    if (owner_is_narrow == narrow) return std::string(tensor);
    std::string& name = other_names_[std::string(tensor)];
    if (name.empty())
      name = names_.unique(std::string(tensor) + "_" +
                           std::string(dtype_name(narrow ? plan_.narrow : DType::Float32)));
    return name;
  }

  // --- constants

  // A narrow one keeps its name where nobody reads the other.
  void add_constant(const std::string& name, Needs needs) {
    if (needs.wide) result_.constant_bytes += 4 * element_count(constants_.find(name)->second->dims);
    result_.constant_bytes_before += 4 * element_count(constants_.find(name)->second->dims);
    if (!needs.narrow) return;
    const Tensor wide = tensors_.load(*constants_.find(name)->second);
    const Tensor narrow = Tensor::from_doubles(plan_.narrow, wide.extents(), wide.to_doubles());
    result_.constant_bytes += static_cast<int64_t>(narrow.bytes().size());
    narrow_has_name_[constants_.find(name)->first] = !needs.wide && is_plain_initializer(name);
    put_bytes(initializers_, kGraphInitializer, tensor_bytes(name_of(name, true), narrow));
  }

  bool is_plain_initializer(std::string_view name) const {
    const auto is = [&](const auto& item) { return item.name == name; };
    return std::any_of(graph_.initializers.begin(), graph_.initializers.end(), is) &&
           std::none_of(graph_.inputs.begin(), graph_.inputs.end(), is) &&
           std::none_of(graph_.outputs.begin(), graph_.outputs.end(), is);
  }

  void copy_initializer(const TensorProto& tensor, std::string_view message, std::string& out) {
    const auto owner = narrow_has_name_.find(tensor.name);
    if (owner != narrow_has_name_.end() && owner->second) return;  // the narrow one stands in its place
    const bool is_input = std::any_of(graph_.inputs.begin(), graph_.inputs.end(),
                                      [&](const ValueInfo& input) { return input.name == tensor.name; });
    const auto needs = needs_.find(tensor.name);
    if (is_float(tensor.name) && !is_input && needs != needs_.end() && !needs->second.wide &&
        !is_aliased(tensor.name))
      return;
    if (!tensor.external) return put_bytes(out, kGraphInitializer, message);
    put_bytes(out, kGraphInitializer, tensor_bytes(std::string(tensor.name), tensors_.load(tensor)));
  }

  bool is_aliased(std::string_view name) const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const NodeProto& node) {
      return is_alias(node) && is_read(node) && node.inputs[0] == name;
    });
  }

  // A Constant, or an Identity of one, whose float32 value nobody reads is left out.
  bool is_read(const NodeProto& node) const {
    const bool makes_constant = node.op_type == "Constant" || is_alias(node);
    if (!makes_constant || node.outputs.empty() || !is_float(node.outputs[0])) return true;
    const auto needs = needs_.find(node.outputs[0]);
    return needs == needs_.end() || needs->second.wide;
  }

  // --- the message

  void write_model() {
    const WireLocation where{.field = "model", .file_begin = bytes_.data()};
    WireReader reader(bytes_, where);
    std::string& out = result_.bytes;
    put_int(out, kModelIrVersion,
            std::max({model_.ir_version, kFirstIr, raised_.is_raised() ? kRaisedIr : 0}));
    put_bytes(out, kModelProducer, "lathe autocast");
    size_t opset = 0;
    while (reader.next()) {
      if (reader.field() == kModelGraph) {
        const std::string graph = graph_bytes(reader.bytes());
        if (static_cast<int64_t>(graph.size()) > kMostBytes)
          throw_input_error("the model would have more than 2 GiB in one file");
        put_bytes(out, kModelGraph, graph);
      } else if (reader.field() == kModelOpset) {
        const auto message = text_of(reader.bytes());
        const std::string_view domain = model_.opsets[opset++].domain;
        put_bytes(out, kModelOpset, is_onnx_domain(domain) ? opset_bytes(domain, plan_.opset) : message);
      } else if (reader.field() == kModelIrVersion || reader.field() == kModelProducer ||
                 reader.field() == kModelProducerVersion) {
        reader.skip();
      } else {
        copy_field(reader, out);
      }
    }
  }

  std::string graph_bytes(std::span<const std::byte> bytes) {
    const WireLocation where{.field = "graph", .file_begin = bytes_.data()};
    WireReader reader(bytes, where);
    std::string nodes, rest;
    for (const ValueInfo& input : graph_.inputs) add_cast(input.name, nodes);
    for (const SparseTensorProto& tensor : graph_.sparse_initializers) add_cast(tensor.values.name, nodes);
    size_t node = 0, initializer = 0;
    while (reader.next()) {
      const uint32_t field = reader.field();
      if (field == kGraphNode) {
        const auto message = reader.bytes();
        const NodeProto& proto = graph_.nodes[node];
        if (is_read(proto)) put_bytes(nodes, kGraphNode, changed_node(node, message));
        for (const std::string_view output : proto.outputs) add_cast(output, nodes);
        ++node;
      } else if (field == kGraphInitializer) {
        copy_initializer(graph_.initializers[initializer++], text_of(reader.bytes()), rest);
      } else if (field == kGraphInput || field == kGraphOutput || field == kGraphValueInfo) {
        put_bytes(rest, field, changed_info(reader.bytes()));
      } else {
        copy_field(reader, rest);
      }
    }
    return nodes + initializers_ + rest;
  }

  // The Cast behind a tensor's producer, where somebody needs the other type.
  void add_cast(std::string_view tensor, std::string& nodes) {
    const bool narrow = is_produced_narrow(tensor);
    if (!is_float(tensor) || constants_.contains(tensor)) return;
    const auto needs = needs_.find(tensor);
    if (needs == needs_.end() || !(narrow ? needs->second.wide : needs->second.narrow)) return;
    const DType to = narrow ? DType::Float32 : plan_.narrow;
    put_bytes(nodes, kGraphNode,
              node_bytes("Cast", names_.unique(std::string(tensor) + "_Cast"), {name_of(tensor, narrow)},
                         name_of(tensor, !narrow), {{"to", static_cast<int64_t>(to)}}));
    ++result_.casts;
  }

  std::string changed_node(size_t number, std::span<const std::byte> message) {
    const NodeProto& node = graph_.nodes[number];
    const WireLocation where{
        .field = "node", .index = static_cast<int64_t>(number), .file_begin = bytes_.data()};
    WireReader reader(message, where);
    std::string out;
    size_t input = 0, output = 0, attribute = 0;
    while (reader.next()) {
      if (reader.field() == kNodeInput) {
        reader.skip();
        put_bytes(out, kNodeInput, input_name(node, number, input));
        ++input;
      } else if (reader.field() == kNodeOutput) {
        reader.skip();
        const std::string_view name = node.outputs[output];
        put_bytes(
            out, kNodeOutput,
            is_float(name) ? name_of(name, gives_narrow(plan_, node, number, output)) : std::string(name));
        ++output;
      } else if (reader.field() == kNodeAttribute) {
        const auto bytes = text_of(reader.bytes());
        put_attribute(node, number, node.attributes[attribute++], bytes, out);
      } else {
        copy_field(reader, out);
      }
    }
    finish_raised(node, raised_, names_, out, initializers_);
    return out;
  }

  std::string input_name(const NodeProto& node, size_t number, size_t k) {
    const std::string_view name = node.inputs[k];
    if (!is_float(name)) return std::string(name);
    if (is_alias(node)) return std::string(name);
    if (takes_any(name, node)) return name_of(name, is_produced_narrow(name));
    return name_of(name, reads_narrow(plan_, node, number, k));
  }

  void put_attribute(const NodeProto& node, size_t number, const AttributeProto& attribute,
                     std::string_view bytes, std::string& out) const {
    if (node.op_type == "Cast" && attribute.name == "to" && plan_.is_narrow[number])
      return put_bytes(out, kNodeAttribute, int_attribute("to", static_cast<int64_t>(plan_.narrow)));
    if (moves_axes(node, raised_) && attribute.name == "axes") return;  // finish_raised has them
    put_bytes(out, kNodeAttribute, bytes);
  }

  // --- types of tensors

  std::string changed_info(std::span<const std::byte> message) {
    const WireLocation where{.field = "value", .file_begin = bytes_.data()};
    WireReader reader(message, where);
    std::string out;
    bool narrow = false;
    while (reader.next()) {
      if (reader.field() == kInfoName) {
        const std::string_view name = reader.string();
        const auto owner = narrow_has_name_.find(name);
        narrow = owner != narrow_has_name_.end() && owner->second;
        put_bytes(out, kInfoName, name);
      } else if (reader.field() == kInfoType && narrow) {
        put_bytes(out, kInfoType, changed_type(reader.bytes(), kTypeTensor));
      } else {
        copy_field(reader, out);
      }
    }
    return out;
  }

  // TypeProto, and in it TypeProto.Tensor, with another element type.
  std::string changed_type(std::span<const std::byte> message, uint32_t inner) const {
    const WireLocation where{.field = "type", .file_begin = bytes_.data()};
    WireReader reader(message, where);
    std::string out;
    while (reader.next()) {
      if (inner != 0 && reader.field() == inner) {
        put_bytes(out, inner, changed_type(reader.bytes(), 0));
      } else if (inner == 0 && reader.field() == kTensorTypeElement) {
        reader.skip();
        put_int(out, kTensorTypeElement, static_cast<int64_t>(plan_.narrow));
      } else {
        copy_field(reader, out);
      }
    }
    return out;
  }

  std::span<const std::byte> bytes_;
  const ModelProto& model_;
  const GraphProto& graph_;
  TensorSource& tensors_;
  const MixedPrecisionPlan& plan_;
  TakenNames names_;
  ConstantTensors constants_;
  RaisedOpset raised_;
  std::map<std::string_view, Needs, std::less<>> needs_;
  std::set<std::string_view, std::less<>> read_by_bodies_;
  std::map<std::string_view, bool, std::less<>> produced_narrow_, narrow_has_name_;
  std::map<std::string, std::string, std::less<>> other_names_;
  std::string initializers_;
  MixedPrecisionModel result_;
};

}  // namespace

MixedPrecisionModel write_mixed_precision_model(std::span<const std::byte> bytes, const ModelProto& model,
                                                TensorSource& tensors, const MixedPrecisionPlan& plan) {
  return MixedPrecisionWriter(bytes, model, tensors, plan).run();
}

}  // namespace lathe::onnx
