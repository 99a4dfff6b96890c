// SPDX-License-Identifier: Apache-2.0
//
// What all operators share: looking a definition up, contexts, and a node with its epilogue. An epilogue is
// evaluated by the same code as a PointwiseChain, so a fused node and its parts mean the same.

#include "ops/op_def.h"

#include "ops/pointwise.h"
#include "ops/shape_rules.h"

namespace lathe {

namespace {

std::string describe_inputs(const InferContext& context) {
  std::string text;
  for (const Value* value : context.inputs) {
    if (!text.empty()) text += ", ";
    text += value ? type_text(value->dtype, value->shape) : "none";
  }
  return text.empty() ? "no inputs" : text;
}

// Definitions by index of Op's alternatives.
std::vector<const OpDef*> index_definitions() {
  std::vector<const OpDef*> table(std::variant_size_v<OpFields>, nullptr);
  for (const OpDef& def : all_op_defs()) {
    check(table[def.index] == nullptr, "two definitions of operator " + std::string(def.name));
    table[def.index] = &def;
  }
  return table;
}

size_t own_input_count(const PointwiseProgram& epilogue, size_t input_count) {
  const size_t operands = epilogue.empty() ? 0 : static_cast<size_t>(epilogue.input_count) - 1;
  check(input_count >= operands, "a node has fewer inputs than its epilogue needs");
  return input_count - operands;
}

// The layer's first result after its epilogue.
void infer_epilogue(const PointwiseProgram& epilogue, std::span<const Value* const> operands,
                    ResultInfo& result) {
  std::vector<DType> types = {result.dtype};
  for (const Value* operand : operands) {
    check(operand != nullptr, "an epilogue operand is missing");
    types.push_back(operand->dtype);
    if (!(broadcast(result.shape, operand->shape) == result.shape)) {
      throw_input_error("epilogue operand '" + operand->name + "' of shape " + to_string(operand->shape) +
                        " does not broadcast to the result " + to_string(result.shape));
    }
  }
  result.dtype = program_dtype(epilogue, types);
  result.contents.reset();
}

}  // namespace

const Value& InferContext::input(size_t i) const {
  if (!has(i)) throw_input_error("input " + std::to_string(i) + " is required but absent");
  return *inputs[i];
}

std::optional<Shape> contents_of(const Value& value) {
  if (value.contents) return value.contents;
  if (!value.is_constant() || is_float(value.dtype) || value.constant.size() > kMaxContents)
    return std::nullopt;
  if (value.constant.size() > 0 && !value.constant.has_bytes()) return std::nullopt;  // packed by a tactic
  const std::vector<int64_t> elements = value.constant.to_int64s();
  return to_shape(elements);
}
std::optional<Shape> InferContext::contents(size_t i) const {
  return has(i) ? contents_of(*inputs[i]) : std::nullopt;
}

std::string InferContext::dim_name(std::string_view suffix) const {
  return std::string(node_name) + "." + std::string(suffix);
}

Extents EvaluateContext::extents(const Shape& shape) const {
  static const SymbolValues kNone;
  return lathe::evaluate(shape, symbols ? *symbols : kNone);
}

void EvaluateContext::parallel_for(int64_t total, int64_t grain,
                                   const std::function<void(int64_t, int64_t)>& body) const {
  if (total <= 0) return;
  if (pool) {
    pool->parallel_for(total, grain, body);
  } else {
    body(0, total);
  }
}

const OpDef& find_op_def(const Op& op) {
  static const std::vector<const OpDef*> table = index_definitions();
  const OpDef* def = table[op.index()];
  check(def != nullptr, "operator " + std::string(op_name(op)) + " has no definition in ops.cpp");
  return *def;
}

namespace {

// Operators compute numbers: what is stored as integers of a grid has the type of these numbers.
class NumberInputs {
 public:
  explicit NumberInputs(std::span<const Value* const> given) : inputs_(given.begin(), given.end()) {
    numbers_.reserve(given.size());
    for (const Value*& input : inputs_) {
      if (input == nullptr || !input->is_stored_quantized()) continue;
      Value& value = numbers_.emplace_back(*input);
      value.dtype = input->number_type();
      input = &value;
    }
  }
  std::span<const Value* const> all() const { return inputs_; }

 private:
  std::vector<const Value*> inputs_;
  std::vector<Value> numbers_;
};

}  // namespace

std::vector<ResultInfo> infer(const Op& op, const PointwiseProgram& epilogue, const InferContext& context) {
  try {
    const size_t own = own_input_count(epilogue, context.inputs.size());
    const NumberInputs numbers(context.inputs);
    InferContext own_context = context;
    own_context.inputs = numbers.all().first(own);
    std::vector<ResultInfo> results = find_op_def(op).infer(op, own_context);
    if (!epilogue.empty()) infer_epilogue(epilogue, numbers.all().subspan(own), results.at(0));
    if (results.size() < context.output_count) {
      throw_input_error("has " + std::to_string(context.output_count) + " outputs, the operator gives " +
                        std::to_string(results.size()));
    }
    results.resize(context.output_count);
    return results;
  } catch (Error& error) {
    error.add_context("node '" + std::string(context.node_name) + "' (" + std::string(op_display_name(op)) +
                      " of " + describe_inputs(context) + ")");
    throw;
  }
}

std::vector<Tensor> evaluate_node(const Node& node, const EvaluateContext& context, DType output_dtype) {
  try {
    const size_t own = own_input_count(node.epilogue, context.inputs.size());
    EvaluateContext own_context = context;
    own_context.inputs = context.inputs.first(own);
    std::vector<Tensor> results = find_op_def(node.op).evaluate(node.op, own_context);
    check(!results.empty(), "an operator gave no result");
    if (!node.epilogue.empty() || results[0].dtype() != output_dtype) {
      std::vector<Tensor> operands = {results[0]};
      const auto rest = context.inputs.subspan(own);
      operands.insert(operands.end(), rest.begin(), rest.end());
      results[0] = evaluate_program(node.epilogue, operands, output_dtype, context);
    }
    return results;
  } catch (Error& error) {
    error.add_context("evaluating node '" + node.name + "' (" + std::string(op_display_name(node.op)) + ")");
    throw;
  }
}

double no_flops(const Op&, const CostContext&) {
  return 0;
}

double one_per_input(const Op&, const CostContext& context) {
  return static_cast<double>(element_count(context.inputs[0]));
}

double node_flops(const Node& node, const CostContext& context) {
  double outputs = 0;
  for (const Extents& extents : context.outputs) outputs += static_cast<double>(element_count(extents));
  const OpDef& def = find_op_def(node.op);
  const double own = def.flops ? def.flops(node.op, context) : outputs;
  const double first = context.outputs.empty() ? 0 : static_cast<double>(element_count(context.outputs[0]));
  return own + first * static_cast<double>(node.epilogue.steps.size());
}

}  // namespace lathe
