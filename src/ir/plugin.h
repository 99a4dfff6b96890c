// SPDX-License-Identifier: Apache-2.0
//
// A custom operator as the graph sees it: what the model says of it, and the code that some library gives it
// (plugin/ loads libraries; include/lathe/plugin_abi.h is what they implement). Code is bound to an operator
// by a PluginSource: when a model is imported and when an engine is read. An operator without code can be
// looked at, but neither inferred nor run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "ir/format.h"
#include "ir/shape.h"
#include "ir/tensor.h"

namespace lathe {

class Graph;

struct PluginIdentity {
  std::string name, version, name_space;
  bool operator==(const PluginIdentity&) const = default;
  std::string to_string() const;  // "Swish" version 1 of namespace 'acme'
};

// An attribute. A text is the UInt8 tensor of its bytes.
struct PluginField {
  std::string name;
  Tensor value;
  bool is_text = false;
};
// Fields as one line of JSON, sorted by name, and back. Equal fields give equal text.
std::string plugin_fields_text(std::span<const PluginField> fields);
std::vector<PluginField> plugin_fields_from(std::string_view text);

// What is known of an operand before anything runs.
struct PluginType {
  DType dtype = DType::Undefined;  // an absent operand
  Shape shape;
  std::optional<Shape> contents = std::nullopt;
};

// An operand at concrete extents; without data where only types and extents matter.
struct PluginOperand {
  DType dtype = DType::Undefined;
  Format format;
  Extents extents;  // of a data-dependent output: what run() found
  void* data = nullptr;
};

struct PluginCall {
  std::span<const PluginOperand> inputs;
  std::span<PluginOperand> outputs;
  void* workspace = nullptr;
  int64_t begin = 0, end = 1;  // the work items to do
  void* stream = nullptr;      // of CUDA
};

enum class PluginDevice : uint8_t { Cpu, Cuda };

// The code of one operator of a model. Used by many threads at once. What the library returns is checked
// here; errors are Input errors that name the plugin.
class PluginCode {
 public:
  virtual ~PluginCode() = default;
  virtual const PluginIdentity& identity() const = 0;
  // The fields from which an engine makes this operator again.
  virtual std::string serialized_fields() const = 0;
  virtual std::vector<PluginType> infer(std::string_view node, std::span<const PluginType> inputs,
                                        size_t output_count) const = 0;
  virtual bool runs_on(PluginDevice device) const = 0;
  // Whether it takes these types and formats. Data and extents are not looked at.
  virtual bool supports(PluginDevice device, std::span<const PluginOperand> inputs,
                        std::span<const PluginOperand> outputs) const = 0;
  virtual int64_t workspace_bytes(PluginDevice device, std::span<const PluginOperand> inputs,
                                  std::span<const PluginOperand> outputs) const = 0;
  // Into how many independent parts a run on the CPU may be divided.
  virtual int64_t work_items(std::span<const PluginOperand> inputs,
                             std::span<const PluginOperand> outputs) const = 0;
  // May be recorded into a CUDA graph.
  virtual bool capturable() const = 0;
  virtual void run(PluginDevice device, const PluginCall& call) const = 0;
};

// Where the code of plugins comes from.
class PluginSource {
 public:
  virtual ~PluginSource() = default;
  virtual bool has(const PluginIdentity& identity) const = 0;
  // Null when no library has it. An empty version: any, the latest first.
  virtual std::shared_ptr<const PluginCode> create(const PluginIdentity& identity,
                                                   std::string_view fields) const = 0;
  // The plugins that there are, for messages: "Swish 1, Mish 1".
  virtual std::string list() const = 0;
  // A library that an engine file carries. False, and nothing is loaded, unless engines are trusted to run
  // code.
  virtual bool load_carried(const std::string& name, std::span<const std::byte> bytes) = 0;
};

// Gives all plugins of the graph, bodies included, their code. Throws an Input error that names those that
// are missing and says how to load them, or what `hint` says. `source` may be null: nothing is loaded.
void bind_plugins(Graph& graph, const PluginSource* source, const std::string& hint = {});

}  // namespace lathe
