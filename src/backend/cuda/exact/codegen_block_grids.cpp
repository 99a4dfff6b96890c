// SPDX-License-Identifier: Apache-2.0
//
// QuantizeLinear and DequantizeLinear where a scale stands for a block along an axis, and integers of 4 bits,
// two of which share a byte. A thread for two elements of the flat tensor; the quotient is FP32, as in
// ops/quantize.cpp, because one that lands on a half decides a whole step. Bytes: data once, scales once for
// each row of a block, from the L1.
//
// One scale for a tensor, or for each index of an axis, in whole bytes is a pointwise layer.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/whole_program.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "BlockGrids";

bool is_packed(DType type) {
  return type == DType::Int4 || type == DType::UInt4;
}
bool is_signed(DType type) {
  return type == DType::Int4 || type == DType::Int8 || type == DType::Int16 || type == DType::Int32;
}
Support integers(DType type) {
  if (is_packed(type) || (!is_float(type) && type != DType::Bool && !storage_name(type).empty())) return {};
  return Support::no("no kernel for " + std::string(dtype_name(type)));
}
// As what an operand is read: pairs of 4 bits are bytes.
DType read_type(DType type) {
  return is_packed(type) ? DType::UInt8 : type;
}

std::vector<Tactic> list(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const bool quantizes = std::holds_alternative<QuantizeLinear>(node.op);
  if ((!quantizes && !std::holds_alternative<DequantizeLinear>(node.op)) || is_plain_quantization(node))
    return {};
  const std::vector<DType> types =
      quantizes ? std::vector<DType>{query.graph.value(node.outputs[0]).dtype} : allowed_types_first(query);
  std::vector<Tactic> tactics;
  for (const DType type : types) {
    Tactic t = linear_tactic(query, kRunner, quantizes ? "cuda_quantize_blocks" : "cuda_dequantize_blocks");
    t.outputs[0].dtype = type;
    const DType number = quantizes ? t.inputs[0].dtype : type, integer = quantizes ? type : t.inputs[0].dtype;
    t.support = integers(integer);
    if (t.inputs.size() > 2 && t.inputs[2].dtype != DType::Undefined && t.support.ok)
      t.support = integers(t.inputs[2].dtype);
    for (const DType x : {number, t.inputs[1].dtype})
      if (!is_kernel_float(x)) t.support = Support::no("no kernel for " + std::string(dtype_name(x)));
    if (!node.epilogue.empty()) t.support = Support::no("no epilogue behind it");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// Element i of an operand, also of one whose elements share bytes.
std::string element_macro(KernelBuilder& b, std::string_view name, size_t input, DType type) {
  const std::string from = b.input(input, read_type(type));
  std::string text = "widen(" + from + "[i])";
  if (is_packed(type)) text = std::string(is_signed(type) ? "signed_nibble" : "nibble") + "(" + from + ", i)";
  return "#define " + std::string(name) + "(i) " + text;
}

// Least and most of an integer type.
std::pair<int64_t, int64_t> range_of(DType type) {
  const int bits = is_packed(type) ? 4 : 8 * dtype_size(type);
  if (is_signed(type)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Node& node = query.layer();
  const auto* quantize = std::get_if<QuantizeLinear>(&node.op);
  const auto* dequantize = std::get_if<DequantizeLinear>(&node.op);
  const int64_t axis = quantize != nullptr ? quantize->axis : dequantize->axis,
                block = quantize != nullptr ? quantize->block_size : dequantize->block_size;
  const Shape &x = input_shape(query, 0), &scale = input_shape(query, 1);
  const Dim total = element_count(x);
  KernelBuilder b = start_kernel(query, tactic, quantize != nullptr ? "quantize_blocks" : "dequantize_blocks",
                                 tactic.outputs[0].dtype);
  b.set_fast_math(false);
  b.kernel().grid[0] = ceil_div(total, Dim(512));
  b.global(R"(DEV long long nibble(const unsigned char* p, idx i) { return p[i / 2] >> (i % 2 * 4) & 15; }
DEV long long signed_nibble(const unsigned char* p, idx i) { return (nibble(p, i) ^ 8) - 8; })");
  b.line("const idx TOTAL = " + b.number(total) +
         ", first = ((idx)blockIdx.x * 256 + threadIdx.x) * 2;\nif (first >= TOTAL) return;");
  std::string index = "0";
  if (!(element_count(scale).is_constant(1) && block == 0)) {
    const auto at = static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(x.size()), "axis"));
    const std::string inner = b.number(product(x, at + 1, x.size())), length = b.number(x[at]),
                      scales = b.number(scale.size() == x.size() ? scale[at] : scale[0]);
    index = block == 0 ? "i / " + inner + " % " + length
                       : "(i / " + inner + " / " + length + " * " + scales + " + i / " + inner + " % " +
                             length + " / " + std::to_string(block) + ") * " + inner + " + i % " + inner;
  }
  b.line("const auto scale_at = [&](idx i) -> idx { return " + index + "; };");
  b.line(element_macro(b, "ELEMENT", 0, tactic.inputs[0].dtype));
  b.line(element_macro(b, "SCALE", 1, tactic.inputs[1].dtype));
  const bool has_zero = tactic.inputs.size() > 2 && tactic.inputs[2].dtype != DType::Undefined;
  if (has_zero) {
    b.line(element_macro(b, "ZERO_POINT", 2, tactic.inputs[2].dtype));
    b.line(element_count(input_shape(query, 2)).is_constant(1) ? "#define ZERO(at) (float)ZERO_POINT(0)"
                                                               : "#define ZERO(at) (float)ZERO_POINT(at)");
  } else {
    b.line("#define ZERO(at) 0.f");
  }
  const DType to = tactic.outputs[0].dtype;
  const std::string out = b.output(0, read_type(to)), type(storage_name(read_type(to)));
  if (quantize != nullptr) {
    const auto [low, high] = range_of(to);
    b.line(
        "const auto result = [&](idx i) {\nconst idx at = scale_at(i);\nconst float q = "
        "rintf((float)ELEMENT(i) / "
        "SCALE(at)) + ZERO(at);\nreturn q != q ? 0ll : (long long)fminf(fmaxf(q, " +
        float_literal(static_cast<double>(low)) + "), " + float_literal(static_cast<double>(high)) +
        ");\n};");
  } else {
    b.line(
        "const auto result = [&](idx i) {\nconst idx at = scale_at(i);\nreturn ((float)ELEMENT(i) - "
        "ZERO(at)) * "
        "SCALE(at);\n};");
  }
  if (is_packed(to))
    b.line(
        out +
        "[first / 2] = (unsigned char)((result(first) & 15) | (first + 1 < TOTAL ? (result(first + 1) & 15) "
        "<< 4 : 0));");
  else
    b.line("for (idx i = first; i < first + 2 && i < TOTAL; ++i) " + out + "[i] = Narrow<" + type +
           ">::from(result(i));");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily block_grids_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
