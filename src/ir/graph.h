// SPDX-License-Identifier: Apache-2.0
//
// The IR: values and nodes in vectors, referred to by id, strongly typed. Read here; change only through
// ir/edit.h.
//
// A value is a graph input, a constant, or the output of one node. A node applies an operator to its inputs
// and then its epilogue to the result. Every node carries the ONNX nodes that it implements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/dtype.h"
#include "ir/format.h"
#include "ir/op.h"
#include "ir/quantization.h"
#include "ir/shape.h"
#include "ir/tensor.h"

namespace lathe {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an absent optional input or output
inline constexpr NodeId kNoNode = -1;

struct Value {
  std::string name;  // unique in the graph
  DType dtype = DType::Undefined;
  Shape shape;
  Format format;    // linear until the tuner chose
  Tensor constant;  // set for constants (always linear)
  // What is in a small integer tensor, when it can be said in dims (shape computations). One entry per
  // element.
  std::optional<Shape> contents;
  // The grid on which all elements lie, where it is known: they may be stored as its numbers. They are when
  // it has the dtype.
  std::optional<Quantization> quantization;
  NodeId producer = kNoNode;  // kNoNode for inputs and constants
  bool is_constant() const { return static_cast<bool>(constant); }
  bool is_stored_quantized() const { return quantization && quantization->dtype == dtype; }
  // What the elements are numbers of: FP32 where bytes of a grid are stored.
  DType number_type() const { return is_stored_quantized() ? DType::Float32 : dtype; }
};

// An ONNX node that a layer implements.
struct Origin {
  std::string name;
  std::string op_type;
  bool operator==(const Origin&) const = default;
};

// Node and Graph are copied as their members say; the constructors are defaulted in graph.cpp, because
// compiling them in every file that holds a graph costs more than calling them.
struct Node {
  Node();
  Node(const Node& other);
  Node(Node&& other) noexcept;
  Node& operator=(const Node& other);
  Node& operator=(Node&& other) noexcept;
  ~Node();

  std::string name;  // unique: "Conv_0 + Relu_1"
  Op op;
  std::vector<ValueId> inputs;   // the operator's inputs, then the epilogue's operands 1..
  std::vector<ValueId> outputs;  // kNoValue for an unused optional output
  PointwiseProgram epilogue;     // applies to output 0; empty: none
  std::vector<Origin> origins;
  // Types that the layer may compute in besides its own (set for --bf16, --fp16, --best). Empty: its own
  // only.
  std::vector<DType> allowed_types;
  bool removed = false;

  // How many of `inputs` belong to the operator.
  size_t op_input_count() const { return inputs.size() - (epilogue.empty() ? 0 : epilogue.input_count - 1); }
  // Optional ones may be absent.
  bool has_op_input(size_t i) const { return i < op_input_count() && inputs[i] != kNoValue; }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i] != kNoValue; }
};

class Graph {
 public:
  Graph();
  Graph(const Graph& other);
  Graph(Graph&& other) noexcept;
  Graph& operator=(const Graph& other);
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  const std::string& name() const { return name_; }
  // Ids of live nodes in execution order (a topological order).
  const std::vector<NodeId>& order() const { return order_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  size_t value_count() const { return values_.size(); }  // ids are 0..value_count-1; some may be unused
  size_t node_count() const { return nodes_.size(); }    // with removed ones; order() has the live ones
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  // Whether `a` runs before `b`.
  bool is_before(NodeId a, NodeId b) const {
    return places_[static_cast<size_t>(a)] < places_[static_cast<size_t>(b)];
  }
  // Nodes that read the value (each once), in execution order.
  std::vector<NodeId> users(ValueId id) const;
  bool is_input(ValueId id) const;
  bool is_output(ValueId id) const;
  std::optional<ValueId> find_value(std::string_view name) const;
  // Symbols of the input shapes, sorted.
  std::vector<std::string> symbols() const;

 private:
  friend class GraphEditor;
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<NodeId> order_;
  std::vector<int64_t> places_;  // by node: numbers that grow along order_, with gaps
  std::vector<ValueId> inputs_, outputs_;
  // Indexes, kept by GraphEditor: who has a name, and which nodes read a value (one entry per reading
  // operand).
  std::unordered_map<std::string, ValueId> value_names_;
  std::unordered_set<std::string> node_names_;
  std::vector<std::vector<NodeId>> readers_;
};

}  // namespace lathe
