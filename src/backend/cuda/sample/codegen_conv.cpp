// SPDX-License-Identifier: Apache-2.0
//
// Conv whose weights only the run brings; constant ones are packed for other families. Linear format, any
// number of spatial dims: a product whose left operand is sampled (sample.h), the pixel that a tap of a
// position meets, or zero. Operations: 2 per filter, channel, tap and position, in FP32.
#include "backend/cuda/sample/sample.h"
#include "ops/window.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kSampledConvRunner = "SampledConv";

std::vector<Tactic> list_sampled_convs(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Conv>(&node.op);
  if (!op || query.graph.value(node.inputs[1]).is_constant()) return {};
  return list_sampled_conv(query, kSampledConvRunner, "cuda_sampled_conv", op->groups);
}

// As resolve_window() of ops/window.cpp has it.
Dim pad_begin(const Conv& op, size_t i, const Dim& in, const Dim& out, const Dim& kernel) {
  if (op.auto_pad == AutoPad::NotSet) return entry_or(op.pads_begin, i, 0);
  if (op.auto_pad == AutoPad::Valid) return 0;
  const Dim reach = (kernel - Dim(1)) * Dim(entry_or(op.dilations, i, 1)) + Dim(1);
  const Dim total = max((out - Dim(1)) * Dim(entry_or(op.strides, i, 1)) + reach - in, Dim(0));
  const Dim half = floor_div(total, Dim(2));
  return op.auto_pad == AutoPad::SameUpper ? half : total - half;
}

LayerSource generate_sampled_conv(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Conv>(query.layer().op);
  const Shape &x = input_shape(query, 0), &w = input_shape(query, 1), &y = output_shape(query);
  KernelBuilder b =
      start_sampled_conv(query, tactic, "sampled_conv", op.groups, w[1], product(w, 2, w.size()));
  // Of each dim: where the window of the position begins, then the pixel of a tap.
  std::string places = "idx rest = place;\n", meet;
  for (size_t d = w.size() - 2; d-- > 0;) {
    const std::string n = std::to_string(d), out = b.number(y[d + 2]), in = b.number(x[d + 2]),
                      kernel = b.number(w[d + 2]);
    places += "const idx o" + n + " = rest % " + out + " * " + std::to_string(entry_or(op.strides, d, 1)) +
              " - " + b.number(pad_begin(op, d, x[d + 2], y[d + 2], w[d + 2])) + ";\nrest /= " + out + ";\n";
    meet += "{\nconst idx at = o" + n + " + tap % " + kernel + " * " +
            std::to_string(entry_or(op.dilations, d, 1)) + ";\nif (at < 0 || at >= " + in +
            ") return 0.f;\noffset += at * plane;\nplane *= " + in + ";\ntap /= " + kernel + ";\n}\n";
  }
  b.line(sample_taps(places, meet, op.groups) +
         "const auto filter_at = [&](idx f, idx k) { return "
         "(float)widen(FILTERS[(group * GF + f) * K + k]); };");
  b.line(sampled_product());
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily sampled_conv_family() {
  return {kSampledConvRunner, list_sampled_convs, generate_sampled_conv};
}

}  // namespace lathe::cuda
