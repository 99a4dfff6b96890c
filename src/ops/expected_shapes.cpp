// SPDX-License-Identifier: Apache-2.0
#include "ops/expected_shapes.h"

#include <string>

#include "base/error.h"
#include "ops/movement.h"

namespace lathe {

void expect_rank(const InferContext& context, size_t input, std::string_view name, int64_t rank) {
  if (context.rank(input) == rank) return;
  throw_input_error(std::string(name) + " must have " + std::to_string(rank) + " dims; the shape is " +
                    to_string(context.input(input).shape));
}

void expect_shape(const InferContext& context, size_t input, std::string_view name, const Shape& expected) {
  const Shape& shape = context.input(input).shape;
  bool fits = shape.size() == expected.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = !shape[i].is_constant() || !expected[i].is_constant() || shape[i] == expected[i];
  if (!fits) {
    throw_input_error("the shape of " + std::string(name) + " is " + to_string(shape) + ", expected " +
                      to_string(expected));
  }
}

void expect_list(const InferContext& context, size_t input, std::string_view name, int64_t count) {
  const Shape& shape = context.input(input).shape;
  if (shape.size() == 1 && (!shape[0].is_constant() || shape[0] == Dim(count))) return;
  throw_input_error(std::string(name) + " must be one-dimensional with " + std::to_string(count) +
                    " entries; the shape is " + to_string(shape));
}

void expect_elements(const InferContext& context, size_t input, std::string_view name, int64_t count) {
  const Shape& shape = context.input(input).shape;
  Dim elements = Dim(1);
  for (const Dim& d : shape) elements = elements * d;
  if (!elements.is_constant() || elements == Dim(count)) return;
  throw_input_error(std::string(name) + " must have " + std::to_string(count) + " element" +
                    (count == 1 ? "" : "s") + "; the shape is " + to_string(shape));
}

void expect_dtype(const InferContext& context, size_t input, std::string_view name, DType dtype) {
  const DType have = context.input(input).dtype;
  if (have == dtype) return;
  throw_input_error("the type of " + std::string(name) + " is " + std::string(dtype_name(have)) +
                    ", expected " + std::string(dtype_name(dtype)));
}

void expect_real(const InferContext& context, size_t input, std::string_view name) {
  switch (context.input(input).dtype) {
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32:
    case DType::Float64:
      return;
    default:
      throw_input_error("the type of " + std::string(name) + " is " +
                        std::string(dtype_name(context.input(input).dtype)) +
                        ", expected float16, bfloat16, float32 or float64");
  }
}

std::optional<Shape> known_integers(const InferContext& context, size_t input, std::string_view name) {
  if (!context.has(input)) return std::nullopt;
  const DType dtype = context.input(input).dtype;
  if (!is_integer(dtype)) {
    throw_input_error(std::string(name) + " must be integers (ONNX: int64), the type is " +
                      std::string(dtype_name(dtype)));
  }
  return context.contents(input);
}

std::optional<Dim> known_scalar(const InferContext& context, size_t input, std::string_view name) {
  const Value& value = context.input(input);
  if (is_static(value.shape) && element_count(to_extents(value.shape)) != 1) {
    throw_input_error(std::string(name) + " must have one element; the shape is " + to_string(value.shape));
  }
  const auto contents = known_integers(context, input, name);
  if (!contents || contents->size() != 1) return std::nullopt;
  return contents->front();
}

std::vector<Value> concrete_values(const EvaluateContext& context) {
  std::vector<Value> values(context.inputs.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!context.has(i)) continue;
    const Tensor& tensor = context.input(i);
    values[i].name = "input " + std::to_string(i);
    values[i].dtype = tensor.dtype();
    values[i].shape = to_shape(tensor.extents());
    values[i].constant = tensor;
  }
  return values;
}

std::vector<Tensor> allocate_results(const std::vector<ResultInfo>& results) {
  std::vector<Tensor> tensors;
  for (const ResultInfo& result : results) {
    if (!is_static(result.shape))
      throw_input_error("the inputs do not say the size of the result " + to_string(result.shape) +
                        "; sizes, steps and axes must be integers");
    tensors.push_back(allocate_result(result.dtype, to_extents(result.shape)));
  }
  return tensors;
}

}  // namespace lathe
