// SPDX-License-Identifier: Apache-2.0
//
// What the operators of built_in.h have in common: they run on the host, in linear memory, without scratch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plugin.h"

namespace lathe::plugin {

inline constexpr std::string_view kHostVersion = "1";

class HostOperator : public PluginCode {
 public:
  HostOperator(std::string_view name, std::vector<PluginField> fields);
  const PluginIdentity& identity() const final { return identity_; }
  std::string serialized_fields() const final { return plugin_fields_text(fields_); }
  bool runs_on(PluginDevice device) const final { return device == PluginDevice::Cpu; }
  // The types that input_type() and result_types() say, in linear memory.
  bool supports(PluginDevice device, std::span<const PluginOperand> inputs,
                std::span<const PluginOperand> outputs) const final;
  int64_t workspace_bytes(PluginDevice, std::span<const PluginOperand>,
                          std::span<const PluginOperand>) const final {
    return 0;
  }
  int64_t work_items(std::span<const PluginOperand>, std::span<const PluginOperand>) const override {
    return 1;
  }
  bool capturable() const final { return false; }
  std::vector<PluginType> infer(std::string_view node, std::span<const PluginType> inputs,
                                size_t output_count) const final;
  void run(PluginDevice device, const PluginCall& call) const final;

 protected:
  // Inputs are as many as the operator takes; `node` begins the names of data-dependent dims.
  virtual std::vector<PluginType> results(std::string_view node,
                                          std::span<const PluginType> inputs) const = 0;
  virtual void compute(const PluginCall& call) const = 0;
  virtual DType input_type(size_t) const { return DType::UInt8; }
  virtual std::vector<DType> result_types() const = 0;
  // How many inputs: at least, at most.
  virtual std::pair<size_t, size_t> arity() const = 0;

 private:
  PluginIdentity identity_;
  std::vector<PluginField> fields_;
};

// A field's value; what is not there is as the caller says. Throws Input for a field of another kind.
std::string text_of(std::span<const PluginField> fields, std::string_view name);
int64_t integer_of(std::span<const PluginField> fields, std::string_view name, int64_t otherwise);

struct HostOperatorMaker {
  std::string_view name;
  std::shared_ptr<const PluginCode> (*make)(std::vector<PluginField> fields);
};
template <class T>
std::shared_ptr<const PluginCode> make_operator(std::vector<PluginField> fields) {
  return std::make_shared<const T>(std::move(fields));
}
const std::vector<HostOperatorMaker>& image_operators();
const std::vector<HostOperatorMaker>& string_operators();

}  // namespace lathe::plugin
