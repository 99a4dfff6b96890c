// SPDX-License-Identifier: Apache-2.0
//
// Conv whose weights only the run brings; constant ones are packed for other families. Linear format, any
// number of spatial dims: a product whose left operand is sampled (sample.h), the pixel that a tap of a
// position meets, or zero. Operations: 2 per filter, channel, tap and position, in FP32.
#include "backend/cuda/sample/sample.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "SampledConv";

std::vector<Tactic> list(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Conv>(&node.op);
  if (!op || query.graph.value(node.inputs[1]).is_constant()) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kRunner, "cuda_sampled_conv", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0, 1, 2});
    if (op->groups > 65535) t.support = Support::no("more than 65535 groups");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

int64_t entry_of(const Ints& list, size_t i, int64_t otherwise) {
  return i < list.size() ? list[i] : otherwise;
}

// As resolve_window() of ops/window.cpp has it.
Dim pad_begin(const Conv& op, size_t i, const Dim& in, const Dim& out, const Dim& kernel) {
  if (op.auto_pad == AutoPad::NotSet) return entry_of(op.pads_begin, i, 0);
  if (op.auto_pad == AutoPad::Valid) return 0;
  const Dim reach = (kernel - Dim(1)) * Dim(entry_of(op.dilations, i, 1)) + Dim(1);
  const Dim total = max((out - Dim(1)) * Dim(entry_of(op.strides, i, 1)) + reach - in, Dim(0));
  const Dim half = floor_div(total, Dim(2));
  return op.auto_pad == AutoPad::SameUpper ? half : total - half;
}

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Conv>(query.layer().op);
  const Shape &x = input_shape(query, 0), &w = input_shape(query, 1), &y = output_shape(query);
  const Dim area = product(y, 2, y.size()), per_group = floor_div(y[1], Dim(op.groups)), channels = w[1];
  KernelBuilder b = start_kernel(query, tactic, "sampled_conv", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid = {ceil_div(y[0] * area, Dim(64)), ceil_div(per_group, Dim(64)), op.groups};
  const bool biased = query.layer().op_input_count() > 2 && tactic.inputs[2].dtype != DType::Undefined;
  b.line("#define BIAS(i) " +
         (biased ? "widen(" + b.input(2, tactic.inputs[2].dtype) + "[i])" : std::string("0.f")));
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype) + "\n#define FILTERS " +
         b.input(1, tactic.inputs[1].dtype) + "\nconst idx POSITIONS = " + b.number(y[0] * area) +
         ", AREA = " + b.number(area) + ", F = " + b.number(y[1]) + ", GF = " + b.number(per_group) +
         ", GC = " + b.number(channels) + ", TAPS = " + b.number(product(w, 2, w.size())) +
         ", K = GC * TAPS;");
  b.line(sampled_positions());
  // Of each dim: where the window of the position begins, then the pixel of a tap.
  std::string places = "idx rest = place;\n", meet;
  for (size_t d = w.size() - 2; d-- > 0;) {
    const std::string n = std::to_string(d), out = b.number(y[d + 2]), in = b.number(x[d + 2]),
                      kernel = b.number(w[d + 2]);
    places += "const idx o" + n + " = rest % " + out + " * " + std::to_string(entry_of(op.strides, d, 1)) +
              " - " + b.number(pad_begin(op, d, x[d + 2], y[d + 2], w[d + 2])) + ";\nrest /= " + out + ";\n";
    meet += "{\nconst idx at = o" + n + " + tap % " + kernel + " * " +
            std::to_string(entry_of(op.dilations, d, 1)) + ";\nif (at < 0 || at >= " + in +
            ") return 0.f;\noffset += at * plane;\nplane *= " + in + ";\ntap /= " + kernel + ";\n}\n";
  }
  b.line(
      places +
      "const auto sample = [&](idx k) {\nif (position >= POSITIONS || k >= K) return 0.f;\nidx tap = k % "
      "TAPS, offset = 0, plane = 1;\n" +
      meet + "return (float)widen(FROM[(image * " + b.number(x[1]) +
      " + group * GC + k / TAPS) * plane + offset]);\n};\nconst auto filter_at = [&](idx f, idx k) { return "
      "(float)widen(FILTERS[(group * GF + f) * K + k]); };");
  b.line(sampled_product());
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily sampled_conv_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
