// SPDX-License-Identifier: Apache-2.0
//
// The last resort of every backend: an operator in linear format and the graph's own types, through its
// reference evaluation on the host. Slow and right. With it a valid graph always builds. Backends bring the
// operands to the host and the results back.
//
// It takes part in data-dependent shapes: the evaluation returns tensors with their true extents, from which
// the new symbols are read.
#pragma once

#include <string_view>
#include <vector>

#include "backend/tactic.h"
#include "ops/op_def.h"

namespace lathe {

inline constexpr std::string_view kReferenceRunner = "Reference";

// The one tactic of a layer; none for a Reformat, because formats are not the reference's business.
std::vector<Tactic> list_reference(const LayerQuery& query);

class ReferenceLayer {
 public:
  // `inputs` and `outputs` are extents with data-dependent dims at their upper bound. `graph` outlives this.
  ReferenceLayer(const Graph& graph, const Node& node, const Tactic& tactic, const SymbolValues& symbols,
                 std::vector<Extents> inputs, std::vector<Extents> outputs);

  const Node& node() const { return node_; }
  // Bytes of an input as the plan has it.
  size_t input_bytes(size_t index) const;
  const TensorType& input_type(size_t index) const { return tactic_.inputs[index]; }
  const Format& output_format(size_t index) const { return tactic_.outputs[index].format; }
  const std::string& input_name(size_t index) const { return graph_.value(node_.inputs[index]).name; }
  const Extents& input_extents(size_t index) const { return inputs_[index]; }
  // The constant of an input, when it is one whose bytes are at hand; else an empty tensor.
  Tensor constant(size_t index) const;
  // The same, or the numbers of a small integer input that shapes say; else an empty tensor.
  Tensor known_numbers(size_t index) const;

  // One tensor per output. Throws when one has another type than planned, or more bytes than its upper bound.
  // `bodies` runs the bodies of the operator; null: the reference.
  std::vector<Tensor> evaluate(const std::vector<Tensor>& inputs, const BodyRunner* bodies = nullptr) const;
  // Whether a result of this type and these extents is what was planned, and no larger.
  bool fits(size_t index, DType dtype, const Extents& extents) const;
  // Adds the new symbols that these results determine.
  void resolve(const std::vector<Extents>& results, SymbolValues& values) const;

 private:
  void check_result(const Tensor& result, size_t index) const;

  const Graph& graph_;
  const Node& node_;
  const Tactic tactic_;
  const SymbolValues symbols_;
  const std::vector<Extents> inputs_, outputs_;
};

}  // namespace lathe
