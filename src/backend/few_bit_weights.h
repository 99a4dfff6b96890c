// SPDX-License-Identifier: Apache-2.0
//
// Constant weights of four or eight bits under rows of floats: what kernels that keep them so ask of the
// layer, how they say in a tactic how the weights are packed, and the integers to pack.
//
// The grid has one scale for the weights, one for each column, or one for each block of k that a column has.
// Its numbers are packed with the weights, so the grid of an engine file may lack them: a tactic has all that
// a kernel is made from.
#pragma once

#include <cstdint>
#include <string>

#include "backend/tactic.h"

namespace lathe {

struct FewBitPacking {
  int64_t bits = 4;           // or 8
  int64_t block = 0;          // indices of k with one scale; 0: all
  bool half_scales = false;   // every scale is an FP16 number
  bool stores_zeros = false;  // else all are the middle, 8 or 128 of the numbers from the smallest on

  // "int4_blocks32_half_scales", and the numbers in this order.
  std::string name() const;
  TacticParams params() const;
};

// Whether the layer multiplies rows by one matrix of such weights; no says what is in the way.
Support multiplies_few_bits(const LayerQuery& query);
// Of such a layer whose grid has its numbers.
FewBitPacking few_bit_packing(const LayerQuery& query);
// That of a tactic. Throws Input unless its blocks divide the weights' k.
FewBitPacking few_bit_packing(const LayerQuery& query, const TacticParams& params);

// Columns and k of the constant weights of a product, or of each of its matrices, and whether they lie as
// [k, column].
struct WeightExtents {
  int64_t columns = 0, depth = 0;
};
WeightExtents weight_extents(const LayerQuery& query);
bool is_by_k(const Node& product);

// Scales and zero points by column and block of k.
class FewBitGrid {
 public:
  FewBitGrid(const Value& weights, bool by_k, const FewBitPacking& packing);

  int64_t columns() const { return columns_; }
  int64_t depth() const { return depth_; }
  float scale(int64_t column, int64_t block) const { return grid_.scale(number_of(column, block)); }
  int32_t zero(int64_t column, int64_t block) const { return grid_.zero(number_of(column, block)) - lowest_; }

 protected:
  size_t number_of(int64_t column, int64_t block) const;

  Quantization grid_;
  int64_t columns_, depth_, blocks_;
  bool by_k_;
  int32_t lowest_;
};

// The weights themselves, too, whichever of column and k lies side by side. Reads the constant's bytes.
class FewBitWeights : public FewBitGrid {
 public:
  FewBitWeights(const Value& weights, bool by_k, const FewBitPacking& packing);

  // From the smallest on: 0 to 15, or to 255.
  int32_t quantum(int64_t column, int64_t k) const {
    const uint8_t byte = bytes_[static_cast<size_t>(by_k_ ? k * columns_ + column : column * depth_ + k)];
    return (lowest_ < 0 ? int32_t{static_cast<int8_t>(byte)} : int32_t{byte}) - lowest_;
  }

 private:
  Tensor integers_;
  const uint8_t* bytes_;
};

}  // namespace lathe
