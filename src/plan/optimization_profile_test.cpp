// SPDX-License-Identifier: Apache-2.0
#include "plan/optimization_profile.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

const std::vector<TensorInfo> kInputs = {
    {"ids", DType::Int64, {Dim::symbol("batch"), Dim::symbol("seq")}, std::nullopt},
    {"mask", DType::Float32, {Dim::symbol("batch"), 1, Dim::symbol("seq") + Dim(1)}, std::nullopt},
    {"fixed", DType::Float32, {3}, std::nullopt},
    {"size", DType::Int64, {2}, Shape{Dim::symbol("h"), 4}},
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Profile, InputsShareSymbols) {
  std::vector<std::string> defaulted;
  const OptimizationProfile complete =
      complete_profile(kInputs, {.shapes = {{"ids", {{1, 8}, {2, 16}, {4, 32}}}}, .values = {}}, &defaulted);
  EXPECT_EQ(complete.shapes.at("mask"), (ShapeRange{{1, 1, 9}, {2, 1, 17}, {4, 1, 33}}));
  EXPECT_FALSE(complete.shapes.contains("fixed"));
  EXPECT_EQ(complete.values.at("size"), (ShapeRange{{1, 4}, {1, 4}, {1, 4}}));
  EXPECT_EQ(defaulted, std::vector<std::string>{"size"});
  const SymbolRanges ranges = symbol_ranges(kInputs, complete);
  EXPECT_EQ(ranges.at("batch"), (SymbolRange{1, 2, 4}));
  EXPECT_EQ(ranges.at("seq"), (SymbolRange{8, 16, 32}));
  EXPECT_EQ(ranges.at("h"), (SymbolRange{1, 1, 1}));
}

TEST(Profile, ErrorsNameWhatIsWrong) {
  const auto with = [](const std::string& name, ShapeRange range) {
    return error_of([&] {
      symbol_ranges(kInputs, complete_profile(kInputs, {.shapes = {{name, range}}, .values = {}}));
    });
  };
  EXPECT_EQ(with("idz", {{1, 1}, {1, 1}, {1, 1}}),
            "the profile names the input 'idz', but the model's inputs are: ids, mask, fixed, size");
  EXPECT_EQ(error_of([] { symbol_ranges(kInputs, {}); }),
            "input 'ids' is [batch, seq], and the optimization profile does not say what 'batch' is");
  EXPECT_EQ(with("ids", {{1}, {1, 1}, {1, 1}}),
            "input 'ids' has shape [batch, seq] of rank 2, but its profile's min shape 1 has rank 1");
  EXPECT_EQ(with("fixed", {{3}, {3}, {4}}),
            "input 'fixed' has shape [3]: dim 0 is 3, but its profile's max shape is 4");
  EXPECT_EQ(with("ids", {{1, 9}, {2, 8}, {4, 32}}),
            "input 'ids': the profile needs min <= opt <= max in every dim, but dim 1 has 9, 8, 32");
  EXPECT_EQ(with("ids", {{1, 1}, {1, 1}, {int64_t{1} << 31, 1 << 30}}),
            "input 'ids': the profile's max shape 2147483648x1073741824 has more than 2^40 elements");
  const std::string conflict = error_of([&] {
    symbol_ranges(kInputs, complete_profile(kInputs, {.shapes = {{"ids", {{1, 8}, {1, 8}, {1, 8}}},
                                                                 {"mask", {{2, 1, 9}, {2, 1, 9}, {2, 1, 9}}}},
                                                      .values = {}}));
  });
  EXPECT_EQ(conflict,
            "in the min shapes of the optimization profile: input 'mask': dim 0 is 'batch' = 2, but input "
            "'ids' (dim 0) "
            "gives 'batch' = 1");
  EXPECT_EQ(error_of([&] {
              complete_profile(kInputs, {.shapes = {}, .values = {{"ids", {{1}, {1}, {1}}}}});
            }),
            "the profile gives values for the input 'ids', which is not a shape tensor");
}

TEST(SymbolBinder, ChecksExpressions) {
  SymbolBinder binder;
  binder.bind_shape(kInputs[0], {2, 8});
  binder.bind_shape(kInputs[1], {2, 1, 10});
  EXPECT_EQ(error_of([&] { binder.finish(); }), "input 'mask': dim 2 must be seq + 1 = 9, but is 10");
  SymbolBinder more;
  EXPECT_EQ(error_of([&] { more.bind_shape(kInputs[2], {4}); }), "input 'fixed': dim 0 must be 3, but is 4");
  EXPECT_EQ(error_of([&] {
              more.bind_shape(kInputs[0], {-2, 4});
            }),
            "input 'ids': dim 0 of -2x4 is negative");
  EXPECT_EQ(error_of([&] { more.bind_contents(kInputs[3], {1}); }),
            "shape tensor 'size' has 2 elements, but was given 1");
  more.bind_contents(kInputs[3], {7, 4});
  EXPECT_EQ(more.finish().at("h"), 7);
}

TEST(Profile, RangeIsChecked) {
  const SymbolRanges ranges = {{"batch", {1, 2, 4}}};
  check_in_range(kInputs, {{"batch", 4}}, ranges);
  EXPECT_EQ(error_of([&] {
              check_in_range(kInputs, {{"batch", 5}}, ranges);
            }),
            "input 'ids': dim 0 ('batch') is 5, outside the optimization profile's range 1..4");
}

}  // namespace
}  // namespace lathe
