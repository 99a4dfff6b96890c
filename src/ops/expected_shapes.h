// SPDX-License-Identifier: Apache-2.0
//
// What shape rules of operators with many inputs share: each input against the shape that the others ask for.
// The same rules run again on the tensors of an evaluation, so that no evaluation reads outside of its
// arrays.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_def.h"

namespace lathe {

// All throw Input. `name` is what the operator calls its input.
void expect_rank(const InferContext& context, size_t input, std::string_view name, int64_t rank);
// Dims count where both are constants.
void expect_shape(const InferContext& context, size_t input, std::string_view name, const Shape& expected);
// One dim of `count` numbers: a list with an entry for each axis, dim or bound that it speaks of.
void expect_list(const InferContext& context, size_t input, std::string_view name, int64_t count);
// As many elements, whatever the dims.
void expect_elements(const InferContext& context, size_t input, std::string_view name, int64_t count);
void expect_dtype(const InferContext& context, size_t input, std::string_view name, DType dtype);
// float16, bfloat16, float32 or float64.
void expect_real(const InferContext& context, size_t input, std::string_view name);
// The elements of a shape, of axes or of counts, when they are known: from a constant or from a shape
// computation. Nothing of an absent input; the type must be one of integers.
std::optional<Shape> known_integers(const InferContext& context, size_t input, std::string_view name);
// The same of one element.
std::optional<Dim> known_scalar(const InferContext& context, size_t input, std::string_view name);

// The tensors of an evaluation as constants, for inference.
std::vector<Value> concrete_values(const EvaluateContext& context);

// Infers `op` on the evaluation's own tensors and allocates the results, zero-filled.
template <class T>
std::vector<Tensor> allocate_results(const T& op, const EvaluateContext& context,
                                     std::vector<ResultInfo> (*infer)(const T&, const InferContext&));
std::vector<Tensor> allocate_results(const std::vector<ResultInfo>& results);

template <class T>
std::vector<Tensor> allocate_results(const T& op, const EvaluateContext& context,
                                     std::vector<ResultInfo> (*infer)(const T&, const InferContext&)) {
  const std::vector<Value> values = concrete_values(context);
  std::vector<const Value*> inputs;
  for (const Value& value : values) inputs.push_back(value.dtype == DType::Undefined ? nullptr : &value);
  return allocate_results(infer(op, InferContext{"", inputs, context.output_count}));
}

}  // namespace lathe
