// SPDX-License-Identifier: Apache-2.0
#include "backend/integer_operands.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/error.h"
#include "ir/block_grid.h"

namespace lathe {
namespace {

const Quantization& weight_grid(const LayerQuery& query) {
  return *query.graph.value(query.layer().inputs[1]).quantization;
}

// The largest magnitude of an integer of the grid less its zero point, which is in the middle where it was
// left out.
int64_t largest(const Quantization& grid) {
  int64_t most = grid.zeros.empty() ? 128 : 0;
  for (const int32_t zero : grid.zeros)
    most = std::max({most, std::abs(int64_t{lowest_quantum(grid.dtype)} - zero),
                     std::abs(int64_t{highest_quantum(grid.dtype)} - zero)});
  return most;
}

}  // namespace

std::optional<ByteGrid> byte_grid(const Value& value, const TensorType& type) {
  return type.dtype == DType::UInt8 ? any_byte_grid(value, type) : std::nullopt;
}

std::optional<ByteGrid> any_byte_grid(const Value& value, const TensorType& type) {
  const std::optional<Quantization>& grid = value.quantization;
  if (!grid || grid->dtype != type.dtype || !grid->is_per_tensor()) return std::nullopt;
  if (type.dtype != DType::UInt8 && !grid->has_floats()) return std::nullopt;
  return ByteGrid{grid->scale(), static_cast<float>(grid->zero()), type.dtype};
}

namespace {

// Weights that are a stack of matrices, whose columns have scales: a block of the grid is a column. The
// numbers may have been left out: they are in the packed weights then.
Support has_scaled_columns_of_stack(const MatMul& product, const Value& w) {
  const Quantization& grid = *w.quantization;
  const size_t depth_axis = product.transpose_b ? 2 : 1;
  const bool blocks = has_blocks(grid, w.shape) && grid.axis == static_cast<int64_t>(depth_axis);
  if (blocks && (grid.scales.empty() || w.shape[depth_axis].is_constant(block_of(grid, w.shape)))) return {};
  return Support::no("the weights have no scale for each column of each matrix");
}

// What products of bytes of any kind ask of the weights and the bias.
Support has_scaled_columns(const LayerQuery& query, size_t weight_axis, bool floats) {
  const Node& node = query.layer();
  const Value& w = query.graph.value(node.inputs[1]);
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (!w.quantization) return Support::no("the weights lie on no grid");
  if (w.quantization->has_floats() != floats)
    return Support::no("the weights lie on a grid of " + std::string(dtype_name(w.quantization->dtype)));
  const auto* product = std::get_if<MatMul>(&node.op);
  if (product && w.shape.size() == 3 && !w.quantization->is_per_tensor()) {
    if (const Support s = has_scaled_columns_of_stack(*product, w); !s.ok) return s;
  } else if (has_blocks(*w.quantization, w.shape)) {
    return Support::no("the weights have a scale for each block");
  } else if (!w.quantization->is_per_tensor() && w.quantization->axis != static_cast<int64_t>(weight_axis)) {
    return Support::no("the weights have a scale per index of axis " + std::to_string(w.quantization->axis) +
                       ", not per output channel");
  }
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  return {};
}

}  // namespace

Support multiplies_small_floats(const LayerQuery& query, size_t weight_axis) {
  const Value& x = query.graph.value(query.layer().inputs[0]);
  if (!any_byte_grid(x, {DType::Float8E4M3FN, {}}))
    return Support::no("its input lies on no grid of float8e4m3fn with one scale");
  return has_scaled_columns(query, weight_axis, true);
}

Support multiplies_integers(const LayerQuery& query, size_t weight_axis, int64_t depth) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (!byte_grid(x, {DType::UInt8, {}})) return Support::no("its input lies on no grid of bytes");
  if (const Support s = has_scaled_columns(query, weight_axis, false); !s.ok) return s;
  if (depth > std::numeric_limits<int32_t>::max() / (largest(*x.quantization) * largest(*w.quantization)))
    return Support::no("a sum of " + std::to_string(depth) + " products may not fit 32 bits");
  return {};
}

bool has_byte_weights(const LayerQuery& query) {
  const Quantization& grid = weight_grid(query);
  return std::all_of(grid.zeros.begin(), grid.zeros.end(),
                     [middle = grid.dtype == DType::Int8 ? 0 : 128](int32_t z) { return z == middle; });
}

size_t weight_axis(const LayerQuery& query) {
  const auto* product = std::get_if<MatMul>(&query.layer().op);
  const size_t rank = query.graph.value(query.layer().inputs[1]).shape.size();
  return product ? rank - (product->transpose_b ? 2 : 1) : 0;
}

WeightChannels::WeightChannels(const Shape& weights, size_t weight_axis)
    : channels_(static_cast<size_t>(weights[weight_axis].value())) {
  for (size_t d = weight_axis + 1; d < weights.size(); ++d) inner_ *= static_cast<size_t>(weights[d].value());
  if (weight_axis > 0 && weights.size() == 3)
    matrix_ = static_cast<size_t>(weights[1].value() * weights[2].value());
}

void require_scales(const Value& weights) {
  if (weights.quantization->scales.empty())
    throw_input_error("the weights '" + weights.name + "' have no scales");
}

std::vector<int16_t> integer_weights(const Value& weights, size_t weight_axis) {
  require_scales(weights);
  const Quantization& grid = *weights.quantization;
  const std::vector<int64_t> stored = quantize(weights.constant, grid).to_int64s();
  std::vector<int16_t> integers(stored.size());
  const WeightChannels channels(weights.shape, weight_axis);
  for (size_t i = 0; i < stored.size(); ++i)
    integers[i] = static_cast<int16_t>(stored[i] - grid.zero(channels.of(i)));
  return integers;
}

std::vector<float> product_scales(const LayerQuery& query, int64_t channels) {
  const float x = query.graph.value(query.layer().inputs[0]).quantization->scale();
  std::vector<float> scales(static_cast<size_t>(channels));
  for (size_t c = 0; c < scales.size(); ++c)
    scales[c] = static_cast<float>(static_cast<double>(x) * static_cast<double>(weight_grid(query).scale(c)));
  return scales;
}

}  // namespace lathe
