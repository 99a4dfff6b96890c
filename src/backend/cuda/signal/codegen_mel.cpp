// SPDX-License-Identifier: Apache-2.0
//
// MelWeightMatrix whose numbers the run brings (constants are folded), in double as in ops/dft.cpp. Products
// are rounded before they are added, as on a CPU: the edges of triangles are whole numbers.
#include "backend/cuda/codegen/own_tactic.h"
#include "lathe_device_text/mel.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kMelRunner = "Mel";

std::vector<Tactic> list_mel(const LayerQuery& query, const Device&) {
  const auto* op = std::get_if<MelWeightMatrix>(&query.layer().op);
  if (op == nullptr) return {};
  Tactic t = linear_tactic(query, kMelRunner, "cuda_mel_weights");
  t.inputs.resize(query.layer().op_input_count());
  t.support = Tail::list(query, t.outputs[0], t.inputs);
  for (size_t i = 0; i < query.layer().op_input_count(); ++i)
    if (const Support s = computed(t.inputs[i].dtype); !s.ok) t.support = s;
  if (!is_kernel_float(op->dtype) && op->dtype != DType::Float64)
    t.support = Support::no("no kernel for " + std::string(dtype_name(op->dtype)));
  return {t};
}

LayerSource generate_mel(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Shape& y = output_shape(query);
  const DType type = tactic.outputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "mel_weights", type);
  b.set_fast_math(false);
  Tail(query, tactic).emit(b, 1);
  b.hardware(rounded_products());
  b.global("typedef " + std::string(compute_name(type)) + " Result;");
  b.kernel().grid[0] = ceil_div(element_count(y), Dim(256));
  b.line("const idx ROWS = " + b.number(y[0]) + ", BINS = " + b.number(y[1]) + ";");
  const char* names[] = {"", "LENGTH", "RATE", "LOW", "HIGH"};
  for (size_t i = 1; i < 5; ++i)
    b.line("const double " + std::string(names[i]) + " = (double)widen(*" +
           b.input(i, tactic.inputs[i].dtype) + ");");
  b.line(device_text::mel::kMel);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily mel_family() {
  return {kMelRunner, list_mel, generate_mel};
}

}  // namespace lathe::cuda
