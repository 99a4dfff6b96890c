// SPDX-License-Identifier: Apache-2.0
#include "ops/make_constants.h"

#include "base/error.h"
#include "ir/edit.h"
#include "ops/op_def.h"

namespace lathe {
namespace {

bool is_unmade(const Tensor& tensor) {
  return tensor && !tensor.has_bytes() && tensor.recipe();
}

// What is made lives until its last reader has it: several constants may be made of one tensor.
class ConstantMaker {
 public:
  explicit ConstantMaker(ThreadPool* pool) : pool_(pool) {}
  void announce(const Tensor& tensor);
  // The tensor with its bytes, as often as it was announced.
  Tensor make(const Tensor& tensor);

 private:
  struct Made {
    int readers = 0;
    Tensor tensor;
  };
  Tensor evaluate(const Tensor& wanted);

  ThreadPool* pool_;
  std::map<const Recipe*, Made> made_;
};

// The same constant with other bytes, or none.
void replace_bytes(Graph& graph, ValueId id, Tensor tensor) {
  const Value value = graph.value(id);
  GraphEditor editor(graph);
  editor.set_constant(id, std::move(tensor));
  editor.set_quantization(id, value.quantization);
  editor.set_contents(id, value.contents);
}

void ConstantMaker::announce(const Tensor& tensor) {
  if (!is_unmade(tensor)) return;
  if (++made_[tensor.recipe().get()].readers > 1) return;
  for (const Tensor& input : tensor.recipe()->inputs) announce(input);
}

Tensor ConstantMaker::make(const Tensor& tensor) {
  if (!is_unmade(tensor)) return tensor;
  Made& made = made_[tensor.recipe().get()];  // stays where it is while others are added
  if (!made.tensor) made.tensor = evaluate(tensor);
  const Tensor result = made.tensor.reshaped(tensor.extents());
  if (--made.readers == 0) made.tensor = Tensor();
  return result;
}

Tensor ConstantMaker::evaluate(const Tensor& wanted) {
  const Recipe& recipe = *wanted.recipe();
  std::vector<Tensor> inputs;
  for (const Tensor& input : recipe.inputs) inputs.push_back(make(input));
  Node node;
  node.op = recipe.op;
  node.epilogue = recipe.epilogue;
  for (size_t i = 0; i < inputs.size(); ++i)
    node.inputs.push_back(inputs[i] ? static_cast<ValueId>(i) : kNoValue);
  node.outputs.assign(recipe.output + 1, 0);
  const SymbolValues no_symbols;
  std::vector<Tensor> results = evaluate_node(
      node, {.inputs = inputs, .output_count = node.outputs.size(), .symbols = &no_symbols, .pool = pool_},
      wanted.dtype());
  if (recipe.output >= results.size() || results[recipe.output].dtype() != wanted.dtype() ||
      results[recipe.output].size() != wanted.size())
    throw_input_error("a constant's recipe (" + std::string(op_display_name(recipe.op)) + ") gives no " +
                      std::string(dtype_name(wanted.dtype())) + " " + to_string(wanted.extents()));
  return results[recipe.output].with_recipe(wanted.recipe());
}

}  // namespace

Tensor evaluate_constant(Op op, const std::vector<Tensor>& inputs, DType dtype, ThreadPool* pool) {
  Node node;
  node.op = std::move(op);
  Tensor result = evaluate_node(node, {.inputs = inputs, .pool = pool}, dtype)[0];
  return made_by(std::move(result), std::move(node.op), inputs);
}

bool has_unmade_constants(const Graph& graph) {
  for (size_t v = 0; v < graph.value_count(); ++v)
    if (is_unmade(graph.value(static_cast<ValueId>(v)).constant)) return true;
  return false;
}

void make_constants(Graph& graph, ThreadPool* pool) {
  ConstantMaker maker(pool);
  for (size_t v = 0; v < graph.value_count(); ++v)
    maker.announce(graph.value(static_cast<ValueId>(v)).constant);
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (is_unmade(graph.value(id).constant)) replace_bytes(graph, id, maker.make(graph.value(id).constant));
  }
}

void forget_made_constants(Graph& graph, const std::function<bool(ValueId)>& keeps) {
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const Value& value = graph.value(id);
    if (value.is_constant() && value.constant.has_bytes() && value.constant.recipe() && !keeps(id))
      replace_bytes(graph, id, value.constant.forgotten());
  }
}

}  // namespace lathe
