// SPDX-License-Identifier: Apache-2.0
//
// From a float32 model and samples of its inputs to the same model in mixed precision: the reference
// interpreter runs every sample, what its tensors lose by a narrow type is measured, and what loses too much
// stays float32.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "builder/quantize.h"
#include "onnx/mixed_precision_model.h"
#include "reference/compare.h"

namespace lathe {

struct AutocastOptions {
  onnx::MixedPrecisionOptions scope;
  double largest_magnitude = 0;  // of tensors that become narrow; 0: a quarter of what the type holds
  int64_t longest_sum = 0;       // of nodes that become narrow; 0: any
};

struct AutocastResult {
  onnx::MixedPrecisionModel model;
  onnx::MixedPrecisionPlan plan;
  int64_t samples = 0;  // that were measured
  // The new model against the old one, both in the reference interpreter, on one sample: the last one, which
  // was not measured where there are several.
  struct Output {
    std::string name;
    Comparison comparison;
  };
  std::vector<Output> outputs;
  bool is_held_back = false;

  // Every output is as near as rounding to the narrow type allows.
  bool fits() const;
  double limit() const;  // of the relative L2 error
};

// Throws Input for a model that cannot be converted, for no samples, and for samples that do not fit the
// model or hold a number that is not finite. `graph`: the model of `path`, as it was imported.
AutocastResult autocast_model(const std::filesystem::path& path, const Graph& graph, ThreadPool& pool,
                              const SampleSource& source, const AutocastOptions& options,
                              const std::function<void(int64_t)>& progress = {});

}  // namespace lathe
