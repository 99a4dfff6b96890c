// SPDX-License-Identifier: Apache-2.0
//
// NonZero: the positions of the elements that are not zero, one column each, in row-major order.
#include "ir/elements.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

std::vector<Tensor> evaluate_nonzero(const NonZero&, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  std::vector<int64_t> found;
  with_codec(x.dtype(), [&]<class Codec>() {
    for (int64_t i = 0; i < x.size(); ++i) {
      if (Codec::get(x.bytes().data(), i) != 0) found.push_back(i);
    }
  });
  // A scalar counts as a vector of one element, but its positions have no coordinates (ONNX follows numpy:
  // rank 0).
  const auto count = static_cast<int64_t>(found.size());
  Tensor result = allocate_result(DType::Int64, {x.rank(), count});
  const auto to = result.mutable_data<int64_t>();
  const Extents strides = row_major_strides(x.extents());
  for (size_t d = 0; d < strides.size(); ++d) {
    for (size_t i = 0; i < found.size(); ++i)
      to[d * found.size() + i] = found[i] / strides[d] % x.extents()[d];
  }
  return {result};
}

std::vector<ResultInfo> infer_nonzero(const NonZero&, const InferContext& context) {
  const Value& x = context.input(0);
  const Dim count = Dim::data_dependent(context.dim_name("count"), element_count(x.shape));
  return {{DType::Int64, {Dim(context.rank(0)), count}}};
}

}  // namespace

std::vector<OpDef> nonzero_ops() {
  return {op_def<NonZero, infer_nonzero, evaluate_nonzero>(one_per_input)};
}

}  // namespace lathe
