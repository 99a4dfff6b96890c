// SPDX-License-Identifier: Apache-2.0
#include "backend/body_runs.h"

#include "base/error.h"

namespace lathe {

std::vector<Tensor> BodyRun::run(std::span<const Tensor> inputs, const SymbolValues& symbols) {
  return interpret(graph_, inputs,
                   {.symbols = symbols,
                    .evaluate = [this](NodeId id, std::span<const Tensor> operands,
                                       const SymbolValues& known) { return evaluate(id, operands, known); }});
}

std::vector<Tensor> BodyRun::run_nested(NodeId id, std::span<const Tensor> inputs,
                                        const SymbolValues& symbols) {
  std::unique_ptr<BodyRunner>& runs = nested_[id];
  if (runs == nullptr) runs = make_nested(id);
  return interpret_node(graph_, graph_.node(id), inputs, symbols, nullptr, runs.get());
}

std::vector<Tensor> BodyRuns::run(const Graph& body, std::span<const Tensor> inputs,
                                  const SymbolValues& symbols) const {
  const auto is_asked = [&](const auto& run) { return &run->graph() == &body; };
  const auto found = std::find_if(runs_.begin(), runs_.end(), is_asked);
  check(found != runs_.end(), "a body without kernels");
  return (*found)->run(inputs, symbols);
}

}  // namespace lathe
