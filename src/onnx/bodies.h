// SPDX-License-Identifier: Apache-2.0
//
// Makes If, Loop and Scan from functions that fill their bodies: the importer fills them from a model, a
// program through the network API.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "onnx/graph_builder.h"

namespace lathe::onnx {

// A name that Dim can print and parse back: letters, digits, '_' and '.'.
std::string symbol_name(std::string_view text);

// A body on its way, and which values of the graph around it its inputs behind the first ones stand for.
struct BodyBuilder {
  BodyBuilder() : builder(graph) {}
  BodyBuilder(const BodyBuilder&) = delete;

  ValueId add_input(DType dtype, Shape shape, std::string name);
  // What stands in the body for a value of the graph around it. Constants are shared, everything else is an
  // input.
  ValueId capture(const GraphBuilder& around, ValueId outer);

  Graph graph;
  GraphBuilder builder;
  Values own_inputs;  // iteration, condition, carried values, slices
  Values captured;    // ids in the graph around
};

// Adds nodes and outputs to a body whose own inputs are there.
using FillBody = std::function<void(BodyBuilder&)>;
// Names of a body's own inputs.
using InputNames = std::vector<std::string>;

// An operator with bodies, what it reads, and how many results it has.
struct WithBodies {
  Op op;
  Values operands;
  size_t outputs = 0;
};

WithBodies make_if(const GraphBuilder& around, ValueId condition, const FillBody& fill_then,
                   const FillBody& fill_else);
// Dims of carried values (value, dim) that differ from one iteration to the next.
using ChangingDims = std::set<std::pair<size_t, size_t>>;
// `operands`: trip count and condition, absent or not, and the carried values. The body is filled again with
// a symbol in the place of each dim that is another one after an iteration than before it, until nothing
// changes; `node` names these symbols. `changing`: what was found when this loop was made before, and then
// what is found now. Without it loops in loops are filled as often as there are ways to fill those around.
WithBodies make_loop(const GraphBuilder& around, const std::string& node, Values operands,
                     const InputNames& names, const FillBody& fill, ChangingDims& changing);
// `op` has all but its body; its axes may count from the end.
WithBodies make_scan(const GraphBuilder& around, Scan op, Values operands, const InputNames& names,
                     const FillBody& fill);

}  // namespace lathe::onnx
