// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily strassen_tactics();
TacticFamily strassen_conv_tactics();
namespace {

LayerCase strassen_layer(Extents a, Extents b, bool transpose_b = false) {
  LayerCase layer{.op = MatMul{.transpose_b = transpose_b},
                  .inputs = {{.extents = std::move(a)}, {.extents = std::move(b), .constant = true}}};
  layer.allowed_types = {DType::BFloat16};  // there is no such tactic: FP32 stays the only one
  layer.tolerance = 5e-6;
  return layer;
}

LayerCase strassen_conv_layer(Extents x, int64_t out, bool bias) {
  LayerCase layer{.op = Conv{.kernel = {1, 1}, .strides = {1, 1}},
                  .inputs = {{.extents = x}, {.extents = {out, x[1], 1, 1}, .constant = true}}};
  if (bias) layer.inputs.push_back({.extents = {out}, .constant = true});
  layer.tolerance = 5e-6;
  return layer;
}

TEST(Strassen, RowsColumnsAndDepths) {
  for (const int64_t m : {16, 17, 28, 57, 120})
    for (const int64_t n : {64, 192})
      for (const int64_t k : {32, 96, 512, 800}) {  // the last in two chunks
        SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
        LayerCase layer = strassen_layer({m, k}, {k, n});
        layer.dynamic_batch = true;  // up to twice the rows
        EXPECT_GE(check_layer(strassen_tactics(), layer), 1);
      }
  EXPECT_GE(check_layer(strassen_tactics(), strassen_layer({40, 2400}, {64, 2400}, true)), 1);  // four chunks
  EXPECT_GE(check_layer(strassen_tactics(), strassen_layer({2, 3, 17, 64}, {1, 64, 64})), 1);
  EXPECT_GE(check_layer(strassen_tactics(), strassen_layer({920, 64}, {64, 64})), 1);  // blocks of tiles
}

TEST(Strassen, EpiloguesInRegistersAndOutside) {
  for (const int64_t depth : {64, 800})
    for (const char* epilogue :
         {"Relu(0)", "Clip[0,6](0)", "Silu[1](0)", "GeluErf(0)", "Add(0,1)", "Add(0,1) Add(3,2)",
          "Add(0,1) Add(2,3) Relu(4)", "Silu[1](0) Add(2,3)", "Add(1,0) GeluErf(3) Add(4,2)",
          /* not in registers: */ "Add(0,1) Tanh(3) Add(4,2)", "Mul(0,2)"}) {
      SCOPED_TRACE(epilogue);
      LayerCase layer = strassen_layer({2, 31, depth}, {depth, 128});
      layer.tolerance = 3e-5;  // sums of 100 and more are clipped to 6: their error stays
      layer.epilogue = PointwiseProgram::parse(epilogue, 3);
      layer.operands = {{.extents = {128}, .constant = true}, {.extents = {2, 31, 128}}};
      EXPECT_GE(check_layer(strassen_tactics(), layer), 1);
    }
}

TEST(Strassen, OneLeftOperandForMany) {
  LayerCase layer = strassen_layer({30, 64}, {3, 64, 128});
  EXPECT_GE(check_layer(strassen_tactics(), layer), 1);
  layer.epilogue = PointwiseProgram::parse("Add(0,1) Add(3,2) Relu(4)", 3);
  layer.operands = {{.extents = {3, 1, 128}, .constant = true}, {.extents = {3, 30, 128}}};
  EXPECT_GE(check_layer(strassen_tactics(), layer), 1);
  layer.epilogue = PointwiseProgram::parse("Add(0,1) Sub(2,3)", 3);
  EXPECT_GE(check_layer(strassen_tactics(), layer), 1);
}

TEST(StrassenConv, SizesBiasAndEpilogue) {
  for (const bool bias : {false, true})
    for (const int64_t in : {32, 256}) {
      LayerCase layer = strassen_conv_layer({2, in, 9, 7}, 64, bias);
      EXPECT_GE(check_layer(strassen_conv_tactics(), layer), 1);
      layer.dynamic_batch = true;
      layer.epilogue = PointwiseProgram::parse("Silu[1](0) Add(2,1)", 2);
      layer.operands = {{.extents = {2, 64, 9, 7}}};
      EXPECT_GE(check_layer(strassen_conv_tactics(), layer), 1);
    }
}

TEST(Strassen, SaysWhyNot) {
  const auto reason = [](const TacticFamily& family, const LayerCase& layer) {
    const auto reasons = refusals(family, layer);
    return reasons.empty() ? std::string() : reasons[0];
  };
  EXPECT_NE(reason(strassen_tactics(), strassen_layer({60, 64}, {64, 100})).find("multiple of"),
            std::string::npos);
  EXPECT_NE(reason(strassen_tactics(), strassen_layer({60, 40}, {40, 64})).find("multiple of 32"),
            std::string::npos);
  LayerCase layer = strassen_layer({64, 6}, {64, 64});
  layer.op = MatMul{.transpose_a = true};
  EXPECT_NE(reason(strassen_tactics(), layer).find("transposed"), std::string::npos);
  EXPECT_NE(reason(strassen_tactics(), strassen_layer({31, 64}, {64, 64})).find("fewer than 32 rows"),
            std::string::npos);
  layer = strassen_layer({60, 64}, {64, 64});
  layer.inputs[1].constant = false;
  EXPECT_NE(reason(strassen_tactics(), layer).find("not constant"), std::string::npos);
  EXPECT_EQ(check_layer(strassen_conv_tactics(), strassen_layer({60, 64}, {64, 64})), 0);
}

}  // namespace
}  // namespace lathe::cpu
