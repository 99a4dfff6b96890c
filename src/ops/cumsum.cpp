// SPDX-License-Identifier: Apache-2.0
//
// CumSum and CumProd: running sums and products along one axis. Small floats are computed in FP32 and rounded
// when stored, so that long sums do not lose what a 16-bit sum would.
#include <string>
#include <type_traits>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

template <class T>
constexpr bool kIsProduct = std::is_same_v<T, CumProd>;

template <class Codec, class T>
void run_line(const T& op, const std::byte* from, std::byte* to, int64_t first, int64_t count,
              int64_t stride) {
  using Wide = typename Codec::Wide;
  using Number = std::conditional_t<Codec::kFloat, Wide, uint64_t>;  // integers wrap around
  Number total = kIsProduct<T> ? 1 : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + (op.reverse ? count - 1 - i : i) * stride;
    const auto element = static_cast<Number>(Codec::get(from, at));
    if (op.exclusive) Codec::put(to, at, static_cast<Wide>(total));
    total = kIsProduct<T> ? total * element : total + element;
    if (!op.exclusive) Codec::put(to, at, static_cast<Wide>(total));
  }
}

template <class T>
std::vector<Tensor> evaluate_running(const T& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  if (context.input(1).size() != 1) throw_input_error("the axis must have one element");
  const auto axis = static_cast<size_t>(normalize_axis(context.input(1).to_int64s()[0], x.rank(), T::kName));
  Tensor result = allocate_result(x.dtype(), x.extents());
  if (result.size() == 0) return {result};
  const int64_t count = x.extents()[axis], stride = row_major_strides(x.extents())[axis];
  const std::byte* from = x.bytes().data();
  std::byte* to = result.mutable_bytes().data();
  with_codec(x.dtype(), [&]<class Codec>() {
    context.parallel_for(
        result.size() / count, std::max<int64_t>(1, 4096 / count), [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            run_line<Codec>(op, from, to, line / stride * stride * count + line % stride, count, stride);
          }
        });
  });
  return {result};
}

template <class T>
std::vector<ResultInfo> infer_running(const T&, const InferContext& context) {
  const Value& x = context.input(0);
  if (x.dtype == DType::Bool || dtype_info(x.dtype).bits < 8) {
    throw_input_error(std::string(kIsProduct<T> ? "products of " : "sums of ") +
                      std::string(dtype_name(x.dtype)) + " are not defined");
  }
  expect_elements(context, 1, "the axis", 1);
  if (const auto axis = known_integers(context, 1, "the axis");
      axis && axis->size() == 1 && (*axis)[0].is_constant()) {
    normalize_axis((*axis)[0].value(), context.rank(0), T::kName);
  }
  return {{x.dtype, x.shape}};
}

}  // namespace

std::vector<OpDef> cumsum_ops() {
  return {op_def<CumSum, infer_running<CumSum>, evaluate_running<CumSum>>(),
          op_def<CumProd, infer_running<CumProd>, evaluate_running<CumProd>>()};
}

}  // namespace lathe
