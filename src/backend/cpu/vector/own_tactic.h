// SPDX-License-Identifier: Apache-2.0
//
// What the families with kernels of ours share: tactic skeletons, questions about a layer, and the choice of
// how many members work on it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/vector/reduce_table.h"
#include "backend/cpu/vector/stored.h"

namespace lathe::cpu {

// Channels per block that fill one vector of the machine.
inline int vector_block(const Machine& machine) {
  return !machine.has(CpuFeature::Avx512) ? 8 : 16;
}
inline std::string_view isa_suffix(const Machine& machine) {
  return !machine.has(CpuFeature::Avx512) ? "avx2" : "avx512";
}

inline bool is_vector_float(DType t) {
  return t == DType::Float32 || t == DType::BFloat16 || t == DType::Float16;
}

inline Support no_vector_kernel(DType t) {
  return Support::no("no vector kernel for " + std::string(dtype_name(t)));
}

// The 16 and 32 bit floats as kernels name them; only for is_vector_float() types.
inline Stored stored_as(DType t) {
  if (t == DType::BFloat16) return Stored::BF16;
  return t == DType::Float16 ? Stored::F16 : Stored::F32;
}

inline int64_t round_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

inline bool all_are(const Ints& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [wanted](int64_t v) { return v == wanted; });
}
// A product of pixels and weights: each result comes from one pixel. Strides may skip some.
inline bool is_pixel_conv(const Conv& op) {
  return op.groups == 1 && all_are(op.kernel, 1) && all_are(op.pads_begin, 0) && all_are(op.pads_end, 0);
}

// Reductions and pooling share their kernels.
inline const ReduceTable& reduce_table(Isa isa) {
  return isa == Isa::Avx2 ? reduce_table_avx2() : reduce_table_avx512();
}

// A linear_tactic() with input 0 and output 0 as `type`, other float operands of the operator in their own
// type, and epilogue operands as the epilogue wants them for that result.
Tactic typed_tactic(const LayerQuery& query, std::string_view runner, std::string name,
                    const TensorType& input, const TensorType& output);

// Yes, if all operands of the operator that are there are 16 or 32 bit floats: the first as `type`, the
// others as the tactic has them.
Support operands_in_vectors(const LayerQuery& query, DType type, const std::vector<TensorType>& inputs);

// Members for a layer that takes about `nanoseconds` on one: a barrier costs 0.3 us and waking a cold
// partner's cache more, so a layer below 4 us stays on one.
inline int members_for(double nanoseconds, int available) {
  // Before it is an int: a convolution by computed weights may take hours.
  return static_cast<int>(std::clamp(nanoseconds / 2000.0, 1.0, static_cast<double>(available)));
}
// The same for a layer whose members meet: all threads or one.
inline int all_or_one(double nanoseconds, int available) {
  return members_for(nanoseconds, available) > 1 ? available : 1;
}

}  // namespace lathe::cpu
