// SPDX-License-Identifier: Apache-2.0
//
// Pointwise, PointwiseChain, Cast, BatchNorm, QuantizeLinear and DequantizeLinear layers, and Reformat
// between types of one format: one element-wise kernel. Bytes are the floor: every operand is read once in
// accesses of up to 16 bytes and the result is written once.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/whole_program.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kPointwiseRunner = "Pointwise";

// How operands come that lie on a grid: as bytes, or as numbers.
enum class Grids : uint8_t { Bytes, Numbers };

Tactic make_tactic(const LayerQuery& query, const PointwiseProgram& program, const TensorType& result,
                   DType number, Grids grids = Grids::Numbers) {
  const Node& node = query.layer();
  const Value& out = query.graph.value(node.outputs[0]);
  Tactic t = linear_tactic(query, kPointwiseRunner, "cuda_pointwise");
  t.outputs[0] = result;
  const bool cast = std::holds_alternative<Cast>(node.op) || std::holds_alternative<Reformat>(node.op);
  std::vector<DType> types;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& value = query.graph.value(node.inputs[i]);
    t.inputs[i] = tail_operand_type(value, out.shape, result, number);
    if (has_grid_bytes(query, node.inputs[i]))
      t.inputs[i].dtype = grids == Grids::Bytes ? grid_bytes(query, node.inputs[i]) : number;
    // What is converted keeps its type: floats of 8 bits are no numbers with fewer digits.
    if (i == 0 && (cast || (is_small_float(value.dtype) && is_plain_quantization(node))) &&
        t.inputs[i].dtype != DType::Undefined)
      t.inputs[i].dtype = value.dtype;
    // Parameters of a BatchNorm are vectors of channels, in whatever type they have.
    if (std::holds_alternative<BatchNorm>(node.op) && i > 0 && i < 5) t.inputs[i] = {value.dtype, kLinear};
    types.push_back(t.inputs[i].dtype == DType::Undefined ? value.dtype : t.inputs[i].dtype);
    if (t.inputs[i] == result && value.shape == out.shape && !value.is_constant())
      t.in_place_inputs.push_back(static_cast<int>(i));
  }
  t.support = tail_supports(program, types, result.dtype);
  set_keeps_nan(query, t);
  return t;
}

bool is_pointwise(const Node& node) {
  return std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<PointwiseChain>(node.op) ||
         std::holds_alternative<Cast>(node.op) || std::holds_alternative<BatchNorm>(node.op) ||
         is_plain_quantization(node);
}

std::vector<Tactic> list_pointwise(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!is_pointwise(node)) return {};
  const Value& out = query.graph.value(node.outputs[0]);
  const PointwiseProgram program = whole_program(node);
  std::vector<Tactic> tactics;
  const std::vector<DType> types =
      std::holds_alternative<Cast>(node.op) ? std::vector<DType>{out.dtype} : allowed_types_first(query);
  const DType bytes = grid_bytes(query, node.outputs[0]);
  const bool result = bytes != DType::Undefined,
             operands = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](ValueId id) { return has_grid_bytes(query, id); });
  for (const Format& format : {kLinear, kChannelsLast}) {
    if (!format.is_linear() && out.shape.size() < 3) continue;
    const auto add = [&](DType to, DType number, Grids grids) {
      tactics.push_back(make_tactic(query, program, {to, format}, number, grids));
    };
    if (result && operands) add(bytes, types[0], Grids::Bytes);
    if (result) add(bytes, types[0], Grids::Numbers);
    if (operands) add(types[0], types[0], Grids::Bytes);
    for (const DType type : types) add(type, type, Grids::Numbers);
  }
  return tactics;
}

// Vectors as wide as the widest operand that is read in step with the result allows.
int widest_vector(const LayerQuery& query, const Tactic& tactic) {
  int v = full_vector(tactic.outputs[0].dtype);
  for (size_t i = 0; i < tactic.inputs.size(); ++i)
    if (tactic.inputs[i].dtype != DType::Undefined && input_shape(query, i) == output_shape(query))
      v = std::min(v, full_vector(tactic.inputs[i].dtype));
  return v;
}

LayerSource generate_pointwise(const LayerQuery& query, const Tactic& tactic, const Device&) {
  KernelBuilder b = start_kernel(query, tactic, "pointwise", tactic.outputs[0].dtype);
  b.overlaps({.takes_order = true});
  if (const auto* cast = std::get_if<Cast>(&query.layer().op)) {
    // Integers always saturate, but to powers of two.
    const bool reals = is_float(tactic.inputs[0].dtype) || cast->to == DType::Float8E8M0;
    b.set_cast({cast->to, cast->saturate || !reals, cast->round});
  }
  const Tail tail(query, tactic, whole_program(query.layer()));
  const Dim total = element_count(output_shape(query));
  const int v = tail.vector(widest_vector(query, tactic));
  const std::string vs = std::to_string(v), n = b.number(total);
  tail.emit(b, v);
  const bool ragged = v > 1 && !divides(v, total);
  if (ragged) tail.emit(b, 1);
  b.line("idx at = ((idx)blockIdx.x * 256 + threadIdx.x) * " + vs + ";\nif (at >= " + n + ") return;");
  if (ragged)
    b.line("if (at + " + vs + " > " + n + ") {\nfor (; at < " + n + "; ++at) finish1(at);\nreturn;\n}");
  b.line("finish" + vs + "(at);");
  b.kernel().grid[0] = ceil_div(total, Dim(256 * v));
  return {{b.finish()}, 0};
}

}  // namespace

GeneratedFamily pointwise_family() {
  return {kPointwiseRunner, list_pointwise, generate_pointwise};
}

}  // namespace lathe::cuda
