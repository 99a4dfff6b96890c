// SPDX-License-Identifier: Apache-2.0
//
// Two nodes with the same operator, inputs and epilogue compute the same: the later one's readers read the
// earlier one. Small equal constants are merged first, so that "x * 0.5" with two constants 0.5 counts as the
// same.
//
// Must not fire for results with data-dependent dims: their names differ, and shapes that were derived from
// the second name would no longer hold. Nor when the second result is a graph output (it keeps its own name
// and buffer).
#include <map>
#include <string>
#include <unordered_map>

#include "ir/edit.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

constexpr size_t kSmallConstantBytes = 1024;

bool merge_constants(Graph& graph) {
  GraphEditor editor(graph);
  std::map<std::string, ValueId> seen;
  bool changed = false;
  for (ValueId id = 0; static_cast<size_t>(id) < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (!value.is_constant() || !value.constant.has_bytes() ||
        value.constant.bytes().size() > kSmallConstantBytes)
      continue;
    if (graph.users(id).empty()) continue;
    const auto bytes = value.constant.bytes();
    std::string key = std::string(dtype_name(value.dtype)) + to_string(value.shape) + ":";
    key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto [first, is_new] = seen.emplace(std::move(key), id);
    if (is_new || !editor.can_replace_uses(id, first->second)) continue;
    editor.replace_uses(id, first->second);
    changed = true;
  }
  return changed;
}

bool has_data_dependent_result(const Graph& graph, const Node& node) {
  for (ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    for (const Dim& dim : graph.value(output).shape) {
      if (!dim.data_dependent_names().empty()) return true;
    }
  }
  return false;
}

bool same_work(const Graph& graph, const Node& a, const Node& b) {
  if (!(a.op == b.op && a.inputs == b.inputs && a.epilogue == b.epilogue &&
        a.allowed_types == b.allowed_types))
    return false;
  if (a.outputs.size() != b.outputs.size()) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if (b.outputs[i] == kNoValue) continue;
    if (a.outputs[i] == kNoValue) return false;
    const Value &va = graph.value(a.outputs[i]), &vb = graph.value(b.outputs[i]);
    if (va.dtype != vb.dtype || va.shape != vb.shape || !(va.format == vb.format)) return false;
    if (graph.is_output(b.outputs[i])) return false;
  }
  return true;
}

}  // namespace

// Nodes come in the order of the graph, so each reads what is kept once it is looked at itself: a node of
// many operands is changed once, not once for each of them.
bool merge_common_subexpressions(Graph& graph, PassContext& context) {
  bool changed = merge_constants(graph);
  GraphEditor editor(graph);
  std::multimap<std::string, NodeId> seen;
  std::unordered_map<ValueId, ValueId> kept;
  std::vector<NodeId> gone;
  const auto read_kept = [&](NodeId id) {
    std::vector<ValueId> inputs = graph.node(id).inputs;
    bool differs = false;
    for (ValueId& input : inputs)
      if (const auto found = kept.find(input); found != kept.end()) {
        input = found->second;
        differs = true;
      }
    if (differs) editor.set_inputs(id, std::move(inputs));
  };
  for (NodeId id : std::vector<NodeId>(graph.order())) {
    if (!kept.empty()) read_kept(id);
    const Node& node = graph.node(id);
    if (has_data_dependent_result(graph, node)) continue;
    std::string key(op_name(node.op));
    for (ValueId input : node.inputs) key += "," + std::to_string(input);
    bool merged = false;
    const auto [begin, end] = seen.equal_range(key);
    for (auto it = begin; it != end && !merged; ++it) {
      const Node& earlier = graph.node(it->second);
      if (!same_work(graph, earlier, node) || !context.may_change()) continue;
      context.report_removal(graph, id);
      for (size_t i = 0; i < node.outputs.size(); ++i)
        if (node.outputs[i] != kNoValue) kept[node.outputs[i]] = earlier.outputs[i];
      gone.push_back(id);
      merged = changed = true;
    }
    if (!merged) seen.emplace(std::move(key), id);
  }
  for (const NodeId id : gone) editor.remove_node(id);
  return changed;
}

}  // namespace lathe
