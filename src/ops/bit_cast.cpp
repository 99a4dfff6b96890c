// SPDX-License-Identifier: Apache-2.0
//
// BitCast: the same bytes under another type.
#include <cstring>
#include <string>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

std::vector<ResultInfo> infer_bit_cast(const BitCast& op, const InferContext& context) {
  const Value& x = context.input(0);
  if (op.to == DType::Undefined) throw_input_error("the target type of a BitCast is not set");
  const DTypeInfo &from = dtype_info(x.dtype), &to = dtype_info(op.to);
  if (from.bits != to.bits)
    throw_input_error("elements of " + std::string(from.name) + " have " + std::to_string(from.bits) +
                      " bits, those of " + std::string(to.name) + " " + std::to_string(to.bits));
  return {{op.to, x.shape}};
}

std::vector<Tensor> evaluate_bit_cast(const BitCast& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_bit_cast);
  const Tensor& x = context.input(0);
  const auto bytes = results[0].mutable_bytes();
  if (!bytes.empty()) std::memcpy(bytes.data(), x.bytes().data(), bytes.size());
  // In memory true is 1 and nothing else.
  if (op.to == DType::Bool)
    for (std::byte& byte : bytes) byte = std::byte{byte != std::byte{0}};
  return results;
}

}  // namespace

std::vector<OpDef> bit_cast_ops() {
  return {op_def<BitCast, infer_bit_cast, evaluate_bit_cast>(no_flops)};
}

}  // namespace lathe
