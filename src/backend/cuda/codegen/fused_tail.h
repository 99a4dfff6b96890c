// SPDX-License-Identifier: Apache-2.0
//
// What a layer is to a library: the types it can have, and its epilogue: + residual, + bias, activation, each
// at most once. What has another form runs as a pointwise kernel behind the library's (epilogue.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/tactic.h"

namespace lathe::cuda {

// Types in which a library can compute the layer: those that it may have besides its own, then its own.
std::vector<DType> library_types(const LayerQuery& query);

struct FusedTail {
  std::optional<size_t> bias;      // input of the node: a constant with one value per channel, or one for all
  std::optional<size_t> residual;  // input of the node: as large as the result, computed at run time
  std::optional<PointwiseStep> activation;

  bool is_relu() const { return activation && activation->code == PointwiseCode::Relu; }
};

// Nothing when the epilogue has another form. `channel_axis` is the result's axis of the bias.
std::optional<FusedTail> fused_tail(const LayerQuery& query, size_t channel_axis);

// A constant vector over the result's channels in type `dtype`, its single value repeated if it has just one.
std::vector<std::byte> channel_vector(const Tensor& constant, int64_t channels, DType dtype);

// A constant's elements in type `dtype` (16 or 32 bit float).
std::vector<std::byte> convert_floats(const Tensor& constant, DType dtype);
// The same in another order: a nest of three loops over `extents`, outermost first, reads at `strides`
// (elements).
std::vector<std::byte> convert_floats(const Tensor& constant, DType dtype, std::span<const int64_t> extents,
                                      std::span<const int64_t> strides);

}  // namespace lathe::cuda
