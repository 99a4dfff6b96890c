// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/check/few_bit_case.h"
#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {

GeneratedFamily few_rows_family();

namespace {

// The family's tactics that keep the bits of the weights.
GeneratedFamily few_bits_family() {
  GeneratedFamily family = few_rows_family();
  family.list = [](const LayerQuery& query, const Device& device) {
    std::vector<Tactic> tactics = few_rows_family().list(query, device);
    std::erase_if(tactics, [](const Tactic& t) { return t.params.get("few_bits", 0) == 0; });
    return tactics;
  };
  return family;
}

int count_with(const std::vector<std::string>& ran, const std::string& name) {
  return static_cast<int>(std::count_if(
      ran.begin(), ran.end(), [&](const std::string& r) { return r.starts_with("cuda_few_rows_" + name); }));
}

void expect_right(const std::vector<FewBitProduct>& products, const std::string& name) {
  std::vector<std::string> graphs;
  for (const FewBitProduct& product : products) graphs.push_back(product.text());
  const auto ran = check_generated_grids(few_bits_family(), graphs, 2);
  EXPECT_GE(count_with(ran, name), static_cast<int>(products.size())) << name;
}

TEST(FewRows, FourBits) {
  std::vector<FewBitProduct> products;
  for (const int64_t rows : {1, 3, 8, 12, 20})
    for (const bool transposed : {true, false}) products.push_back({.rows = rows, .transposed = transposed});
  products.push_back({.rows = 2, .depth = 96, .columns = 200});
  products.push_back({.rows = 2, .epilogue = " epilogue 2 {Add(0,1) Relu(2)}"});
  expect_right(products, "int4_blocks32_half_scales_");
  expect_right({{.rows = 3, .depth = 384, .columns = 130, .block = 128}}, "int4_blocks128_half_scales_");
  expect_right({{.rows = 3, .dtype = "int4", .zero = -3}, {.rows = 1, .equal_zeros = false}},
               "int4_blocks32_half_scales_zeros_");
}

TEST(FewRows, EightBits) {
  expect_right({{.rows = 5, .dtype = "uint8", .zero = 128}}, "int8_blocks32_half_scales_");
  expect_right({{.rows = 1, .dtype = "int8", .zero = 0, .halves = false}}, "int8_blocks32_");
  expect_right({{.rows = 2, .dtype = "uint8", .zero = 3, .equal_zeros = false, .halves = false}},
               "int8_blocks32_zeros_");
  expect_right({{.rows = 2, .depth = 56, .block = 0, .dtype = "int8", .zero = 0},
                {.rows = 2, .depth = 56, .block = 0, .dtype = "int8", .zero = 0, .transposed = false}},
               "int8_half_scales_");
}

TEST(FewRows, Halves) {
  std::vector<LayerCase> cases;
  const auto product = [&](const MatMul& op, const Extents& x, const Extents& w) -> LayerCase& {
    LayerCase& layer =
        cases.emplace_back(LayerCase{.op = op, .inputs = {{.extents = x}, {.extents = w, .constant = true}}});
    layer.allowed_types = {DType::Float16, DType::BFloat16};
    layer.tolerance = 1e-5;
    layer.rounding = 1.1;
    layer.emulated = 2;
    return layer;
  };
  product({}, {1, 72}, {72, 40});
  product({.transpose_b = true}, {2, 7, 200}, {33, 200});
  product({}, {30, 520}, {520, 17});
  product({}, {1, 3, 64}, {2, 64, 24});
  product({.transpose_b = true}, {2, 1, 5, 64}, {2, 1, 40, 64});
  LayerCase& dynamic = product({.transpose_b = true}, {5, 64}, {40, 64});
  dynamic.dynamic_batch = true;
  dynamic.epilogue = PointwiseProgram::parse("Add(0,1) GeluErf(3) Add(4,2)", 3);
  dynamic.operands = {{.extents = {40}, .constant = true}, {.extents = {5, 40}}};
  EXPECT_GE(check_generated(few_rows_family(), cases), 24);
}

TEST(FewRows, SaysWhatIsInTheWay) {
  const auto reason = [](const FewBitProduct& product) {
    for (const std::string& r : generated_grid_refusals(few_rows_family(), product.text())) return r;
    return std::string();
  };
  EXPECT_NE(reason({.depth = 60, .block = 20}).find("k is no multiple of 8"), std::string::npos);
  EXPECT_NE(reason({.block = 16}).find("blocks of 16; 32 k's have one scale"), std::string::npos);
  EXPECT_NE(reason({.rows = 70}).find("more than 32 rows"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cuda
