// SPDX-License-Identifier: Apache-2.0
#include "backend/body_runs.h"

#include <numeric>

#include "backend/nested_layers.h"
#include "base/error.h"
#include "base/stopwatch.h"

namespace lathe {
std::vector<Tensor> BodyRun::run(std::span<const Tensor> inputs, const SymbolValues& symbols) {
  const bool timed = !times_ms_.empty();
  return interpret(
      graph_, inputs,
      {.symbols = symbols,
       .evaluate = [this, timed](NodeId id, std::span<const Tensor> operands, const SymbolValues& known) {
         return timed ? evaluate_timed(id, operands, known) : evaluate(id, operands, known);
       }});
}

void BodyRun::add_times_to(std::span<double> ms) {
  times_ms_ = ms;
  if (ms.empty() || !places_.empty()) return;
  size_t place = 0;
  for (const NodeId id : graph_.order()) {
    places_[id] = place;
    place += 1 + nested_count(graph_.node(id).op);
  }
}

std::vector<Tensor> BodyRun::evaluate_timed(NodeId id, std::span<const Tensor> inputs,
                                            const SymbolValues& symbols) {
  const size_t place = places_.at(id);
  const auto inside = times_ms_.subspan(place + 1, nested_count(graph_.node(id).op));
  const auto nested_ms = [&] { return std::accumulate(inside.begin(), inside.end(), 0.0); };
  wait();
  const double before_ms = nested_ms();
  const Stopwatch watch;
  std::vector<Tensor> results = evaluate(id, inputs, symbols);
  wait();
  times_ms_[place] += watch.seconds() * 1e3 - (nested_ms() - before_ms);
  return results;
}

std::vector<Tensor> BodyRun::run_nested(NodeId id, std::span<const Tensor> inputs,
                                        const SymbolValues& symbols) {
  std::unique_ptr<BodyRuns>& runs = nested_[id];
  if (runs == nullptr) runs = make_nested(id);
  const Node& node = graph_.node(id);
  runs->add_times_to(times_ms_.empty() ? times_ms_
                                       : times_ms_.subspan(places_.at(id) + 1, nested_count(node.op)));
  if (auto results = runs->follow_on_device(node.op, inputs, symbols)) return *std::move(results);
  return interpret_node(graph_, node, inputs, symbols, nullptr, runs.get());
}

std::vector<Tensor> BodyRuns::run(const Graph& body, std::span<const Tensor> inputs,
                                  const SymbolValues& symbols) const {
  const auto is_asked = [&](const auto& run) { return &run->graph() == &body; };
  const auto found = std::find_if(runs_.begin(), runs_.end(), is_asked);
  check(found != runs_.end(), "a body without kernels");
  return (*found)->run(inputs, symbols);
}

void BodyRuns::add_times_to(std::span<double> ms) const {
  for (const std::unique_ptr<BodyRun>& run : runs_) {
    const size_t count = ms.empty() ? 0 : timed_count(run->graph());
    run->add_times_to(ms.first(count));
    ms = ms.subspan(count);
  }
}

}  // namespace lathe
