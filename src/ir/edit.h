// SPDX-License-Identifier: Apache-2.0
//
// The only way to change a graph. Keeps producers, names and provenance right; shapes and types of new values
// come from the caller (ops/build.h infers them).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace lathe {

class GraphEditor {
 public:
  explicit GraphEditor(Graph& graph) : graph_(graph) {}
  const Graph& graph() const { return graph_; }

  void set_name(std::string name);
  ValueId add_input(std::string name, DType dtype, Shape shape);
  // A name that is taken gets a suffix "_1", "_2", ...; returns the id.
  ValueId add_constant(std::string name, Tensor tensor);
  void mark_output(ValueId value);
  void clear_outputs();
  void replace_output(size_t index, ValueId value);

  struct NewValue {
    std::string name;  // empty: no output (kNoValue)
    DType dtype = DType::Undefined;
    Shape shape;
    std::optional<Shape> contents = std::nullopt;
    Format format = {};
    std::optional<Quantization> quantization = std::nullopt;
  };
  // Appends the node at the end of the order, or before `before`.
  NodeId add_node(std::string name, Op op, std::vector<ValueId> inputs, std::vector<NewValue> outputs,
                  std::vector<Origin> origins, NodeId before = kNoNode);

  // All readers of `from` (nodes and graph outputs) read `to` instead, except the producer of `to`. A graph
  // output keeps its name: when `from` is an output, the two swap names. Ask can_replace_uses() first.
  void replace_uses(ValueId from, ValueId to);
  // No when `from` is a graph output and `to` cannot take its name: an input, a constant or itself an output.
  bool can_replace_uses(ValueId from, ValueId to) const;
  void replace_input(NodeId node, size_t index, ValueId value);
  void set_inputs(NodeId node, std::vector<ValueId> inputs);
  void set_op(NodeId node, Op op);
  // `operands` are the epilogue's inputs 1..; they replace the node's trailing inputs.
  void set_epilogue(NodeId node, PointwiseProgram epilogue, std::vector<ValueId> operands);
  void set_allowed_types(NodeId node, std::vector<DType> types);
  void set_type(ValueId value, DType dtype, Format format);
  void set_shape(ValueId value, Shape shape);
  void set_contents(ValueId value, std::optional<Shape> contents);
  void set_quantization(ValueId value, std::optional<Quantization> quantization);
  // A constant's data (same value, perhaps other shape and type); its grid is not known any more.
  void set_constant(ValueId value, Tensor tensor);
  void rename_node(NodeId node, std::string name);
  void rename_value(ValueId value, std::string name);
  // Makes `node` take over the outputs of `other` (output by output), and its origins; removes `other`.
  // Nobody else may read what `node` gave before.
  void take_over_outputs(NodeId node, NodeId other);

  // Provenance: `into` also implements what `from` implemented, and is called "into + from".
  void absorb(NodeId into, NodeId from);
  // The node must have no readers left.
  void remove_node(NodeId node);
  // Removes nodes that nobody reads, repeatedly. Returns how many.
  int remove_dead_nodes();
  // Moves the node behind the last one that produces an input of it, if it stands before that. Right when no
  // node between the two reads a result of it.
  void move_behind_inputs(NodeId node);
  // Stable topological order; needed after inputs were set to values that are produced later.
  void sort();
  // Drops removed nodes and unused values and renumbers ids: the compact form that is saved.
  void compact();

 private:
  static constexpr int64_t kGap = int64_t{1} << 20;  // between places of neighbours that are numbered anew
  size_t position(NodeId node) const;                // in the order
  void insert_in_order(NodeId node, size_t index);
  void number_places();
  Node& node(NodeId id);
  Value& value(ValueId id);
  ValueId new_value(std::string name);
  void link(NodeId id);
  void unlink(NodeId id);
  void add_origins(NodeId into, const std::vector<Origin>& origins);

  Graph& graph_;
};

}  // namespace lathe
