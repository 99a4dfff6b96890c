// SPDX-License-Identifier: Apache-2.0
#include "builder/refit.h"

#include <algorithm>

#include "base/error.h"
#include "base/stopwatch.h"
#include "builder/builder.h"
#include "builder/pipeline.h"
#include "builder/precision.h"
#include "ir/edit.h"
#include "memory/memory_plan.h"
#include "ops/build.h"
#include "plan/check_variant.h"

namespace lathe {
namespace {

std::string described(const Tensor& tensor) {
  return std::string(dtype_name(tensor.dtype())) + " " + to_string(tensor.extents());
}

[[noreturn]] void refuse(const std::string& what) {
  throw_input_error("the new weights lead to other layers than the engine has: " + what +
                    ". Build the new model (a timing cache makes that fast)");
}

class VariantRefitter {
 public:
  VariantRefitter(const PlanVariant& built, const OptimizedGraphs& optimized)
      : built_(*built.graph), optimized_(optimized), graph_(built_) {
    for (const NodeId id : optimized.fused.order())
      nodes_[optimized.fused.node(id).name] = {&optimized.fused, id};
    for (const NodeId id : optimized.plain.order())
      nodes_[optimized.plain.node(id).name] = {&optimized.plain, id};
  }

  Graph run() {
    for (const NodeId id : built_.order()) refit(id);
    compare_outputs();
    editor_.compact();
    verify_graph(graph_);
    return std::move(graph_);
  }

 private:
  struct Place {
    const Graph* graph = nullptr;
    NodeId node = kNoNode;
  };
  // Where a value comes from, in words that mean the same in both graphs: "input x", "conv1 [0]".
  struct Source {
    std::string text;
    ValueId constant = kNoValue;
  };

  bool is_inserted(NodeId id) const {
    return std::holds_alternative<Reformat>(built_.node(id).op) && !nodes_.contains(built_.node(id).name);
  }

  // Of the engine's graph, in front of the reformats that the tuner inserted.
  Source source_in_engine(ValueId value) const {
    while (value != kNoValue && built_.value(value).producer != kNoNode &&
           is_inserted(built_.value(value).producer))
      value = built_.node(built_.value(value).producer).inputs[0];
    return source(built_, value);
  }

  static Source source(const Graph& graph, ValueId value) {
    if (value == kNoValue) return {"nothing"};
    const Value& v = graph.value(value);
    if (v.is_constant()) return {"a constant", value};
    if (v.producer == kNoNode) return {"input '" + v.name + "'"};
    const Node& node = graph.node(v.producer);
    const auto index = std::find(node.outputs.begin(), node.outputs.end(), value) - node.outputs.begin();
    return {"output " + std::to_string(index) + " of '" + node.name + "'"};
  }

  void refit(NodeId id) {
    const Node& node = built_.node(id);
    if (is_inserted(id)) return refit_reformat(id);
    const auto found = nodes_.find(node.name);
    if (found == nodes_.end()) refuse("it has no use for '" + node.name + "' now");
    const auto& [from, from_id] = found->second;
    const Node& now = from->node(from_id);
    compare(node, *from, now);
    editor_.set_op(id, now.op);
    const auto operands = take_constants(*from, now, node.inputs);
    const auto own = operands.begin() + static_cast<std::ptrdiff_t>(now.op_input_count());
    editor_.set_epilogue(id, {}, {});
    editor_.set_inputs(id, {operands.begin(), own});
    editor_.set_epilogue(id, now.epilogue, {own, operands.end()});
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k] == kNoValue) continue;
      const Value& value = from->value(now.outputs[k]);
      editor_.set_quantization(node.outputs[k], value.quantization);
      editor_.set_contents(node.outputs[k], value.contents);
    }
  }

  // A reformat changes with what it reads: a grid, or a constant that is copied to an output.
  void refit_reformat(NodeId id) {
    const ValueId input = built_.node(id).inputs[0];
    if (built_.value(input).is_constant()) {
      const auto now = optimized_.plain.find_value(built_.value(input).name);
      if (!now || !optimized_.plain.value(*now).is_constant())
        refuse("'" + built_.value(input).name + "' is no constant now");
      editor_.replace_input(id, 0, constant(optimized_.plain, *now, input));
    }
    editor_.set_quantization(built_.node(id).outputs[0],
                             graph_.value(graph_.node(id).inputs[0]).quantization);
  }

  void compare(const Node& then, const Graph& graph, const Node& now) const {
    const std::string who = "layer '" + then.name + "' ";
    if (then.op.index() != now.op.index())
      refuse(who + "was " + std::string(op_display_name(then.op)) + " and is " +
             std::string(op_display_name(now.op)));
    if (then.inputs.size() != now.inputs.size() || then.outputs.size() != now.outputs.size() ||
        then.op_input_count() != now.op_input_count())
      refuse(who + "has other operands");
    for (size_t k = 0; k < then.inputs.size(); ++k) {
      const std::string before = source_in_engine(then.inputs[k]).text,
                        after = source(graph, now.inputs[k]).text;
      if (before != after) refuse(who + "read " + before + " and reads " + after);
    }
    for (size_t k = 0; k < then.outputs.size(); ++k)
      compare_results(who, then.outputs[k], graph, now.outputs[k]);
  }

  void compare_results(const std::string& who, ValueId then, const Graph& graph, ValueId now) const {
    if ((then == kNoValue) != (now == kNoValue)) refuse(who + "has other results");
    if (then == kNoValue) return;
    const Value &a = built_.value(then), &b = graph.value(now);
    if (a.shape != b.shape) refuse(who + "gave " + to_string(a.shape) + " and gives " + to_string(b.shape));
    if (!same_kind(a.quantization, b.quantization)) refuse(who + "has results on another grid");
  }

  void compare_outputs() const {
    const Graph& now = optimized_.plain;
    for (size_t k = 0; k < built_.outputs().size(); ++k) {
      const Source then = source_in_engine(built_.outputs()[k]), later = source(now, now.outputs()[k]);
      if (then.text != later.text)
        refuse("output " + std::to_string(k) + " was " + then.text + " and is " + later.text);
    }
  }

  std::vector<ValueId> take_constants(const Graph& from, const Node& now,
                                      const std::vector<ValueId>& inputs) {
    std::vector<ValueId> result = inputs;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k] != kNoValue && built_.value(inputs[k]).is_constant())
        result[k] = constant(from, now.inputs[k], inputs[k]);
    return result;
  }

  // The new constant in our graph; in place of `old` where nobody has another name for it.
  ValueId constant(const Graph& from, ValueId now, ValueId old) {
    const Value &value = from.value(now), &before = built_.value(old);
    if (value.dtype != before.dtype || value.shape != before.shape)
      refuse("'" + value.name + "' was " + described(before.constant) + " and is " +
             described(value.constant));
    const auto [known, is_new] = constants_.try_emplace(value.name, kNoValue);
    if (!is_new) return known->second;
    const auto same_name = built_.find_value(value.name);
    if (same_name && built_.value(*same_name).is_constant()) {
      known->second = *same_name;
      editor_.set_constant(*same_name, value.constant);
    } else {
      known->second = editor_.add_constant(value.name, value.constant);
    }
    editor_.set_quantization(known->second, value.quantization);
    return known->second;
  }

  const Graph& built_;
  const OptimizedGraphs& optimized_;
  Graph graph_;
  GraphEditor editor_{graph_};
  std::map<std::string, Place, std::less<>> nodes_;  // of the optimized graphs, by name
  std::map<std::string, ValueId, std::less<>> constants_;
};

// The types that layers were allowed besides their own.
std::vector<DType> types_allowed_in(const Graph& graph) {
  std::vector<DType> types;
  for (const NodeId id : graph.order())
    for (const DType type : graph.node(id).allowed_types)
      if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  return types;
}

void check_same_interface(const Plan& plan, const Graph& portable) {
  const auto compare = [](const std::vector<TensorInfo>& then, const std::vector<TensorInfo>& now,
                          const std::string& what) {
    const bool same = std::equal(then.begin(), then.end(), now.begin(), now.end(),
                                 [](const TensorInfo& a, const TensorInfo& b) {
                                   return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
                                 });
    if (!same) throw_input_error("the model of the new weights has other " + what + " than the engine's");
  };
  compare(plan.inputs, input_infos(portable), "inputs");
  compare(plan.outputs, output_infos(portable), "outputs");
}

void check_complete(const Graph& portable) {
  std::string missing;
  int count = 0;
  for (const RefittableWeights& w : refittable_weights(portable))
    if (w.missing && ++count <= 3) missing += (missing.empty() ? "'" : "', '") + w.name;
  if (count > 0)
    throw_input_error("the engine file was stripped of its weights, and " + std::to_string(count) +
                      " of them were not given: " + missing + (count > 3 ? "', ..." : "'") +
                      ". Give them by name, or the model that has them");
}

}  // namespace

std::vector<RefittableWeights> refittable_weights(const Graph& portable) {
  std::vector<RefittableWeights> result;
  for (size_t v = 0; v < portable.value_count(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const Value& value = portable.value(id);
    if (!value.is_constant() || (portable.users(id).empty() && !portable.is_output(id))) continue;
    const Tensor& tensor = value.constant;
    result.push_back(
        {value.name, tensor.dtype(), tensor.extents(), !tensor.has_bytes() && tensor.size() > 0});
  }
  return result;
}

void check_weights(const Graph& portable, const NamedWeights& weights) {
  for (const auto& [name, tensor] : weights) {
    const auto id = portable.find_value(name);
    if (!id || !portable.value(*id).is_constant())
      throw_input_error("the engine's model has no weights '" + name + "'");
    const Tensor& before = portable.value(*id).constant;
    if (before.dtype() != tensor.dtype() || before.extents() != tensor.extents())
      throw_input_error("the weights '" + name + "' are " + described(before) + ", " + described(tensor) +
                        " was given");
  }
}

Graph with_weights(const Graph& portable, const NamedWeights& weights) {
  check_weights(portable, weights);
  Graph graph = portable;
  GraphEditor editor(graph);
  for (const auto& [name, tensor] : weights) {
    const ValueId id = *graph.find_value(name);
    editor.set_constant(id, tensor);
    editor.set_quantization(id, portable.value(id).quantization);
  }
  return graph;
}

PlanVariant refit_variant(const PlanVariant& built, const OptimizedGraphs& optimized) {
  PlanVariant result = built;
  auto graph = std::make_shared<Graph>(VariantRefitter(built, optimized).run());
  result.memory = plan_memory(*graph, built.choices, part_ranges(built.ranges, built.split));
  result.graph = std::move(graph);
  result.blobs = std::make_shared<PackedBlocks>();
  check_variant(result);  // a stripped file was not
  return result;
}

std::shared_ptr<const Engine> Builder::refit(const Plan& plan, std::shared_ptr<const Graph> portable,
                                             const PassOptions& passes) {
  const Stopwatch watch;
  const Plan::Fit fit = plan.find_section(backend_->target());
  if (fit.section < 0) throw_input_error("no section of the engine fits this device: " + fit.reason);
  check_same_interface(plan, *portable);
  check_complete(*portable);
  const auto built = plan.section(static_cast<size_t>(fit.section));
  auto section = std::make_shared<PlanSection>(*built);
  std::vector<std::shared_ptr<const Program>> programs;
  BuildOptions options;
  options.passes = passes;
  TimingCache none;
  NullObserver quiet;
  for (PlanVariant& variant : section->variants) {
    std::vector<DType> types = types_allowed_in(*variant.graph);
    const Pipeline pipeline{*backend_, *pool_, none,
                            quiet,     {},     widened_types(*portable, *backend_, quiet, types)};
    const Graph plain = optimize(*portable, variant.ranges, types, options, pipeline, variant.split);
    variant = refit_variant(variant, {plain, optional_rewrites(plain, options, pipeline)});
    programs.push_back(backend_->compile(variant.spec()));
  }
  if (plan.section_count() > 1)
    observer_.log(Severity::Warning,
                  "Sections for other devices were left out: their weights are the old ones.");
  auto result = plan.clone_without_sections();
  result->set_portable_graph(std::move(portable));
  result->set_section(std::move(section));
  observer_.log(Severity::Info, "Refitted the engine in " + std::to_string(watch.seconds()) + " seconds.");
  return Engine::assemble(std::move(result), backend_, 0, std::move(programs));
}

}  // namespace lathe
