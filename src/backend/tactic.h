// SPDX-License-Identifier: Apache-2.0
//
// A tactic: one way to run one layer, as data. The tuner compares tactics, the program compiles the chosen
// ones.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/format.h"
#include "ir/graph.h"

namespace lathe {

// Yes, or no with a reason that a person can act on.
struct Support {
  bool ok = true;
  std::string reason;
  static Support no(std::string why) { return {false, std::move(why)}; }
};

// The numbers that make a variant of its family, in the order in which the tactic's name has them: {"rows",
// 128}, {"splits", 2}. A family makes its variant from them and prints the name from the variant; nothing
// reads a name.
class TacticParams {
 public:
  using Entry = std::pair<std::string, int64_t>;

  TacticParams() = default;
  TacticParams(std::initializer_list<Entry> entries);
  // Each name once.
  void set(std::string name, int64_t value);
  // The number of that name; an error of ours when there is none.
  int64_t get(std::string_view name) const;
  int64_t get(std::string_view name, int64_t otherwise) const;
  // As int. Throws Input when it does not fit: an engine file may say anything.
  int get_int(std::string_view name) const;
  int get_int(std::string_view name, int otherwise) const;
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  bool operator==(const TacticParams&) const = default;

 private:
  std::vector<Entry> entries_;
};

// A variant together with how its operands are stored. The same variant in other formats is another entry
// with the same name and id; (id, inputs, outputs) is the tuner's state.
struct Tactic {
  std::string runner;  // the family, as logs show it: "OnednnConvolution"
  std::string name;    // stable and telling, for people, logs and caches: "onednn_conv_jit_avx512_core"
  uint64_t id = 0;     // hash_text(name)
  TacticParams params;
  // One entry per node input/output. Absent operands: Undefined. Constants: Undefined when the tactic packs
  // them (into a BlobStore block: a loaded engine has the block, but not the bytes of a packed constant over
  // kKeptConstantBytes), else their own type in linear format (the tactic reads them at run time).
  std::vector<TensorType> inputs, outputs;
  // Error relative to direct summation in the same type (Winograd F(4,3) about 10).
  double error_factor = 1;
  // What the family expects at the opt shapes, in microseconds; 0: it does not say. For a layer all families
  // say it, or none.
  double expected_us = 0;
  // NaN in what the layer reads is NaN in what it makes of it. False for what a library computes with
  // instructions that take the other operand (oneDNN's Relu makes 0 of it): such tactics are left out of
  // builds that check numerics.
  bool keeps_nan = true;
  // No work is done: output 0 lies inside input 0's memory (reshape, contiguous slice). Other way round for
  // Concat: inputs lie inside the output. The memory plan places them.
  bool is_view = false;
  // Correct but slow: considered only when no other tactic of the layer is supported.
  bool last_resort = false;
  // Output 0 may use the memory of these inputs when nobody reads them afterwards.
  std::vector<int> in_place_inputs;
  Support support;  // refused tactics are listed too, for the log
  // Of a layer with bodies (If, Loop, Scan): for each body the tactic of each of its nodes, in graph order.
  // Empty: they get what an untimed build takes, between linear values.
  std::vector<std::vector<Tactic>> bodies;
  bool same_types(const Tactic& other) const { return inputs == other.inputs && outputs == other.outputs; }
};

// The layer for which tactics are asked: a node of a graph at a range of shapes. Tuned and timed at `opt`.
struct LayerQuery {
  const Graph& graph;
  NodeId node = kNoNode;
  const SymbolRanges& ranges;

  const Node& layer() const { return graph.node(node); }
  SymbolValues opt_values() const;
  SymbolValues max_values() const;
};

// The types that the layer may use: that of its result first. Those of numbers: bytes of a grid are offered
// by families that know grids.
std::vector<DType> layer_types(const LayerQuery& query);

// A tactic with all operands in their own type (of numbers) and linear, absent ones Undefined; a family then
// changes entries.
Tactic linear_tactic(const LayerQuery& query, std::string_view runner, std::string name);

// The tactic as another variant of its family.
Tactic with_variant(Tactic tactic, std::string name, TacticParams params);

// The layer reads this input a second time, as an operand of its epilogue: its memory cannot take the result
// early.
bool reads_twice(const LayerQuery& query, size_t input);

}  // namespace lathe
