// SPDX-License-Identifier: Apache-2.0
//
// Shapes that depend on data: a program runs in segments, and between two of them the new dims are read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/program.h"

namespace lathe {

struct Segments {
  // Layers [first, second) whose shapes are known at the same time: all, unless shapes depend on data.
  std::vector<std::pair<size_t, size_t>> ranges;
  // By layer: data-dependent dims that it determines. Layers behind it are prepared when it has run.
  std::vector<std::vector<std::string>> new_symbols;
};
// Around: a cut in front of such a layer, too, where sizes that follow from the values of its operands are
// found (sizes_from_values.h). The first range is then empty if the first layer is one.
enum class Cut { Behind, Around };
Segments find_segments(const ProgramSpec& spec, Cut cut);

}  // namespace lathe
