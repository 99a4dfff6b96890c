// SPDX-License-Identifier: Apache-2.0
//
// ConvTranspose in linear format with what the products on channels-last images (product/codegen_gemm.cpp)
// refuse: weights of run time, automatic pads, sizes that the model says, channels of an open number. A
// product whose left operand is sampled (sample.h): the pixel that a tap of a position meets, or zero.
// Operations: 2 per filter, channel, tap and position, of which strides leave only a part that is not zero.
#include "backend/cuda/sample/sample.h"
#include "ops/window.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kSampledConvTransposeRunner = "SampledConvTranspose";

std::vector<Tactic> list_sampled_conv_transpose(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<ConvTranspose>(&node.op);
  if (!op) return {};
  return list_sampled_conv(query, kSampledConvTransposeRunner, "cuda_sampled_conv_transpose", op->groups);
}

// As resolve_transposed() of ops/conv.cpp has it.
Dim pad_begin(const ConvTranspose& op, size_t i, const Dim& in, const Dim& out) {
  const bool same = op.auto_pad == AutoPad::SameUpper || op.auto_pad == AutoPad::SameLower;
  if (op.output_shape.empty() && !same)
    return op.auto_pad == AutoPad::NotSet ? entry_or(op.pads_begin, i, 0) : 0;
  const int64_t reach = (op.kernel[i] - 1) * entry_or(op.dilations, i, 1) + 1;
  const Dim total =
      (in - Dim(1)) * Dim(entry_or(op.strides, i, 1)) + Dim(entry_or(op.output_padding, i, 0) + reach) - out;
  const Dim half = floor_div(total, Dim(2));
  return op.auto_pad == AutoPad::SameUpper ? half : total - half;
}

LayerSource generate_sampled_conv_transpose(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<ConvTranspose>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  Dim taps = 1;
  for (const int64_t k : op.kernel) taps = taps * Dim(k);
  KernelBuilder b = start_sampled_conv(query, tactic, "sampled_conv_transpose", op.groups,
                                       floor_div(x[1], Dim(op.groups)), taps);
  // Of each dim: the position of the result plus the pad, then what a tap makes of it.
  std::string places = "idx rest = place;\n", meet;
  for (size_t d = op.kernel.size(); d-- > 0;) {
    const std::string n = std::to_string(d), out = b.number(y[d + 2]), in = b.number(x[d + 2]);
    places += "const idx o" + n + " = rest % " + out + " + " +
              b.number(pad_begin(op, d, x[d + 2], y[d + 2])) + ";\nrest /= " + out + ";\n";
    const std::string kernel = std::to_string(op.kernel[d]),
                      stride = std::to_string(entry_or(op.strides, d, 1));
    meet += "{\nconst idx spread = o" + n + " - tap % " + kernel + " * " +
            std::to_string(entry_or(op.dilations, d, 1)) + ", at = spread / " + stride +
            ";\nif (spread < 0 || spread % " + stride + " != 0 || at >= " + in +
            ") return 0.f;\noffset += at * plane;\nplane *= " + in + ";\ntap /= " + kernel + ";\n}\n";
  }
  b.line(sample_taps(places, meet, op.groups) +
         "const auto filter_at = [&](idx f, idx k) { return "
         "widen(FILTERS[((group * GC + k / TAPS) * GF + f) * TAPS + k % TAPS]); };");
  b.line(sampled_product());
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily sampled_conv_transpose_family() {
  return {kSampledConvTransposeRunner, list_sampled_conv_transpose, generate_sampled_conv_transpose};
}

}  // namespace lathe::cuda
