// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily exact_quantize_tactics();
namespace {

TEST(QuantizeTactics, BlocksAlongEveryAxis) {
  const Extents x = {4, 10, 33};
  for (const int64_t axis : {0, 1, 2})
    for (const int64_t block : {1, 3, 64}) {
      SCOPED_TRACE("axis " + std::to_string(axis) + ", blocks of " + std::to_string(block));
      Extents scale = x;
      auto& blocks = scale[static_cast<size_t>(axis)];
      blocks = (blocks + block - 1) / block;
      for (const DType type : {DType::Int8, DType::UInt4, DType::Float8E4M3FN, DType::Float4E2M1})
        EXPECT_GE(check_layer(exact_quantize_tactics(),
                              {.op = QuantizeLinear{.axis = axis, .block_size = block, .to = type},
                               .inputs = {{.extents = x, .low = -20, .high = 20},
                                          {.extents = scale, .low = 0.1, .high = 2}}}),
                  1);
      EXPECT_GE(check_layer(exact_quantize_tactics(),
                            {.op = DequantizeLinear{.axis = axis, .block_size = block},
                             .inputs = {{.dtype = DType::Int8, .extents = x, .low = -100, .high = 100},
                                        {.extents = scale, .low = 0.1, .high = 2},
                                        {.dtype = DType::Int8, .extents = scale, .low = -3, .high = 3}}}),
                1);
    }
}

TEST(QuantizeTactics, TypesOfLessThanAByteAndFloatsOfEightBits) {
  for (const Extents& scale : {Extents{}, Extents{7}})
    for (const DType type : {DType::Int4, DType::Int2, DType::Float4E2M1, DType::Float8E5M2}) {
      SCOPED_TRACE(dtype_name(type));
      EXPECT_GE(
          check_layer(exact_quantize_tactics(), {.op = QuantizeLinear{.axis = 1, .to = type},
                                                 .inputs = {{.extents = {3, 7, 301}, .low = -20, .high = 20},
                                                            {.extents = scale, .low = 0.1, .high = 2}}}),
          1);
      if (dtype_bytes(type, 2) > 1) continue;  // those that are whole bytes are pointwise programs
      EXPECT_GE(check_layer(exact_quantize_tactics(),
                            {.op = DequantizeLinear{.axis = 1},
                             .inputs = {{.dtype = type, .extents = {3, 7, 301}, .low = -2, .high = 1.5},
                                        {.extents = scale, .low = 0.1, .high = 2}}}),
                1);
    }
}

TEST(QuantizeTactics, NoElements) {
  EXPECT_GE(check_layer(exact_quantize_tactics(),
                        {.op = QuantizeLinear{.axis = 1, .block_size = 4, .to = DType::Int4},
                         .inputs = {{.extents = {0, 8}}, {.extents = {0, 2}, .low = 0.1, .high = 2}}}),
            1);
}

}  // namespace
}  // namespace lathe::cpu
