// SPDX-License-Identifier: Apache-2.0
//
// What the families with generated kernels share: tactic skeletons.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/codegen_tail.h"
#include "base/hash.h"

namespace lathe::cuda {

// The types that the layer may use: those that it is allowed besides its own first, as the libraries' tactics have it, so
// that without timing neighbours agree.
inline std::vector<DType> layer_types(const LayerQuery& query) {
  const DType own = query.graph.value(query.layer().outputs[0]).dtype;
  std::vector<DType> types;
  if (is_float(own))
    for (const DType t : query.layer().allowed_types)
      if (t != own) types.push_back(t);
  types.push_back(own);
  return types;
}

inline bool is_kernel_float(DType t) {
  return t == DType::Float32 || t == DType::BFloat16 || t == DType::Float16;
}
inline bool is_half(DType t) {
  return t == DType::BFloat16 || t == DType::Float16;
}

// All operands in their own type and linear, absent ones Undefined.
inline Tactic linear_tactic(const LayerQuery& query, std::string_view runner, std::string name) {
  const Node& node = query.layer();
  Tactic t;
  t.runner = runner;
  t.name = std::move(name);
  t.id = hash_text(t.name);
  for (const ValueId v : node.inputs)
    t.inputs.push_back(v == kNoValue ? TensorType{} : TensorType{query.graph.value(v).dtype, kLinear});
  for (const ValueId v : node.outputs)
    t.outputs.push_back(v == kNoValue ? TensorType{} : TensorType{query.graph.value(v).dtype, kLinear});
  return t;
}

// The same with input 0 and output 0 as given, and operands of the epilogue as its tail wants them.
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

// The layer reads this input a second time, as an operand of its epilogue: its memory cannot take the result early.
inline bool reads_twice(const LayerQuery& query, size_t input) {
  const auto& inputs = query.layer().inputs;
  return std::count(inputs.begin(), inputs.end(), inputs[input]) > 1;
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

// A family of generated kernels: its tactics for a layer, and the sources of a supported one.
struct GeneratedFamily {
  std::string_view runner;
  std::vector<Tactic> (*list)(const LayerQuery& query);
  LayerSource (*generate)(const LayerQuery& query, const Tactic& tactic);
};

}  // namespace lathe::cuda
