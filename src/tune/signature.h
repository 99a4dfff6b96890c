// SPDX-License-Identifier: Apache-2.0
//
// The signature of a layer: everything that its time depends on, as text. Equal signatures are timed once,
// and it is the timing cache's key. Names, origins and weights' values are left out; shapes are those of the
// profile's opt point.
#pragma once

#include <string>
#include <vector>

#include "backend/tactic.h"

namespace lathe {

// "Conv{kernel=[3,3],...} epilogue{Relu(0)} (float32[1,64,56,56], const float32[64,64,3,3]) ->
// (float32[1,64,56,56])"
std::string layer_signature(const LayerQuery& query);
// "float32:linear, - -> float32:channels_last": what a tactic adds to it.
std::string types_signature(const Tactic& tactic);

// How logs show operands: "Float(150528,50176,224,1)", strides of the opt extents; "-" where absent or
// packed.
std::string describe_operand(const TensorType& type, const Extents& extents);
std::vector<std::string> describe_inputs(const LayerQuery& query, const Tactic& tactic);
std::vector<std::string> describe_outputs(const LayerQuery& query, const Tactic& tactic);

}  // namespace lathe
