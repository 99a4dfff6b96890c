// SPDX-License-Identifier: Apache-2.0
//
// Copying elements without knowing their type: what Transpose, Slice, Expand, Concat, Gather and their
// relatives share.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "ir/tensor.h"
#include "ops/op_def.h"

namespace lathe {

// Refuses what cannot fit into this machine's memory with an Input error, before the system starts to swap
// for a tensor that somebody's typing error made huge.
void check_result_size(DType dtype, const Extents& extents);
// The result of an evaluation, after that check.
Tensor allocate_result(DType dtype, Extents extents);

// Where the element of a result comes from: in[offset + sum of index[d] * strides[d]], in elements. A stride
// may be 0 (broadcast) or negative (reversed).
struct StridedSource {
  int64_t offset = 0;
  Extents strides;  // one per dim of the result
};
// Fills the dense `out` of `extents`. All offsets must lie inside `in`.
void copy_strided(const EvaluateContext& context, const std::byte* in, const StridedSource& source,
                  std::byte* out, const Extents& extents, int64_t element_bytes);

// A whole result by strides.
Tensor gather_strided(const EvaluateContext& context, const Tensor& x, const StridedSource& source,
                      Extents extents);

int64_t element_bytes(DType dtype);  // not for types of less than a byte

// Types of 4 and 2 bits share bytes, so they cannot be moved by bytes: evaluate on a wider type and pack
// again. All tensors in `movable` positions are unpacked; other types pass through untouched.
using Evaluation = std::function<std::vector<Tensor>(const EvaluateContext&)>;
std::vector<Tensor> move_elements(const EvaluateContext& context, const Evaluation& evaluation);

// What is in the results of a movement, when every moved input has known contents: the movement is evaluated
// on the positions of the elements, and the dims follow. `moved` lists the inputs whose elements move; the
// others must be constants or have constant contents. Entries are null where nothing is known.
std::vector<std::optional<Shape>> moved_contents(const InferContext& context,
                                                 const std::vector<size_t>& moved,
                                                 const Evaluation& evaluation);

// `evaluation` for op_def: T's evaluation bound to an operator.
template <class T>
Evaluation bind_evaluation(std::vector<Tensor> (*evaluate)(const T&, const EvaluateContext&), const T& op) {
  return [evaluate, &op](const EvaluateContext& context) { return evaluate(op, context); };
}

}  // namespace lathe
