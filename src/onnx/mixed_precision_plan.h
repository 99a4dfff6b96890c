// SPDX-License-Identifier: Apache-2.0
//
// Which nodes of a float32 model may compute in float16 or bfloat16: all that the narrow type has an operator
// for, except those that were excluded, whose values leave the range of the type, or that lose more than the
// type's rounding.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "onnx/model.h"

namespace lathe::onnx {

struct MixedPrecisionOptions {
  DType narrow = DType::Float16;
  std::vector<std::string> exclude;                  // patterns of node names
  std::set<std::string, std::less<>> exclude_types;  // operators that stay float32
  bool converts_io = false;                          // inputs and outputs become narrow
};

// Why something stays float32: `kind` is the same for many, `detail` is about this one.
struct WideReason {
  std::string kind, detail;
};

// What was measured.
struct MixedPrecisionFacts {
  // Float32 tensors that the model computes. What is not here (shapes, constants) has its value before
  // anything runs.
  std::set<std::string, std::less<>> computed;
  std::map<std::string, WideReason, std::less<>> tensors;  // that the narrow type cannot hold, constants too
  std::map<std::string, WideReason, std::less<>> nodes;    // by name: that lose too much
};

struct MixedPrecisionPlan {
  DType narrow = DType::Float16;
  bool converts_io = false;
  int64_t opset = 0;                               // of the model to write
  std::set<std::string_view, std::less<>> floats;  // all float32 tensors, by name
  std::vector<char> is_narrow;                     // by node
  int64_t narrow_count = 0, float_count = 0;       // nodes
  struct Left {
    std::string node, op_type;
    WideReason reason;
  };
  std::vector<Left> left;  // nodes that compute with floats and stay float32
};

// Throws Input when the model is quantised, older than opset 13, or when nothing becomes narrow.
MixedPrecisionPlan plan_mixed_precision(const ModelProto& model, const MixedPrecisionOptions& options,
                                        const MixedPrecisionFacts& facts);

// Node i of the plan reads (gives) its input (output) k in the narrow type.
bool reads_narrow(const MixedPrecisionPlan& plan, const NodeProto& node, size_t i, size_t k);
bool gives_narrow(const MixedPrecisionPlan& plan, const NodeProto& node, size_t i, size_t k);

}  // namespace lathe::onnx
