// SPDX-License-Identifier: Apache-2.0
#include "report/model_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/observer.h"
#include "onnx/import.h"
#include "onnx/model.h"

namespace lathe {
namespace {

using onnx::AttributeProto;

constexpr size_t kMostItems = 32;  // of a list attribute: strides and axes whole, tables by their length
constexpr size_t kMostText = 200;

std::string type_name(int32_t data_type) {
  for (const auto& info : all_dtypes()) {
    if (info.dtype != DType::Undefined && static_cast<int32_t>(info.dtype) == data_type)
      return std::string(info.name);
  }
  return data_type == 8 ? "string" : "";
}

int64_t type_bytes(int32_t data_type, int64_t elements) {
  for (const auto& info : all_dtypes()) {
    if (info.dtype != DType::Undefined && static_cast<int32_t>(info.dtype) == data_type)
      return dtype_bytes(info.dtype, elements);
  }
  return 0;
}

// A number where it is known, else its name, "" for one without.
Json dimension(const onnx::Dimension& dim) {
  if (dim.value && *dim.value >= 0) return *dim.value;
  return std::string(dim.param);
}

Json shape(const Shape& dims) {
  Json list = Json::array();
  for (const Dim& dim : dims) list.push_back(dim.is_constant() ? Json(dim.value()) : Json(dim.to_string()));
  return list;
}

template <class List>
Json items(const List& list) {
  if (list.size() > kMostItems) return std::to_string(list.size()) + " values";
  Json json = Json::array();
  for (const auto& item : list) json.push_back(item);
  return json;
}

std::string tensor_text(const onnx::TensorProto& tensor) {
  std::string text = type_name(tensor.data_type) + " [";
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(tensor.dims[i]);
  return text + "]";
}

Json attribute(const AttributeProto& a) {
  switch (a.type) {
    case AttributeProto::Type::Float:
      return a.f;
    case AttributeProto::Type::Int:
      return a.i;
    case AttributeProto::Type::String:
      return a.s.size() > kMostText ? std::to_string(a.s.size()) + " bytes of text" : std::string(a.s);
    case AttributeProto::Type::Floats:
      return items(a.floats);
    case AttributeProto::Type::Ints:
      return items(a.ints);
    case AttributeProto::Type::Strings:
      return items(a.strings);
    case AttributeProto::Type::Tensor:
      return a.t ? Json(tensor_text(*a.t)) : Json(nullptr);
    case AttributeProto::Type::Graph:
      return a.g ? Json("a graph of " + std::to_string(a.g->nodes.size()) + " nodes") : Json(nullptr);
    default:
      return nullptr;
  }
}

// Nodes that other nodes stand for after import: calls of the model's functions, and control flow.
bool expands(const onnx::NodeProto& node, const onnx::ModelProto& model) {
  const bool holds_graph = std::any_of(node.attributes.begin(), node.attributes.end(),
                                       [](const AttributeProto& a) { return a.g != nullptr; });
  return holds_graph ||
         std::any_of(model.functions.begin(), model.functions.end(), [&](const onnx::FunctionProto& f) {
           return f.name == node.op_type && f.domain == node.domain;
         });
}

Json nodes_json(const onnx::ModelProto& model) {
  Json list = Json::array();
  std::map<std::string, int, std::less<>> unnamed;
  for (const auto& node : model.graph.nodes) {
    Json json = {{"name", onnx::node_name(node, unnamed)},
                 {"op_type", node.op_type},
                 {"domain", node.domain},
                 {"inputs", node.inputs},
                 {"outputs", node.outputs}};
    Json attributes = Json::object();
    for (const auto& a : node.attributes) attributes[std::string(a.name)] = attribute(a);
    json["attributes"] = std::move(attributes);
    if (expands(node, model)) json["expands"] = true;
    list.push_back(std::move(json));
  }
  return list;
}

// Tensors by name, inputs first; what the file says comes before what the import found.
class Tensors {
 public:
  void add(const onnx::ValueInfo& info) {
    if (info.type.kind != onnx::TypeProto::Kind::Tensor) return;
    Json dims;
    if (info.type.shape) {
      dims = Json::array();
      for (const auto& dim : *info.type.shape) dims.push_back(dimension(dim));
    }
    add(std::string(info.name), type_name(info.type.elem_type), std::move(dims));
  }
  void add(const std::string& name, std::string type, Json dims) {
    if (name.empty() || initializers_.contains(name)) return;
    const auto [found, added] = index_.emplace(name, list_.size());
    if (added) list_.push_back({{"name", name}, {"type", ""}, {"shape", nullptr}});
    Json& tensor = list_[found->second];
    if (tensor["type"] == "") tensor["type"] = std::move(type);
    if (tensor["shape"].is_null()) tensor["shape"] = std::move(dims);
  }
  // Up to IR 3 they are listed as inputs, too.
  void leave_out(std::string_view initializer) { initializers_.emplace(initializer); }
  const Json* find(std::string_view name) const {
    const auto found = index_.find(std::string(name));
    return found == index_.end() ? nullptr : &list_[found->second];
  }
  Json take() { return std::move(list_); }

 private:
  Json list_ = Json::array();
  std::unordered_map<std::string, size_t> index_;
  std::set<std::string, std::less<>> initializers_;
};

Json initializers_json(const onnx::GraphProto& graph, Tensors& tensors) {
  Json list = Json::array();
  for (const auto& t : graph.initializers) {
    tensors.leave_out(t.name);
    int64_t elements = 1;
    for (const int64_t dim : t.dims) {
      if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements))
        throw_input_error("initializer '" + std::string(t.name) + "' has impossible dimensions");
    }
    list.push_back({{"name", t.name},
                    {"type", type_name(t.data_type)},
                    {"shape", t.dims},
                    {"bytes", type_bytes(t.data_type, elements)}});
  }
  return list;
}

// Shapes that the file leaves out; "" or why there are none.
std::string add_imported(const std::filesystem::path& file, Tensors& tensors) {
  try {
    NullObserver observer;
    const Graph graph = import_onnx(file, observer).graph;
    for (size_t id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(static_cast<ValueId>(id));
      if (value.dtype != DType::Undefined)
        tensors.add(value.name, std::string(dtype_name(value.dtype)), shape(value.shape));
    }
    return "";
  } catch (const Error& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (text.size() > kMostText) text = text.substr(0, kMostText) + " ...";
    return "Shapes are those of the file alone: " + text;
  }
}

// The import leaves no trace of an Identity, so its result has its operand's type and shape.
void add_identities(const onnx::GraphProto& graph, const Json& initializers, Tensors& tensors) {
  std::map<std::string, const Json*> weights;
  for (const auto& one : initializers) weights[one.at("name").get<std::string>()] = &one;
  for (const auto& node : graph.nodes) {
    if (node.op_type != "Identity" || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    const auto weight = weights.find(std::string(node.inputs[0]));
    const Json* operand = weight != weights.end() ? weight->second : tensors.find(node.inputs[0]);
    if (operand == nullptr) continue;
    const Json type = operand->at("type"), dims = operand->at("shape");
    tensors.add(std::string(node.outputs[0]), type.get<std::string>(), dims);
  }
}

Json names(const std::vector<onnx::ValueInfo>& values, const Json& initializers) {
  std::set<std::string> weights;
  for (const auto& one : initializers) weights.insert(one.at("name").get<std::string>());
  Json list = Json::array();
  for (const auto& value : values) {
    if (!weights.contains(std::string(value.name))) list.push_back(value.name);
  }
  return list;
}

}  // namespace

Json model_graph_json(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file);
  try {
    const onnx::ModelProto model = onnx::parse_model(mapped->bytes());
    int64_t opset = 0;
    for (const auto& one : model.opsets) {
      if (onnx::is_onnx_domain(one.domain)) opset = one.version;
    }
    Tensors tensors;
    Json initializers = initializers_json(model.graph, tensors);
    for (const auto* list : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info}) {
      for (const auto& info : *list) tensors.add(info);
    }
    const std::string note = add_imported(file, tensors);
    add_identities(model.graph, initializers, tensors);
    Json producer = std::string(model.producer_name);
    if (!model.producer_version.empty())
      producer = std::string(model.producer_name) + " " + std::string(model.producer_version);
    return {{"schema", "lathe-model"},
            {"schema_version", "1.0"},
            {"file", file.string()},
            {"name", model.graph.name},
            {"producer", std::move(producer)},
            {"ir_version", model.ir_version},
            {"opset", opset},
            {"note", note},
            {"inputs", names(model.graph.inputs, initializers)},
            {"outputs", names(model.graph.outputs, initializers)},
            {"nodes", nodes_json(model)},
            {"tensors", tensors.take()},
            {"initializers", std::move(initializers)}};
  } catch (Error& error) {
    error.add_context(file.string());
    throw;
  }
}

}  // namespace lathe
