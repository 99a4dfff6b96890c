// SPDX-License-Identifier: Apache-2.0
//
// An engine against the oracle, layer by layer, without changing what is fused.
//
// The oracle runs the model's graph; the engine runs as it is and is observed. Values that survive fusion
// keep their names, so a layer's result is compared twice: with the oracle's value (the accumulated error:
// what the user gets), and with what the oracle makes of the operands that the layer really had, by
// evaluating the ONNX nodes that the layer implements (the local error: whether this layer is at fault).
// Evaluating the original nodes also catches a wrong rewrite.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "reference/compare.h"
#include "runtime/engine.h"

namespace lathe {

struct EngineLayerDifference {
  std::string layer, type, tactic, output;
  std::vector<Origin> origins;
  std::optional<Comparison> accumulated, local;  // none: the value exists in the engine only
  double limit = 0;                              // tolerance of the layer's own work
  bool bad() const { return local ? !local->within(limit) : false; }
};

struct EngineDifference {
  std::vector<EngineLayerDifference> layers;
  struct Output {
    std::string name;
    Comparison comparison;
  };
  std::vector<Output> outputs;
  const EngineLayerDifference* first_bad() const;
};

// `model`: the graph as imported. `inputs`: in its order, which is the engine's. The context's shapes are set
// from them.
EngineDifference diff_engine(const Graph& model, Context& context, std::span<const Tensor> inputs,
                             ThreadPool* pool);

}  // namespace lathe
