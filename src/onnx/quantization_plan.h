// SPDX-License-Identifier: Apache-2.0
//
// Which tensors of an ONNX model get a QuantizeLinear and a DequantizeLinear, and which weights become
// integers: everything that engines compute in integers reads quantised tensors, what only moves elements
// keeps one grid, and the rest stays as it is, with a reason.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace lathe::onnx {

struct QuantizationScope {
  std::set<std::string, std::less<>> op_types;  // empty: quantizable_op_types()
  std::vector<std::string> exclude;             // patterns of node names; * stands for any characters
  // Where given: only these tensors can be quantised.
  std::optional<std::set<std::string, std::less<>>> tensors = std::nullopt;
  std::string
      other_tensors;  // what is the matter with those that are missing: "an input is no float32 value"
};

// What is quantised when nobody says otherwise.
const std::set<std::string, std::less<>>& quantizable_op_types();
// Of these the functions of one number. Behind a convolution they read it quantised, where their result (or
// its product with the convolution's, as in x * sigmoid(x)) is quantised, too: engines have a table then, and
// the convolution stores bytes.
const std::set<std::string, std::less<>>& quantizable_functions();

// By name: initializers, values of Constant nodes, and what Identity makes of either (exporters write it for
// weights that are equal).
using ConstantTensors = std::map<std::string_view, const TensorProto*, std::less<>>;
ConstantTensors constant_tensors(const GraphProto& graph);

// Whether the node has this attribute, and it is not 0.
bool has_flag(const NodeProto& node, std::string_view name);

// Whether one of the patterns fits the name; * stands for any characters.
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

// Of ONNX's own operators.
int64_t opset_of(const ModelProto& model);

// Throws Input for a model with nodes that quantise.
void check_is_float(const ModelProto& model);

// A constant operand of a node.
struct ConstantUse {
  size_t node = 0, input = 0;  // numbers in the graph
  std::string name;
  int64_t axis = -1;  // with a scale for each of its indices; -1: one for all
};

struct BiasUse {
  ConstantUse bias;
  std::string x, weight;  // whose scales it has the product of
};

// Weights of a few bits with a scale for each block of rows; activations stay float.
struct WeightOnlyUse {
  size_t node = 0;
  std::string weights;
  bool transposed = false;  // [columns, k]
  int64_t k = 0, columns = 0;
};

struct QuantizationPlan {
  // By the tensor that is quantised, the tensor whose range counts: its own, or that of what joins it
  // (Concat) or that it is moved from.
  std::map<std::string, std::string, std::less<>> activations;
  // The nodes' inputs that read them.
  std::set<std::pair<size_t, size_t>> readers;
  std::vector<ConstantUse> weights;
  std::vector<BiasUse> biases;
  std::vector<WeightOnlyUse> weight_only;
  struct Left {
    std::string node, op_type, reason;
    std::string tensor;  // that the reason is about, or empty
  };
  std::vector<Left> left;  // nodes of the types that stay as they are
};

// A quantised tensor that only products read: its channels may be divided by factors that their weights take.
struct SmoothableTensor {
  std::string tensor;
  std::vector<ConstantUse> weights;
};
std::vector<SmoothableTensor> smoothable_tensors(const ModelProto& model, const QuantizationPlan& plan);

// Throws Input when the model is quantised already, when it is too old for a scale per channel (opset 13), or
// when nothing can be quantised.
QuantizationPlan plan_quantization(const ModelProto& model, const QuantizationScope& scope = {});
// The products (MatMul, Gemm) whose weights alone become integers.
QuantizationPlan plan_weight_only(const ModelProto& model, const QuantizationScope& scope = {});

}  // namespace lathe::onnx
