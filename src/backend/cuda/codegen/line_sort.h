// SPDX-License-Identifier: Apache-2.0
//
// Sorts lines of keys on the device: which element comes first, second, ... The order is stable, so it is one
// order only, whatever blocks and atomics do.
//
// Short lines go through shared memory, a block each (bitonic). Long ones are sorted digit by digit from the
// lowest byte up, by as many blocks as they have tiles: each counts its digits, the counts become places, and
// each element goes to the place of its digit. A pass over a byte reads keys twice and writes keys and places
// once.
#pragma once

#include <functional>

#include "backend/cuda/codegen/counting.h"

namespace lathe::cuda {

struct LineSort {
  Dim lines = 1, length;  // how many lines, of how many elements each
  int64_t most = 0;       // the largest length
  int bits = 32;          // of keys; more than 32: u64
  // Adds what a kernel needs to know keys, and gives the key of element `i` of `line`, both of type idx.
  std::function<std::string(KernelBuilder&)> key;
  // Of short lines only: another number (u32) for that element than `i`, which decides among equal keys.
  std::function<std::string(KernelBuilder&)> place = nullptr;
  // Begins a kernel.
  std::function<KernelBuilder(std::string entry)> start;

  bool is_short() const { return most <= kShort; }
  static constexpr int64_t kShort = 4096;  // 12 bytes each in shared memory
};

// The body of a kernel with a block per line, blockIdx.x: behind it, places[p] is the element that comes at
// p, for p < n. For short lines.
void emit_short_sort(KernelBuilder& b, const LineSort& sort);

// Kernels that leave the places (u32, lines x length) in scratch memory. Lines of 2^31 elements are for
// LayerSource::numbered to refuse. `bytes`: what is taken already, and
// after the call with the sort's memory. Returns where the places lie.
Dim append_sort(std::vector<KernelSource>& kernels, const LineSort& sort, Dim& bytes);

}  // namespace lathe::cuda
