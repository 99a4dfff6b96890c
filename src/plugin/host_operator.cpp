// SPDX-License-Identifier: Apache-2.0
#include "plugin/host_operator.h"

#include <algorithm>

#include "base/error.h"
#include "plugin/built_in.h"

namespace lathe::plugin {

namespace {

const PluginField* find_field(std::span<const PluginField> fields, std::string_view name) {
  const auto it = std::ranges::find(fields, name, &PluginField::name);
  return it == fields.end() ? nullptr : &*it;
}

}  // namespace

std::string text_of(std::span<const PluginField> fields, std::string_view name) {
  const PluginField* field = find_field(fields, name);
  if (!field) return {};
  if (!field->is_text) throw_input_error("its field '" + std::string(name) + "' is no text");
  const auto bytes = field->value.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int64_t integer_of(std::span<const PluginField> fields, std::string_view name, int64_t otherwise) {
  const PluginField* field = find_field(fields, name);
  if (!field) return otherwise;
  if (field->is_text || field->value.size() != 1 || field->value.dtype() != DType::Int64)
    throw_input_error("its field '" + std::string(name) + "' is no integer");
  return field->value.to_int64s()[0];
}

HostOperator::HostOperator(std::string_view name, std::vector<PluginField> fields)
    : identity_{std::string(name), std::string(kHostVersion), std::string(kBuiltInNamespace)},
      fields_(std::move(fields)) {}

std::vector<PluginType> HostOperator::infer(std::string_view node, std::span<const PluginType> inputs,
                                            size_t output_count) const {
  const auto [least, most] = arity();
  if (inputs.size() < least || inputs.size() > most ||
      std::ranges::any_of(inputs, [](const PluginType& t) { return t.dtype == DType::Undefined; }))
    throw_input_error(identity_.name + " has " + std::to_string(inputs.size()) + " inputs, expected " +
                      std::to_string(least) + (most == least ? "" : " to " + std::to_string(most)));
  std::vector<PluginType> types = results(node, inputs);
  if (output_count > types.size())
    throw_input_error(identity_.name + " has " + std::to_string(output_count) + " outputs, expected " +
                      std::to_string(types.size()));
  return types;
}

bool HostOperator::supports(PluginDevice device, std::span<const PluginOperand> inputs,
                            std::span<const PluginOperand> outputs) const {
  const auto are_linear = [](std::span<const PluginOperand> operands) {
    return std::ranges::all_of(operands, [](const PluginOperand& o) { return o.format.is_linear(); });
  };
  const std::vector<DType> types = result_types();
  bool fits = device == PluginDevice::Cpu && are_linear(inputs) && are_linear(outputs) &&
              outputs.size() <= types.size();
  for (size_t i = 0; i < inputs.size(); ++i) fits &= inputs[i].dtype == input_type(i);
  for (size_t i = 0; fits && i < outputs.size(); ++i)
    fits &= outputs[i].dtype == DType::Undefined || outputs[i].dtype == types[i];
  return fits;
}

void HostOperator::run(PluginDevice device, const PluginCall& call) const {
  check(device == PluginDevice::Cpu, "an operator of the host is run on a device");
  compute(call);
}

}  // namespace lathe::plugin
