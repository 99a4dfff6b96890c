// SPDX-License-Identifier: Apache-2.0
#include "builder/precision.h"

#include <algorithm>
#include <map>

#include "passes/passes.h"
#include "tune/candidates.h"

namespace lathe {
namespace {

constexpr DType kNarrowTypes[] = {DType::Float16, DType::BFloat16};

// The model is stored in a type other than FP32 in which layers compute here.
bool keeps_narrow_types(const Graph& model, const Backend& backend) {
  return std::any_of(std::begin(kNarrowTypes), std::end(kNarrowTypes), [&](DType type) {
    return backend.supports_compute_type(type).ok && computes_in(model, type);
  });
}

}  // namespace

std::vector<DType> allowed_types(const Graph& model, const BuildOptions& options, const Backend& backend,
                                 Observer& observer) {
  std::vector<DType> types;
  const std::string what_then = keeps_narrow_types(model, backend) ? "." : ". Layers compute in FP32.";
  if (options.strongly_typed) {
    for (const auto& [on, flag] : {std::pair{options.bf16, "--bf16"}, std::pair{options.fp16, "--fp16"},
                                   std::pair{options.best, "--best"}})
      if (on)
        observer.log(Severity::Warning,
                     std::string(flag) +
                         " has no effect: the network is strongly typed, its types come from the model.");
    return types;
  }
  std::string reasons;
  const auto allow = [&](bool wanted, DType dtype, const std::string& flag) {
    if (!wanted && !options.best) return;
    const Support support = backend.supports_compute_type(dtype);
    if (support.ok)
      types.push_back(dtype);
    else if (wanted)
      observer.log(Severity::Warning, flag + " has no effect: " + support.reason + what_then);
    else
      reasons += (reasons.empty() ? "" : "; ") + support.reason;
  };
  allow(options.bf16, DType::BFloat16, "--bf16");
  allow(options.fp16, DType::Float16, "--fp16");
  if (options.best && types.empty() && !reasons.empty())
    observer.log(Severity::Warning, "--best has no effect: " + reasons + what_then);
  return types;
}

std::vector<DType> widened_types(const Graph& model, const Backend& backend, Observer& observer,
                                 std::vector<DType>& allowed) {
  std::vector<DType> widened;
  for (const DType type : kNarrowTypes) {
    if (backend.computes_everything_in(type) || !computes_in(model, type)) continue;
    widened.push_back(type);
    const std::string name(dtype_name(type));
    const Support support = backend.supports_compute_type(type);
    if (support.ok && std::find(allowed.begin(), allowed.end(), type) == allowed.end())
      allowed.push_back(type);
    observer.log(Severity::Info, "The model is stored in " + name + ": layers compute in FP32" +
                                     (support.ok ? " or " + name + ", whichever is faster,"
                                                 : " between casts (" + support.reason + "),") +
                                     " inputs and outputs keep their types.");
  }
  return widened;
}

std::string precision_shares(const PlanVariant& variant) {
  struct Share {
    int layers = 0;
    double ms = 0;
  };
  std::map<DType, Share> shares;
  double all_ms = 0;
  int layers = 0;
  for (const Choice& c : variant.choices) {
    Share& share = shares[compute_type(c.tactic)];
    ++share.layers;
    share.ms += c.time_ms;
    all_ms += c.time_ms;
    ++layers;
  }
  std::string text;
  for (const auto& [dtype, share] : shares) {
    char part[96];
    snprintf(part, sizeof part, "%s%s: %d of %d layers, %.1f %% of the time", text.empty() ? "" : "; ",
             std::string(dtype_info(dtype).trt_arg).c_str(), share.layers, layers,
             all_ms > 0 ? share.ms / all_ms * 100 : 0.0);
    text += part;
  }
  return text;
}

bool uses_type(const PlanVariant& variant, const std::vector<DType>& types) {
  return std::any_of(variant.choices.begin(), variant.choices.end(), [&](const Choice& c) {
    return std::find(types.begin(), types.end(), compute_type(c.tactic)) != types.end();
  });
}

}  // namespace lathe
