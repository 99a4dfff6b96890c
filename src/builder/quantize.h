// SPDX-License-Identifier: Apache-2.0
//
// From a float model and samples of its inputs to the same model with QuantizeLinear and DequantizeLinear
// nodes: the model runs on every sample, what flows between its nodes is observed, and the ranges become
// grids.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "builder/builder.h"
#include "onnx/quantized_model.h"
#include "quant/calibration_cache.h"
#include "quant/observer.h"

namespace lathe {

struct QuantizeOptions {
  CalibrationOptions calibration;
  // UInt8: zero points fit the range. Int8: they are 0, as TensorRT wants them, and what has one sign uses
  // half of the numbers. Float8E4M3FN: 0, too, and weights have that type as well; biases stay float.
  DType activations = DType::UInt8;

  DType weights() const { return activations == DType::Float8E4M3FN ? activations : DType::Int8; }
  onnx::QuantizationScope scope;
  // Of smoothing the inputs of products (quant/smoothing.h), from 0 (all factors that of the weights) to 1;
  // negative: none. The range of what is smoothed is all that was seen.
  double smoothing = -1;
  // Biases take up what rounding the weights adds to the mean of a channel.
  bool corrects_bias = false;
};

// Fills one tensor for each input, in their order; false: there are no more samples. All have the same
// extents.
using SampleSource = std::function<bool(std::vector<Tensor>&)>;

struct QuantizeResult {
  onnx::QuantizedModel model;
  std::vector<onnx::QuantizationPlan::Left> left;
  int64_t samples = 0;
  TensorScales scales;  // of the tensors that were calibrated, symmetric and in int8
};

// A model whose ranges are known: it can be written more than once, with some of its nodes left float.
class CalibratedModel {
 public:
  // As quantize_model.
  CalibratedModel(const std::filesystem::path& path, const Network& network, Builder& builder,
                  const SampleSource& source, const QuantizeOptions& options,
                  const std::function<void(int64_t)>& progress = {});
  CalibratedModel(CalibratedModel&&) noexcept;
  ~CalibratedModel();

  // Names of the nodes whose weights become integers, in the order of the model.
  std::vector<std::string> products() const;
  // Throws Input when nothing is left to quantise.
  QuantizeResult write(const std::vector<std::string>& exclude);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws Input for a model that cannot be quantised, for no samples, and for samples that do not fit the
// model or hold a number that is not finite. `progress` is told the number of samples so far.
// `network`: the model of `path`, as the builder read it.
QuantizeResult quantize_model(const std::filesystem::path& path, const Network& network, Builder& builder,
                              const SampleSource& source, const QuantizeOptions& options,
                              const std::function<void(int64_t)>& progress = {});

// With int8 activations of these scales. What the cache does not have stays float.
QuantizeResult quantize_with_scales(const std::filesystem::path& path, const TensorScales& scales,
                                    onnx::QuantizationScope scope = {});

// Weights alone, of products. Throws Input for a model that cannot be quantised. `inputs`: from
// measure_inputs, or empty.
QuantizeResult quantize_weights(const std::filesystem::path& path, const onnx::WeightRounding& rounding,
                                const onnx::QuantizationScope& scope,
                                const onnx::InputSumsByTensor& inputs = {});

// What the products of the scope read, over all samples, in the reference interpreter. `graph`: the model of
// `path`. Throws Input for no samples and for elements that are not finite.
onnx::InputSumsByTensor measure_inputs(const std::filesystem::path& path, const Graph& graph,
                                       const onnx::QuantizationScope& scope, const SampleSource& source,
                                       const std::function<void(int64_t)>& progress = {});

// The grid of a tensor whose elements lie in the range.
Quantization activation_grid(const ValueRange& range, DType dtype);

}  // namespace lathe
