// SPDX-License-Identifier: Apache-2.0
//
// A float32 model in mixed precision, written from the model and a plan: narrow nodes read and give the
// narrow type, each tensor that both kinds need has one Cast behind its producer, and constants are stored in
// the type that is read.
#pragma once

#include <string>

#include "onnx/mixed_precision_plan.h"

namespace lathe::onnx {

struct MixedPrecisionModel {
  std::string bytes;  // of the ONNX file
  int64_t casts = 0;
  int64_t constant_bytes_before = 0, constant_bytes = 0;  // of float constants that nodes read
};

// `model` was parsed from `bytes`; `tensors` reads its constants.
MixedPrecisionModel write_mixed_precision_model(std::span<const std::byte> bytes, const ModelProto& model,
                                                TensorSource& tensors, const MixedPrecisionPlan& plan);

}  // namespace lathe::onnx
