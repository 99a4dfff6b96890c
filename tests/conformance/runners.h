// SPDX-License-Identifier: Apache-2.0
//
// One runner per backend: a graph and its inputs to its outputs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace lathe::conformance {

// A layer that the reference runs, and why no kernel does.
struct Fallback {
  std::string op, reason;
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) = 0;
  // run() makes a plan for a device that is not there, and gives no results.
  virtual bool only_plans() const { return false; }
  // What the last run's engine left to the reference.
  virtual std::vector<Fallback> fallbacks() const { return {}; }
};

// "oracle" (the reference interpreter), "exported" (the same on the graph after it was written as ONNX, to
// `folder` where that is set, and read again) or "cpu" (engines of the CPU backend, its instruction sets
// capped when `cpu_isa` is not empty), "cpu-bytes" (the same without tactics for floats where bytes would do),
// "cuda", or "described" (plans for the GPU of tests/gpu/h200.json).
// Throws Input for an unknown name.
std::unique_ptr<Runner> make_runner(std::string_view backend, const std::string& cpu_isa = {},
                                    const std::string& folder = {});
std::unique_ptr<Runner> make_described_runner(const std::string& path);

}  // namespace lathe::conformance
