// SPDX-License-Identifier: Apache-2.0
//
// Plans of engines for a GPU that a file describes: which layers get a kernel, and which the reference would
// run on the host. Nothing is compiled or run, so no GPU is needed.
#include "backend/cuda/run/cuda_backend.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "builder/pipeline.h"
#include "builder/precision.h"
#include "ops/op_def.h"
#include "runners.h"
#include "tune/fallback.h"
#include "tune/tune.h"

namespace lathe::conformance {
namespace {

class DescribedRunner final : public Runner {
 public:
  explicit DescribedRunner(const std::string& path)
      : backend_(cuda::create_cuda_backend(
            cuda::describe_device(cuda::DeviceProperties::from_json(read_file(path), path), false))) {}

  bool only_plans() const override { return true; }
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    fallbacks_.clear();
    OptimizationProfile profile;
    const std::vector<TensorInfo> infos = input_infos(graph);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Extents& extents = inputs[i].extents();
      profile.shapes[infos[i].name] = {extents, extents, extents};
    }
    const SymbolRanges ranges = symbol_ranges(infos, complete_profile(infos, profile));
    std::vector<DType> types;
    TimingCache cache;
    Pipeline pipeline{*backend_, pool_, cache, quiet_};
    pipeline.widened_types = widened_types(graph, *backend_, quiet_, types);
    const Graph optimized = optimize(graph, ranges, types, {}, pipeline, {});
    const TunedGraph tuned = tune_graph(optimized, ranges, *backend_, {.level = 0}, cache, quiet_);
    for (size_t i = 0; i < tuned.choices.size(); ++i) {
      const NodeId id = tuned.graph.order()[i];
      if (!is_fallback(tuned.choices[i].tactic) || never_runs(tuned.graph, tuned.graph.node(id))) continue;
      fallbacks_.push_back({std::string(op_display_name(tuned.graph.node(id).op)),
                            fallback_reason(*backend_, {tuned.graph, id, ranges}, {})});
    }
    return {};
  }
  std::vector<Fallback> fallbacks() const override { return fallbacks_; }

 private:
  std::shared_ptr<const Backend> backend_;
  ThreadPool pool_{1};
  NullObserver quiet_;
  std::vector<Fallback> fallbacks_;
};

}  // namespace

std::unique_ptr<Runner> make_described_runner(const std::string& path) {
  return std::make_unique<DescribedRunner>(path);
}

}  // namespace lathe::conformance
