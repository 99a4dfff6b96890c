// SPDX-License-Identifier: Apache-2.0
#include "onnx/mixed_precision_plan.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "onnx/narrow_operators.h"
#include "onnx/quantization_plan.h"
#include "onnx/raised_opset.h"

namespace lathe::onnx {
namespace {

constexpr int32_t kFloatType = 1;

bool is_fixed(uint32_t mask, size_t k) {
  return k < 32 && (mask >> k & 1u) != 0;
}

class MixedPrecisionPlanner {
 public:
  MixedPrecisionPlanner(const ModelProto& model, const MixedPrecisionOptions& options,
                        const MixedPrecisionFacts& facts)
      : model_(model), graph_(model.graph), options_(options), facts_(facts) {
    constants_ = constant_tensors(graph_);
    plan_.narrow = options.narrow;
    plan_.converts_io = options.converts_io;
    plan_.is_narrow.assign(graph_.nodes.size(), 0);
    note_floats();
    choose_opset();
  }

  MixedPrecisionPlan run() {
    std::map<std::string, int, std::less<>> unnamed;
    std::vector<std::string> names;
    std::vector<WideReason> reasons;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      names.push_back(node_name(graph_.nodes[i], unnamed));
      reasons.push_back(why_wide(graph_.nodes[i], names[i]));
      plan_.is_narrow[i] = reasons[i].kind.empty() && touches_floats(graph_.nodes[i]);
    }
    leave_islands(reasons);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeProto& node = graph_.nodes[i];
      if (!touches_floats(node) || is_constant(node)) continue;
      ++plan_.float_count;
      plan_.narrow_count += plan_.is_narrow[i];
      if (!plan_.is_narrow[i]) plan_.left.push_back({names[i], std::string(node.op_type), reasons[i]});
    }
    if (plan_.narrow_count == 0) throw_input_error("no node of the model becomes narrower" + why_none());
    return std::move(plan_);
  }

 private:
  // --- types of tensors

  void note_floats() {
    for (const auto& [name, tensor] : constants_)
      if (tensor->data_type == kFloatType) plan_.floats.insert(name);
    for (const auto* infos : {&graph_.inputs, &graph_.value_info, &graph_.outputs})
      for (const ValueInfo& info : *infos)
        if (info.type.elem_type == kFloatType) plan_.floats.insert(info.name);
    for (const NodeProto& node : graph_.nodes)
      for (size_t k = 0; k < node.outputs.size(); ++k)
        if (facts_.computed.contains(node.outputs[k]) || follows_input(node, k))
          plan_.floats.insert(node.outputs[k]);
  }

  bool is_float(std::string_view name) const { return plan_.floats.contains(name); }

  // An output that the import made nothing of, such as Identity's.
  bool follows_input(const NodeProto& node, size_t output) const {
    const NarrowOperator* op = find_narrow_operator(node);
    if (node.op_type == "Cast") {
      const AttributeProto* to = find_attribute(node, "to");
      return to && to->i == kFloatType;
    }
    return op && op->passes && output == 0 && !node.inputs.empty() && is_float(node.inputs[0]);
  }

  // --- opset

  void choose_opset() {
    plan_.opset = opset_of(model_);
    if (plan_.opset < kFirstNarrowOpset)
      throw_input_error("the model has opset " + std::to_string(plan_.opset) +
                        "; 13 or later is needed: convert "
                        "it with onnx.version_converter.convert_version(model, 13)");
    if (options_.narrow != DType::BFloat16 || plan_.opset >= kRaisedOpset) return;
    const bool helps = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const NodeProto& node) {
      const NarrowOperator* op = find_narrow_operator(node);
      return op && op->first_bfloat16 > plan_.opset && op->first_bfloat16 <= kRaisedOpset;
    });
    if (!helps) return;
    obstacle_ = why_not_raised(model_, {plan_.opset, kRaisedOpset});
    if (obstacle_.empty()) plan_.opset = kRaisedOpset;
  }

  // --- nodes

  bool is_constant(const NodeProto& node) const {
    return !node.outputs.empty() && constants_.contains(node.outputs[0]);
  }

  bool touches_floats(const NodeProto& node) const {
    if (reads_any_type(node)) return false;
    const auto is = [&](std::string_view name) { return is_float(name); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is);
  }

  // The tensors whose type changes with the node's.
  template <class F>
  void for_each_changed(const NodeProto& node, const NarrowOperator& op, const F& f) const {
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (!is_fixed(op.fixed_inputs, k) && is_float(node.inputs[k])) f(node.inputs[k]);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (!is_fixed(op.fixed_outputs, k) && is_float(node.outputs[k])) f(node.outputs[k]);
  }

  WideReason why_wide(const NodeProto& node, const std::string& name) const {
    if (is_constant(node)) return {"it is a constant", ""};
    if (!is_onnx_domain(node.domain))
      return {"operators of " + std::string(node.domain) + " keep their types", ""};
    const NarrowOperator* op = find_narrow_operator(node);
    if (!op) return {"the operator keeps its types", ""};
    if (node.op_type == "Cast" && is_float(node.inputs.at(0))) return {"the operator keeps its types", ""};
    if (options_.exclude_types.contains(node.op_type) || matches_any(options_.exclude, name))
      return {"it is excluded", ""};
    if (options_.narrow == DType::BFloat16 && op->first_bfloat16 > plan_.opset)
      return {
          "it has bfloat16 since opset " + std::to_string(op->first_bfloat16),
          obstacle_.empty() ? "" : "the model stays at " + std::to_string(plan_.opset) + ": " + obstacle_};
    if (!op->passes && std::none_of(node.outputs.begin(), node.outputs.end(),
                                    [&](std::string_view o) { return facts_.computed.contains(o); }))
      return {"it is computed when the model is read", ""};
    if (const auto found = facts_.nodes.find(name); found != facts_.nodes.end()) return found->second;
    // Of an operand that the import folded nobody said the type: it cannot be narrowed with the others.
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (!is_fixed(op->fixed_inputs, k) && !node.inputs[k].empty() && !is_float(node.inputs[k]))
        return {"an operand is computed when the model is read", std::string(node.inputs[k])};
    WideReason reason;
    for_each_changed(node, *op, [&](std::string_view tensor) {
      const auto found = facts_.tensors.find(tensor);
      if (found != facts_.tensors.end() && reason.kind.empty()) reason = found->second;
    });
    return reason;
  }

  // --- narrow nodes between wide ones, whose Casts cost more than they save

  size_t root(std::vector<size_t>& parents, size_t i) const {
    while (parents[i] != i) i = parents[i] = parents[parents[i]];
    return i;
  }

  // Groups of narrow nodes that hand each other tensors. A group without a product or convolution and with at
  // least as many Casts as nodes is left wide.
  void leave_islands(std::vector<WideReason>& reasons) {
    std::vector<size_t> parents(graph_.nodes.size());
    std::iota(parents.begin(), parents.end(), size_t{0});
    std::map<std::string_view, size_t> first;  // narrow node at a tensor
    std::set<std::string_view> wide;           // tensors that wide nodes, inputs or outputs need
    if (!plan_.converts_io)
      for (const auto* infos : {&graph_.inputs, &graph_.outputs})
        for (const ValueInfo& info : *infos) wide.insert(info.name);
    const auto note = [&](size_t i, std::string_view tensor, bool narrow) {
      if (!is_float(tensor) || constants_.contains(tensor)) return;
      if (!narrow) {
        wide.insert(tensor);
        return;
      }
      const auto [other, is_new] = first.emplace(tensor, i);
      if (!is_new) parents[root(parents, i)] = root(parents, other->second);
    };
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeProto& node = graph_.nodes[i];
      for (size_t k = 0; k < node.inputs.size(); ++k)
        note(i, node.inputs[k], reads_narrow(plan_, node, i, k));
      for (size_t k = 0; k < node.outputs.size(); ++k)
        note(i, node.outputs[k], gives_narrow(plan_, node, i, k));
    }
    struct Group {
      int64_t nodes = 0, casts = 0;
      bool is_heavy = false;
    };
    std::map<size_t, Group> groups;
    for (const auto& [tensor, i] : first) groups[root(parents, i)].casts += wide.contains(tensor);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!plan_.is_narrow[i]) continue;
      Group& group = groups[root(parents, i)];
      ++group.nodes;
      group.is_heavy |= find_narrow_operator(graph_.nodes[i])->is_heavy;
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Group& group = groups[root(parents, i)];
      if (!plan_.is_narrow[i] || group.is_heavy || group.casts < group.nodes) continue;
      plan_.is_narrow[i] = 0;
      reasons[i] = {"Casts around it cost more than it saves", ""};
    }
  }

  std::string why_none() const {
    std::string text;
    for (const auto& left : plan_.left)
      text += "\n  " + left.node + " (" + left.op_type + "): " + left.reason.kind +
              (left.reason.detail.empty() ? "" : ": " + left.reason.detail);
    return text.empty() ? ": it computes with no float32 tensor" : ":" + text;
  }

  const ModelProto& model_;
  const GraphProto& graph_;
  const MixedPrecisionOptions& options_;
  const MixedPrecisionFacts& facts_;
  ConstantTensors constants_;
  std::string obstacle_;  // of raising the opset
  MixedPrecisionPlan plan_;
};

}  // namespace

bool reads_narrow(const MixedPrecisionPlan& plan, const NodeProto& node, size_t i, size_t k) {
  return plan.is_narrow[i] && plan.floats.contains(node.inputs[k]) &&
         !is_fixed(find_narrow_operator(node)->fixed_inputs, k);
}

bool gives_narrow(const MixedPrecisionPlan& plan, const NodeProto& node, size_t i, size_t k) {
  return plan.is_narrow[i] && plan.floats.contains(node.outputs[k]) &&
         !is_fixed(find_narrow_operator(node)->fixed_outputs, k);
}

MixedPrecisionPlan plan_mixed_precision(const ModelProto& model, const MixedPrecisionOptions& options,
                                        const MixedPrecisionFacts& facts) {
  check_is_float(model);
  return MixedPrecisionPlanner(model, options, facts).run();
}

}  // namespace lathe::onnx
