// SPDX-License-Identifier: Apache-2.0
#include "tune/signature.h"

#include <type_traits>

#include "base/hash.h"
#include "ir/block_grid.h"
#include "ir/plugin_use.h"
#include "ir/substitute.h"
#include "ir/symbol_extents.h"
#include "ir/text.h"

namespace lathe {
namespace {

// Writes the fields of an operator. Floats as hex, so that equal text means equal bits.
class FieldWriter {
 public:
  explicit FieldWriter(std::string& text) : text_(text) {}
  template <class Field>
  void operator()(const char* name, const Field& field) {
    text_ += std::string(text_.ends_with('{') ? "" : ",") + name + "=";
    write(field);
  }

 private:
  void write(bool v) { text_ += v ? "1" : "0"; }
  void write(int64_t v) { text_ += std::to_string(v); }
  void write(double v) {
    char buffer[40];
    snprintf(buffer, sizeof buffer, "%a", v);
    text_ += buffer;
  }
  void write(float v) { write(static_cast<double>(v)); }
  void write(const std::string& v) { text_ += "\"" + v + "\""; }
  void write(DType v) { text_ += dtype_name(v); }
  void write(const Dim& v) { text_ += v.to_string(); }
  void write(const PointwiseProgram& v) { text_ += v.to_string(); }
  void write(const Body& v) { text_ += v ? hash_to_string(hash_text(to_text(v.graph()))) : "-"; }
  template <class E>
  requires std::is_enum_v<E>
  void write(E v) { text_ += enum_name(v); }
  template <class T>
  void write(const std::vector<T>& v) {
    text_ += "[";
    for (size_t i = 0; i < v.size(); ++i) {
      if (i > 0) text_ += ",";
      write(v[i]);
    }
    text_ += "]";
  }
  template <class T>
  void write(const std::optional<T>& v) {
    if (v)
      write(*v);
    else
      text_ += "-";
  }

  std::string& text_;
};

std::string extents_text(const Extents& extents) {
  std::string text = "[";
  for (size_t i = 0; i < extents.size(); ++i) text += (i ? "," : "") + std::to_string(extents[i]);
  return text + "]";
}

// Small integer constants say where to go (indices, axes), so their elements matter.
std::string constant_text(const Tensor& tensor) {
  std::string text = "const " + std::string(dtype_name(tensor.dtype())) + extents_text(tensor.extents());
  if (is_integer(tensor.dtype()) && tensor.size() <= 16 && tensor.has_bytes()) {
    text += "=";
    for (const int64_t v : tensor.to_int64s()) text += std::to_string(v) + ";";
  }
  return text;
}

}  // namespace

std::string layer_signature(const LayerQuery& query) {
  const Node& node = query.layer();
  const SymbolValues opt = query.opt_values();
  DimReplacements constants;
  for (const auto& [symbol, value] : opt) constants.emplace(symbol, value);

  std::string text(op_name(node.op));
  text += "{";
  Op op = substitute_dims(node.op, constants);
  if (auto* plugin = std::get_if<Plugin>(&op))
    if (const auto* uses = dynamic_cast<const PluginUses*>(plugin->code.get()))
      if (const auto key = uses->timing_key()) plugin->fields = *key;
  std::visit([&](const auto& fields) { std::decay_t<decltype(fields)>::visit(fields, FieldWriter(text)); },
             op);
  text += "}";
  if (!node.epilogue.empty()) text += " epilogue{" + node.epilogue.to_string() + "}";
  const auto operand = [&](ValueId id) -> std::string {
    if (id == kNoValue) return "-";
    const Value& v = query.graph.value(id);
    // Scales do not matter for the time; that there are some decides which tactics there are.
    std::string grid = v.quantization ? " on " + std::string(dtype_name(v.quantization->dtype)) : "";
    if (v.quantization && has_blocks(*v.quantization, v.shape))
      grid += " in blocks of " + std::to_string(block_of(*v.quantization, v.shape));
    if (v.is_constant()) return constant_text(v.constant) + grid;
    return std::string(dtype_name(v.dtype)) + extents_text(bounded_extents(v.shape, opt, query.ranges)) +
           grid;
  };
  text += " (";
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + operand(node.inputs[i]);
  // The same operand twice is another memory traffic than two.
  for (size_t i = 0; i < node.inputs.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (node.inputs[i] != kNoValue && node.inputs[i] == node.inputs[k])
        text += ", " + std::to_string(i) + "==" + std::to_string(k);
  text += ") -> (";
  for (size_t i = 0; i < node.outputs.size(); ++i) text += (i ? ", " : "") + operand(node.outputs[i]);
  return text + ")";
}

std::string types_signature(const Tactic& tactic) {
  const auto list = [](const std::vector<TensorType>& types) {
    std::string text;
    for (size_t i = 0; i < types.size(); ++i) {
      if (i > 0) text += ", ";
      text += types[i].dtype == DType::Undefined ? "-" : to_string(types[i]);
    }
    return text;
  };
  return list(tactic.inputs) + " -> " + list(tactic.outputs);
}

std::string describe_operand(const TensorType& type, const Extents& extents) {
  if (type.dtype == DType::Undefined) return "-";
  std::string text(dtype_info(type.dtype).trt_name);
  text += "(";
  const Extents strides = format_strides(extents, type.format);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(strides[i]);
    if (i == 1 && type.format.kind == Format::Kind::ChannelBlocked)
      text += ":" + std::to_string(type.format.block);
  }
  return text + ")";
}

namespace {

std::vector<std::string> describe(const LayerQuery& query, const std::vector<ValueId>& values,
                                  const std::vector<TensorType>& types) {
  const SymbolValues opt = query.opt_values();
  std::vector<std::string> result;
  for (size_t i = 0; i < values.size() && i < types.size(); ++i)
    if (values[i] != kNoValue && types[i].dtype != DType::Undefined)
      result.push_back(
          describe_operand(types[i], bounded_extents(query.graph.value(values[i]).shape, opt, query.ranges)));
  return result;
}

}  // namespace

std::vector<std::string> describe_inputs(const LayerQuery& query, const Tactic& tactic) {
  return describe(query, query.layer().inputs, tactic.inputs);
}
std::vector<std::string> describe_outputs(const LayerQuery& query, const Tactic& tactic) {
  return describe(query, query.layer().outputs, tactic.outputs);
}

}  // namespace lathe
