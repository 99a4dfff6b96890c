// SPDX-License-Identifier: Apache-2.0
//
// Small layers of all operators that models bring: with them a backend's tests find out which operators it
// has kernels for. Fused layers and format changes, which passes make, are not among them.
#pragma once

#include <vector>

#include "backend/check/layer_case.h"

namespace lathe {

std::vector<LayerCase> operator_cases();

}  // namespace lathe
