// SPDX-License-Identifier: Apache-2.0
//
// One function per family file, each in <family>.cpp, which defines it. A new family is a file, a line here
// and a line in ops.cpp.
#pragma once

#include <vector>

#include "ops/op_def.h"

namespace lathe {

std::vector<OpDef> pointwise_ops();

}  // namespace lathe
