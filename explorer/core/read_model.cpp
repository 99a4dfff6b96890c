// SPDX-License-Identifier: Apache-2.0
//
// A model's nodes, tensors and initializers, as the command line takes them out of an ONNX file. Tensors that
// nodes name and the file does not describe are added without type and shape.
#include <unordered_map>

#include "base/json.h"
#include "explorer/core/readers.h"
#include "explorer/core/tensor_words.h"

namespace lathe::explorer {
namespace {

Json shape_of(const JsonAt& at) {
  const auto shape = at.find("shape");
  if (!shape) return nullptr;
  for (size_t i = 0; i < shape->size(); ++i) {
    const JsonAt dim = shape->item(i);
    if (!dim.json().is_string()) dim.integer();
  }
  return shape->json();
}

class Reader {
 public:
  explicit Reader(const JsonAt& root) : root_(root) {
    model_.file = text_or(root, "file");
    model_.name = text_or(root, "name");
    model_.producer = text_or(root, "producer");
    model_.note = text_or(root, "note");
    if (const auto opset = root.find("opset")) model_.opset = opset->integer();
  }

  OnnxModel read() {
    each("initializers", [&](const JsonAt& at) { add_tensor(at, "initializer"); });
    each("tensors", [&](const JsonAt& at) { add_tensor(at, "value"); });
    each("inputs", [&](const JsonAt& at) { tensor(tensor_named(at.text())).role = "input"; });
    each("outputs", [&](const JsonAt& at) { tensor(tensor_named(at.text())).role = "output"; });
    const JsonAt nodes = root_.at("nodes");
    for (size_t i = 0; i < nodes.size(); ++i) model_.nodes.push_back(read_node(nodes.item(i)));
    return std::move(model_);
  }

 private:
  template <class Act>
  void each(std::string_view key, Act act) {
    const auto list = root_.find(key);
    for (size_t i = 0; list && i < list->size(); ++i) act(list->item(i));
  }

  OnnxTensor& tensor(int index) { return model_.tensors[static_cast<size_t>(index)]; }

  // -1 for the empty name of an operand that is left out.
  int tensor_named(const std::string& name) {
    if (name.empty()) return -1;
    const auto [found, added] = index_.emplace(name, static_cast<int>(model_.tensors.size()));
    if (added) model_.tensors.push_back({name, "", {}, {}, "value"});
    return found->second;
  }

  void add_tensor(const JsonAt& at, const char* role) {
    const JsonAt name = at.at("name");
    if (name.text().empty()) name.fail("the name of a tensor");
    OnnxTensor& one = tensor(tensor_named(name.text()));
    one.type = element_type(text_or(at, "type"));
    one.shape = shape_of(at);
    one.role = role;
    if (const auto bytes = at.find("bytes")) one.bytes = bytes->integer();
  }

  OnnxNode read_node(const JsonAt& at) {
    OnnxNode node;
    node.name = at.at("name").text();
    node.op_type = at.at("op_type").text();
    node.domain = text_or(at, "domain");
    const auto take = [&](const char* key, std::vector<int>& tensors) {
      const JsonAt list = at.at(key);
      for (size_t i = 0; i < list.size(); ++i) tensors.push_back(tensor_named(list.item(i).text()));
    };
    take("inputs", node.inputs);
    take("outputs", node.outputs);
    if (const auto attributes = at.find("attributes")) {
      if (!attributes->json().is_object()) attributes->fail("an object");
      node.attributes = attributes->json();
    }
    if (const auto expands = at.find("expands")) node.expands = expands->json() == true;
    return node;
  }

  const JsonAt& root_;
  OnnxModel model_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace

OnnxModel read_model(const InputFile& input) {
  const JsonAt root(*input.json, input.name + ": ");
  OnnxModel model = Reader(root).read();
  if (model.file.empty()) model.file = input.name;
  return model;
}

}  // namespace lathe::explorer
