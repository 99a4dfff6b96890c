// SPDX-License-Identifier: Apache-2.0
//
// Values from shapes and few numbers: Fill, Range, ShapeTensor and ShapeOf. The result is written once. Where
// its size is the value of an operand, that is known when the layer is prepared
// (backend/sizes_from_values.h).
#include "backend/cuda/codegen/element_kernel.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kFillRunner = "Fill";
// Each is an argument of the kernel, of which there is room for 4 KB.
constexpr size_t kMostDims = 256;

std::vector<Tactic> list_fill(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  std::string name;
  if (std::holds_alternative<Fill>(node.op)) name = "cuda_fill";
  if (std::holds_alternative<Range>(node.op)) name = "cuda_range";
  if (std::holds_alternative<ShapeTensor>(node.op)) name = "cuda_shape_tensor";
  if (std::holds_alternative<ShapeOf>(node.op)) name = "cuda_shape_of";
  if (name.empty()) return {};
  const DType type = query.graph.value(node.outputs[0]).number_type();
  Tactic t = linear_tactic(query, kFillRunner, name);
  t.inputs.resize(node.op_input_count());
  t.support = Tail::list(query, t.outputs[0], t.inputs);
  const auto* dims = std::get_if<ShapeTensor>(&node.op);
  if (storage_name(type).empty())
    t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
  else if (dims != nullptr && dims->dims.size() > kMostDims)
    t.support = Support::no("more than " + std::to_string(kMostDims) + " dims");
  return {t};
}

// [start, end) of ShapeOf, both clamped as Python's slices are.
Shape dims_of(const ShapeOf& op, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t begin = clamped(op.start), end = op.end && !op.end->empty() ? clamped(op.end->front()) : rank;
  return begin < end ? Shape(shape.begin() + begin, shape.begin() + end) : Shape{};
}

// Element i is dim i.
LayerSource generate_dims(const LayerQuery& query, const Tactic& tactic, const Shape& dims) {
  KernelBuilder b = start_kernel(query, tactic, "dims", tactic.outputs[0].dtype);
  b.set_wide(true);  // dims are 64 bits, whatever tensors the layer has
  begin_elements(b, query, tactic, 1);
  for (size_t i = 0; i < dims.size(); ++i)
    b.line("if (at == " + std::to_string(i) + ") v[0] = " + b.number(dims[i]) + ";");
  return {{end_elements(b, 1)}};
}

LayerSource generate_range(const LayerQuery& query, const Tactic& tactic) {
  KernelBuilder b = start_kernel(query, tactic, "range", tactic.outputs[0].dtype);
  begin_elements(b, query, tactic, 1);
  const bool real = is_float(tactic.outputs[0].dtype);
  const auto number = [&](size_t i) {
    return std::string(real ? "(double)" : "") + "widen(*" + b.input(i, tactic.inputs[i].dtype) + ")";
  };
  // In double, so that each element is rounded once.
  b.line("v[0] = (" + std::string(compute_name(tactic.outputs[0].dtype)) + ")(" + number(0) + " + at * " +
         number(2) + ");");
  return {{end_elements(b, 1)}};
}

LayerSource generate_fill(const LayerQuery& query, const Tactic& tactic, double value) {
  const DType type = tactic.outputs[0].dtype;
  const int v =
      Tail(query, tactic).vector(vector_width(full_vector(type), {element_count(output_shape(query))}));
  KernelBuilder b = start_kernel(query, tactic, "fill", type);
  begin_elements(b, query, tactic, v);
  const std::string number = type == DType::Float64 ? double_literal(value)
                             : is_float(type)       ? float_literal(value)
                                                    : std::to_string(static_cast<long long>(value)) + "ll";
  b.line("#pragma unroll\nfor (int j = 0; j < " + std::to_string(v) + "; ++j) v[j] = " + number + ";");
  return {{end_elements(b, v)}};
}

LayerSource generate_fill(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Op& op = query.layer().op;
  if (const auto* fill = std::get_if<Fill>(&op)) return generate_fill(query, tactic, fill->value);
  if (const auto* shape = std::get_if<ShapeTensor>(&op)) return generate_dims(query, tactic, shape->dims);
  if (const auto* shape = std::get_if<ShapeOf>(&op))
    return generate_dims(query, tactic, dims_of(*shape, input_shape(query, 0)));
  return generate_range(query, tactic);
}

}  // namespace

GeneratedFamily fill_family() {
  return {kFillRunner, list_fill, generate_fill};
}

}  // namespace lathe::cuda
