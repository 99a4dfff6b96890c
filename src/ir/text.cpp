// SPDX-License-Identifier: Apache-2.0
//
// Writing the text form. Fields are printed to text first and compared with the text of a default operator,
// so "left out when default" needs no rule per type. Reading stands in text_parse.cpp.
#include "ir/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/hash.h"
#include "ir/block_grid.h"
#include "ir/list_text.h"

namespace lathe {
namespace {

template <class T>
std::string number_text(T value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string in_quotes(std::string_view name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text += {'\\', 'x', kHex[(c >> 4) & 15], kHex[c & 15]};
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string value_name(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "_";
  const std::string& name = graph.value(id).name;
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) || c == '_' || c == '.';
  });
  return "%" + (plain && !name.empty() ? name : in_quotes(name));
}

std::string program_text(const PointwiseProgram& program) {
  const std::string count = program.input_count == 1 ? "" : std::to_string(program.input_count) + " ";
  return count + "{" + program.to_string() + "}";
}

// One overload per type that a field may have.
std::string field_text(bool v) {
  return v ? "true" : "false";
}
std::string field_text(int64_t v) {
  return number_text(v);
}
std::string field_text(float v) {
  return number_text(v);
}
std::string field_text(double v) {
  return number_text(v);
}
std::string field_text(const std::string& v) {
  return in_quotes(v);
}
std::string field_text(DType v) {
  return std::string(dtype_name(v));
}
std::string field_text(const Ints& v) {
  return list_text(v, [](int64_t i) { return number_text(i); });
}
std::string field_text(const std::vector<float>& v) {
  return list_text(v, [](float f) { return number_text(f); });
}
std::string field_text(const Shape& v) {
  return to_string(v);
}
std::string field_text(const PointwiseProgram& v) {
  return program_text(v);
}
template <class E>
requires std::is_enum_v<E> std::string field_text(E v) {
  return std::string(enum_name(v));
}
template <class T>
std::string field_text(const std::optional<T>& v) {
  return v ? field_text(*v) : "none";
}

// A body's lines, further in than the line of its operator.
std::string body_text(const Body& body, const GraphTextOptions& options) {
  if (!body) return "none";
  GraphTextOptions inner = options;
  if (options.constant_index)
    inner.constant_index = [&](ValueId, const Tensor& tensor) {
      return options.constant_index(kNoValue, tensor);
    };
  std::string indented;
  for (const char c : to_text(body.graph(), inner))
    indented += c == '\n' ? std::string("\n      ") : std::string(1, c);
  return indented.substr(0, indented.rfind('}') + 1);
}

std::string fields_text(const Op& op, const GraphTextOptions& options) {
  const auto text_of = [&]<class F>(const F& field) {
    if constexpr (std::is_same_v<F, Body>)
      return body_text(field, options);
    else
      return field_text(field);
  };
  std::string text;
  std::visit(
      [&]<class T>(const T& fields) {
        std::vector<std::string> defaults;
        const T default_op{};
        T::visit(default_op,
                 [&](std::string_view, const auto& field) { defaults.push_back(text_of(field)); });
        size_t i = 0;
        T::visit(fields, [&](std::string_view name, const auto& field) {
          const std::string value = text_of(field);
          if (value != defaults[i++]) text += (text.empty() ? "" : ", ") + std::string(name) + "=" + value;
        });
      },
      op);
  return text;
}

std::string type_text(const Value& value) {
  std::string text = std::string(dtype_name(value.dtype)) + to_string(value.shape);
  if (!value.format.is_linear()) text += ":" + to_string(value.format);
  if (value.contents) text += " contents " + to_string(*value.contents);
  if (value.quantization) text += " quantized " + to_string(*value.quantization);
  return text;
}

std::string typed_value(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "_";
  return value_name(graph, id) + ": " + type_text(graph.value(id));
}

// Elements that are kept elsewhere are packed with their blocks' scales.
std::string constant_type(const Graph& graph, ValueId id, const GraphTextOptions& options) {
  if (!options.constant_index || !graph.value(id).quantization) return typed_value(graph, id);
  Value value = graph.value(id);
  value.quantization = without_numbers(*value.quantization, value.shape);
  return value_name(graph, id) + ": " + type_text(value);
}

std::vector<std::string> element_texts(const Tensor& tensor) {
  std::vector<std::string> texts;
  if (tensor.dtype() == DType::UInt64) {
    for (uint64_t v : tensor.data<uint64_t>()) texts.push_back(number_text(v));
  } else if (tensor.dtype() == DType::Float64) {
    for (double v : tensor.data<double>()) texts.push_back(number_text(v));
  } else if (is_float(tensor.dtype())) {
    for (double v : tensor.to_doubles()) texts.push_back(number_text(static_cast<float>(v)));
  } else {
    for (int64_t v : tensor.to_int64s()) texts.push_back(number_text(v));
  }
  return texts;
}

std::string constant_text(ValueId id, const Tensor& tensor, const GraphTextOptions& options) {
  const bool small = tensor.size() <= kMaxInlineElements;
  if (!small && !options.inline_constants) {
    if (options.constant_index) return "ref " + std::to_string(options.constant_index(id, tensor));
    return "ref hash(" + hash_to_string(hash_bytes(tensor.bytes())) + ")";
  }
  const std::vector<std::string> elements = element_texts(tensor);
  const bool splat =
      !small && std::all_of(elements.begin(), elements.end(), [&](auto& e) { return e == elements[0]; });
  if (splat) return "splat " + elements[0];
  return list_text(elements, [](const std::string& e) { return e; });
}

}  // namespace

std::string node_to_text(const Graph& graph, NodeId id, const GraphTextOptions& options) {
  const Node& node = graph.node(id);
  std::string text;
  for (size_t i = 0; i < node.outputs.size(); ++i)
    text += (i ? ", " : "") + typed_value(graph, node.outputs[i]);
  text += " = " + std::string(op_name(node.op)) + " " + in_quotes(node.name) + " (";
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + value_name(graph, node.inputs[i]);
  text += ")";
  if (const std::string fields = fields_text(node.op, options); !fields.empty()) text += " {" + fields + "}";
  if (!node.epilogue.empty()) text += " epilogue " + program_text(node.epilogue);
  if (!node.allowed_types.empty())
    text += " allow " + list_text(node.allowed_types, [](DType t) { return field_text(t); });
  if (!node.origins.empty()) {
    text += " from " + list_text(node.origins, [](const Origin& o) {
              return in_quotes(o.name) + " " + in_quotes(o.op_type);
            });
  }
  return text;
}

std::string to_text(const Graph& graph, const GraphTextOptions& options) {
  std::string text = "graph " + in_quotes(graph.name()) + " {\n";
  for (ValueId id : graph.inputs()) text += "  input " + typed_value(graph, id) + "\n";
  for (ValueId id = 0; static_cast<size_t>(id) < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (!value.is_constant() || (graph.users(id).empty() && !graph.is_output(id))) continue;
    text += "  const " + constant_type(graph, id, options) + " = " +
            constant_text(id, value.constant, options) + "\n";
  }
  for (NodeId id : graph.order()) text += "  " + node_to_text(graph, id, options) + "\n";
  for (ValueId id : graph.outputs()) text += "  output " + value_name(graph, id) + "\n";
  return text + "}\n";
}

}  // namespace lathe
