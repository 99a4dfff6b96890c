// SPDX-License-Identifier: Apache-2.0
//
// Elements of 4 and 2 bits in generated kernels, beside those of whole bytes. A kernel reads an operand as
// `elements[i]`, a number, and a thread writes all elements of one byte.
#pragma once

#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {

bool is_packed(DType type);
// How many of them share a byte; 1 for whole bytes.
int elements_per_byte(DType type);
// Yes, if a kernel with add_packed() can read and write them.
Support readable(DType type);

// Device text of what follows; the kernel's operands that are packed come through elements_of() alone.
void add_packed(KernelBuilder& b);
// An expression of an object whose [i] is element i of an input, as a number.
std::string elements_of(KernelBuilder& b, size_t input, DType type);
// Begins a kernel with a thread for each byte (or whole element) of a result of so many elements: `first` is
// the thread's first one, `total` their number.
void begin_packed(KernelBuilder& b, DType type, const Dim& total);
// The statement that stores the elements from `first` on that share a byte of the result, of `total`; for
// whole bytes element `first`. `number` is an expression of i, an element's number.
std::string store_elements(KernelBuilder& b, DType type, const std::string& number);

}  // namespace lathe::cuda
