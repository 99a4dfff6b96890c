// SPDX-License-Identifier: Apache-2.0
//
// One walk over the nodes that an output needs, in topological order. A node that is not supported is noted
// and its outputs are poisoned: of nodes that read them only the operator is looked at, and at the end one
// error lists every problem. What is wrong (rather than not supported) ends the import at once.
#include "onnx/graph_importer.h"

#include <algorithm>

#include "onnx/import_plugin.h"
#include "onnx/importers.h"
#include "onnx/node_order.h"
#include "onnx/strings.h"
#include "onnx/tensorrt/importers.h"
#include "onnx/unknown_operator.h"
#include "plugin/built_in.h"

namespace lathe::onnx {

namespace {

constexpr int kMaxCalls = 32;  // functions and branches inside each other
constexpr int64_t kMaxNodes =
    2'000'000;  // after expansion of functions: small files must not grow without bound
constexpr int64_t kOldestOpset = 1;

}  // namespace

std::vector<std::string_view> output_names(const GraphProto& graph) {
  std::vector<std::string_view> names;
  for (const ValueInfo& output : graph.outputs) names.push_back(output.name);
  return names;
}

namespace {

std::string describe(const NodeProto& node, const std::string& name) {
  return "node '" + name + "' (" + (is_onnx_domain(node.domain) ? "" : std::string(node.domain) + "::") +
         std::string(node.op_type) + ")";
}

}  // namespace

void GraphImporter::run() {
  for (const OpsetId& opset : model_.opsets) {
    if (is_onnx_domain(opset.domain) && opset.version < kOldestOpset) {
      throw_unsupported("the model uses opset " + std::to_string(opset.version) + "; opsets " +
                        std::to_string(kOldestOpset) + " to " + std::to_string(kLatestOpset) +
                        " are supported: convert it with onnx.version_converter");
    }
  }
  Scope scope;
  scope.opsets = &model_.opsets;
  scope.builder = &builder_;
  builder_.editor().set_name(std::string(model_.graph.name));
  add_initializers(model_.graph, scope);
  add_inputs(scope);
  for (const TensorProto& t : model_.graph.initializers) log_.initializer(std::string(t.name));
  import_nodes(model_.graph.nodes, output_names(model_.graph), scope);
  if (!problems_.empty()) throw_problems();
  add_outputs(model_.graph.outputs, scope,
              {model_.graph.name.empty() ? "outputs" : std::string(model_.graph.name), ""});
  if (builder_.graph().outputs().empty()) throw_input_error("the model has no outputs");
  for (const ValueId output : builder_.graph().outputs()) log_.output(builder_.value(output).name);
  builder_.editor().remove_dead_nodes();
}

// One line per operator and reason: how many nodes, and the first.
std::vector<std::string> problem_lines(const std::vector<UnsupportedNode>& problems) {
  std::map<std::pair<std::string_view, std::string_view>, size_t> counts;
  for (const UnsupportedNode& p : problems) ++counts[{p.op_type, p.reason}];
  std::vector<std::string> lines;
  for (const UnsupportedNode& p : problems) {
    size_t& count = counts[{p.op_type, p.reason}];
    if (count == 0) continue;
    const std::string more = count == 1 ? "" : " and " + std::to_string(count - 1) + " more";
    lines.push_back(p.node + more + " (" + p.op_type + "): " + p.reason);
    count = 0;
  }
  return lines;
}

void GraphImporter::throw_problems() const {
  if (options_.unsupported != nullptr) *options_.unsupported = problems_;
  std::string text =
      std::to_string(problems_.size()) + (problems_.size() == 1 ? " node of the model is not supported:"
                                                                : " nodes of the model are not supported:");
  for (const std::string& line : problem_lines(problems_)) text += "\n  " + line;
  throw_unsupported(text);
}

void GraphImporter::add_initializers(const GraphProto& graph, Scope& scope) {
  const auto add = [&](std::string_view name, const auto* tensor) {
    if (!scope.initializers.emplace(name, tensor).second)
      throw_input_error("two initializers are called '" + std::string(name) + "'; names must be unique");
  };
  for (const TensorProto& t : graph.initializers) add(t.name, &t);
  for (const SparseTensorProto& t : graph.sparse_initializers) add(t.values.name, &t);
}

ValueId GraphImporter::look_up(std::string_view name, Scope& scope) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) return it->second;
  if (const auto it = scope.initializers.find(name); it != scope.initializers.end()) {
    const auto* const dense = std::get_if<const TensorProto*>(&it->second);
    const auto given =
        scope.parent == nullptr ? options_.constant_inputs.find(name) : options_.constant_inputs.end();
    const bool is_given = given != options_.constant_inputs.end();
    const bool strings = !is_given && dense && (*dense)->data_type == kStringType;
    const Tensor tensor =
        is_given  ? given->second
        : strings ? TensorSource::load_strings(**dense)
                  : std::visit([this](const auto* proto) { return tensors_.load(*proto); }, it->second);
    const ValueId id = scope.builder->add_constant(scope.prefix + std::string(name), tensor);
    if (strings) scope.builder->mark_strings(id);
    scope.values[name] = id;
    return id;
  }
  if (scope.parent) {
    const ValueId id = look_up(name, *scope.parent);
    return scope.body ? capture(id, scope) : id;
  }
  throw_input_error("'" + std::string(name) +
                    "' is used before anything produces it: it is no input, no initializer and no output of "
                    "a node before (the nodes are sorted; is there a cycle?)");
}

bool GraphImporter::in_sight(std::string_view name, const Scope& scope) {
  for (const Scope* s = &scope; s; s = s->parent)
    if (s->values.contains(name) || s->initializers.contains(name)) return true;
  return false;
}

int64_t GraphImporter::opset_of(const NodeProto& node, const Scope& scope) const {
  for (const OpsetId& opset : *scope.opsets) {
    if (opset.domain == node.domain || (is_onnx_domain(opset.domain) && is_onnx_domain(node.domain)))
      return opset.version;
  }
  return is_onnx_domain(node.domain) ? 0 : 1;  // vendors' tools forget theirs
}

namespace {

// In the node's own domain, else among TensorRT's plugins, which have none.
const Importer* importer_of(const NodeProto& node, int64_t opset, bool* known = nullptr) {
  bool in_domain = false;
  const Importer* importer = find_importer(is_onnx_domain(node.domain) ? std::string_view() : node.domain,
                                           node.op_type, opset, &in_domain);
  if (known) *known = in_domain;
  return in_domain ? importer : find_importer(kTensorRtDomain, node.op_type, kLatestOpset);
}

}  // namespace

std::string GraphImporter::why_unknown(const NodeProto& node, const Scope& scope) const {
  const std::string_view domain = is_onnx_domain(node.domain) ? std::string_view() : node.domain;
  if (is_structure(node) || (domain.empty() && Sequences::knows(node.op_type))) return {};
  const int64_t opset = opset_of(node, scope);
  if (is_built_in(node)) return {};
  if (options_.plugins && has_plugin(node, *options_.plugins)) return {};
  bool known = false;
  if (importer_of(node, opset, &known)) return {};
  return known ? "not at opset " + std::to_string(opset) + "; convert the model with onnx.version_converter"
               : why_operator_is_unknown(domain, node.op_type);
}

const FunctionProto* GraphImporter::find_function(const NodeProto& node) const {
  for (const FunctionProto& f : model_.functions) {
    if (f.name == node.op_type && f.overload == node.overload &&
        (f.domain == node.domain || (is_onnx_domain(f.domain) && is_onnx_domain(node.domain)))) {
      return &f;
    }
  }
  return nullptr;
}

void GraphImporter::import_nodes(const std::vector<NodeProto>& nodes,
                                 const std::vector<std::string_view>& outputs, Scope& scope) {
  if (scope.depth > kMaxCalls) {
    throw_input_error("functions and branches are nested deeper than " + std::to_string(kMaxCalls) +
                      "; does one call itself?");
  }
  std::vector<std::string> names;  // in the file's order, from which nodes without a name get numbers
  for (const NodeProto& node : nodes) names.push_back(scope.prefix + node_name(node, scope.unnamed));
  const NodeOrder order =
      order_nodes(nodes, outputs, [&](std::string_view name) { return in_sight(name, scope); });
  if (order.sorted) log_.nodes_sorted(scope.prefix);
  for (const size_t i : order.dead) log_.node_is_dead(names[i]);
  for (const size_t i : order.nodes) import_node(nodes[i], names[i], scope);
}

void GraphImporter::bind_poison(const NodeProto& node, Scope& scope) {
  for (const std::string_view output : node.outputs) {
    if (!output.empty()) scope.values[output] = kPoison;
  }
}

// A value that this node made gets the output's name; one that it only passes on (Identity) keeps its own.
void GraphImporter::bind_outputs(const NodeProto& node, Scope& scope, const Values& results,
                                 size_t first_new) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string_view output = node.outputs[i];
    if (output.empty()) continue;
    if (i >= results.size() || results[i] == kNoValue) {
      throw_unsupported("its output " + std::to_string(i) + " ('" + std::string(output) +
                        "') is not supported");
    }
    if (!scope.values.emplace(output, results[i]).second || scope.initializers.contains(output)) {
      throw_input_error("'" + std::string(output) + "' is produced twice; names must be unique");
    }
    const std::string name = scope.prefix + std::string(output);
    if (results[i] >= 0 && static_cast<size_t>(results[i]) >= first_new &&
        !scope.builder->graph().find_value(name)) {
      scope.builder->editor().rename_value(results[i], name);
    }
  }
}

void GraphImporter::look_at_operators(const NodeProto& node, const std::string& name, const Scope& scope) {
  if (find_function(node)) return;
  const std::string reason = why_unknown(node, scope);
  if (!reason.empty()) problems_.push_back({name, std::string(node.op_type), reason});
  for (const AttributeProto& a : node.attributes) {
    if (!a.g) continue;
    std::map<std::string, int, std::less<>> unnamed;
    for (const NodeProto& inner : a.g->nodes)
      look_at_operators(inner, name + "/" + node_name(inner, unnamed), scope);
  }
}

void GraphImporter::skip_node(const NodeProto& node, const std::string& name, Scope& scope) {
  bind_poison(node, scope);
  look_at_operators(node, name, scope);
}

void GraphImporter::import_node(const NodeProto& node, const std::string& name, Scope& scope) {
  if (++nodes_seen_ > kMaxNodes)
    throw_input_error("the model has more than " + std::to_string(kMaxNodes) + " nodes");
  try {
    Values inputs;
    for (const std::string_view input : node.inputs)
      inputs.push_back(input.empty() ? kNoValue : look_up(input, scope));
    if (std::find(inputs.begin(), inputs.end(), kPoison) != inputs.end()) return skip_node(node, name, scope);
    const Graph& graph = scope.builder->graph();
    const size_t first_new = graph.value_count();
    log_.node_begins(graph, node, name, inputs);
    const Values results = import_by_operator(node, scope, name, std::move(inputs));
    bind_outputs(node, scope, results, first_new);
    log_.node_ends(graph, node, name, results);
  } catch (const UnsupportedError& error) {
    problems_.push_back({name, std::string(node.op_type), error.what()});
    bind_poison(node, scope);
  } catch (Error& error) {
    error.add_context("while importing " + describe(node, name)).set_node(name, node.op_type);
    throw;
  }
}

Values GraphImporter::import_by_operator(const NodeProto& node, Scope& scope, const std::string& name,
                                         Values inputs) {
  if (const FunctionProto* function = find_function(node))
    return import_function(*function, node, scope, name, inputs);
  const int64_t opset = opset_of(node, scope);
  if (opset == 0) throw_input_error("the model imports no opset for ONNX's own operators");
  NodeImport import(
      {node, name, opset, std::move(inputs), scope.attributes, tensors_, *scope.builder, &log_});
  if (const std::string reason = why_unknown(node, scope); !reason.empty()) throw_unsupported(reason);
  const bool takes_plugin = options_.plugins && options_.plugins_first && has_plugin(node, *options_.plugins);
  const bool reads_strings = std::any_of(import.inputs().begin(), import.inputs().end(),
                                         [&](ValueId id) { return scope.builder->is_strings(id); });
  if (is_built_in(node)) return import_plugin(import, node, plugin::WithBuiltIn(nullptr));
  if (reads_strings && Sequences::knows(node.op_type)) throw_unsupported("there are no sequences of strings");
  if (!takes_plugin && (is_onnx_domain(node.domain) || is_structure(node)))
    if (auto results = import_by_structure(import, scope)) return *results;
  if (std::any_of(import.inputs().begin(), import.inputs().end(), Sequences::is_sequence))
    throw_unsupported("one of its inputs is a sequence, which only operators on sequences may read");
  if (takes_plugin) return import_plugin(import, node, *options_.plugins);
  const Importer* importer = importer_of(node, opset);
  if (importer && reads_strings && !importer->takes_strings) {
    if (moves_strings(node.domain, node.op_type)) return import_moved_strings(import, importer->import);
    throw_unsupported(
        "one of its inputs is strings, which it cannot read; operators on strings and those that move "
        "elements can");
  }
  if (importer) return importer->import(import);
  return import_plugin(import, node, *options_.plugins);
}

bool GraphImporter::is_structure(const NodeProto& node) {
  const std::string_view op = node.op_type;
  return is_onnx_domain(node.domain)
             ? op == "If" || op == "Loop" || op == "Scan" || op == "Identity" || op == "SequenceMap"
             : node.domain == kPreviewDomain && op == "FlexAttention";
}

// Operators whose results exist already, or are found by importing a part of the model.
std::optional<Values> GraphImporter::import_by_structure(NodeImport& node, Scope& scope) {
  if (node.op_type() == "If") return import_if(node, scope);
  if (node.op_type() == "Loop") return import_loop(node, scope);
  if (node.op_type() == "Scan") return import_scan(node, scope);
  if (node.op_type() == "Identity") return Values{node.in(0)};
  if (node.op_type() == "SequenceMap") return import_sequence_map(node, scope);
  if (node.op_type() == "FlexAttention") return import_flex_attention(node, scope);
  return sequences_.import_operator(node);
}

Values GraphImporter::import_function(const FunctionProto& function, const NodeProto& node, Scope& scope,
                                      const std::string& name, const Values& inputs) {
  AttributeMap attributes;
  for (const AttributeProto& a : function.attribute_defaults) attributes[a.name] = &a;
  for (const AttributeProto& a : node.attributes) {
    if (a.ref_attr_name.empty()) {
      attributes[a.name] = &a;
    } else if (scope.attributes) {
      if (const auto it = scope.attributes->find(a.ref_attr_name); it != scope.attributes->end())
        attributes[a.name] = it->second;
    }
  }
  Scope inner;
  inner.prefix = name + "/";
  inner.opsets = function.opsets.empty() ? scope.opsets : &function.opsets;
  inner.attributes = &attributes;
  inner.builder = scope.builder;
  inner.depth = scope.depth + 1;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    inner.values[function.inputs[i]] = i < inputs.size() ? inputs[i] : kNoValue;
  }
  import_nodes(function.nodes, function.outputs, inner);
  Values results;
  for (const std::string_view output : function.outputs) {
    results.push_back(look_up(output, inner));
    if (results.back() == kPoison) throw_unsupported("a node of the function's body is not supported");
  }
  return results;
}

}  // namespace lathe::onnx
