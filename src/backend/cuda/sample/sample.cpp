// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/sample/sample.h"

#include "lathe_device_text/sampled_product.h"

namespace lathe::cuda {

std::string_view sampled_positions() {
  return device_text::sampled_product::kPositions;
}

std::string_view sampled_product() {
  return device_text::sampled_product::kProduct;
}

std::vector<Tactic> list_sampled_conv(const LayerQuery& query, std::string_view runner,
                                      const std::string& name, int64_t groups) {
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, runner, name, {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0, 1, 2});
    if (groups > 65535) t.support = Support::no("more than 65535 groups");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

KernelBuilder start_sampled_conv(const LayerQuery& query, const Tactic& tactic, const std::string& name,
                                 int64_t groups, const Dim& channels, const Dim& taps) {
  const Shape& y = output_shape(query);
  const Dim area = product(y, 2, y.size()), per_group = floor_div(y[1], Dim(groups));
  KernelBuilder b = start_kernel(query, tactic, name, tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid = {ceil_div(y[0] * area, Dim(64)), ceil_div(per_group, Dim(64)), groups};
  const bool biased = query.layer().op_input_count() > 2 && tactic.inputs[2].dtype != DType::Undefined;
  b.line("#define BIAS(i) " +
         (biased ? "widen(" + b.input(2, tactic.inputs[2].dtype) + "[i])" : std::string("0.f")));
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype) + "\n#define FILTERS " +
         b.input(1, tactic.inputs[1].dtype) + "\nconst idx POSITIONS = " + b.number(y[0] * area) +
         ", AREA = " + b.number(area) + ", F = " + b.number(y[1]) + ", GF = " + b.number(per_group) +
         ", GC = " + b.number(channels) + ", TAPS = " + b.number(taps) + ", K = GC * TAPS;");
  b.line(sampled_positions());
  return b;
}

std::string sample_taps(const std::string& places, const std::string& meet, int64_t groups) {
  return places +
         "const auto sample = [&](idx k) {\nif (position >= POSITIONS || k >= K) return 0.f;\nidx tap = k % "
         "TAPS, offset = 0, plane = 1;\n" +
         meet + "return (float)widen(FROM[(image * (GC * " + std::to_string(groups) +
         ") + group * GC + k / TAPS) * plane + offset]);\n};\n";
}

}  // namespace lathe::cuda
