// SPDX-License-Identifier: Apache-2.0
//
// For tests: infers and evaluates one operator on concrete tensors and checks that both agree on types and
// extents.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/op_def.h"

namespace lathe {

inline std::vector<Value> values_of(const std::vector<Tensor>& inputs, bool constant = true) {
  std::vector<Value> values(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[i].name = "input" + std::to_string(i);
    if (!inputs[i]) continue;
    values[i].dtype = inputs[i].dtype();
    values[i].shape = to_shape(inputs[i].extents());
    if (constant) values[i].constant = inputs[i];
  }
  return values;
}

inline std::vector<ResultInfo> infer_op(const Op& op, const std::vector<Value>& values, size_t outputs = 1) {
  std::vector<const Value*> pointers;
  for (const Value& value : values) pointers.push_back(value.dtype == DType::Undefined ? nullptr : &value);
  return infer(op, {}, InferContext{"test", pointers, outputs});
}

inline std::vector<Tensor> evaluate_op(const Op& op, const std::vector<Tensor>& inputs, size_t outputs = 1) {
  const std::vector<ResultInfo> infos = infer_op(op, values_of(inputs), outputs);
  Node node;
  node.name = "test";
  node.op = op;
  std::vector<Tensor> results =
      evaluate_node(node, EvaluateContext{.inputs = inputs, .output_count = outputs}, infos[0].dtype);
  EXPECT_GE(results.size(), outputs);
  for (size_t i = 0; i < outputs; ++i) {
    EXPECT_EQ(results[i].dtype(), infos[i].dtype);
    if (is_static(infos[i].shape)) {
      EXPECT_EQ(results[i].extents(), to_extents(infos[i].shape));
    }
  }
  return results;
}

// Expects an Input error whose text contains `part`.
template <class F>
void expect_input_error(F&& action, const std::string& part) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

inline void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance = 1e-6) {
  const std::vector<double> values = actual.to_doubles();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], tolerance) << "element " << i;
}

// 0, 1, 2, ... times `step`, as float32.
inline Tensor ramp(Extents extents, float step = 1) {
  std::vector<float> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * step;
  return Tensor::from<float>(std::move(extents), values);
}

}  // namespace lathe
