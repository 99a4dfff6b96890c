// SPDX-License-Identifier: Apache-2.0
#include "engine_report.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "output_file.h"
#include "report/engine_layers.h"
#include "report/layer_costs.h"
#include "report/layer_info.h"

namespace lathe::cli {
namespace {

SymbolValues run_symbols(Context& context) {
  SymbolBinder binder;
  for (size_t i = 0; i < context.engine().inputs().size(); ++i) {
    binder.bind_shape(context.engine().inputs()[i], context.input_extents(i));
  }
  return binder.finish();
}

void print_optimization_profiles(const Engine& engine, Log& log) {
  log.info("Optimization Profile Information:");
  for (int p = 0; p < engine.profile_count(); ++p) {
    for (const auto& [name, range] : engine.profile(p).shapes) {
      log.info(fmt::format("Model input {} (profile {}): min={}, opt={}, max={}", name, p,
                           dims_text(range.min), dims_text(range.opt), dims_text(range.max)));
    }
  }
}

// What runs has the run's shapes, other profiles the ones that they were tuned for; without a run nothing is
// known.
LayerReport describe_engine(const Engine& engine, Context* context) {
  return describe_engine(engine, [&](int profile) -> std::optional<SymbolValues> {
    if (context == nullptr) return std::nullopt;
    return context->profile() == profile ? run_symbols(*context) : opt_symbols(engine, profile);
  });
}

}  // namespace

void report_built_engine(const Engine& engine, Log& log) {
  if (!log.verbose()) return;
  LayerReport report = describe_engine(engine, [&](int profile) { return opt_symbols(engine, profile); });
  report.verbosity = ProfilingVerbosity::Detailed;
  const auto block = [&](const char* title, std::string text) {
    if (text.ends_with('\n')) text.pop_back();  // the log ends the last line
    log.library(Severity::Verbose, std::string(title) + "\n" + text);
  };
  block("Engine Layer Information:", engine_layers_text(report));
  block("Layers:", layer_info_text(report));
}

void report_engine(const Options& options, const Engine& engine, Context* context, Log& log) {
  const auto& reporting = options.reporting;
  if (reporting.dump_layer_info || !reporting.export_layer_info.empty()) {
    LayerReport report = describe_engine(engine, context);
    // A plan always knows its layers, so asking for details when it is loaded gives them, whatever it was
    // built with.
    if (options.build.profiling_verbosity == 2) report.verbosity = ProfilingVerbosity::Detailed;
    if (reporting.dump_layer_info) {
      log.info("Layer Information:");
      std::string text = layer_info_text(report);
      text.pop_back();  // the log ends the last line
      log.info("Layers:\n" + text);
    }
    if (!reporting.export_layer_info.empty() && report.verbosity == ProfilingVerbosity::Detailed &&
        context != nullptr) {
      size_t first = 0;
      for (int p = 0; p < context->profile(); ++p) first += engine.timed_names(p).size();
      add_layer_costs(report, first, *engine.plan(), engine.variant(context->profile()),
                      run_symbols(*context));
    }
    export_file(reporting.export_layer_info, [&](FileWriter& file) { file.write(layer_info_json(report)); });
  }
  if (reporting.dump_optimization_profile) print_optimization_profiles(engine, log);
}

}  // namespace lathe::cli
