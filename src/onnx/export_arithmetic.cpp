// SPDX-License-Identifier: Apache-2.0
//
// Pointwise operations and programs, products, quantization. A fused layer becomes the operators that it was
// made of.
#include "onnx/export_node.h"

#include <map>
#include <set>

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// Operations that ONNX has as they are, and nearly all under the same name.
bool is_direct(C code) {
  static const std::set<C> codes = {C::Identity,
                                    C::Abs,
                                    C::Neg,
                                    C::Sign,
                                    C::Reciprocal,
                                    C::Sqrt,
                                    C::Exp,
                                    C::Log,
                                    C::Sin,
                                    C::Cos,
                                    C::Tan,
                                    C::Asin,
                                    C::Acos,
                                    C::Atan,
                                    C::Sinh,
                                    C::Cosh,
                                    C::Tanh,
                                    C::Asinh,
                                    C::Acosh,
                                    C::Atanh,
                                    C::Erf,
                                    C::Ceil,
                                    C::Floor,
                                    C::Round,
                                    C::Not,
                                    C::BitwiseNot,
                                    C::IsNaN,
                                    C::Relu,
                                    C::Sigmoid,
                                    C::Softplus,
                                    C::Softsign,
                                    C::HardSwish,
                                    C::Mish,
                                    C::GeluErf,
                                    C::Add,
                                    C::Sub,
                                    C::Mul,
                                    C::Div,
                                    C::Pow,
                                    C::Min,
                                    C::Max,
                                    C::PRelu,
                                    C::And,
                                    C::Or,
                                    C::Xor,
                                    C::BitwiseAnd,
                                    C::BitwiseOr,
                                    C::BitwiseXor,
                                    C::Equal,
                                    C::Less,
                                    C::LessOrEqual,
                                    C::Greater,
                                    C::GreaterOrEqual,
                                    C::Where};
  return codes.contains(code);
}
std::string_view direct_name(C code) {
  return code == C::GeluErf ? "Gelu" : pointwise_info(code).name;
}

// Operations with attributes: alpha and beta under ONNX's names.
struct WithAttributes {
  std::string_view op_type, alpha, beta;
};
const WithAttributes* find_with_attributes(C code) {
  static const std::map<C, WithAttributes> table = {{C::LeakyRelu, {"LeakyRelu", "alpha", ""}},
                                                    {C::Elu, {"Elu", "alpha", ""}},
                                                    {C::Celu, {"Celu", "alpha", ""}},
                                                    {C::Selu, {"Selu", "alpha", "gamma"}},
                                                    {C::ThresholdedRelu, {"ThresholdedRelu", "alpha", ""}},
                                                    {C::HardSigmoid, {"HardSigmoid", "alpha", "beta"}},
                                                    {C::Shrink, {"Shrink", "bias", "lambd"}}};
  const auto found = table.find(code);
  return found == table.end() ? nullptr : &found->second;
}

Attributes attributes_of(const WithAttributes& op, const PointwiseStep& step) {
  Attributes attributes = {{std::string(op.alpha), step.alpha}};
  if (!op.beta.empty()) attributes.emplace_back(op.beta, step.beta);
  return attributes;
}

}  // namespace

std::string NodeExport::pointwise(const PointwiseStep& step, const Names& inputs, DType dtype,
                                  std::string name) {
  if (is_direct(step.code)) return node(direct_name(step.code), inputs, {}, 1, name);
  if (const WithAttributes* op = find_with_attributes(step.code))
    return node(op->op_type, inputs, attributes_of(*op, step), 1, name);
  return pointwise_parts(step, inputs, dtype, name);
}

// What ONNX says with several nodes, or with other inputs.
std::string NodeExport::pointwise_parts(const PointwiseStep& s, const Names& x, DType dtype,
                                        const std::string& name) {
  const auto constant = [&](double v) { return graph_.scalar(v, dtype); };
  const auto last = [&](std::string_view op_type, Names inputs, Attributes attributes = {}) {
    return node(op_type, std::move(inputs), std::move(attributes), 1, name);
  };
  switch (s.code) {
    case C::Rsqrt:
      return last("Reciprocal", {step("Sqrt", x)});
    case C::Square:
      return last("Mul", {x[0], x[0]});
    case C::Silu: {
      const std::string inner = s.alpha == 1 ? x[0] : step("Mul", {x[0], constant(s.alpha)});
      return last("Mul", {x[0], step("Sigmoid", {inner})});
    }
    case C::GeluTanh:
      return last("Gelu", x, {{"approximate", "tanh"}});
    case C::Clip:
      return last("Clip", {x[0], constant(s.alpha), constant(s.beta)});
    case C::IsInf:
      return last("IsInf", x,
                  {{"detect_negative", int64_t{s.alpha != 0}}, {"detect_positive", int64_t{s.beta != 0}}});
    case C::Linear:
      return last("Add", {step("Mul", {x[0], constant(s.alpha)}), constant(s.beta)});
    case C::RoundTo:
      return last("Mul", {step("Round", {step("Div", {x[0], constant(s.alpha)})}), constant(s.alpha)});
    case C::RoundToE4M3: {
      const std::string zero = graph_.scalar(0, DType::Float8E4M3FN);
      const std::string scale = constant(s.alpha);
      return node("DequantizeLinear", {step("QuantizeLinear", {x[0], scale, zero}), scale, zero}, {}, 19,
                  name);
    }
    case C::Mod: {
      if (!is_float(dtype)) return last("Mod", x);
      // ONNX's modulus of real numbers has the sign of the dividend; the divisor's is one divisor further
      // where they differ.
      const std::string rest = step("Mod", x, {{"fmod", int64_t{1}}}), zero = constant(0);
      const std::string differ =
          step("Less", {step("Mul", {step("Sign", {rest}), step("Sign", {x[1]})}), zero});
      return last("Where", {differ, step("Add", {rest, x[1]}), rest});
    }
    case C::FMod:
      return last("Mod", x, {{"fmod", int64_t{1}}});
    case C::ShiftLeft:
      return last("BitShift", x, {{"direction", "LEFT"}});
    case C::ShiftRight:
      return last("BitShift", x, {{"direction", "RIGHT"}});
    default:
      throw_input_error("the operation " + std::string(pointwise_info(s.code).name) + " has no form in ONNX");
  }
}

// Float operands of different types are computed in FP32, as a layer does.
std::string NodeExport::program(const PointwiseProgram& program, Names values, std::vector<DType> types,
                                DType to, std::string name) {
  const auto first_float = std::find_if(types.begin(), types.end(), is_float);
  const bool mixed =
      std::any_of(types.begin(), types.end(), [&](DType t) { return is_float(t) && t != *first_float; });
  for (size_t i = 0; i < values.size() && mixed; ++i)
    if (is_float(types[i]) && types[i] != DType::Float32) {
      values[i] = step("Cast", {values[i]}, {{"to", static_cast<int64_t>(DType::Float32)}});
      types[i] = DType::Float32;
    }
  for (const PointwiseStep& step : program.steps) {
    Names inputs;
    for (const int operand : step.operands) inputs.push_back(values[static_cast<size_t>(operand)]);
    const auto operand = static_cast<size_t>(step.operands[step.code == C::Where ? 1 : 0]);
    const bool is_last = &step == &program.steps.back();
    const DType type = pointwise_info(step.code).gives_bool ? DType::Bool : types[operand];
    values.push_back(pointwise(step, inputs, types[operand], is_last && type == to ? name : ""));
    types.push_back(type);
  }
  if (types.back() == to) return values.back();
  return node("Cast", {values.back()}, {{"to", static_cast<int64_t>(to)}}, 1, name);
}

std::string NodeExport::program_on(const PointwiseProgram& p, const std::string& value) {
  return p.empty() ? value : program(p, {value}, {dtype()}, dtype(), "");
}

void NodeExport::operator()(const Pointwise& op) {
  const size_t typed = op.code == C::Where ? 1 : 0;
  pointwise({op.code, op.alpha, op.beta, {}}, all_inputs(), value(typed).number_type(), results_[0]);
}

void NodeExport::operator()(const PointwiseChain& op) {
  std::vector<DType> types;
  for (size_t i = 0; i < op_inputs_; ++i) types.push_back(value(i).number_type());
  program(op.program, all_inputs(), types, graph_.graph().value(node_.outputs[0]).number_type(), results_[0]);
}

void NodeExport::operator()(const Cast& op) {
  Attributes attributes = {{"to", static_cast<int64_t>(op.to)}};
  if (!op.saturate) attributes.emplace_back("saturate", int64_t{0});
  if (op.to != DType::Float8E8M0) return result("Cast", {in(0)}, attributes);
  attributes.emplace_back("round_mode", op.round == E8M0Rounding::Up     ? "up"
                                        : op.round == E8M0Rounding::Down ? "down"
                                                                         : "nearest");
  result("Cast", {in(0)}, attributes, 24);
}

void NodeExport::operator()(const Reformat&) {
  const DType to = graph_.graph().value(node_.outputs[0]).number_type();
  if (to == dtype()) return result_is(in(0));
  result("Cast", {in(0)}, {{"to", static_cast<int64_t>(to)}});
}

Attributes NodeExport::window(const Ints& kernel, const Ints& strides, const Ints& dilations,
                              const Ints& begin, const Ints& end, AutoPad auto_pad) const {
  Attributes attributes = {{"kernel_shape", kernel}, {"strides", strides}, {"dilations", dilations}};
  if (auto_pad == AutoPad::NotSet) {
    Ints pads = begin;
    pads.insert(pads.end(), end.begin(), end.end());
    attributes.emplace_back("pads", pads);
  } else {
    attributes.emplace_back("auto_pad", auto_pad == AutoPad::Valid       ? "VALID"
                                        : auto_pad == AutoPad::SameUpper ? "SAME_UPPER"
                                                                         : "SAME_LOWER");
  }
  return attributes;
}

void NodeExport::operator()(const Conv& op) {
  Attributes attributes =
      window(op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad);
  attributes.emplace_back("group", op.groups);
  result("Conv", all_inputs(), attributes);
}

void NodeExport::operator()(const ConvTranspose& op) {
  Attributes attributes =
      window(op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad);
  attributes.emplace_back("group", op.groups);
  if (!op.output_padding.empty()) attributes.emplace_back("output_padding", op.output_padding);
  if (!op.output_shape.empty()) attributes.emplace_back("output_shape", op.output_shape);
  result("ConvTranspose", all_inputs(), attributes);
}

void NodeExport::operator()(const DeformConv& op) {
  Attributes attributes =
      window(op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, AutoPad::NotSet);
  attributes.emplace_back("group", op.groups);
  attributes.emplace_back("offset_group", op.offset_groups);
  result("DeformConv", all_inputs(), attributes, 19);
}

void NodeExport::operator()(const DepthwiseBlock& op) {
  using B = DepthwiseBlock;
  const auto operands = [&](const std::string& x, size_t weights) {
    return Names{x, in(weights), in(weights + 1)};
  };
  std::string x = in(0);
  if (has(B::kExpand)) x = program_on(op.expand_epilogue, step("Conv", operands(x, B::kExpand)));
  Attributes attributes =
      window(op.kernel, op.strides, op.dilations, op.pads_begin, op.pads_end, op.auto_pad);
  attributes.emplace_back("group", value(B::kDepthwise).shape[0].value());
  if (!has(B::kProject)) return result("Conv", operands(x, B::kDepthwise), attributes);
  x = program_on(op.depthwise_epilogue, step("Conv", operands(x, B::kDepthwise), attributes));
  result("Conv", operands(x, B::kProject));
}

std::string NodeExport::swapped(const std::string& value, int64_t rank, bool swap) {
  if (!swap || rank < 2) return value;
  Ints perm;
  for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
  std::swap(perm[static_cast<size_t>(rank - 1)], perm[static_cast<size_t>(rank - 2)]);
  return step("Transpose", {value}, {{"perm", perm}});
}

void NodeExport::operator()(const MatMul& op) {
  result("MatMul", {swapped(in(0), rank(0), op.transpose_a), swapped(in(1), rank(1), op.transpose_b)});
}

void NodeExport::operator()(const FeedForward& op) {
  std::string x = step("MatMul", {in(0), swapped(in(1), rank(1), op.transpose_first)});
  if (!op.hidden.empty()) {
    Names values = {x};
    std::vector<DType> types = {dtype()};
    for (size_t i = FeedForward::kOperands; i < op_inputs_; ++i)
      values.push_back(in(i)), types.push_back(value(i).number_type());
    x = program(op.hidden, values, types, dtype(), "");
  }
  result("MatMul", {x, swapped(in(2), rank(2), op.transpose_second)});
}

void NodeExport::operator()(const Attention& op) {
  const bool middle = op.layout == AttentionLayout::BSHD;
  const auto heads_first = [&](const std::string& x) {
    return step("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3}}});
  };
  Names inputs = all_inputs();
  for (size_t i = 0; i < 3 && middle; ++i) inputs[i] = heads_first(inputs[i]);
  const Attributes attributes = {{"scale", op.scale}, {"is_causal", int64_t{op.causal}}};
  if (!middle) return result("Attention", inputs, attributes, 23);
  result("Transpose", {step("Attention", inputs, attributes, 23)}, {{"perm", Ints{0, 2, 1, 3}}});
}

std::string NodeExport::turned(const std::string& x, int64_t rank, int64_t count, bool interleaved) {
  const int64_t axis = interleaved ? rank : rank - 1;
  Ints pairs(static_cast<size_t>(rank), 0), whole = pairs;  // 0: as it is
  pairs.back() = count / 2, pairs.push_back(2), whole.back() = count;
  const std::string from = interleaved ? step("Reshape", {x, graph_.ints(pairs)}) : x;
  const int64_t half = interleaved ? 1 : count / 2;
  const auto part = [&](int64_t begin) {
    return step("Slice", {from, graph_.ints({begin}), graph_.ints({begin + half}), graph_.ints({axis})});
  };
  const std::string y = step("Concat", {step("Neg", {part(half)}), part(0)}, {{"axis", axis}});
  return interleaved ? step("Reshape", {y, graph_.ints(whole)}) : y;
}

void NodeExport::operator()(const Rotary& op) {
  const int64_t count = value(0).shape.back().value();
  for (size_t i = Rotary::kOperands; i < op_inputs_; ++i) {
    const int64_t axis = rank(i) - 1;
    const Dim width = value(i).shape.back();
    const bool all = width.is_constant(count);
    const auto part = [&](const Dim& begin, const Dim& end) {
      return step("Slice", {in(i), graph_.dims({begin}), graph_.dims({end}), graph_.ints({axis})});
    };
    const std::string x = all ? in(i) : part(Dim(0), Dim(count));
    const Names terms = {step("Mul", {x, in(0)}),
                         step("Mul", {turned(x, rank(i), count, op.interleaved), in(1)})};
    const std::string& name = results_[i - Rotary::kOperands];
    if (all) {
      node("Add", terms, {}, 1, name);
    } else {
      node("Concat", {step("Add", terms), part(Dim(count), width)}, {{"axis", axis}}, 1, name);
    }
  }
}

void NodeExport::operator()(const QuantizeLinear& op) {
  Attributes attributes = {{"axis", op.axis}};
  if (op.block_size > 0) attributes.emplace_back("block_size", op.block_size);
  if (!op.saturate) attributes.emplace_back("saturate", int64_t{0});
  if (!has(2) && op.to != DType::UInt8) attributes.emplace_back("output_dtype", static_cast<int64_t>(op.to));
  result("QuantizeLinear", all_inputs(), attributes);
}

void NodeExport::operator()(const DequantizeLinear& op) {
  Attributes attributes = {{"axis", op.axis}};
  if (op.block_size > 0) attributes.emplace_back("block_size", op.block_size);
  const bool other = op.to != value(1).dtype;
  if (other) attributes.emplace_back("output_dtype", static_cast<int64_t>(op.to));
  result("DequantizeLinear", all_inputs(), attributes, other ? 23 : 21);
}

}  // namespace lathe::onnx
