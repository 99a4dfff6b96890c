// SPDX-License-Identifier: Apache-2.0
#include "builder/layer_precisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backend/backend.h"
#include "base/error.h"
#include "base/name_pattern.h"

namespace lathe {
namespace {

std::string_view type_name(DType type) {
  return dtype_info(type).trt_arg;
}

// FP32, or floats of 16 bits.
bool gives_floats(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
    if (v == kNoValue) return false;
    const DTypeInfo& type = dtype_info(graph.value(v).dtype);
    return type.is_float && (type.bits == 16 || type.bits == 32);
  });
}

class Resolver {
 public:
  Resolver(const Graph& model, const BuildOptions& options, const Backend& backend, Observer& observer)
      : model_(model), options_(options), backend_(backend), observer_(observer) {}

  LayerTypes run() {
    for (const bool wildcards : {true, false})
      for (const LayerPrecision& entry : options_.layer_precisions)
        if (is_pattern(entry.layer) == wildcards) apply(entry);
    if (skipped_)
      observer_.log(Severity::Info,
                    "Skipped setting precisions for some layers. Check verbose logs for more details.");
    for (const auto& [name, types] : result_.by_node) tell(name, types);
    return std::move(result_);
  }

 private:
  void apply(const LayerPrecision& entry) {
    if (entry.compute) check_type(entry, *entry.compute);
    for (const DType type : entry.outputs) check_type(entry, type);
    const bool obeyed = options_.precision_constraints == PrecisionConstraints::Obey;
    bool found = false;
    std::set<std::string_view> seen;
    for (const NodeId id : model_.order()) {
      const Node& node = model_.node(id);
      for (const Origin& origin : node.origins) {
        if (!matches_pattern(entry.layer, origin.name) || !seen.insert(origin.name).second) continue;
        found = true;
        if (!gives_floats(model_, node)) {
          skip(entry, origin, "it gives no FP32 or 16-bit floats");
          continue;
        }
        check_outputs(entry, node, origin);
        DemandedTypes& demanded = result_.by_node[origin.name];
        demanded.is_required = obeyed && !is_pattern(entry.layer);
        if (entry.compute) demanded.compute = entry.compute;
        if (!entry.outputs.empty()) demanded.outputs = entry.outputs;
      }
    }
    if (!found)
      observer_.log(Severity::Warning, fmt::format("No node of the model is called '{}', for which a type is "
                                                   "demanded: nothing is done for it.",
                                                   entry.layer));
  }

  void check_type(const LayerPrecision& entry, DType type) const {
    if (type == DType::Float32) return;
    if (type != DType::Float16 && type != DType::BFloat16)
      throw_input_error(
          fmt::format(
              "layer '{}' cannot compute in {} on demand: fp32, fp16 and bf16 can be demanded. Integers "
              "and FP8 come from QuantizeLinear and DequantizeLinear in the model (lathe quantize with "
              "--op-types and --exclude writes them)",
              entry.layer, type_name(type)),
          ErrorCode::InvalidConfig);
    const Support support = backend_.supports_compute_type(type);
    if (support.ok) return;
    const std::string what =
        fmt::format("layer '{}' cannot compute in {}: {}", entry.layer, type_name(type), support.reason);
    if (options_.precision_constraints == PrecisionConstraints::Obey)
      throw_input_error(what + ". With --precisionConstraints=prefer it computes in another type",
                        ErrorCode::NotOnThisHardware);
    observer_.log(Severity::Warning, what + ". It computes in another type.");
  }

  static void check_outputs(const LayerPrecision& entry, const Node& node, const Origin& origin) {
    if (entry.outputs.size() <= 1 || entry.outputs.size() == node.outputs.size()) return;
    throw_input_error(fmt::format("Layer {} has {} outputs but {} output types are given for it", origin.name,
                                  node.outputs.size(), entry.outputs.size()),
                      ErrorCode::InvalidConfig);
  }

  void skip(const LayerPrecision& entry, const Origin& origin, const std::string& reason) {
    skipped_ |= is_pattern(entry.layer);
    observer_.log(is_pattern(entry.layer) ? Severity::Verbose : Severity::Warning,
                  fmt::format("No type is set for layer {} ({}): {}.", origin.name, origin.op_type, reason));
  }

  void tell(const std::string& name, const DemandedTypes& types) const {
    if (types.compute)
      observer_.log(Severity::Info,
                    fmt::format("Set layer {} to precision {}", name, type_name(*types.compute)));
    for (size_t i = 0; i < types.outputs.size(); ++i)
      observer_.log(Severity::Info, fmt::format("Set output {} of layer {} to type {}", i, name,
                                                type_name(types.outputs[i])));
  }

  const Graph& model_;
  const BuildOptions& options_;
  const Backend& backend_;
  Observer& observer_;
  LayerTypes result_;
  bool skipped_ = false;
};

}  // namespace

LayerTypes demanded_types(const Graph& model, const BuildOptions& options, const Backend& backend,
                          Observer& observer) {
  if (options.layer_precisions.empty()) return {};
  const auto idle = [&](const std::string& why) {
    observer.log(Severity::Warning, "Types of single layers have no effect: " + why + ".");
    return LayerTypes{};
  };
  if (options.strongly_typed) return idle("the network is strongly typed, its types come from the model");
  if (options.precision_constraints == PrecisionConstraints::None)
    return idle("--precisionConstraints is none; obey makes them hold, prefer where there are tactics");
  return Resolver(model, options, backend, observer).run();
}

}  // namespace lathe
