// SPDX-License-Identifier: Apache-2.0
//
// What kernels that multiply the bytes of grids ask of a layer of the graph: on which grid of bytes a value
// is stored, whether the operands of a product lie on grids that can be multiplied, and the bytes of its
// constant weights. Bytes are integers, or floats of 8 bits (E4M3).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/tactic.h"
#include "ir/graph.h"

namespace lathe {

// The numbers (q - zero) * scale, stored as bytes q.
struct ByteGrid {
  float scale = 1, zero = 0;
  DType dtype = DType::UInt8;  // or Float8E4M3FN

  bool has_floats() const { return dtype != DType::UInt8; }
};
// That of a value which is stored as `type`; nullopt where that is no byte of a grid with one scale. The
// first is for integers alone.
std::optional<ByteGrid> byte_grid(const Value& value, const TensorType& type);
std::optional<ByteGrid> any_byte_grid(const Value& value, const TensorType& type);

// Whether the layer multiplies bytes of a grid by constant weights of a grid, its scales along `weight_axis`
// at most (of a stack of matrices, for each), with sums of `depth` products that fit 32 bits. No says what is
// in the way.
Support multiplies_integers(const LayerQuery& query, size_t weight_axis, int64_t depth);

// The same for floats of 8 bits, whose sums are floats.
Support multiplies_small_floats(const LayerQuery& query, size_t weight_axis);

// The weights less their zero points fit signed bytes, which quads, tiles and tensor cores multiply.
bool has_byte_weights(const LayerQuery& query);

// The dim of the weights of a product or convolution that counts the result's channels.
size_t weight_axis(const LayerQuery& query);
// The channel of each element of the weights: its index along `weight_axis`. In a stack of matrices they are
// counted on from matrix to matrix.
class WeightChannels {
 public:
  WeightChannels(const Shape& weights, size_t weight_axis);
  size_t of(size_t element) const {
    const size_t channel = element / inner_ % channels_;
    return matrix_ == 0 ? channel : element / matrix_ * channels_ + channel;
  }

 private:
  size_t inner_ = 1, channels_ = 1, matrix_ = 0;  // matrix_: elements of one of a stack
};
// Throws Input where the grid of the weights left its numbers out: an engine file may have neither them nor
// packed weights.
void require_scales(const Value& weights);
// Whole numbers in the order of the constant, less the zero point of their channel. Reads the constant's
// bytes.
std::vector<int16_t> integer_weights(const Value& weights, size_t weight_axis);

// Scale of x times scale of the weights, for each of `channels`.
std::vector<float> product_scales(const LayerQuery& query, int64_t channels);

}  // namespace lathe
