// SPDX-License-Identifier: Apache-2.0
#include "tune/candidates.h"

#include <algorithm>
#include <numeric>

#include "backend/layer_work.h"
#include "ops/op_def.h"
#include "tune/tune_bodies.h"

namespace lathe {
namespace {

// What is wrong with how the backend describes the tactic; empty when nothing is.
std::string mismatch(const LayerQuery& query, const Tactic& tactic) {
  const Node& node = query.layer();
  if (tactic.inputs.size() != node.inputs.size() || tactic.outputs.size() != node.outputs.size())
    return "it does not type every operand";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    const Value& value = query.graph.value(node.inputs[i]);
    const TensorType& type = tactic.inputs[i];
    if (value.is_constant() && type.dtype != DType::Undefined &&
        type != TensorType{value.constant.dtype(), kLinear})
      return "it reads the constant " + value.name + " as " + to_string(type);
    if (!value.is_constant() && type.dtype == DType::Undefined) return "it does not type " + value.name;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (node.outputs[i] != kNoValue && tactic.outputs[i].dtype == DType::Undefined)
      return "it does not type " + query.graph.value(node.outputs[i]).name;
  return {};
}

// A layer norm that may not have `dtype` reads the value, perhaps through a reshape.
bool feeds_wide_norm(const Graph& graph, ValueId value, DType dtype) {
  const std::vector<NodeId> users = graph.users(value);
  return std::any_of(users.begin(), users.end(), [&](NodeId id) {
    const Node& user = graph.node(id);
    if (std::holds_alternative<ReshapeOp>(user.op)) return feeds_wide_norm(graph, user.outputs[0], dtype);
    const auto& allowed = user.allowed_types;
    return std::holds_alternative<LayerNorm>(user.op) && user.inputs[0] == value &&
           std::find(allowed.begin(), allowed.end(), dtype) == allowed.end();
  });
}

// The sum in front of a norm that must stay FP32 (passes/mark_precisions.cpp says why) is part of the same
// residual stream: where a product can give it in FP32, it is not rounded to fewer bits on the way. By time
// alone the two are equal, and chance decided (BERT-base in bfloat16: relative L2 4.4e-3 or 1.1e-2).
void refuse_narrow_sums(const LayerQuery& query, std::vector<Tactic>& tactics, Observer& observer) {
  if (query.layer().outputs.size() != 1 || query.layer().inputs.empty()) return;
  const ValueId result = query.layer().outputs[0];
  const auto is_narrow = [](DType t) { return t == DType::BFloat16 || t == DType::Float16; };
  std::erase_if(tactics, [&, all = tactics](const Tactic& tactic) {
    const DType type = tactic.outputs[0].dtype;
    if (!is_narrow(type) || query.graph.value(result).dtype != DType::Float32 ||
        !feeds_wide_norm(query.graph, result, type))
      return false;
    const bool has_wide = std::any_of(all.begin(), all.end(), [&](const Tactic& other) {
      return other.outputs[0].dtype == DType::Float32 && other.inputs[0].dtype == tactic.inputs[0].dtype;
    });
    if (has_wide)
      observer.on(RunnerSkipped{query.layer().name, tactic.runner,
                                tactic.name + ": it would round what a layer norm reads in FP32"});
    return has_wide;
  });
}

// Empty when the tactic has the types that a caller demands, else what it has instead.
std::string undemanded(const Tactic& tactic, const DemandedTypes& demanded) {
  const auto other = [](const char* what, DType has, DType wanted) {
    return std::string(what) + std::string(dtype_info(has).trt_arg) + ", and " +
           std::string(dtype_info(wanted).trt_arg) + " is demanded";
  };
  if (demanded.compute && compute_type(tactic) != *demanded.compute)
    return other("it computes in ", compute_type(tactic), *demanded.compute);
  for (size_t i = 0; i < tactic.outputs.size(); ++i)
    if (const auto wanted = demanded.output(i);
        wanted && tactic.outputs[i].dtype != DType::Undefined && tactic.outputs[i].dtype != *wanted)
      return other("it gives ", tactic.outputs[i].dtype, *wanted);
  return {};
}

// Nothing has the types demanded: an error, or a line, and the layer has others.
void give_up_demand(const LayerQuery& query, const DemandedTypes& demanded, const std::string& reasons,
                    Observer& observer) {
  const std::string type(demanded.compute ? dtype_info(*demanded.compute).trt_arg : "the types demanded");
  const std::string what = "layer '" + query.layer().name + "' (" +
                           std::string(op_display_name(query.layer().op)) + ") has no tactic " +
                           (demanded.compute ? "that computes in " : "with ") + type;
  if (demanded.is_required)
    throw_input_error(what + ", which is demanded of it:" + reasons +
                      "\nDemand another type, or --precisionConstraints=prefer");
  observer.log(Severity::Verbose, "Precision: " + what + "; it has another type.");
}

std::vector<Tactic> limit(std::vector<Tactic> tactics, int most) {
  if (static_cast<int>(tactics.size()) <= most) return tactics;
  std::vector<bool> kept(tactics.size(), false);
  int count = 0;
  // First one for each combination, then the runners in turn.
  for (size_t i = 0; i < tactics.size() && count < most; ++i) {
    const bool is_new = std::none_of(tactics.begin(), tactics.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Tactic& t) { return t.same_types(tactics[i]); });
    if (is_new) kept[i] = true, ++count;
  }
  for (const size_t i : timing_order(tactics))
    if (!kept[i] && count < most) kept[i] = true, ++count;
  std::vector<Tactic> result;
  for (size_t i = 0; i < tactics.size(); ++i)
    if (kept[i]) result.push_back(std::move(tactics[i]));
  return result;
}

}  // namespace

DType compute_type(const Tactic& tactic) {
  for (const TensorType& t : tactic.inputs)
    if (is_float(t.dtype)) return t.dtype;
  return tactic.outputs.empty() ? DType::Undefined : tactic.outputs[0].dtype;
}

std::vector<size_t> timing_order(const std::vector<Tactic>& tactics) {
  std::vector<size_t> order(tactics.size()), place(tactics.size(), 0);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = 0; i < tactics.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (tactics[k].runner == tactics[i].runner && tactics[k].same_types(tactics[i])) ++place[i];
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place[a] < place[b]; });
  return order;
}

std::vector<Tactic> considered_tactics(const Backend& backend, const LayerQuery& query,
                                       const TuneOptions& options, const Effort& effort, Observer& observer) {
  const std::string& layer = query.layer().name;
  const DemandedTypes demanded = options.layer_types.of(query.layer());
  std::vector<Tactic> usable, last_resorts, others;
  std::string reasons;
  for (Tactic& tactic : backend.tactics(query)) {
    std::string reason = tactic.support.ok ? mismatch(query, tactic) : tactic.support.reason;
    if (reason.empty() && options.in_body) reason = body_refusal(query, tactic);
    if (reason.empty() && options.disabled_runners.contains(tactic.runner))
      reason = "switched off by tactic sources";
    if (reason.empty() && options.keep_nan && !tactic.keeps_nan)
      reason = "it may lose NaN, which --checkNumerics does not allow";
    if (reason.empty() && !options.winograd && tactic.error_factor > 1)
      reason = "switched off: only exact tactics";
    if (reason.empty() && !(reason = undemanded(tactic, demanded)).empty()) others.push_back(tactic);
    if (!reason.empty()) {
      observer.on(RunnerSkipped{layer, tactic.runner, tactic.name + ": " + reason});
      reasons += "\n  " + tactic.runner + " " + tactic.name + ": " + reason;
      continue;
    }
    (tactic.last_resort ? last_resorts : usable).push_back(std::move(tactic));
  }
  if (usable.empty() && last_resorts.empty() && !others.empty()) {
    give_up_demand(query, demanded, reasons, observer);
    for (Tactic& tactic : others) (tactic.last_resort ? last_resorts : usable).push_back(std::move(tactic));
  }
  if (!demanded.any()) refuse_narrow_sums(query, usable, observer);
  if (usable.empty() || effort.last_resorts)
    usable.insert(usable.end(), std::make_move_iterator(last_resorts.begin()),
                  std::make_move_iterator(last_resorts.end()));
  if (usable.empty())
    throw_input_error("could not find any implementation for layer '" + layer + "' (" +
                      std::string(op_display_name(query.layer().op)) + ") on " +
                      backend.target().description +
                      (reasons.empty() ? ": the backend has no tactic for it" : ":" + reasons));
  return effort.timed ? limit(std::move(usable), effort.max_tactics) : usable;
}

double estimated_ms(const TuningTraits& traits, const LayerQuery& query, const Tactic& tactic, size_t rank) {
  if (tactic.is_view) return 0;
  // Of tactics that are expected to take the same time the first is taken.
  if (tactic.expected_us > 0) return tactic.expected_us / 1e3 * (1 + 1e-6 * static_cast<double>(rank));
  const LayerWork work = work_of(query, tactic);
  const double base = std::max(work.ops / traits.flops_per_ms, work.bytes / traits.bytes_per_ms) + 0.002;
  return base * (1 + 0.1 * static_cast<double>(rank)) * (tactic.last_resort ? 100 : 1);
}

}  // namespace lathe
