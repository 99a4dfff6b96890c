// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily scatter_family();
namespace {

constexpr ScatterReduction kReductions[] = {ScatterReduction::None, ScatterReduction::Add,
                                            ScatterReduction::Mul, ScatterReduction::Min,
                                            ScatterReduction::Max};

// Many updates meet in each element, in small numbers, so that sums are exact in every type.
TEST(CudaScatter, ElementsWithEveryReduction) {
  std::vector<LayerCase> cases;
  for (const ScatterReduction reduction : kReductions)
    for (const DType type : {DType::Float32, DType::BFloat16, DType::Int64, DType::UInt8}) {
      const int64_t axis = static_cast<int64_t>(cases.size()) % 3;
      Extents some = {3, 3, 6};
      some[static_cast<size_t>(axis)] = 7;
      cases.push_back(
          {.op = ScatterElements{axis, reduction},
           .inputs = {{type, {5, 4, 7}, false, 0, 4}, indices(some, 4), {type, some, false, 0, 2}},
           .rounding = 8});
    }
  cases.push_back({.op = ScatterElements{-1, ScatterReduction::None},
                   .inputs = {{DType::Bool, {9}, false, 0, 1.9},
                              indices({1}, 9, DType::Int32),
                              {DType::Bool, {1}, false, 0, 1.9}}});
  EXPECT_EQ(check_generated(scatter_family(), cases), 21);
}

TEST(CudaScatter, BlocksWithEveryReduction) {
  std::vector<LayerCase> cases;
  for (const ScatterReduction reduction : kReductions) {
    cases.push_back({.op = ScatterND{reduction},
                     .inputs = {{.extents = {6, 5, 8}}, indices({9, 1}, 6), {.extents = {9, 5, 8}}}});
    cases.push_back({.op = ScatterND{reduction},
                     .inputs = {{.dtype = DType::Int32, .extents = {6, 5}},
                                indices({3, 9, 2}, 5, DType::Int32),
                                {.dtype = DType::Int32, .extents = {3, 9}}}});
  }
  cases.push_back({.op = ScatterND{},
                   .inputs = {{.extents = {2, 3}}, indices({2, 1, 2}, 1), {.extents = {2, 1}}},
                   .dynamic_batch = true});
  EXPECT_EQ(check_generated(scatter_family(), cases), 11);
}

// How many there are a run may find: none change nothing.
TEST(CudaScatter, NoUpdates) {
  std::vector<LayerCase> cases;
  for (const ScatterReduction reduction : kReductions) {
    cases.push_back(
        {.op = ScatterND{reduction},
         .inputs = {
             {.extents = {6, 5, 8}}, {.dtype = DType::Int64, .extents = {0, 1}}, {.extents = {0, 5, 8}}}});
    cases.push_back(
        {.op = ScatterElements{1, reduction},
         .inputs = {
             {.extents = {6, 5, 8}}, {.dtype = DType::Int64, .extents = {6, 0, 8}}, {.extents = {6, 0, 8}}}});
  }
  EXPECT_EQ(check_generated(scatter_family(), cases), 10);
}

// More updates than one block sorts, with addresses of two bytes and of one.
TEST(CudaScatter, ManyUpdates) {
  std::vector<LayerCase> cases;
  for (const int64_t slots : {int64_t{7}, int64_t{1000}})
    cases.push_back({.op = ScatterElements{0, ScatterReduction::Add},
                     .inputs = {{.extents = {slots}},
                                indices({5003}, static_cast<double>(slots) * 0.99),
                                {.extents = {5003}, .low = 0, .high = 1}}});
  EXPECT_EQ(check_generated(scatter_family(), cases), 2);
}

// What an index outside of the data names is left as it is.
TEST(CudaScatter, IndicesOutside) {
  const auto list = [](const std::vector<float>& values) {
    return Tensor::from<float>({static_cast<int64_t>(values.size())}, values);
  };
  const Tensor places = Tensor::from<int64_t>({5}, std::vector<int64_t>{4, -5, 1, 1, int64_t{1} << 40});
  const CheckedInput x{.extents = {4}, .value = list({1, 2, 3, 4})},
      updates{.extents = {5}, .value = list({5, 6, 7, 8, 9})};
  const std::vector<LayerCase> cases = {
      {.op = ScatterElements{},
       .inputs = {x, {.dtype = DType::Int64, .extents = {5}, .value = places}, updates},
       .expected = {list({1, 8, 3, 4})}},
      {.op = ScatterND{ScatterReduction::Add},
       .inputs = {x, {.dtype = DType::Int64, .extents = {5, 1}, .value = places.reshaped({5, 1})}, updates},
       .expected = {list({1, 17, 3, 4})}}};
  EXPECT_EQ(check_generated(scatter_family(), cases), 2);
}

TEST(CudaScatter, SaysWhatItDoesNotTake) {
  const auto refused =
      generated_refusals(scatter_family(), {.op = ScatterND{ScatterReduction::Add},
                                            .inputs = {{.dtype = DType::Float8E4M3FN, .extents = {4}},
                                                       indices({2, 1}, 4),
                                                       {.dtype = DType::Float8E4M3FN, .extents = {2}}}});
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("no kernel for float8"), std::string::npos) << refused[0];
}

}  // namespace
}  // namespace lathe::cuda
