// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug_tensors.h"

#include "runtime/engine.h"

namespace lathe {
namespace {

bool is_stored(const PlanVariant& variant, ValueId id) {
  return id != kNoValue && !variant.graph->value(id).is_constant() &&
         variant.memory.placements[static_cast<size_t>(id)].kind != Placement::Kind::None;
}

}  // namespace

std::vector<std::string> debug_tensors(const Engine& engine, int profile) {
  const PlanVariant& variant = engine.variant(profile);
  std::vector<std::string> names;
  for (const NodeId node : variant.graph->order())
    for (const ValueId output : variant.graph->node(node).outputs)
      if (is_stored(variant, output)) names.push_back(variant.graph->value(output).name);
  return names;
}

Execution::LayerHook debug_hook(Context& context, std::set<std::string, std::less<>> names,
                                std::function<void(const std::string& name, const Tensor& values)> tell) {
  const PlanVariant& variant = context.engine().variant(context.profile());
  const auto after = [&context, &variant, names = std::move(names), tell = std::move(tell)](size_t layer) {
    for (const ValueId output : variant.graph->node(variant.graph->order()[layer]).outputs) {
      if (!is_stored(variant, output)) continue;
      const std::string& name = variant.graph->value(output).name;
      if (names.empty() || names.contains(name)) tell(name, context.execution().read(output));
    }
  };
  return {.before = {}, .after = after};
}

}  // namespace lathe
