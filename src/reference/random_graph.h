// SPDX-License-Identifier: Apache-2.0
//
// Small graphs from a seed: convolutions, products, norms, pooling, pointwise arithmetic and data movement,
// with branches and joins. Passes, backends and engines are compared with the oracle on them; a failure is
// reproduced by its seed alone.
//
// Every value keeps about unit variance, and no operation with jumps (rounding, comparisons, indices) takes
// part, so a wrong result is wrong and not merely rounded the other way.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace lathe {

struct RandomGraphOptions {
  int steps = 12;             // about as many nodes; some steps add several
  bool dynamic_batch = true;  // the first dim of inputs is the symbol "batch", else 2
};

// Valid by verify_graph; every end of the graph is an output. The same seed and options give the same graph
// everywhere.
Graph random_graph(uint64_t seed, const RandomGraphOptions& options = {});

// What float32 rounding may do to the outputs of such a graph: relative to their size, or absolute for
// outputs near zero.
inline constexpr double kRandomGraphLimit = 1e-4;
bool agrees(const Tensor& actual, const Tensor& expected, double limit = kRandomGraphLimit);

}  // namespace lathe
