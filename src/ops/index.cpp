// SPDX-License-Identifier: Apache-2.0
#include "ops/index.h"

#include <string>

#include "base/error.h"

namespace lathe {
namespace {

[[noreturn]] void throw_out_of_range(int64_t index, int64_t extent) {
  throw_input_error("index " + std::to_string(index) + " is outside [" + std::to_string(-extent) + ", " +
                    std::to_string(extent - 1) + "], the range of a dim of " + std::to_string(extent));
}

}  // namespace

void check_index_type(const Value& indices) {
  if (indices.dtype == DType::Int32 || indices.dtype == DType::Int64) return;
  throw_input_error("the indices '" + indices.name + "' have type " + std::string(dtype_name(indices.dtype)) +
                    "; they must be int32 or int64");
}

std::vector<int64_t> wrapped_indices(const Tensor& indices, int64_t extent) {
  std::vector<int64_t> wrapped = indices.to_int64s();
  for (int64_t& index : wrapped) {
    if (index < -extent || index >= extent) throw_out_of_range(index, extent);
    if (index < 0) index += extent;
  }
  return wrapped;
}

void check_known_indices(const std::optional<Shape>& indices, const Dim& dim) {
  if (!indices || !dim.is_constant()) return;
  for (const Dim& index : *indices)
    if (index.is_constant() && (index.value() < -dim.value() || index.value() >= dim.value()))
      throw_out_of_range(index.value(), dim.value());
}

void check_fits_inside(const Shape& inner, const Shape& outer, size_t axis) {
  bool fits = inner.size() == outer.size();
  for (size_t d = 0; fits && d < inner.size(); ++d) {
    const bool known = inner[d].is_constant() && outer[d].is_constant();
    fits = d == axis || !known || inner[d].value() <= outer[d].value();
  }
  if (!fits) {
    throw_input_error("indices of " + to_string(inner) + " for data of " + to_string(outer) +
                      ": the ranks must be equal and no dim but that of axis " + std::to_string(axis) +
                      " larger");
  }
}

void check_fits_inside(const Extents& inner, const Extents& outer, size_t axis) {
  check_fits_inside(to_shape(inner), to_shape(outer), axis);
}

int64_t addressed_dims(const Shape& indices, const Shape& x, int64_t batch_dims) {
  const auto rank = static_cast<int64_t>(x.size()), index_rank = static_cast<int64_t>(indices.size());
  if (rank == 0 || index_rank == 0) throw_input_error("data and indices must have at least one dim");
  if (batch_dims < 0 || batch_dims >= rank || batch_dims >= index_rank) {
    throw_input_error("batch_dims = " + std::to_string(batch_dims) + " for data of " + to_string(x) +
                      " and indices of " + to_string(indices) + ": it must be smaller than both ranks");
  }
  for (size_t d = 0; d < static_cast<size_t>(batch_dims); ++d) {
    if (indices[d].is_constant() && x[d].is_constant() && indices[d] != x[d]) {
      throw_input_error("the batch dims of " + to_string(x) + " and " + to_string(indices) + " differ");
    }
  }
  if (!indices.back().is_constant()) {
    throw_input_error("indices of " + to_string(indices) +
                      ": the last dim must be fixed, it gives the result's rank");
  }
  const int64_t length = indices.back().value();
  if (length < 1 || length > rank - batch_dims) {
    throw_input_error("indices of " + to_string(indices) + ": an address of " + std::to_string(length) +
                      " entries does not fit to data of " + to_string(x));
  }
  return batch_dims + length;
}

BlockIndices block_indices(const Tensor& indices, const Extents& x, int64_t batch_dims) {
  BlockIndices result;
  result.addressed_dims =
      static_cast<size_t>(addressed_dims(to_shape(indices.extents()), to_shape(x), batch_dims));
  for (size_t d = result.addressed_dims; d < x.size(); ++d) result.block_size *= x[d];
  const auto batch = static_cast<size_t>(batch_dims);
  const size_t length = result.addressed_dims - batch;
  const std::vector<int64_t> entries = indices.to_int64s();
  const size_t addresses = entries.size() / length;
  int64_t batches = 1;
  for (size_t d = 0; d < batch; ++d) batches *= x[d];
  const int64_t per_batch = batches == 0 ? 1 : static_cast<int64_t>(addresses) / batches;
  result.blocks.resize(addresses);
  for (size_t i = 0; i < addresses; ++i) {
    int64_t block = batch == 0 ? 0 : static_cast<int64_t>(i) / per_batch;
    for (size_t k = 0; k < length; ++k) {
      int64_t index = entries[i * length + k];
      const int64_t extent = x[batch + k];
      if (index < -extent || index >= extent) throw_out_of_range(index, extent);
      block = block * extent + (index < 0 ? index + extent : index);
    }
    result.blocks[i] = block;
  }
  return result;
}

}  // namespace lathe
