// SPDX-License-Identifier: Apache-2.0
//
// Kernels whose threads have one vector of the result each, from its storage index on: what comes in front of
// and behind the computation of its elements.
#pragma once

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

size_t axis_of(int64_t axis, size_t rank);
// Begins such a kernel: the thread's storage index is `at`, the coordinates of its first element are c0, c1,
// ... per logical dim, and v[V] waits for the values, zero so far.
void begin_elements(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, int v);
// Applies the epilogue to v and stores it.
KernelSource end_elements(KernelBuilder& b, int v);
// The widest vector that types, epilogue and a dim of so many elements in a row allow.
int own_vector(const LayerQuery& query, const Tactic& tactic, const Dim& last);
// A tactic in each type and format that the layer may use, with input 0 and the result alike.
std::vector<Tactic> element_tactics(const LayerQuery& query, std::string_view runner,
                                    const std::string& name);
// No: input 0 or the result has a type that no kernel stores.
Support stored(const Tactic& t);

}  // namespace lathe::cuda
