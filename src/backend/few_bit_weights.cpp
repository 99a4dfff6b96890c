// SPDX-License-Identifier: Apache-2.0
#include "backend/few_bit_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/floats.h"
#include "ir/block_grid.h"

namespace lathe {
namespace {

const Value& weights_of(const LayerQuery& query) {
  return query.graph.value(query.layer().inputs[1]);
}

int64_t bits_of(const Quantization& grid) {
  return grid.dtype == DType::Int4 || grid.dtype == DType::UInt4 ? 4 : 8;
}

bool are_halves(const std::vector<float>& scales) {
  return std::all_of(scales.begin(), scales.end(),
                     [](float scale) { return fp16_to_float(float_to_fp16(scale)) == scale; });
}

bool are_in_the_middle(const Quantization& grid) {
  const int32_t middle = lowest_quantum(grid.dtype) < 0 ? 0 : (highest_quantum(grid.dtype) + 1) / 2;
  return std::all_of(grid.zeros.begin(), grid.zeros.end(), [=](int32_t zero) { return zero == middle; });
}

}  // namespace

std::string FewBitPacking::name() const {
  std::string text = bits == 4 ? "int4" : "int8";
  if (block > 0) text += "_blocks" + std::to_string(block);
  if (half_scales) text += "_half_scales";
  if (stores_zeros) text += "_zeros";
  return text;
}

TacticParams FewBitPacking::params() const {
  TacticParams params;
  if (block > 0) params.set("block", block);
  if (half_scales) params.set("half_scales", 1);
  if (stores_zeros) params.set("zeros", 1);
  return params;
}

Support multiplies_few_bits(const LayerQuery& query) {
  const Node& node = query.layer();
  if (!std::holds_alternative<MatMul>(node.op)) return Support::no("not a product");
  const Value &x = query.graph.value(node.inputs[0]), &w = weights_of(query);
  if (!w.quantization) return Support::no("the weights lie on no grid");
  if (std::get<MatMul>(node.op).transpose_a) return Support::no("the left operand is transposed");
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (x.shape.size() < 2 || w.shape.size() != 2)
    return Support::no("not rows of a matrix with one matrix of weights");
  if (w.constant.size() == 0) return Support::no("the weights are empty");
  const Quantization& grid = *w.quantization;
  if (grid.has_floats()) return Support::no("the weights lie on a grid of float8e4m3fn, not of integers");
  const int64_t k_axis = is_by_k(node) ? 0 : 1;
  const bool blocks = has_blocks(grid, w.shape);
  if (!grid.is_per_tensor() && (grid.axis == k_axis) != blocks)
    return Support::no("the weights have a scale per index of axis " + std::to_string(grid.axis) +
                       (blocks ? " in blocks" : "") + "; sums have one per column or block of k");
  return {};
}

FewBitPacking few_bit_packing(const LayerQuery& query) {
  const Value& w = weights_of(query);
  const Quantization& grid = *w.quantization;
  return {bits_of(grid), block_of(grid, w.shape), are_halves(grid.scales), !are_in_the_middle(grid)};
}

FewBitPacking few_bit_packing(const LayerQuery& query, const TacticParams& params) {
  const Value& w = weights_of(query);
  const int64_t block = params.get("block", 0), depth = weight_extents(query).depth;
  if (has_blocks(*w.quantization, w.shape) ? block < 1 || depth % block != 0 : block != 0)
    throw_input_error("blocks of " + std::to_string(block) + " do not divide the weights of '" +
                      query.layer().name + "', whose k is " + std::to_string(depth));
  return {bits_of(*w.quantization), block, params.get("half_scales", 0) != 0, params.get("zeros", 0) != 0};
}

bool is_by_k(const Node& product) {
  return !std::get<MatMul>(product.op).transpose_b;
}

WeightExtents weight_extents(const LayerQuery& query) {
  const Shape& shape = weights_of(query).shape;
  const bool by_k = is_by_k(query.layer());
  const Dim &rows = shape[shape.size() - 2], &row = shape.back();
  return {(by_k ? row : rows).value(), (by_k ? rows : row).value()};
}

FewBitGrid::FewBitGrid(const Value& weights, bool by_k, const FewBitPacking& packing)
    : grid_(*weights.quantization),
      columns_(weights.shape[by_k ? 1 : 0].value()),
      depth_(weights.shape[by_k ? 0 : 1].value()),
      blocks_(packing.block > 0 ? depth_ / packing.block : 0),
      by_k_(by_k),
      lowest_(lowest_quantum(grid_.dtype)) {
  // An engine file may say other blocks than it has scales for, or have neither them nor packed weights.
  if (blocks_ > 0 && block_of(grid_, weights.shape) != packing.block)
    throw_input_error("the weights '" + weights.name + "' have no scales for blocks of " +
                      std::to_string(packing.block));
}

FewBitWeights::FewBitWeights(const Value& weights, bool by_k, const FewBitPacking& packing)
    : FewBitGrid(weights, by_k, packing),
      integers_(quantize(weights.constant, grid_)),
      bytes_(static_cast<const uint8_t*>(static_cast<const void*>(integers_.bytes().data()))) {}

size_t FewBitGrid::number_of(int64_t column, int64_t block) const {
  if (blocks_ == 0) return static_cast<size_t>(column);
  return static_cast<size_t>(by_k_ ? block * columns_ + column : column * blocks_ + block);
}

}  // namespace lathe
