// SPDX-License-Identifier: Apache-2.0
//
// Precision flags: which types they allow here, and what they changed, in words.
#pragma once

#include <string>
#include <vector>

#include "builder/pipeline.h"

namespace lathe {

// The types that the options allow besides the model's own. Says once for each flag why it has no effect
// here.
std::vector<DType> allowed_types(const Graph& model, const BuildOptions& options, const Backend& backend,
                                 Observer& observer);

// The types in which the model computes and the device does not throughout: its layers compute in FP32
// between casts (passes/widen_types.cpp), and one line says so. Those of them that the device has kernels for
// join `allowed`.
std::vector<DType> widened_types(const Graph& model, const Backend& backend, Observer& observer,
                                 std::vector<DType>& allowed);

// "bf16: 49 of 53 layers, 96.2 % of the time; fp32: ..." by the type of a layer's first output and the times
// that decided.
std::string precision_shares(const PlanVariant& variant);
// A layer of another type than FP32 exists.
bool uses_type(const PlanVariant& variant, const std::vector<DType>& types);

}  // namespace lathe
