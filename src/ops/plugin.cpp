// SPDX-License-Identifier: Apache-2.0
//
// Plugin: a custom operator. Shapes and values come from its library's code; what that returns was checked by
// plugin/, against what the graph says it is checked like any operator's.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ir/symbol_extents.h"
#include "ops/families.h"

namespace lathe {
namespace {

const PluginCode& code_of(const Plugin& op) {
  if (!op.code) throw_input_error("the code of plugin " + op.identity().to_string() + " is not loaded");
  return *op.code;
}

std::vector<PluginType> types_of(std::span<const Value* const> inputs) {
  std::vector<PluginType> types;
  for (const Value* input : inputs)
    types.push_back(input ? PluginType{input->dtype, input->shape, input->contents} : PluginType{});
  return types;
}

std::vector<ResultInfo> infer_plugin(const Plugin& op, const InferContext& context) {
  std::vector<PluginType> inputs = types_of(context.inputs);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].contents = context.contents(i);
  std::vector<ResultInfo> results;
  for (PluginType& type : code_of(op).infer(context.node_name, inputs, context.output_count))
    results.push_back({type.dtype, std::move(type.shape)});
  return results;
}

// Data-dependent dims at their upper bound.
Tensor room_for(const ResultInfo& result) {
  Extents extents;
  for (const Dim& dim : result.shape) extents.push_back(dim.bounds({}).high);
  return Tensor::allocate(result.dtype, extents);
}

// The elements that a run has left at the front, in the extents that it found.
Tensor found_part(const Tensor& room, const Extents& extents) {
  if (extents == room.extents()) return room;
  Tensor part = Tensor::allocate(room.dtype(), extents);
  std::ranges::copy(room.bytes().first(part.bytes().size()), part.mutable_bytes().begin());
  return part;
}

std::vector<PluginOperand> operands(std::span<const Tensor> tensors) {
  std::vector<PluginOperand> all;
  for (const Tensor& t : tensors)
    all.push_back(t ? PluginOperand{t.dtype(), kLinear, t.extents(), const_cast<std::byte*>(t.bytes().data())}
                    : PluginOperand{});
  return all;
}

std::vector<Tensor> evaluate_plugin(const Plugin& op, const EvaluateContext& context) {
  const PluginCode& code = code_of(op);
  if (!code.runs_on(PluginDevice::Cpu))
    throw_input_error("plugin " + op.identity().to_string() +
                      " runs on CUDA only: it has no results to compare with, and no engine for a CPU");
  std::vector<Value> values;
  std::vector<const Value*> inputs;
  values.reserve(context.inputs.size());
  for (const Tensor& input : context.inputs) {
    Value& value = values.emplace_back();
    value.dtype = input.dtype();
    value.shape = to_shape(input.extents());
    value.constant = input;
    inputs.push_back(input ? &value : nullptr);
  }
  const InferContext infer_context{"plugin", inputs, context.output_count};
  std::vector<Tensor> rooms;
  for (const ResultInfo& result : infer_plugin(op, infer_context)) rooms.push_back(room_for(result));
  const std::vector<PluginOperand> in = operands(context.inputs);
  std::vector<PluginOperand> out = operands(rooms);
  std::vector<std::byte> workspace(static_cast<size_t>(code.workspace_bytes(PluginDevice::Cpu, in, out)));
  code.run(PluginDevice::Cpu, {in, out, workspace.data(), 0, code.work_items(in, out)});
  std::vector<Tensor> results;
  for (size_t i = 0; i < rooms.size(); ++i) results.push_back(found_part(rooms[i], out[i].extents));
  return results;
}

}  // namespace

std::vector<OpDef> plugin_ops() {
  return {op_def<Plugin, infer_plugin, evaluate_plugin>()};
}

}  // namespace lathe
