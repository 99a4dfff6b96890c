// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily topk_family();
namespace {

// Numbers repeat, so that ties are met.
CheckedInput numbers(DType type, Extents extents) {
  const bool has_sign = type != DType::UInt8 && type != DType::UInt64;
  return {.dtype = type, .extents = std::move(extents), .low = has_sign ? -8.0 : 0.0, .high = 8.5};
}
CheckedInput constant_count(int64_t value) {
  return {.dtype = DType::Int64,
          .extents = {1},
          .constant = true,
          .low = static_cast<double>(value),
          .high = static_cast<double>(value) + 0.5};
}

TEST(CudaTopK, TypesAxesAndOrders) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16, DType::Int64, DType::Int32,
                           DType::Int8, DType::UInt8, DType::UInt64, DType::Float64})
    for (const bool largest : {false, true}) {
      const int64_t axis = static_cast<int64_t>(cases.size()) % 3;
      for (const int64_t k : {1, 5})
        cases.push_back({.op = TopK{.axis = axis, .largest = largest},
                         .inputs = {numbers(type, {6, 7, 5}), constant_count(k)},
                         .outputs = 2});
    }
  cases.push_back({.op = TopK{}, .inputs = {{.extents = {1}}, constant_count(1)}, .outputs = 2});
  cases.push_back({.op = TopK{},
                   .inputs = {{.extents = {3, 1000}}, constant_count(1000)},
                   .outputs = 2,
                   .dynamic_batch = true});
  EXPECT_EQ(check_generated(topk_family(), cases), 38);
}

// Radix select, and a whole sort.
TEST(CudaTopK, LongLines) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Float32, DType::Float16, DType::Int64, DType::UInt8})
    for (const bool largest : {false, true})
      cases.push_back({.op = TopK{.axis = 0, .largest = largest},
                       .inputs = {numbers(type, {5000, 2}), constant_count(largest ? 300 : 7)},
                       .outputs = 2});
  cases.push_back({.op = TopK{}, .inputs = {{.extents = {2, 9000}}, constant_count(1)}, .outputs = 2});
  cases.push_back({.op = TopK{}, .inputs = {{.extents = {1, 5000}}, constant_count(4500)}, .outputs = 2});
  EXPECT_EQ(check_generated(topk_family(), cases), 19);
}

// How many are wanted is data.
TEST(CudaTopK, NumberAtRunTime) {
  std::vector<LayerCase> cases;
  for (const Extents& extents : {Extents{4, 50, 3}, Extents{1, 6000, 1}})
    cases.push_back(
        {.op = TopK{.axis = 1},
         .inputs = {{.extents = extents}, {.dtype = DType::Int64, .extents = {1}, .low = 9, .high = 9.5}},
         .outputs = 2});
  EXPECT_EQ(check_generated(topk_family(), cases), 2);
}

}  // namespace
}  // namespace lathe::cuda
