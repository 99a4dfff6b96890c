// SPDX-License-Identifier: Apache-2.0
//
//   a result that ends in RoundTo, or only holds elements of such results
//     ->  the same, quantized uint8 scale [s] zero [z]
//   a result that ends in RoundToE4M3  ->  the same, quantized float8e4m3fn scale [s] zero [0]
//
// so that the tuner may store it as bytes and kernels that multiply them may read them. Nothing else changes:
// the numbers are the same however they are stored, and where bytes do not pay, the value stays FP32.
//
// Must not fire when the bounds in front of the rounding leave more than 256 multiples, for other types than
// FP32, for joins of values with different scales, and for what mixes elements (sums, averages,
// interpolation).
#include "ir/edit.h"
#include "passes/grids.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

std::optional<Quantization> grid_of(const Graph& graph, const Node& node, size_t output) {
  if (!node.epilogue.empty()) return output == 0 ? grid_of_program(node.epilogue) : std::nullopt;
  if (const auto* chain = std::get_if<PointwiseChain>(&node.op)) return grid_of_program(chain->program);
  const bool picked = output == 0 || std::holds_alternative<Split>(node.op);
  return picked ? grid_of_moved(graph, node) : std::nullopt;
}

}  // namespace

bool mark_quantization(Graph& graph, PassContext& context) {
  bool changed = false;
  GraphEditor editor(graph);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (v == kNoValue || graph.value(v).dtype != DType::Float32) continue;
      std::optional<Quantization> grid = grid_of(graph, node, i);
      if (!grid || graph.value(v).quantization == grid) continue;
      if (!context.may_change()) return changed;
      editor.set_quantization(v, std::move(grid));
      changed = true;
    }
  }
  return changed;
}

}  // namespace lathe
