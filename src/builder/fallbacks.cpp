// SPDX-License-Identifier: Apache-2.0
#include "builder/fallbacks.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"

namespace lathe {
namespace {

struct FallbackKind {
  int layers = 0;
  double ms = 0;
  std::string reason;  // of the first
};

std::string layers_text(const std::string& op, int count) {
  return fmt::format("{} {} layer{}", count, op, count == 1 ? "" : "s");
}

}  // namespace

void report_fallbacks(const PlanVariant& variant, bool timed, const BuildOptions& options,
                      Observer& observer) {
  std::map<std::string, FallbackKind> kinds;
  std::vector<std::string> lines;
  double all_ms = 0;
  for (size_t i = 0; i < variant.choices.size(); ++i) {
    const Choice& choice = variant.choices[i];
    all_ms += choice.time_ms;
    if (choice.fallback.empty()) continue;
    const Node& node = variant.graph->node(variant.graph->order()[i]);
    const std::string op(op_display_name(node.op));
    FallbackKind& kind = kinds[op];
    if (kind.layers++ == 0) kind.reason = choice.fallback;
    kind.ms += choice.time_ms;
    lines.push_back(fmt::format("'{}' ({}) runs on the reference: {}", node.name, op, choice.fallback));
  }
  if (options.fail_on_fallback && !lines.empty())
    throw_input_error(fmt::format("{} of {} layers have no kernel but the reference, and --failOnFallback "
                                  "makes that an error:\n  {}",
                                  lines.size(), variant.choices.size(), fmt::join(lines, "\n  ")),
                      ErrorCode::InvalidConfig);
  for (const std::string& line : lines) observer.log(Severity::Verbose, line);
  for (const auto& [op, kind] : kinds)
    observer.log(
        Severity::Warning,
        fmt::format(
            "{} {} on the reference, right but slow (one thread, no vectors){}: {}",
            layers_text(op, kind.layers), kind.layers == 1 ? "runs" : "run",
            timed && all_ms > 0 ? fmt::format(", {:.1f} % of the layers' time", 100 * kind.ms / all_ms) : "",
            kind.reason));
}

}  // namespace lathe
