// SPDX-License-Identifier: Apache-2.0
#include "runners.h"

#include "base/error.h"
#include "reference/interpreter.h"

namespace lathe::conformance {

namespace {

class OracleRunner final : public Runner {
 public:
  std::vector<Tensor> run(const Graph& graph, std::span<const Tensor> inputs) override {
    return interpret(graph, inputs);
  }
};

}  // namespace

std::unique_ptr<Runner> make_runner(std::string_view backend) {
  if (backend == "oracle") return std::make_unique<OracleRunner>();
  throw_input_error("there is no runner '" + std::string(backend) + "'; there is: oracle");
}

}  // namespace lathe::conformance
