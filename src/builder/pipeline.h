// SPDX-License-Identifier: Apache-2.0
//
// The order of everything between the portable graph and a program.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/observer.h"
#include "base/thread_pool.h"
#include "builder/options.h"

namespace lathe {

// What one optimization profile becomes.
struct BuiltVariant {
  PlanVariant variant;
  std::shared_ptr<const Program> program;
  MemoryPlanned memory;
  std::vector<std::string> layer_memory;  // lines about its layers, for the verbose log
  bool timed = false;
};

struct Pipeline {
  const Backend& backend;
  ThreadPool& pool;
  TimingCache& cache;
  Observer& observer;
  std::stop_token stop = {};
  std::vector<DType> widened_types = {};  // of the model, for which layers compute in FP32
  std::map<std::string, Format, std::less<>> io_formats = {};  // of inputs and outputs that are not linear
  LayerTypes layer_types = {};                                 // that a caller demands

  // The same for another observer.
  Pipeline with(Observer& other) const {
    return {backend, pool, cache, other, stop, widened_types, io_formats, layer_types};
  }
};

// Portable graph -> passes. The symbol of a split stays one, even where its range is a single number.
Graph optimize(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
               const BuildOptions& options, const Pipeline& pipeline, const BatchSplit& split);

// The graph with all optional rewrites, for the tuner to choose among; what comes of them is its to tell.
Graph optional_rewrites(const Graph& graph, const BuildOptions& options, const Pipeline& pipeline);

// Portable graph -> passes -> tuner -> memory plan -> program, for the shapes of one profile. `types` are
// those that layers may compute in besides their own. With a split, layers are tuned for one part on one
// thread.
BuiltVariant build_variant(const Graph& portable, const SymbolRanges& ranges, const std::vector<DType>& types,
                           const BuildOptions& options, const Pipeline& pipeline,
                           const BatchSplit& split = {});

}  // namespace lathe
