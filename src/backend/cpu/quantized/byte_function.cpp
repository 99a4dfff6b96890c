// SPDX-License-Identifier: Apache-2.0
//
// Layers that make bytes of a grid from the bytes of one other value and from single constants: what they
// compute is a table of 256 bytes. Activations between two roundings (x * sigmoid(x) in models that round x
// as well), hard swish, roundings from one grid to another.
//
// Bytes: each element one read and one written. With AVX512-VBMI two permutations and a blend look up 64
// elements, so that the floor is memory (or L2) bandwidth; without it one load for each element.
#include <algorithm>

#include "backend/cpu/quantized/byte_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/whole_program.h"
#include "base/error.h"
#include "ops/op_def.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kByteFunctionRunner = "ByteFunction";

bool is_function(const Node& node) {
  return std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<PointwiseChain>(node.op);
}

// The one value that the layer reads, besides constants of one element; kNoValue: there are others.
ValueId only_operand(const LayerQuery& query) {
  ValueId only = kNoValue;
  for (const ValueId id : query.layer().inputs) {
    if (id == kNoValue) return kNoValue;
    const Value& value = query.graph.value(id);
    if (value.is_constant() && is_static(value.shape) && element_count(to_extents(value.shape)) == 1)
      continue;
    if (value.is_constant() || (only != kNoValue && only != id)) return kNoValue;
    only = id;
  }
  return only;
}

ByteTable table_of(const LayerQuery& query, ValueId operand, const ByteGrid& from, const ByteGrid& to) {
  const Node& node = query.layer();
  return tabulate(from, to, [&](const std::vector<double>& numbers) {
    std::vector<Tensor> inputs;
    for (const ValueId id : node.inputs) {
      const Value& value = query.graph.value(id);
      if (id != operand) {
        if (!value.constant.has_bytes())  // a file may leave out what it says are packed
          throw_input_error("layer '" + node.name + "': the constant '" + value.name +
                            "' has no elements in the file");
        inputs.push_back(value.constant);
        continue;
      }
      Extents extents(value.shape.size(), 1);  // the numbers lie along the last dim
      extents.back() = static_cast<int64_t>(numbers.size());
      inputs.push_back(Tensor::from_doubles(value.number_type(), extents, numbers));
    }
    const DType type = query.graph.value(node.outputs[0]).number_type();
    return evaluate_node(node, {.inputs = inputs}, type)[0].to_doubles();
  });
}

class PreparedByteFunction final : public PreparedLayer {
 public:
  // `operand`: the number of the input.
  PreparedByteFunction(const ByteTable& table, const Machine& machine, size_t operand, int64_t count)
      : table_(table),
        look_up_(look_up_of(machine)),
        nanoseconds_per_byte_(looks_up_in_vectors(machine) ? 0.02 : 0.3),
        operand_(operand),
        count_(count) {}

  int members(int available) const override {
    return members_for(nanoseconds_per_byte_ * static_cast<double>(count_), available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range part = worker.slice(count_, 1024);
    look_up_(static_cast<const uint8_t*>(args.inputs[operand_]) + part.begin, part.end - part.begin,
             table_.data(), static_cast<uint8_t*>(args.outputs[0]) + part.begin);
  }

 private:
  const ByteTable table_;
  const LookUp look_up_;
  const double nanoseconds_per_byte_;
  const size_t operand_;
  const int64_t count_;
};

class ByteFunctionKernel final : public LayerKernel {
 public:
  ByteFunctionKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : machine_(machine) {
    const ValueId operand = only_operand(query);
    const std::vector<ValueId>& inputs = query.layer().inputs;
    operand_ = static_cast<size_t>(std::find(inputs.begin(), inputs.end(), operand) - inputs.begin());
    table_ = table_of(query, operand, *byte_grid(query.graph.value(operand), tactic.inputs[operand_]),
                      *byte_grid(query.graph.value(query.layer().outputs[0]), tactic.outputs[0]));
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    return std::make_unique<PreparedByteFunction>(table_, machine_, operand_,
                                                  element_count(context.outputs[0]));
  }

 private:
  const Machine machine_;
  size_t operand_ = 0;
  ByteTable table_{};
};

std::vector<Tactic> list_byte_function(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!is_function(node) || node.outputs.size() != 1) return {};
  const ValueId operand = only_operand(query);
  if (operand == kNoValue) return {};
  const Value &x = query.graph.value(operand), &y = query.graph.value(node.outputs[0]);
  if (!byte_grid(x, {DType::UInt8, {}}) || !byte_grid(y, {DType::UInt8, {}}) || x.shape.empty() ||
      x.shape != y.shape)
    return {};
  std::vector<Tactic> tactics;
  for (const Format& format : {kLinear, kChannelsLast}) {
    if (!format.is_linear() && y.shape.size() < 3) continue;
    Tactic t = linear_tactic(query, kByteFunctionRunner,
                             looks_up_in_vectors(machine) ? "byte_function_avx512_vbmi" : "byte_function");
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != operand) continue;
      t.inputs[i] = {DType::UInt8, format};
      t.in_place_inputs.push_back(static_cast<int>(i));
    }
    t.outputs[0] = {DType::UInt8, format};
    t.keeps_nan = false;
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_byte_function(const LayerQuery& query, const Tactic& tactic,
                                                const Machine& machine, const PackContext&) {
  return std::make_unique<ByteFunctionKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily byte_function_tactics() {
  return {kByteFunctionRunner, list_byte_function, make_byte_function};
}

}  // namespace lathe::cpu
