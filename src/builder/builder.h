// SPDX-License-Identifier: Apache-2.0
//
// From a model to an engine. pipeline.cpp has the order of the stages; what happens is told to the observer.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/observer.h"
#include "builder/network.h"
#include "builder/options.h"
#include "runtime/engine.h"

namespace lathe {

struct BuiltVariant;
struct ImportOptions;

// The bytes of an initializer in memory of somebody else, read in place where they are aligned for its type.
struct GivenWeights {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps them alive
};

class Builder {
 public:
  // The observer must outlive the builder.
  // `pool` runs passes and folding; null: one of the backend's size is made.
  Builder(std::shared_ptr<const Backend> backend, Observer& observer,
          std::shared_ptr<ThreadPool> pool = nullptr);
  ~Builder();

  const std::shared_ptr<const Backend>& backend() const { return backend_; }
  // Custom operators that models may have. `first`: they come before operators of the same name that are
  // known here.
  void use_plugins(std::shared_ptr<const PluginSource> plugins, bool first = false) {
    plugins_ = std::move(plugins);
    plugins_first_ = first;
  }

  // What models leave open of their inputs: how many tensors sequences and optionals have
  // (ImportOptions::input_lengths), and the shapes of tensors without a rank.
  void set_open_inputs(std::map<std::string, int64_t, std::less<>> lengths,
                       std::map<std::string, Extents, std::less<>> shapes = {}) {
    input_lengths_ = std::move(lengths);
    input_shapes_ = std::move(shapes);
  }

  // Emits ModelParsed. Throws Input; all unsupported operators are listed at once.
  // `shapes` of inputs, when each will have only one: an input without a rank gets it, and a model that is
  // only supported when its shapes are known is read for these.
  Network parse_onnx(const std::filesystem::path& path,
                     const std::map<std::string, Extents, std::less<>>& shapes = {});
  // `directory` is where external data is looked for; empty: there is none.
  // `weights`: of initializers, by name, instead of the model's. Throws Input for a name that it has not.
  Network parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& directory = {},
                     const std::map<std::string, GivenWeights>& weights = {});

  std::shared_ptr<const Engine> build(const Network& network, const BuildOptions& options);

  // A section for this backend's target, from the plan's portable graph, untimed (first supported tactics):
  // seconds. The new engine's plan holds the old sections too.
  std::shared_ptr<const Engine> retarget(const Plan& plan);
  // The same with tactics timed anew. Profiles come from the plan; `options.profiles` is ignored.
  std::shared_ptr<const Engine> retune(const Plan& plan, const BuildOptions& options);
  // The plan's section for this device with other weights (builder/refit.h): its portable graph with new
  // constants, or the same model from elsewhere. `passes` as when it was built. The new engine's plan has
  // this section only.
  std::shared_ptr<const Engine> refit(const Plan& plan, std::shared_ptr<const Graph> portable,
                                      const PassOptions& passes = {});

 private:
  ImportOptions import_options() const;
  void report_memory(const BuiltVariant& built);
  std::shared_ptr<const Engine> build_section(std::shared_ptr<Plan> plan, const BuildOptions& options);
  std::shared_ptr<const Engine> build_section(std::shared_ptr<Plan> plan, const Graph& portable,
                                              const BuildOptions& options);

  std::shared_ptr<const Backend> backend_;
  Observer& observer_;
  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<const PluginSource> plugins_;
  bool plugins_first_ = false;
  std::map<std::string, int64_t, std::less<>> input_lengths_;
  std::map<std::string, Extents, std::less<>> input_shapes_;
};

}  // namespace lathe
