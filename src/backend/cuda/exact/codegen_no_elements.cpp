// SPDX-License-Identifier: Apache-2.0
//
// Layers without elements (backend/no_elements.h), which other families refuse because they divide by
// extents. A reduction over nothing gives what it begins with, and a product of no columns zeros: the kernels
// of exact_reduce.cuh and exact_product.cuh read no element then. A layer that moves elements has none to
// move: it is a layer without kernels.
//
// What has no elements at the shapes that an engine was tuned for may have some in another run. Kernels of
// reductions and products serve these, too; a layer without kernels is offered only where no shape of the
// profile has any.
#include "backend/cuda/exact/exact_product.h"
#include "backend/cuda/exact/exact_reduce.h"
#include "backend/no_elements.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {
namespace {

// Its result has the elements of input 0, or some of them, or copies.
bool moves_input(const Op& op) {
  return std::holds_alternative<Slice>(op) || std::holds_alternative<ReshapeOp>(op) ||
         std::holds_alternative<Expand>(op) || std::holds_alternative<Tile>(op) ||
         std::holds_alternative<Transpose>(op);
}

bool is_always_empty(const LayerQuery& query, ValueId id) {
  if (id == kNoValue) return true;
  const Extents extents = upper_extents(query.graph.value(id).shape, query.max_values());
  return std::find(extents.begin(), extents.end(), 0) != extents.end();
}

// Nothing is written, whatever shapes come; and whoever needs to know how many elements there are not has it
// from values (backend/sizes_from_values.h), not from this layer.
bool does_nothing(const LayerQuery& query) {
  const Node& node = query.layer();
  if (moves_input(node.op) && is_always_empty(query, node.inputs[0])) return true;
  return found_names(query).empty() && std::all_of(node.outputs.begin(), node.outputs.end(),
                                                   [&](ValueId id) { return is_always_empty(query, id); });
}

std::vector<Tactic> list_no_elements(const LayerQuery& query, const Device&) {
  if (!has_empty_operand(query)) return {};
  if (does_nothing(query)) return {linear_tactic(query, kNoElementsRunner, "cuda_nothing")};
  if (std::holds_alternative<Reduce>(query.layer().op)) return exact_reductions(query, kNoElementsRunner);
  if (std::holds_alternative<MatMul>(query.layer().op)) return {exact_product(query, kNoElementsRunner)};
  return {};
}

LayerSource generate_no_elements(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  if (does_nothing(query)) return {};
  if (std::holds_alternative<MatMul>(query.layer().op)) return generate_exact_product(query, tactic, device);
  return generate_exact_reduction(query, tactic, device);
}

}  // namespace

GeneratedFamily no_elements_family() {
  return {kNoElementsRunner, list_no_elements, generate_no_elements};
}

}  // namespace lathe::cuda
