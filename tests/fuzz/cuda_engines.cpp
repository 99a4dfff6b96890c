// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/cuda_backend.h"
#include "base/file.h"
#include "builder/pipeline.h"
#include "engine_files.h"
#include "memory/memory_plan.h"
#include "tune/tune.h"

namespace fuzz {

using namespace lathe;

namespace {

// A section for a GPU that is only described: loaded and checked, never run.
std::vector<std::byte> cuda_engine(const Network& network, const Backend& backend, ThreadPool& pool) {
  NullObserver quiet;
  auto plan = std::make_shared<Plan>();
  plan->model = network.model;
  plan->inputs = network.inputs();
  plan->outputs = network.outputs();
  plan->set_portable_graph(network.graph);
  PlanSection section{.target = backend.target(), .settings = "level 0", .timed = false, .variants = {}};
  TimingCache cache;
  const Pipeline pipeline{backend, pool, cache, quiet};
  for (const OptimizationProfile& profile : profiles_of(network, false)) {
    plan->profiles.push_back(complete_profile(plan->inputs, profile));
    PlanVariant v;
    v.ranges = symbol_ranges(plan->inputs, plan->profiles.back());
    const Graph graph = optimize(*network.graph, v.ranges, {DType::Float16}, {}, pipeline, {});
    TunedGraph tuned = tune_graph(graph, v.ranges, backend, {.level = 0}, cache, quiet);
    v.memory = plan_memory(tuned.graph, tuned.choices, v.ranges);
    v.graph = std::make_shared<Graph>(std::move(tuned.graph));
    v.choices = std::move(tuned.choices);
    v.blobs = std::make_shared<PackedBlocks>();
    backend.compile(v.spec());
    section.variants.push_back(std::move(v));
  }
  plan->set_section(std::make_shared<PlanSection>(std::move(section)));
  return plan->to_bytes();
}

}  // namespace

void add_cuda_engines(const std::vector<Source>& models, std::vector<EngineFile>& files) {
  NullObserver quiet;
  const std::string path = "tests/gpu/h200.json";
  const std::shared_ptr<const Backend> backend = cuda::create_cuda_backend(
      cuda::describe_device(cuda::DeviceProperties::from_json(read_file(path), path)));
  const auto pool = std::make_shared<ThreadPool>(2);
  Builder builder(open_backend({.threads = 2}), quiet, pool);
  for (const Source& model : models) {
    if (model.name != "convolutions" && model.name != "attention" && model.name != "depthwise" &&
        model.name != "movement")
      continue;
    files.push_back({model.name + " cuda", backend, cuda_engine(parse(builder, model), *backend, *pool)});
  }
}

}  // namespace fuzz
