// SPDX-License-Identifier: Apache-2.0
//
// The interpreter, see interpreter.h. A value lives from its node to its last reader. Dims that depend on
// data get their value from the tensor that has them, right after its node ran.

#include "ops/interpreter.h"

#include "ops/op_def.h"
#include "ops/quantized_product.h"

namespace lathe {

namespace {

// Makes `dim` agree with an actual extent: binds a lone unknown symbol, checks anything else that can be
// evaluated. False when they differ.
bool agree(const Dim& dim, int64_t extent, SymbolValues& symbols) {
  if (const auto name = dim.as_symbol(); name && !symbols.contains(*name)) {
    symbols.emplace(*name, extent);
    return true;
  }
  for (const std::string& name : dim.symbols()) {
    if (!symbols.contains(name)) return true;  // known later, or never
  }
  return dim.evaluate(symbols) == extent;
}

std::string describe(DType dtype, const std::string& shape) {
  return std::string(dtype_name(dtype)) + " " + shape;
}

// What agreed dims say of a shape, for messages: "[batch=8, 3]".
std::string with_values(const Shape& shape, const SymbolValues& symbols) {
  std::string text = to_string(shape);
  std::string values;
  for (const Dim& dim : shape) {
    for (const std::string& name : dim.symbols()) {
      const auto found = symbols.find(name);
      if (found != symbols.end())
        values += (values.empty() ? "" : ", ") + name + "=" + std::to_string(found->second);
    }
  }
  return values.empty() ? text : text + " with " + values;
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, std::span<const Tensor> inputs, const InterpretOptions& options)
      : graph_(graph),
        options_(options),
        symbols_(bind_symbols(graph, inputs, options.symbols)),
        values_(graph.value_count()),
        readers_left_(graph.value_count(), 0) {
    for (size_t i = 0; i < inputs.size(); ++i) at(graph.inputs()[i]) = inputs[i];
    for (NodeId id : graph.order()) {
      for (ValueId input : graph.node(id).inputs) {
        if (input != kNoValue) ++left(input);
      }
    }
    for (ValueId output : graph.outputs()) ++left(output);  // never freed
  }

  std::vector<Tensor> run() {
    for (NodeId id : graph_.order()) run_node(id);
    std::vector<Tensor> outputs;
    for (ValueId id : graph_.outputs()) outputs.push_back(tensor(id));
    return outputs;
  }

 private:
  Tensor& at(ValueId id) { return values_[static_cast<size_t>(id)]; }
  int& left(ValueId id) { return readers_left_[static_cast<size_t>(id)]; }

  Tensor tensor(ValueId id) {
    if (id == kNoValue) return {};
    const Value& value = graph_.value(id);
    if (value.is_constant()) return value.constant;
    check(static_cast<bool>(at(id)), "value '" + value.name + "' is read before it is computed");
    return at(id);
  }

  void run_node(NodeId id) {
    if (options_.on_node) options_.on_node(id);
    const Node& node = graph_.node(id);
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) inputs.push_back(tensor(input));
    std::vector<Tensor> results = options_.evaluate
                                      ? options_.evaluate(id, inputs, symbols_)
                                      : interpret_node(graph_, node, inputs, symbols_, options_.pool);
    inputs.clear();
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      if (output == kNoValue) continue;
      check_result(node, output, results[i]);
      at(output) = std::move(results[i]);
      if (options_.on_value) options_.on_value(output, at(output));
      if (left(output) == 0) at(output) = Tensor();
    }
    for (ValueId input : node.inputs) {
      if (input != kNoValue && --left(input) == 0) at(input) = Tensor();
    }
  }

  // A result must be what its value says; new data-dependent dims get their value here.
  void check_result(const Node& node, ValueId id, const Tensor& result) {
    const Value& value = graph_.value(id);
    bool same = result.dtype() == value.dtype && result.extents().size() == value.shape.size();
    for (size_t d = 0; same && d < value.shape.size(); ++d)
      same = agree(value.shape[d], result.extents()[d], symbols_);
    if (same) return;
    throw_input_error("node '" + node.name + "' (" + std::string(op_display_name(node.op)) + ") computed " +
                      describe(result.dtype(), to_string(result.extents())) + " for '" + value.name +
                      "', which is " + describe(value.dtype, with_values(value.shape, symbols_)) +
                      "; dims with different names may have been taken as equal");
  }

  const Graph& graph_;
  const InterpretOptions& options_;
  SymbolValues symbols_;
  std::vector<Tensor> values_;
  std::vector<int> readers_left_;
};

}  // namespace

SymbolValues bind_symbols(const Graph& graph, std::span<const Tensor> inputs, SymbolValues symbols) {
  if (inputs.size() != graph.inputs().size()) {
    throw_input_error("the graph has " + std::to_string(graph.inputs().size()) + " inputs, " +
                      std::to_string(inputs.size()) + " were given");
  }
  // Twice: an expression such as 2*seq is checked when the second round knows seq.
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = graph.value(graph.inputs()[i]);
      const Tensor& tensor = inputs[i];
      if (!tensor) throw_input_error("input '" + value.name + "' is missing");
      bool same = tensor.dtype() == value.dtype && tensor.extents().size() == value.shape.size();
      for (size_t d = 0; same && d < value.shape.size(); ++d)
        same = agree(value.shape[d], tensor.extents()[d], symbols);
      if (same) continue;
      throw_input_error("input '" + value.name + "' is " +
                        describe(value.dtype, with_values(value.shape, symbols)) + ", but " +
                        describe(tensor.dtype(), to_string(tensor.extents())) + " was given");
    }
  }
  return symbols;
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs,
                              const InterpretOptions& options) {
  return Interpreter(graph, inputs, options).run();
}

namespace {

// Integers of a grid as the numbers that they stand for, and numbers as they are stored.
std::vector<Tensor> numbers_of(const Graph& graph, const Node& node, std::span<const Tensor> inputs) {
  std::vector<Tensor> numbers(inputs.begin(), inputs.end());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i]) continue;
    const Value& value = graph.value(node.inputs[i]);
    if (value.is_stored_quantized() && numbers[i].dtype() == value.dtype)
      numbers[i] = dequantize(numbers[i], *value.quantization);
  }
  return numbers;
}

}  // namespace

std::vector<Tensor> interpret_node(const Graph& graph, const Node& node, std::span<const Tensor> inputs,
                                   const SymbolValues& symbols, ThreadPool* pool, const BodyRunner* bodies) {
  const std::vector<Tensor> numbers = numbers_of(graph, node, inputs);
  const EvaluateContext context{.inputs = numbers,
                                .output_count = node.outputs.size(),
                                .symbols = &symbols,
                                .pool = pool,
                                .bodies = bodies};
  const DType dtype = node.outputs.empty() || node.outputs[0] == kNoValue
                          ? DType::Undefined
                          : graph.value(node.outputs[0]).number_type();
  std::vector<Tensor> results = evaluate_quantized_product(graph, node, context);
  if (results.empty()) results = evaluate_node(node, context, dtype);
  for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i)
    if (node.outputs[i] != kNoValue && graph.value(node.outputs[i]).is_stored_quantized())
      results[i] = quantize(results[i], *graph.value(node.outputs[i]).quantization);
  return results;
}

}  // namespace lathe
