// SPDX-License-Identifier: Apache-2.0
//
// The same elements in another type or format.
#pragma once

#include <memory>

#include "backend/cpu/kernel.h"
#include "ir/format.h"
#include "ir/tensor.h"

namespace lathe::cpu {

// Copies stored elements to a host tensor in linear format, same element type.
Tensor to_linear(const TensorType& type, const Extents& extents, const void* stored);
// The opposite: writes a linear tensor's elements in `format`, with zeros in the padding. `stored` has
// storage_bytes().
void from_linear(const Tensor& tensor, const Format& format, void* stored);

// The layer that does it: one operand and one result of these types, whose elements are the same.
std::unique_ptr<PreparedLayer> prepare_reformat(const TensorType& from, const TensorType& to,
                                                const Extents& extents, const Machine& machine, int threads);

}  // namespace lathe::cpu
