// SPDX-License-Identifier: Apache-2.0
//
// Puts nodes, constants and bodies of a model on their way into the wire format.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/attribute.h"

namespace lathe::onnx {

using Names = std::vector<std::string>;

// What the graphs of one model share: names, which may not repeat in bodies, the opset, and the file of large
// weights.
struct ModelState {
  int64_t opset = 21;
  std::set<std::string, std::less<>> names;
  bool weights_apart = false;
  std::string data_file;     // the name that tensors refer to
  std::vector<Tensor> data;  // in the order of that file
  std::vector<size_t> data_offsets;

  // The name, or with a suffix where it is taken.
  std::string unique(std::string_view name);
};

// One GraphProto.
class GraphWriter {
 public:
  explicit GraphWriter(ModelState& model) : model_(model) {}
  ModelState& model() const { return model_; }

  struct BodyAttribute {
    std::string name, graph;  // graph: its bytes
  };
  struct NodeText {
    std::string_view op_type;
    std::string name;
    Names inputs, outputs;  // "": absent
    Attributes attributes = {};
    std::vector<BodyAttribute> bodies = {};
  };
  void node(const NodeText& node);
  void constant(const std::string& name, const Tensor& tensor);
  void input(const std::string& name, DType dtype, const Shape& shape);
  void output(const std::string& name, DType dtype, const Shape& shape);
  // The bytes of the GraphProto.
  std::string finish(std::string_view name);

 private:
  void put_tensor(std::string& out, const std::string& name, const Tensor& tensor);
  ModelState& model_;
  std::string nodes_, constants_, inputs_, outputs_;
};

// The bytes of a ModelProto around its graph's.
std::string model_bytes(const ModelState& model, std::string_view graph);

}  // namespace lathe::onnx
