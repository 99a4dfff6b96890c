// SPDX-License-Identifier: Apache-2.0
//
// Rotary embedding: a kernel for each operand, a thread for each vector of the result. Bytes: an element is
// read twice, the second time from L1 or L2 as the partner of its pair, and written once.
#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kRotaryRunner = "Rotary";

std::vector<Tactic> list_rotary(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Rotary>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = linear_tactic(query, kRotaryRunner, "cuda_rotary");
    for (size_t i = Rotary::kOperands; i < t.inputs.size(); ++i) {
      t.inputs[i].dtype = type;
      if (query.graph.value(node.inputs[i]).is_constant() && query.graph.value(node.inputs[i]).dtype != type)
        t.support = Support::no("a constant operand is read as it is stored");
    }
    for (TensorType& output : t.outputs) output.dtype = type;
    for (const TensorType& input : t.inputs)
      if (!is_kernel_float(input.dtype))
        t.support = Support::no("no kernel for " + std::string(dtype_name(input.dtype)));
    if (!node.epilogue.empty()) t.support = Support::no("no epilogue behind a rotary embedding");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// Where the cosines or sines of the element at c0, c1, ... of x lie.
std::string angle_offset(KernelBuilder& b, const Shape& angles, size_t rank) {
  const std::vector<Dim> strides = storage_strides(angles, kLinear);
  std::string offset = "0";
  for (size_t d = 0; d < angles.size(); ++d)
    if (!angles[d].is_constant(1))
      offset += " + c" + std::to_string(d + rank - angles.size()) + " * " + b.number(strides[d]);
  return offset;
}

KernelSource turn(const LayerQuery& query, const Tactic& tactic, size_t operand) {
  const auto& op = std::get<Rotary>(query.layer().op);
  const size_t input = Rotary::kOperands + operand;
  const DType type = tactic.inputs[input].dtype;
  const Shape& x = input_shape(query, input);
  const Dim width = input_shape(query, 0).back();
  // Vectors that turn as a whole or not at all, and whose partners are vectors.
  std::vector<Dim> multiples = {x.back(), width};
  if (!op.interleaved && width.exact_div(2)) multiples.push_back(*width.exact_div(2));
  const int v = op.interleaved ? 1 : vector_width(full_vector(type), multiples);
  KernelBuilder b = start_kernel(query, tactic, "rotary", type);
  b.overlaps({.takes_order = true});
  const std::string vs = std::to_string(v), in = b.input(input, type), out = b.output(operand, type);
  const Dim total = element_count(x);
  b.kernel().grid[0] = ceil_div(total, Dim(256 * v));
  b.line("const idx at = ((idx)blockIdx.x * 256 + threadIdx.x) * " + vs + ";\nif (at >= " + b.number(total) +
         ") return;\nidx r = at;");
  for (size_t d = x.size(); d-- > 0;) {
    const std::string c = "c" + std::to_string(d), e = b.number(x[d]);
    b.line(d == 0 ? "const idx c0 = r;" : "const idx " + c + " = r % " + e + "; r /= " + e + ";");
  }
  const std::string column = "c" + std::to_string(x.size() - 1), w = b.number(width);
  b.line("float v[" + vs + "];\nload(" + in + " + at, v);\nif (" + column + " < " + w +
         ") {\nconst bool first = " + (op.interleaved ? column + " % 2 == 0" : column + " < " + w + " / 2") +
         ";\nconst idx distance = " + (op.interleaved ? std::string("1") : w + " / 2") + ";\nfloat p[" + vs +
         "], c[" + vs + "], s[" + vs + "];\nload(" + in + " + (first ? at + distance : at - distance), p);");
  b.line("load(" + b.input(0, tactic.inputs[0].dtype) + " + (" +
         angle_offset(b, input_shape(query, 0), x.size()) + "), c);\nload(" +
         b.input(1, tactic.inputs[1].dtype) + " + (" + angle_offset(b, input_shape(query, 1), x.size()) +
         "), s);");
  b.line("#pragma unroll\nfor (int j = 0; j < " + vs +
         "; ++j) v[j] = v[j] * c[j] + (first ? -p[j] : p[j]) * s[j];\n}\nstore(" + out + " + at, v);");
  return b.finish();
}

LayerSource generate_rotary(const LayerQuery& query, const Tactic& tactic, const Device&) {
  LayerSource source{.is_independent = true};
  for (size_t i = 0; i < query.layer().outputs.size(); ++i) source.kernels.push_back(turn(query, tactic, i));
  return source;
}

}  // namespace

GeneratedFamily rotary_family() {
  return {kRotaryRunner, list_rotary, generate_rotary};
}

}  // namespace lathe::cuda
