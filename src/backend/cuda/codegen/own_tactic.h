// SPDX-License-Identifier: Apache-2.0
//
// What the families with generated kernels share: tactic skeletons.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/codegen/codegen_tail.h"
#include "backend/cuda/device/device.h"

namespace lathe::cuda {

// The types that the layer may use: those that it is allowed besides its own first, as the libraries' tactics have it, so
// that without timing neighbours agree.
inline std::vector<DType> allowed_types_first(const LayerQuery& query) {
  std::vector<DType> types = layer_types(query);
  std::rotate(types.begin(), types.begin() + 1, types.end());
  return types;
}

inline bool is_kernel_float(DType t) {
  return t == DType::Float32 || t == DType::BFloat16 || t == DType::Float16;
}
inline bool is_half(DType t) {
  return t == DType::BFloat16 || t == DType::Float16;
}

// A linear_tactic() with input 0 and output 0 as given, and operands of the epilogue as its tail wants them.
inline Tactic typed_tactic(const LayerQuery& query, std::string_view runner, std::string name,
                           const TensorType& input, const TensorType& output) {
  Tactic t = linear_tactic(query, runner, std::move(name));
  t.inputs.resize(query.layer().op_input_count());
  if (!t.inputs.empty()) t.inputs[0] = input;
  t.outputs[0] = output;
  t.support = Tail::list(query, output, t.inputs);
  if (t.support.ok && storage_name(input.dtype).empty())
    t.support = Support::no("no kernel for " + std::string(dtype_name(input.dtype)));
  return t;
}

inline const Shape& input_shape(const LayerQuery& query, size_t i) {
  return query.graph.value(query.layer().inputs[i]).shape;
}
inline const Shape& output_shape(const LayerQuery& query, size_t i = 0) {
  return query.graph.value(query.layer().outputs[i]).shape;
}
inline Dim product(const Shape& shape, size_t from, size_t to) {
  Dim n = 1;
  for (size_t d = from; d < to; ++d) n = n * shape[d];
  return n;
}

// "softmax_f16": names of tactics say the type only through their operands, entries of kernels do.
inline KernelBuilder start_kernel(const LayerQuery& query, std::string entry, DType result) {
  KernelBuilder b(std::move(entry));
  b.set_wide(needs_wide_index(query));
  b.set_fast_math(is_half(result));
  return b;
}

// For families whose tactics all pack alike.
inline std::string packs_alike(const Tactic&) {
  return {};
}

// A family of generated kernels: its tactics for a layer, and the sources of a supported one.
struct GeneratedFamily {
  std::string_view runner;
  std::vector<Tactic> (*list)(const LayerQuery& query, const Device& device);
  LayerSource (*generate)(const LayerQuery& query, const Tactic& tactic, const Device& device);
  std::string (*packing_key)(const Tactic& tactic) = nullptr;  // kernel.h
};

}  // namespace lathe::cuda
