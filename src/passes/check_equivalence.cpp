// SPDX-License-Identifier: Apache-2.0
#include "passes/check_equivalence.h"

#include "base/error.h"
#include "ops/interpreter.h"
#include "reference/compare.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

// A fully convolutional model refuses tiny images, so larger values follow until the graph can run.
constexpr int64_t kSymbolValues[] = {3, 8, 37, 64, 224};
constexpr uint64_t kSeed = 20240229;

bool is_narrow(DType dtype) {
  return is_float(dtype) && dtype_info(dtype).bits < 32;
}

// A rewrite may sum in another order, no more. Where the model rounds to a narrow type on the way, a rewrite
// may not.
double limit(const Graph& graph, DType dtype) {
  if (!is_float(dtype)) return 0;
  bool narrow = is_narrow(dtype);
  for (const NodeId id : graph.order())
    for (const ValueId output : graph.node(id).outputs)
      narrow = narrow || (output != kNoValue && is_narrow(graph.value(output).dtype));
  return narrow ? 2e-2 : 1e-5;
}

struct Run {
  std::vector<Tensor> inputs, outputs;
};

Run run_at_smallest_size(const Graph& graph, ThreadPool& pool) {
  const auto symbols = graph.symbols();
  for (int64_t value : kSymbolValues) {
    SymbolValues values;
    for (const std::string& symbol : symbols) values[symbol] = value;
    try {
      Run run;
      run.inputs = random_inputs(graph, values, kSeed);
      run.outputs = interpret(graph, run.inputs, {.pool = &pool});
      return run;
    } catch (const Error& error) {
      const bool last = value == kSymbolValues[std::size(kSymbolValues) - 1];
      if (symbols.empty() || last || error.kind() != ErrorKind::Input) throw;
    }
  }
  return {};
}

}  // namespace

void check_equivalence(const Graph& before, const Graph& after, ThreadPool& pool) {
  const Run expected = run_at_smallest_size(before, pool);
  const std::vector<Tensor> actual = interpret(after, expected.inputs, {.pool = &pool});
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    const Comparison comparison = compare(actual[i], expected.outputs[i]);
    check(comparison.within(limit(before, expected.outputs[i].dtype())), "the rewrite changes output \"" +
                                                                     before.value(before.outputs()[i]).name +
                                                                     "\": " + comparison.to_string());
  }
}

}  // namespace lathe
