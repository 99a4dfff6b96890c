// SPDX-License-Identifier: Apache-2.0
//
// A partition of a session's graph as an engine: built for the shapes that it gets, built again when they
// grow, run in ONNX Runtime's memory by any number of threads.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "ranges.h"

namespace lathe::onnxruntime_ep {

// What builds the engines of a session, one at a time.
struct EngineMaker {
  EngineMaker(v1::Logger& logger, Options options);
  v1::Engine build(const v1::Network& network, std::vector<v1::OptimizationProfile> profiles);

  Options options;
  v1::Builder builder;
  std::mutex building;
};

// An input of a run.
struct RunInput {
  v1::DataType type = v1::DataType::Float;
  v1::Dims dims;
  const void* data = nullptr;
};

class CompiledGraph {
 public:
  // `inputs` and `outputs`: the names in the model of what ONNX Runtime gives and takes, in its order. Builds
  // the engine at once where no input is dynamic, else in the first run.
  CompiledGraph(EngineMaker& maker, const std::string& model, std::vector<std::string> inputs,
                std::vector<std::string> outputs);
  ~CompiledGraph();
  CompiledGraph(const CompiledGraph&) = delete;
  CompiledGraph& operator=(const CompiledGraph&) = delete;
  void run(OrtKernelContext& context);

 private:
  // A context, and where its outputs get their memory.
  struct Worker;
  std::vector<RunInput> read_inputs(OrtKernelContext& context) const;
  void run_with_copies(Worker& worker, const std::vector<RunInput>& inputs) const;
  std::unique_ptr<Worker> take_worker(const std::vector<RunInput>& inputs);
  void give_back(std::unique_ptr<Worker> worker);
  bool fits(const std::vector<RunInput>& inputs) const;
  void make_engine(const std::vector<RunInput>& inputs);

  EngineMaker& maker_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<std::optional<v1::TensorInfo>> infos_;  // of the inputs, as the network knows them
  std::optional<v1::Network> network_;                // not when the engine is made for good
  std::mutex mutex_;                                  // over all that follows
  std::shared_ptr<const v1::Engine> engine_;
  std::vector<InputRange> ranges_;
  std::vector<std::unique_ptr<Worker>> idle_;  // of this engine
};

}  // namespace lathe::onnxruntime_ep
