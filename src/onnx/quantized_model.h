// SPDX-License-Identifier: Apache-2.0
//
// An ONNX model with QuantizeLinear and DequantizeLinear nodes, written from the float model, a plan and the
// grids that calibration found. Everything else of the file stays as it is, byte by byte.
#pragma once

#include <map>
#include <string>

#include "ir/quantization.h"
#include "onnx/quantization_plan.h"
#include "onnx/round_weights.h"

namespace lathe::onnx {

struct QuantizedModel {
  std::string bytes;  // of the ONNX file
  int64_t activations = 0, weights = 0;
  int64_t weight_bytes_before = 0, weight_bytes = 0;
};

// By the name of a tensor, what each index of its last dim is divided by before it is quantised, and the
// weights that read it multiplied with.
using Smoothing = std::map<std::string, std::vector<float>, std::less<>>;

// By the number of a node with a bias, what is added to it: bias correction.
using BiasShifts = std::map<size_t, std::vector<double>>;

// The grid of weights, by the largest magnitude of each channel: Int8 or Float8E4M3FN. Throws Input for
// elements that are not finite.
Quantization weight_grid(const Tensor& weights, const std::string& name, int64_t axis,
                         DType dtype = DType::Int8);

// Throws Input for a model that cannot be written with QuantizeLinear of floats of 8 bits: they came with
// opset 19.
void check_small_floats(const ModelProto& model);

// `grids`: by the name of each tensor of plan.activations. `model` was parsed from `bytes`; `tensors` reads
// its constants. Weights are quantised to `weights` by the largest magnitude of each channel. Beside int8
// biases are integers, too; beside floats of 8 bits they stay as they are, and the model has opset 19 at
// least.
QuantizedModel write_quantized_model(std::span<const std::byte> bytes, const ModelProto& model,
                                     TensorSource& tensors, const QuantizationPlan& plan,
                                     const std::map<std::string, Quantization, std::less<>>& grids,
                                     const Smoothing& smoothing = {}, const BiasShifts& shifts = {},
                                     DType weights = DType::Int8);

// The products of plan.weight_only as com.microsoft's MatMulNBits. `inputs`: of the tensors that they read;
// weights of products whose input is among them take up each other's errors.
QuantizedModel write_weight_only_model(std::span<const std::byte> bytes, const ModelProto& model,
                                       TensorSource& tensors, const QuantizationPlan& plan,
                                       const WeightRounding& rounding, const InputSumsByTensor& inputs = {});

}  // namespace lathe::onnx
