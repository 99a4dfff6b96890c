// SPDX-License-Identifier: Apache-2.0
//
// A pass: a name and a function that rewrites a graph into an equivalent one and says whether it changed
// something. The runner times, verifies, dumps, cleans dead nodes, disables by name and stops after N
// changes; a pass does none of that.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/observer.h"
#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ir/layer_types.h"

namespace lathe {

class PassContext {
 public:
  PassContext(Observer& observer, ThreadPool& pool) : observer(observer), pool(pool) {}
  Observer& observer;
  ThreadPool& pool;
  // Types that layers may compute in (--bf16 ...), for the pass that marks them.
  std::vector<DType> allowed_types;
  LayerTypes layer_types;  // what a caller demands of single layers
  // Types that the device does not compute in, for the pass that computes in FP32 instead.
  std::vector<DType> widened_types;
  // Operators that not every backend has, and the one at hand does: a pass that makes one or writes one out
  // asks first.
  std::vector<std::string_view> backend_operators;
  bool has_operator(std::string_view name) const;
  // Products of bytes take a stack of matrices, each column of each with a scale of its own.
  bool stacks_grids = false;

  // A pass asks before each rewrite; false once the change budget (--stopAfter) is used up.
  bool may_change();
  int changes_left = -1;  // -1: no limit
  int changes = 0;        // rewrites so far

  // What the log says about a rewrite. Called before it, while both nodes still have their names.
  void report_fusion(const Graph& graph, NodeId first, NodeId second);
  void report_removal(const Graph& graph, NodeId node);
  std::string_view label;  // of the running pass
};

struct Pass {
  std::string_view name;   // "fuse_conv_activation": the file's name
  std::string_view label;  // TensorRT's word in the verbose log: "ConvReluFusion"
  bool (*run)(Graph& graph, PassContext& context);
};

struct Stage {
  std::string_view label;  // "vertical fusions": logged as "After vertical fusions: N layers"
  std::vector<Pass> passes;
};

struct PassOptions {
  std::set<std::string, std::less<>> disabled;    // by name
  std::set<std::string, std::less<>> dump_after;  // by name, "all"
  std::function<void(std::string_view pass, const Graph&)> dump;
  int stop_after = -1;              // number of rewrites in all
  bool verify_with_oracle = false;  // --verifyPasses
};

// The passes of a normal build in their order (stages.cpp).
std::vector<Stage> default_stages();
// Rewrites that pay on some machines and shapes only. They run on a copy; the tuner takes each where it is
// faster.
std::vector<Stage> optional_stages();

// Runs the stages in order; each stage repeats until nothing changes (bounded). Throws with the pass's name
// as context. Nodes that nobody reads any more are removed after every pass that changed something, and the
// graph is verified.
void run_passes(Graph& graph, const std::vector<Stage>& stages, const PassOptions& options,
                PassContext& context);

}  // namespace lathe
