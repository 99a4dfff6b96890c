// SPDX-License-Identifier: Apache-2.0
#include "onnx/raised_opset.h"

#include <algorithm>
#include <iterator>

namespace lathe::onnx {
namespace {

// Reductions have their axes in an input, and Split says how many outputs it has.
constexpr int64_t kReductionOpset = 18;

// The opset from which on the operator means something else; null: its types alone grew.
struct Change {
  std::string_view op_type;
  int64_t opset;
};
constexpr Change kChanges[] = {
    {"DFT", 20}, {"GridSample", 20}, {"GroupNormalization", 21}, {"RoiAlign", 16}, {"Upsample", 10}};

bool has_axes_attribute(const NodeProto& node) {
  return is_onnx_domain(node.domain) && node.op_type.starts_with("Reduce") &&
         std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const AttributeProto& a) { return a.name == "axes"; });
}

std::string changed_operator(const GraphProto& graph, const RaisedOpset& opset) {
  for (const NodeProto& node : graph.nodes) {
    for (const Change& change : kChanges)
      if (is_onnx_domain(node.domain) && node.op_type == change.op_type && opset.from < change.opset &&
          opset.to >= change.opset)
        return std::string(node.op_type);
    for (const AttributeProto& a : node.attributes)
      if (a.g) {
        // Bodies are copied as they are.
        if (std::any_of(a.g->nodes.begin(), a.g->nodes.end(), has_axes_attribute))
          return "a body's reduction";
        if (std::string found = changed_operator(*a.g, opset); !found.empty()) return found;
      }
  }
  return {};
}

}  // namespace

std::string why_not_raised(const ModelProto& model, const RaisedOpset& opset) {
  if (!model.functions.empty()) return "it has functions";
  const std::string changed = changed_operator(model.graph, opset);
  return changed.empty() ? std::string() : changed + " changed after opset " + std::to_string(opset.from);
}

bool moves_axes(const NodeProto& node, const RaisedOpset& opset) {
  return opset.from < kReductionOpset && opset.to >= kReductionOpset && has_axes_attribute(node) &&
         node.op_type != "ReduceSum";
}

void finish_raised(const NodeProto& node, const RaisedOpset& opset, TakenNames& names, std::string& out,
                   std::string& initializers) {
  if (opset.from >= kReductionOpset || opset.to < kReductionOpset || !is_onnx_domain(node.domain)) return;
  if (moves_axes(node, opset)) {
    const auto axes = std::find_if(node.attributes.begin(), node.attributes.end(),
                                   [](const AttributeProto& a) { return a.name == "axes"; });
    const std::string name = names.unique(std::string(node.outputs[0]) + "_axes");
    put_bytes(
        initializers, kGraphInitializer,
        tensor_bytes(name, Tensor::from<int64_t>({static_cast<int64_t>(axes->ints.size())}, axes->ints)));
    put_bytes(out, kNodeInput, name);
  }
  if (node.op_type == "Split" && node.inputs.size() < 2)
    put_bytes(out, kNodeAttribute, int_attribute("num_outputs", static_cast<int64_t>(node.outputs.size())));
}

}  // namespace lathe::onnx
