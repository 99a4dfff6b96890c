// SPDX-License-Identifier: Apache-2.0
//
// QuantizeLinear and DequantizeLinear where a scale stands for a block along an axis, and of types that share
// bytes or are floats of 8 bits. A thread for the elements of a byte of the result. Bytes: data once, scales
// once for each row of a block, from the L1.
//
// One scale for a tensor, or for each index of an axis, in whole bytes is a pointwise layer.
#include "backend/cuda/exact/packed.h"
#include "backend/whole_program.h"
#include "lathe_device_text/block_grids.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kBlockGridsRunner = "BlockGrids";

bool is_signed(DType type) {
  return dtype_info(type).is_signed;
}
Support stands_on_grid(DType type) {
  if (type == DType::UInt64 || type == DType::Bool)
    return Support::no("no kernel for " + std::string(dtype_name(type)));
  return readable(type);
}

// A pointwise layer: its operands are whole bytes, too.
bool is_pointwise(const LayerQuery& query) {
  const Node& node = query.layer();
  return is_plain_quantization(node) && std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
           return id != kNoValue && is_packed(query.graph.value(id).dtype);
         });
}

std::vector<Tactic> list_block_grids(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const bool quantizes = std::holds_alternative<QuantizeLinear>(node.op);
  if ((!quantizes && !std::holds_alternative<DequantizeLinear>(node.op)) || is_pointwise(query)) return {};
  const std::vector<DType> types =
      quantizes ? std::vector<DType>{query.graph.value(node.outputs[0]).dtype} : allowed_types_first(query);
  std::vector<Tactic> tactics;
  for (const DType type : types) {
    Tactic t = linear_tactic(query, kBlockGridsRunner,
                             quantizes ? "cuda_quantize_blocks" : "cuda_dequantize_blocks");
    t.outputs[0].dtype = type;
    const DType number = quantizes ? t.inputs[0].dtype : type, integer = quantizes ? type : t.inputs[0].dtype;
    t.support = stands_on_grid(integer);
    if (t.inputs.size() > 2 && t.inputs[2].dtype != DType::Undefined && t.support.ok)
      t.support = stands_on_grid(t.inputs[2].dtype);
    if (t.support.ok && !is_small_float(t.inputs[1].dtype) && !is_kernel_float(t.inputs[1].dtype))
      t.support = Support::no("no kernel for scales in " + std::string(dtype_name(t.inputs[1].dtype)));
    if (!is_kernel_float(number)) t.support = Support::no("no kernel for " + std::string(dtype_name(number)));
    if (!node.epilogue.empty()) t.support = Support::no("no epilogue behind it");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// Least and most of an integer type.
std::pair<int64_t, int64_t> range_of(DType type) {
  const int bits = dtype_info(type).bits;
  if (is_signed(type)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

// "ScaleIndex{inner, length, blocks}", and the constant BLOCK.
std::string scale_index(KernelBuilder& b, const LayerQuery& query, int64_t axis, int64_t block) {
  const Shape &x = input_shape(query, 0), &scale = input_shape(query, 1);
  if (block == 0 && element_count(scale).is_constant(1)) {
    b.constants({{"BLOCK", 0}});
    return "ScaleIndex{1, 1, 1}";
  }
  b.constants({{"BLOCK", block == 0 ? -1 : block}});
  const auto at = static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(x.size()), "axis"));
  return "ScaleIndex{" + b.number(product(x, at + 1, x.size())) + ", " + b.number(x[at]) + ", " +
         b.number(scale.size() == x.size() ? scale[at] : scale[0]) + "}";
}

LayerSource generate_block_grids(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Node& node = query.layer();
  const auto* quantize = std::get_if<QuantizeLinear>(&node.op);
  const auto* dequantize = std::get_if<DequantizeLinear>(&node.op);
  const DType to = tactic.outputs[0].dtype;
  const bool has_zero = tactic.inputs.size() > 2 && tactic.inputs[2].dtype != DType::Undefined;
  KernelBuilder b =
      start_kernel(query, tactic, quantize != nullptr ? "quantize_blocks" : "dequantize_blocks", to);
  b.set_fast_math(false);
  if (quantize != nullptr) b.set_cast({.to = to, .saturate = quantize->saturate});
  const std::string index = quantize != nullptr
                                ? scale_index(b, query, quantize->axis, quantize->block_size)
                                : scale_index(b, query, dequantize->axis, dequantize->block_size);
  b.constants({{"ROUNDS", is_float(to) ? 0 : 1},
               {"ONE_ZERO", has_zero && element_count(input_shape(query, 2)).is_constant(1) ? 1 : 0}});
  add_packed(b);
  b.global(device_text::block_grids::kBlockGrids);
  begin_packed(b, to, element_count(input_shape(query, 0)));
  b.line("const ScaleIndex scale_of = " + index +
         ";\nconst auto x = " + elements_of(b, 0, tactic.inputs[0].dtype) +
         ";\nconst auto scales = " + elements_of(b, 1, tactic.inputs[1].dtype) + ";\nconst auto zeros = " +
         (has_zero ? elements_of(b, 2, tactic.inputs[2].dtype) : "NoZeros{}") + ";");
  std::string number = quantize != nullptr ? "quantized(x, scales, zeros, scale_of, i)"
                                           : "dequantized(x, scales, zeros, scale_of, i)";
  if (quantize != nullptr && !is_float(to)) {
    const auto [low, high] = range_of(to);
    number = "clamped(" + number + ", " + double_literal(static_cast<double>(low)) + ", " +
             double_literal(static_cast<double>(high)) + ")";
  }
  b.line(store_elements(b, to, number));
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily block_grids_family() {
  return {kBlockGridsRunner, list_block_grids, generate_block_grids};
}

}  // namespace lathe::cuda
