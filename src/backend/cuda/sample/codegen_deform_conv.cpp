// SPDX-License-Identifier: Apache-2.0
//
// DeformConv as a product whose left operand is sampled (sample.h). Operations: 2 per filter, tap and
// position, and about 30 for each sample, which 64 filters share. Bytes: four pixels for each sample from the
// caches, offsets once for each tile of filters.
//
// A place that is not inside of the image, or not a number, reads nothing.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/sample/sample.h"
#include "lathe_device_text/deform_conv.h"
#include "ops/window.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kDeformConvRunner = "DeformConv";
enum DeformConvInput : size_t { kImages, kFilters, kOffsets, kFilterBias, kMasks };

std::vector<Tactic> list_deform_conv(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<DeformConv>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kDeformConvRunner, "cuda_deform_conv", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {kImages, kFilters, kOffsets, kFilterBias, kMasks});
    if (op->groups > 65535) t.support = Support::no("more than 65535 groups");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_deform_conv(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<DeformConv>(query.layer().op);
  const Shape &x = input_shape(query, kImages), &y = output_shape(query);
  const Dim per_group = floor_div(y[1], Dim(op.groups));
  KernelBuilder b = start_kernel(query, tactic, "deform_conv", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid = {ceil_div(y[0] * y[2] * y[3], Dim(64)), ceil_div(per_group, Dim(64)), op.groups};
  const auto number = [](std::string_view name, int64_t value) {
    return std::string(name) + " = " + std::to_string(value);
  };
  const int64_t taps = op.kernel[0] * op.kernel[1];
  b.global("constexpr int " + number("TAPS", taps) + ", " + number("KW", op.kernel[1]) + ", " +
           number("OFFSET_GROUPS", op.offset_groups) + ", " + number("STRIDE_H", entry_or(op.strides, 0, 1)) +
           ", " + number("STRIDE_W", entry_or(op.strides, 1, 1)) + ", " +
           number("DILATION_H", entry_or(op.dilations, 0, 1)) + ", " +
           number("DILATION_W", entry_or(op.dilations, 1, 1)) + ", " +
           number("PAD_H", entry_or(op.pads_begin, 0, 0)) + ", " +
           number("PAD_W", entry_or(op.pads_begin, 1, 0)) + ";");
  const auto optional = [&](std::string_view name, size_t input, std::string_view otherwise) {
    const bool given = tactic.inputs.size() > input && input < query.layer().op_input_count() &&
                       tactic.inputs[input].dtype != DType::Undefined;
    b.line("#define " + std::string(name) + "(i) " +
           (given ? "widen(" + b.input(input, tactic.inputs[input].dtype) + "[i])" : std::string(otherwise)));
  };
  optional("BIAS", kFilterBias, "0.f");
  optional("MASK", kMasks, "1.f");
  b.line("#define FROM " + b.input(kImages, tactic.inputs[kImages].dtype) + "\n#define FILTERS " +
         b.input(kFilters, tactic.inputs[kFilters].dtype) + "\n#define OFFSETS " +
         b.input(kOffsets, tactic.inputs[kOffsets].dtype));
  b.line("const idx POSITIONS = " + b.number(y[0] * y[2] * y[3]) + ", AREA = " + b.number(y[2] * y[3]) +
         ", OW = " + b.number(y[3]) + ", C = " + b.number(x[1]) + ", H = " + b.number(x[2]) +
         ", W = " + b.number(x[3]) + ", F = " + b.number(y[1]) + ", GF = " + b.number(per_group) +
         ", GC = " + b.number(floor_div(x[1], Dim(op.groups))) +
         ", K = " + b.number(floor_div(x[1], Dim(op.groups)) * Dim(taps)) + ";");
  b.line(sampled_positions());
  b.line(device_text::deform_conv::kSample);
  b.line(sampled_product());
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily deform_conv_family() {
  return {kDeformConvRunner, list_deform_conv, generate_deform_conv};
}

}  // namespace lathe::cuda
