// SPDX-License-Identifier: Apache-2.0
//
// Runs a graph node by node with the operators' reference evaluation. Slow and simple: it folds constants
// and, as the oracle, judges passes, tactics and engines.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ops/op_def.h"

namespace lathe {

struct InterpretOptions {
  ThreadPool* pool = nullptr;  // null: one thread
  // Sees every value that is computed (not inputs and constants), in execution order. Values are freed when
  // nobody needs them any more; keep a copy of the Tensor (it shares bytes) to hold one.
  std::function<void(ValueId, const Tensor&)> on_value = nullptr;
  // Sees a node before it runs.
  std::function<void(NodeId)> on_node = nullptr;
  // Of a body: the values of the symbols of the graph around it.
  SymbolValues symbols = {};
  // Evaluates a node in place of the reference: its operands, and the symbols that have a value by then.
  std::function<std::vector<Tensor>(NodeId, std::span<const Tensor>, const SymbolValues&)> evaluate = nullptr;
};

// Values of the symbols from the extents of the inputs, those of `known` among them. Throws Input when an
// input is missing, has another type or rank, or an extent that its dim cannot have.
SymbolValues bind_symbols(const Graph& graph, std::span<const Tensor> inputs, SymbolValues known = {});

// Inputs and outputs in the graph's order.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs,
                              const InterpretOptions& options = {});

// One node on given operands (absent: default Tensor), for folding, for comparing a single layer, and where
// no kernel runs it. What is stored as integers of a grid comes and goes as these integers.
std::vector<Tensor> interpret_node(const Graph& graph, const Node& node, std::span<const Tensor> inputs,
                                   const SymbolValues& symbols, ThreadPool* pool = nullptr,
                                   const BodyRunner* bodies = nullptr);

}  // namespace lathe
