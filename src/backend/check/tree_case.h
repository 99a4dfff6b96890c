// SPDX-License-Identifier: Apache-2.0
//
// Random decision trees as a layer.
#pragma once

#include "backend/check/layer_case.h"

namespace lathe {

struct TreeCase {
  int64_t rows = 1, trees = 20, targets = 1;
  TreeAggregate aggregate = TreeAggregate::Sum;
  int modes = 0;  // 0: all nodes compare with <=; 1: with <; 2: with anything, and NaN goes anywhere
  DType type = DType::Float32;
};

LayerCase tree_case(const TreeCase& wanted);

}  // namespace lathe
