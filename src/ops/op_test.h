// SPDX-License-Identifier: Apache-2.0
//
// What the tests of operators share: infer and evaluate one operator on tensors, and compare the two.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "ops/op_def.h"

namespace lathe {

// A value for inference: a constant, or only type and shape.
inline Value known(const Tensor& tensor) {
  Value value{"c", tensor.dtype(), to_shape(tensor.extents())};
  value.constant = tensor;
  return value;
}
inline Value typed(DType dtype, Shape shape) {
  return {"x", dtype, std::move(shape)};
}
// A shape tensor whose elements are dims.
inline Value shape_value(Shape contents) {
  Value value{"s", DType::Int64, {Dim(static_cast<int64_t>(contents.size()))}};
  value.contents = std::move(contents);
  return value;
}

inline std::vector<ResultInfo> infer_values(const Op& op, const std::vector<Value>& values,
                                            size_t outputs = 1) {
  std::vector<const Value*> inputs;
  for (const Value& value : values) inputs.push_back(value.dtype == DType::Undefined ? nullptr : &value);
  return infer(op, {}, {"node", inputs, outputs});
}

// Evaluates, and checks that inference (with all inputs constant) foretold types and shapes. A default Tensor
// is an absent input.
inline std::vector<Tensor> run_op(const Op& op, const std::vector<Tensor>& inputs, size_t outputs = 1,
                                  const SymbolValues& symbols = {}, ThreadPool* pool = nullptr) {
  EvaluateContext context;
  context.inputs = inputs;
  context.output_count = outputs;
  context.symbols = &symbols;
  context.pool = pool;
  std::vector<Tensor> results = find_op_def(op).evaluate(op, context);
  std::vector<Value> values;
  for (const Tensor& input : inputs) values.push_back(input ? known(input) : Value{});
  const std::vector<ResultInfo> infos = infer_values(op, values, outputs);
  for (size_t i = 0; i < infos.size(); ++i) {
    EXPECT_EQ(results[i].dtype(), infos[i].dtype);
    EXPECT_EQ(results[i].extents().size(), infos[i].shape.size());
    for (size_t d = 0; d < infos[i].shape.size(); ++d) {
      if (infos[i].shape[d].is_constant()) {
        EXPECT_EQ(results[i].extents()[d], infos[i].shape[d].value()) << "dim " << d;
      }
    }
  }
  return results;
}

// int32 0, 1, 2, ... in the shape of `extents`.
inline Tensor counting(Extents extents) {
  std::vector<int32_t> values(static_cast<size_t>(element_count(extents)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
  return Tensor::from<int32_t>(std::move(extents), values);
}
inline Tensor i64s(const std::vector<int64_t>& values) {
  return Tensor::from<int64_t>({static_cast<int64_t>(values.size())}, values);
}
inline Tensor f32s(Extents extents, const std::vector<float>& values) {
  return Tensor::from<float>(extents, values);
}

inline Tensor f32s(const std::vector<float>& values) {
  return f32s({static_cast<int64_t>(values.size())}, values);
}

using Numbers = std::vector<double>;

inline const Dim kBatch = Dim::symbol("batch"), kSeq = Dim::symbol("seq");

// The message of the Input error that `action` throws; a failure when it throws none.
template <class F>
std::string input_error(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// `text` contains `part`.
inline void expect_values(const Tensor& actual, const std::vector<double>& expected) {
  const std::vector<double> values = actual.to_doubles();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << "element " << i;
}

inline void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" does not say \"" << part << "\"";
}

}  // namespace lathe
