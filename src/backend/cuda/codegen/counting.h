// SPDX-License-Identifier: Apache-2.0
//
// Device text for kernels that count and sort: votes of a warp, integer atomics, prefix sums of a block, and
// keys whose order as unsigned numbers is the order of elements.
#pragma once

#include <string>

#include "backend/cuda/codegen/kernel_source.h"

namespace lathe::cuda {

// Adds to a kernel:
//   u32 ballot(bool), int population(u32), u32 lanes_below(): votes of a warp
//   u32 atomic_add(u32*, u32), void atomic_max(int*, int)
//   T block_prefix<kThreads>(T x, T* buffer, T& all): the sum of x over the threads in front, and over all;
//     buffer has room for kThreads numbers and is free again after the call
void add_counting(KernelBuilder& b);

// Adds ascending_key(element), which orders elements as ONNX does: NaN is the greatest, both zeros are one.
void add_order_keys(KernelBuilder& b);
// Bits of ascending_key() of that type: 8, 16 or 32, as u32, or 64, as u64.
int key_bits(DType dtype);
// "u32" or "u64".
std::string key_type(int bits);
// The key of `element`, a stored element; the least key comes first.
std::string order_key(const std::string& element, int bits, bool descending);

// Bytes of scratch memory, as far as the next multiple of 16; at least 16, so that each piece has an address
// of its own.
Dim aligned_bytes(const Dim& bytes);

}  // namespace lathe::cuda
