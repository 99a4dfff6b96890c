// SPDX-License-Identifier: Apache-2.0
//
// One runner per backend: a graph and its inputs to its outputs.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace lathe::conformance {

class Runner {
 public:
  virtual ~Runner() = default;
  virtual std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) = 0;
};

// "oracle" (the reference interpreter). Throws Input for an unknown name.
std::unique_ptr<Runner> make_runner(std::string_view backend);

}  // namespace lathe::conformance
