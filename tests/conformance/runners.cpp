// SPDX-License-Identifier: Apache-2.0
#include "runners.h"

#include <functional>
#include <set>
#include <utility>

#include "backend/all.h"
#include "base/error.h"
#include "base/file.h"
#include "builder/builder.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "ops/interpreter.h"
#include "runtime/context.h"

namespace lathe::conformance {

namespace {

class OracleRunner final : public Runner {
 public:
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    return interpret(graph, inputs);
  }
};

class ExportRunner final : public Runner {
 public:
  explicit ExportRunner(std::string folder) : folder_(std::move(folder)) {}
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    const std::string model = export_onnx(graph);
    if (!folder_.empty()) write_file_atomically(folder_ + "/" + graph.name() + ".onnx", model);
    NullObserver observer;
    return interpret(import_onnx(std::as_bytes(std::span(model)), {}, observer).graph, inputs);
  }

 private:
  std::string folder_;
};

// Through the whole pipeline: passes, untimed choices (the tactics that the heuristic puts first), program,
// runtime.
class EngineRunner final : public Runner {
 public:
  using Runners = std::set<std::string, std::less<>>;

  explicit EngineRunner(const DeviceOptions& device, Runners without = {})
      : without_(std::move(without)), builder_(open_backend(device), observer_) {}

  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    Network network;
    network.graph = std::make_shared<Graph>(graph);
    BuildOptions options{.optimization_level = 0, .disabled_runners = without_};
    OptimizationProfile profile;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Extents& extents = inputs[i].extents();
      profile.shapes[graph.value(graph.inputs()[i]).name] = {extents, extents, extents};
    }
    options.profiles = {profile};
    fallbacks_.clear();
    const auto engine = builder_.build(network, options);
    for (size_t i = 0; i < engine->choices().size(); ++i)
      if (!engine->choices()[i].fallback.empty())
        fallbacks_.push_back(
            {std::string(op_display_name(engine->graph().node(engine->graph().order()[i]).op)),
             engine->choices()[i].fallback});
    return engine->create_context()->run(inputs);
  }
  std::vector<Fallback> fallbacks() const override { return fallbacks_; }

 private:
  Runners without_;
  std::vector<Fallback> fallbacks_;
  NullObserver observer_;
  Builder builder_;
};

// Small layers are expected to be faster in floats. Without these tactics all that can be done in bytes is, and
// the reference does the rest.
const EngineRunner::Runners kFloatRunners = {"AmxConvolution",
                                             "DepthwiseConvolution",
                                             "MatMul",
                                             "OnednnConvolution",
                                             "OnednnMatMul",
                                             "OnednnPool",
                                             "PatchConvolution",
                                             "Pooling",
                                             "Pointwise",
                                             "RowPooling",
                                             "SqueezeExcite",
                                             "TileConvolution",
                                             "TileMatMul",
                                             "TileWindowConvolution",
                                             "WeightOnlyProduct",
                                             "WinogradConvolution"};

}  // namespace

std::unique_ptr<Runner> make_runner(std::string_view backend, const std::string& cpu_isa,
                                    const std::string& folder) {
  if (backend == "oracle") return std::make_unique<OracleRunner>();
  if (backend == "exported") return std::make_unique<ExportRunner>(folder);
  if (backend == "cpu")
    return std::make_unique<EngineRunner>(DeviceOptions{.cpu_isa = cpu_isa, .threads = 1});
  if (backend == "cpu-bytes")
    return std::make_unique<EngineRunner>(DeviceOptions{.cpu_isa = cpu_isa, .threads = 1}, kFloatRunners);
  if (backend == "cuda") return std::make_unique<EngineRunner>(DeviceOptions{.device = "0", .tf32 = false});
  if (backend == "described") return make_described_runner("tests/gpu/h200.json");
  throw_input_error("there is no runner '" + std::string(backend) +
                    "'; there are: oracle, exported, cpu, cpu-bytes, cuda, described");
}

}  // namespace lathe::conformance
