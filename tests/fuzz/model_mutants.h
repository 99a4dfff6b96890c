// SPDX-License-Identifier: Apache-2.0
//
// ONNX models with changed attributes, dims, types, edges, operators and opsets, built without timing and
// run.
#pragma once

#include "worker.h"

namespace fuzz {

Case prepare_model_mutants(const Setup& setup);

}  // namespace fuzz
