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
#include "ir/new_names.h"

namespace lathe::cuda {

// The types that the layer may use: those that it is allowed besides its own first, as the libraries' tactics
// have it, so that without timing neighbours agree.
inline std::vector<DType> allowed_types_first(const LayerQuery& query) {
  std::vector<DType> types = layer_types(query);
  std::rotate(types.begin(), types.begin() + 1, types.end());
  return types;
}

// Is the input there?
inline bool is_given(const Tactic& t, size_t input) {
  return input < t.inputs.size() && t.inputs[input].dtype != DType::Undefined;
}

inline bool is_kernel_float(DType t) {
  return t == DType::Float32 || t == DType::BFloat16 || t == DType::Float16;
}
inline bool is_half(DType t) {
  return t == DType::BFloat16 || t == DType::Float16;
}

// Yes, if kernels calculate with elements of that type.
inline Support computed(DType t) {
  if (!storage_name(t).empty() && !is_small_float(t)) return {};
  return Support::no("no kernel for " + std::string(dtype_name(t)));
}

// The grid of an operand that is stored as bytes.
inline std::optional<ByteGrid> stored_grid(const LayerQuery& query, ValueId id, const TensorType& type) {
  return id == kNoValue ? std::nullopt : any_byte_grid(query.graph.value(id), type);
}
// The bytes as which a computed value may be stored; Undefined where it lies on no grid of bytes.
inline DType grid_bytes(const LayerQuery& query, ValueId id) {
  if (id == kNoValue || query.graph.value(id).is_constant()) return DType::Undefined;
  for (const DType type : {DType::UInt8, DType::Float8E4M3FN})
    if (stored_grid(query, id, {type, {}})) return type;
  return DType::Undefined;
}
inline bool has_grid_bytes(const LayerQuery& query, ValueId id) {
  return grid_bytes(query, id) != DType::Undefined;
}
// A type for numbers: a float, or bytes of the value's grid.
inline bool stores_numbers(const LayerQuery& query, ValueId id, const TensorType& type) {
  return is_kernel_float(type.dtype) || stored_grid(query, id, type).has_value();
}
// How a layer that reads numbers and writes numbers may have both: in the types above, and as bytes where
// they lie on grids, beside the first of those types.
struct StoredTypes {
  DType input, output;
};
inline std::vector<StoredTypes> stored_types(const LayerQuery& query, bool reads_bytes) {
  std::vector<StoredTypes> all;
  const Node& node = query.layer();
  const bool from = reads_bytes && has_grid_bytes(query, node.inputs[0]),
             to = has_grid_bytes(query, node.outputs[0]);
  const DType read = grid_bytes(query, node.inputs[0]), written = grid_bytes(query, node.outputs[0]);
  if (from && to) all.push_back({read, written});
  const std::vector<DType> types = allowed_types_first(query);
  if (to) all.push_back({types[0], written});
  if (from) all.push_back({read, types[0]});
  for (const DType type : types) all.push_back({type, type});
  return all;
}
// Types for tensor cores: bytes of a grid, whose sums may be bytes or the first type that the layer may have,
// and halves.
inline std::vector<StoredTypes> tensor_core_types(const LayerQuery& query) {
  std::vector<StoredTypes> all;
  const DType read = grid_bytes(query, query.layer().inputs[0]),
              written = grid_bytes(query, query.layer().outputs[0]);
  const bool to = written != DType::Undefined;
  if (read != DType::Undefined && query.graph.value(query.layer().inputs[1]).quantization) {
    if (to) all.push_back({read, written});
    all.push_back({read, allowed_types_first(query)[0]});
  }
  for (const DType type : layer_types(query)) {
    if (!is_half(type)) continue;
    all.push_back({type, type});
    if (to) all.push_back({type, written});
  }
  return all;
}
// A refused tactic whose reason names FP8 where it would multiply that: reports look for it.
inline Tactic refused_for(DType multiplied, Tactic tactic) {
  if (multiplied == DType::Float8E4M3FN) tactic.support.reason = "not in FP8: " + tactic.support.reason;
  return tactic;
}
// Integers are NaN nowhere.
inline void set_keeps_nan(const LayerQuery& query, Tactic& t) {
  const auto grid = stored_grid(query, query.layer().outputs[0], t.outputs[0]);
  if (grid && !grid->has_floats()) t.keeps_nan = false;
}

// A linear_tactic() with input 0 and output 0 as given, and operands of the epilogue as its tail wants them.
inline Tactic typed_tactic(const LayerQuery& query, std::string_view runner, std::string name,
                           const TensorType& input, const TensorType& output) {
  Tactic t = linear_tactic(query, runner, std::move(name));
  t.inputs.resize(query.layer().op_input_count());
  if (!t.inputs.empty()) t.inputs[0] = input;
  t.outputs[0] = output;
  t.support = Tail::list(query, output, t.inputs);
  set_keeps_nan(query, t);
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
inline KernelBuilder start_kernel(const LayerQuery& query, const Tactic& tactic, std::string entry,
                                  DType result) {
  KernelBuilder b(std::move(entry));
  b.set_wide(needs_wide_index(query));
  const Node& node = query.layer();
  const bool bytes = !tactic.outputs.empty() && stored_grid(query, node.outputs[0], tactic.outputs[0]);
  b.set_fast_math(is_half(result) || bytes);
  for (size_t i = 0; i < tactic.inputs.size(); ++i)
    if (const auto grid = stored_grid(query, node.inputs[i], tactic.inputs[i])) b.set_input_grid(i, *grid);
  for (size_t i = 0; i < tactic.outputs.size(); ++i)
    if (const auto grid = stored_grid(query, node.outputs[i], tactic.outputs[i])) b.set_output_grid(i, *grid);
  return b;
}

// For families whose tactics all pack alike.
inline std::string packs_alike(const Tactic&) {
  return {};
}

// LayerSource::found of a layer one of whose results has these dims: the data-dependent names that no operand
// has, in order.
inline std::vector<std::string> found_names(const LayerQuery& query) {
  const std::set<std::string> fresh = new_names(query.graph, query.layer());
  std::vector<std::string> names;
  for (const ValueId id : query.layer().outputs) {
    if (id == kNoValue) continue;
    for (const Dim& dim : query.graph.value(id).shape)
      if (const auto name = dim.as_symbol();
          name && fresh.contains(*name) && std::find(names.begin(), names.end(), *name) == names.end())
        names.push_back(*name);
  }
  return names;
}

// On GPUs that do not multiply floats of 8 bits, bytes of their grids would be converted for nothing.
inline std::vector<Tactic> with_known_bytes(const LayerQuery& query, const Device& device,
                                            std::vector<Tactic> tactics) {
  if (device.properties.multiplies_fp8()) return tactics;
  const auto has_floats = [&](const std::vector<ValueId>& values, const std::vector<TensorType>& types) {
    for (size_t i = 0; i < std::min(values.size(), types.size()); ++i)
      if (const auto grid = stored_grid(query, values[i], types[i]); grid && grid->has_floats()) return true;
    return false;
  };
  for (Tactic& t : tactics)
    if (has_floats(query.layer().inputs, t.inputs) || has_floats(query.layer().outputs, t.outputs))
      t.support = Support::no("FP8 is multiplied on GPUs from compute capability 8.9 on, and this one has " +
                              std::to_string(device.properties.major) + "." +
                              std::to_string(device.properties.minor));
  return tactics;
}

// A family of generated kernels: its tactics for a layer, and the sources of a supported one.
struct GeneratedFamily {
  std::string_view runner;
  std::vector<Tactic> (*list)(const LayerQuery& query, const Device& device);
  LayerSource (*generate)(const LayerQuery& query, const Tactic& tactic, const Device& device);
  std::string (*packing_key)(const Tactic& tactic) = nullptr;  // kernel.h
};

}  // namespace lathe::cuda
