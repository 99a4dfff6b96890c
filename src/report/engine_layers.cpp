// SPDX-License-Identifier: Apache-2.0
#include "report/engine_layers.h"

namespace lathe {

SymbolValues opt_symbols(const Engine& engine, int profile) {
  SymbolValues opt;
  for (const auto& [name, range] : engine.variant(profile).ranges) opt[name] = range.opt;
  return opt;
}

LayerReport describe_engine(const Engine& engine,
                            const std::function<std::optional<SymbolValues>(int profile)>& symbols) {
  const Plan& plan = *engine.plan();
  LayerReport report = describe_layers(plan, engine.variant(0), symbols(0));
  report.settings = engine.section().settings;
  for (int p = 1; p < engine.profile_count(); ++p) add_profile(report, plan, engine.variant(p), symbols(p));
  return report;
}

}  // namespace lathe
