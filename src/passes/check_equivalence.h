// SPDX-License-Identifier: Apache-2.0
//
// The oracle's verdict on a rewrite (--verifyPasses): both graphs run on the same seeded input and their
// outputs agree.
#pragma once

#include "base/thread_pool.h"
#include "ir/graph.h"

namespace lathe {

// Symbols take small values, so that the slow oracle stays bearable. Throws Internal with the output and its
// error.
void check_equivalence(const Graph& before, const Graph& after, ThreadPool& pool);

}  // namespace lathe
