// SPDX-License-Identifier: Apache-2.0
//
// CumSum: running sums along one axis. Small floats are summed in FP32 and rounded when stored, so that long sums do not
// lose what a 16-bit sum would.
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

template <class Codec>
void running_sum(const CumSum& op, const std::byte* from, std::byte* to, int64_t first, int64_t count,
                 int64_t stride) {
  using Wide = typename Codec::Wide;
  Wide sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + (op.reverse ? count - 1 - i : i) * stride;
    const Wide element = Codec::get(from, at);
    if (op.exclusive) Codec::put(to, at, sum);
    if constexpr (Codec::kFloat) {
      sum += element;
    } else {
      sum = static_cast<Wide>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(element));  // wraps around
    }
    if (!op.exclusive) Codec::put(to, at, sum);
  }
}

std::vector<Tensor> evaluate_cumsum(const CumSum& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  if (context.input(1).size() != 1) throw_input_error("the axis must have one element");
  const auto axis = static_cast<size_t>(normalize_axis(context.input(1).to_int64s()[0], x.rank(), "CumSum"));
  Tensor result = allocate_result(x.dtype(), x.extents());
  if (result.size() == 0) return {result};
  const int64_t count = x.extents()[axis], stride = row_major_strides(x.extents())[axis];
  const std::byte* from = x.bytes().data();
  std::byte* to = result.mutable_bytes().data();
  with_codec(x.dtype(), [&]<class Codec>() {
    context.parallel_for(
        result.size() / count, std::max<int64_t>(1, 4096 / count), [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            running_sum<Codec>(op, from, to, line / stride * stride * count + line % stride, count, stride);
          }
        });
  });
  return {result};
}

std::vector<ResultInfo> infer_cumsum(const CumSum&, const InferContext& context) {
  const Value& x = context.input(0);
  if (x.dtype == DType::Bool || dtype_info(x.dtype).bits < 8) {
    throw_input_error("sums of " + std::string(dtype_name(x.dtype)) + " are not defined");
  }
  if (const auto axis = context.contents(1); axis && axis->size() == 1 && (*axis)[0].is_constant()) {
    normalize_axis((*axis)[0].value(), context.rank(0), "CumSum");
  }
  return {{x.dtype, x.shape}};
}

}  // namespace

std::vector<OpDef> cumsum_ops() {
  return {op_def<CumSum, infer_cumsum, evaluate_cumsum>()};
}

}  // namespace lathe
