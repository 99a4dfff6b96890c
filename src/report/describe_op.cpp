// SPDX-License-Identifier: Apache-2.0
//
// Operator-specific facts in the inspector's words. Convolution, pooling, softmax, shuffles and pointwise
// programs have fixed keys; every other operator lists its own attributes under their names.
#include <fmt/format.h>

#include <cctype>

#include "report/layer_info.h"

namespace lathe {
namespace {

using Fields = std::vector<std::pair<std::string, LayerField>>;

// "pads_begin" -> "PadsBegin"
std::string key_name(std::string_view field) {
  std::string key;
  bool upper = true;
  for (const char c : field) {
    if (c == '_') {
      upper = true;
    } else {
      key += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      upper = false;
    }
  }
  return key;
}

// Turns any attribute of an operator into a field.
struct FieldCollector {
  Fields& fields;

  void add(std::string_view name, LayerField value) const {
    fields.emplace_back(key_name(name), std::move(value));
  }
  void operator()(const char* name, bool value) const { add(name, static_cast<int64_t>(value)); }
  void operator()(const char* name, int64_t value) const { add(name, value); }
  void operator()(const char* name, float value) const { add(name, static_cast<double>(value)); }
  void operator()(const char* name, double value) const { add(name, value); }
  void operator()(const char* name, const std::string& value) const { add(name, value); }
  void operator()(const char* name, DType value) const { add(name, std::string(dtype_name(value))); }
  void operator()(const char* name, const Ints& value) const { add(name, value); }
  void operator()(const char* name, const Shape& value) const { add(name, to_string(value)); }
  void operator()(const char* name, const PointwiseProgram& value) const { add(name, value.to_string()); }
  void operator()(const char* name, const std::vector<float>& values) const {
    std::string text = fmt::format("[{}]", fmt::join(values, ", "));
    add(name, std::move(text));
  }
  void operator()(const char* name, const Body& body) const {
    if (body) add(name, fmt::format("{} layers", body.graph().order().size()));
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(const char* name, E value) const { add(name, std::string(enum_name(value))); }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) const {
    if (value) (*this)(name, *value);
  }
};

// The engine explorer counts the bytes of these names only.
std::string weight_type(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return "Half";
    case DType::Int8:
      return "Int8";
    case DType::Int32:
      return "Int32";
    case DType::Float32:
      return "Float";
    default:
      return std::string(dtype_info(dtype).trt_name);
  }
}

WeightsField weights_of(const Graph& graph, const Node& node, size_t input, DType fallback) {
  if (input >= node.op_input_count() || node.inputs[input] == kNoValue) return {weight_type(fallback), 0};
  const Value& value = graph.value(node.inputs[input]);
  if (!value.is_constant()) return {weight_type(value.dtype), 0};
  return {weight_type(value.dtype), value.constant.size()};
}

bool is_present(const Graph& graph, const Node& node, size_t input, bool constant) {
  if (input >= node.op_input_count() || node.inputs[input] == kNoValue) return false;
  return graph.value(node.inputs[input]).is_constant() == constant;
}

bool is_activation(PointwiseCode code) {
  const auto& info = pointwise_info(code);
  return info.arity == 1 && code != PointwiseCode::Identity && code != PointwiseCode::Linear &&
         code != PointwiseCode::RoundTo && code != PointwiseCode::RoundToE4M3;
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

// "Add(arg0, arg1)" lines of a program; operands >= input_count are earlier results.
std::vector<std::string> operation_lines(const PointwiseProgram& program) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const auto& step = program.steps[i];
    const auto& info = pointwise_info(step.code);
    std::vector<std::string> operands;
    for (const int operand : step.operands) {
      operands.push_back(operand < program.input_count ? fmt::format("arg{}", operand)
                                                       : fmt::format("var{}", operand - program.input_count));
    }
    if (info.parameters > 0) operands.push_back(fmt::format("{:g}", step.alpha));
    if (info.parameters > 1) operands.push_back(fmt::format("{:g}", step.beta));
    lines.push_back(fmt::format("auto const var{} = {}({});", i, info.name, fmt::join(operands, ", ")));
  }
  return lines;
}

void add_program(Fields& fields, const PointwiseProgram& program) {
  std::vector<std::string> arguments;
  for (int i = 0; i < program.input_count; ++i) arguments.push_back(fmt::format("arg{}", i));
  auto operations = operation_lines(program);
  fields.emplace_back("ParameterSubType", "PointWiseExpression");
  fields.emplace_back("NbInputArgs", static_cast<int64_t>(program.input_count));
  fields.emplace_back("InputArgs", std::move(arguments));
  fields.emplace_back("NbOutputVars", int64_t{1});
  fields.emplace_back("OutputVars", std::vector<std::string>{fmt::format("var{}", program.steps.size() - 1)});
  // Literals stand in the operations. No empty lists Params and Literals: onnx's helpers, with which people
  // draw such files, find no type for them.
  fields.emplace_back("NbParams", int64_t{0});
  fields.emplace_back("NbLiterals", int64_t{0});
  fields.emplace_back("NbOperations", static_cast<int64_t>(operations.size()));
  fields.emplace_back("Operations", std::move(operations));
}

// What the epilogue does to a layer's result, in the convolution keys' terms.
void add_epilogue(Fields& fields, const Graph& graph, const Node& node, bool has_bias) {
  const auto& program = node.epilogue;
  bool residual = false, extra_bias = false, relu = false;
  std::string activation = "NONE";
  for (size_t i = node.op_input_count(); i < node.inputs.size(); ++i) {
    (graph.value(node.inputs[i]).is_constant() ? extra_bias : residual) = true;
  }
  int activations = 0;
  for (const auto& step : program.steps) {
    if (!is_activation(step.code)) continue;
    ++activations;
    activation = upper(pointwise_info(step.code).name);
    relu = step.code == PointwiseCode::Relu;
  }
  if (activations > 1) {
    activation = "GENERIC";
    relu = false;
  }
  fields.emplace_back("HasBias", static_cast<int64_t>(has_bias || extra_bias));
  fields.emplace_back("HasReLU", static_cast<int64_t>(relu));
  fields.emplace_back("HasSparseWeights", int64_t{0});
  fields.emplace_back("HasDynamicFilter", static_cast<int64_t>(is_present(graph, node, 1, false)));
  fields.emplace_back("HasDynamicBias", static_cast<int64_t>(is_present(graph, node, 2, false)));
  fields.emplace_back("HasResidual", static_cast<int64_t>(residual));
  fields.emplace_back("ConvXAsActInputIdx", int64_t{-1});
  fields.emplace_back("BiasAsActInputIdx", int64_t{-1});
  fields.emplace_back("ResAsActInputIdx", int64_t{-1});
  fields.emplace_back("Activation", activation);
  if (!program.empty()) fields.emplace_back("PointWiseExpressionOperations", operation_lines(program));
}

std::string padding_mode(AutoPad mode) {
  if (mode == AutoPad::SameUpper) return "kSAME_UPPER";
  if (mode == AutoPad::SameLower) return "kSAME_LOWER";
  return "kEXPLICIT_ROUND_DOWN";
}

template <class C>
void add_window(Fields& fields, const C& conv, const char* kernel_key, const std::string& mode) {
  const Ints none(conv.kernel.size(), 0);
  fields.emplace_back(kernel_key, conv.kernel);
  fields.emplace_back("PaddingMode", mode);
  fields.emplace_back("PrePadding", conv.pads_begin.empty() ? none : conv.pads_begin);
  fields.emplace_back("PostPadding", conv.pads_end.empty() ? none : conv.pads_end);
  fields.emplace_back("Stride", conv.strides);
  fields.emplace_back("Dilation", conv.dilations);
}

template <class C>
void add_convolution(Fields& fields, const Graph& graph, const Node& node, const C& conv) {
  add_window(fields, conv, "Kernel", padding_mode(conv.auto_pad));
  const Shape& shape = graph.value(node.outputs[0]).shape;
  fields.emplace_back("OutMaps", shape.size() > 1 && shape[1].is_constant() ? shape[1].value() : int64_t{-1});
  fields.emplace_back("Groups", conv.groups);
  const DType type = graph.value(node.inputs[0]).dtype;
  fields.emplace_back("Weights", weights_of(graph, node, 1, type));
  fields.emplace_back("Bias", weights_of(graph, node, 2, type));
  const bool has_bias = node.has_op_input(2);
  add_epilogue(fields, graph, node, has_bias);
}

struct OpDescriber {
  const Graph& graph;
  const Node& node;
  OpDescription operator()(const Conv& conv) const {
    OpDescription d;
    // Tools take "Convolution" for a 2-D one and read two numbers from Kernel.
    const size_t dims = conv.kernel.size();
    d.parameter_type = dims == 2 ? "Convolution" : fmt::format("Convolution{}D", dims);
    add_convolution(d.fields, graph, node, conv);
    return d;
  }
  OpDescription operator()(const ConvTranspose& conv) const {
    OpDescription d{"Deconvolution", {}};
    add_convolution(d.fields, graph, node, conv);
    return d;
  }
  OpDescription operator()(const MatMul& matmul) const {
    OpDescription d{"MatrixMultiply", {}};
    d.fields.emplace_back("OpA", std::string(matmul.transpose_a ? "kTRANSPOSE" : "kNONE"));
    d.fields.emplace_back("OpB", std::string(matmul.transpose_b ? "kTRANSPOSE" : "kNONE"));
    d.fields.emplace_back("Weights", weights_of(graph, node, 1, graph.value(node.inputs[0]).dtype));
    add_epilogue(d.fields, graph, node, false);
    return d;
  }
  // Blocks of several layers: tools count the bytes of Weights and Bias, so each is the sum of what the block
  // holds.
  OpDescription operator()(const DepthwiseBlock& block) const { return with_weights(generic(block)); }
  OpDescription operator()(const FeedForward& block) const { return with_weights(generic(block)); }
  OpDescription operator()(const Pool& pool) const {
    if (pool.kind == PoolKind::Lp) return generic(pool);
    OpDescription d{"Pooling", {}};
    d.fields.emplace_back("PoolingType", std::string(pool.kind == PoolKind::Max ? "Max" : "AVERAGE"));
    add_window(d.fields, pool, "WindowSize",
               pool.ceil_mode ? "kEXPLICIT_ROUND_UP" : padding_mode(pool.auto_pad));
    d.fields.emplace_back("BlendFactor", 0.0);
    d.fields.emplace_back("AverageCountExcludesPadding", static_cast<int64_t>(!pool.count_include_pad));
    return d;
  }
  OpDescription operator()(const Softmax& softmax) const {
    const auto rank = static_cast<int64_t>(graph.value(node.inputs[0]).shape.size());
    const int64_t axis = softmax.axis < 0 ? softmax.axis + rank : softmax.axis;
    return {"SoftMax", {{"Axes", Ints{axis}}, {"HasLog", static_cast<int64_t>(softmax.log)}}};
  }
  OpDescription operator()(const Transpose& transpose) const {
    return {"Shuffle",
            {{"FirstTranspose", transpose.perm},
             {"SecondTranspose", identity(transpose.perm.size())},
             {"ZeroIsPlaceholder", int64_t{0}}}};
  }
  OpDescription operator()(const ReshapeOp& reshape) const {
    OpDescription d{"Shuffle", {}};
    d.fields.emplace_back("FirstTranspose", identity(graph.value(node.inputs[0]).shape.size()));
    if (reshape.shape) {
      Ints dims;
      for (const auto& dim : *reshape.shape) dims.push_back(dim.is_constant() ? dim.value() : -1);
      d.fields.emplace_back("Reshape", std::move(dims));
    }
    d.fields.emplace_back("SecondTranspose", identity(graph.value(node.outputs[0]).shape.size()));
    d.fields.emplace_back("ZeroIsPlaceholder", int64_t{0});
    return d;
  }
  OpDescription operator()(const Reformat&) const {
    return {"Reformat", {{"Origin", std::string("REFORMAT")}}};
  }
  OpDescription operator()(const Pointwise& op) const {
    PointwiseProgram program;
    program.input_count = pointwise_info(op.code).arity;
    PointwiseStep step{op.code, op.alpha, op.beta, {}};
    for (int i = 0; i < program.input_count; ++i) step.operands.push_back(i);
    program.steps.push_back(std::move(step));
    return (*this)(PointwiseChain{std::move(program)});
  }
  OpDescription operator()(const PointwiseChain& chain) const {
    OpDescription d{"PointWise", {}};
    if (!chain.program.empty()) add_program(d.fields, chain.program);
    return d;
  }
  template <class T>
  OpDescription operator()(const T& op) const {
    return generic(op);
  }

 private:
  static Ints identity(size_t rank) {
    Ints perm;
    for (size_t i = 0; i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
    return perm;
  }
  OpDescription with_weights(OpDescription d) const {
    WeightsField weights{weight_type(graph.value(node.inputs[0]).dtype)}, bias{weights.type};
    for (size_t i = 1; i < node.op_input_count(); ++i) {
      if (!is_present(graph, node, i, true)) continue;
      const bool is_matrix = graph.value(node.inputs[i]).shape.size() > 1;
      WeightsField& field = is_matrix ? weights : bias;
      const WeightsField part = weights_of(graph, node, i, DType::Float32);
      field = {part.type, field.count + part.count};
    }
    d.fields.emplace_back("Weights", weights);
    d.fields.emplace_back("Bias", bias);
    return d;
  }
  template <class T>
  OpDescription generic(const T& op) const {
    OpDescription d{std::string(T::kName), {}};
    T::visit(op, FieldCollector{d.fields});
    if (!node.epilogue.empty()) d.fields.emplace_back("Epilogue", operation_lines(node.epilogue));
    return d;
  }
};

}  // namespace

OpDescription describe_op(const Graph& graph, const Node& node) {
  return std::visit(OpDescriber{graph, node}, node.op);
}

}  // namespace lathe
