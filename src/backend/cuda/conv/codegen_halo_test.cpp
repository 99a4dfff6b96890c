// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/conv/conv_check.h"
#include "backend/cuda/conv/halo_check.h"

namespace lathe::cuda {
namespace {

Conv square(int64_t size, int64_t pad) {
  return {.kernel = {size, size}, .strides = {1, 1}, .pads_begin = {pad, pad}, .pads_end = {pad, pad}};
}

TEST(CudaHalo, WindowsWithPads) {
  LayerCase conv = convolution(square(3, 1), {2, 64, 9, 7}, 40);
  conv.inputs.push_back({.extents = {40}, .constant = true});
  conv.epilogue = PointwiseProgram::parse("Add(0,1) Relu(2)", 2);
  conv.operands = {{.extents = {2, 40, 9, 7}}};
  conv.dynamic_batch = true;
  EXPECT_GE(check_generated(halo_family(), {conv}), 6);
}

// Several tiles in each dim, channels that are no whole steps, columns that are no whole tiles.
TEST(CudaHalo, TilesOfAWideImage) {
  EXPECT_GE(check_generated(halo_family(), {convolution(square(3, 1), {2, 72, 19, 70}, 34)}), 4);
}

TEST(CudaHalo, TeamsTakeTurns) {
  LayerCase conv = convolution(square(3, 1), {2, 136, 11, 12}, 34);
  conv.emulated = 2;
  EXPECT_GE(check_generated(halo_in_teams(), {conv}), 4);
}

// Windows of other sizes, uneven pads, pixels that lie apart.
TEST(CudaHalo, WindowsOfEveryKind) {
  const std::vector<LayerCase> cases = {
      convolution(square(5, 2), {1, 16, 10, 12}, 8), convolution(square(2, 0), {1, 24, 6, 9}, 10),
      convolution({.kernel = {3, 1}, .strides = {1, 1}, .pads_begin = {2, 0}, .pads_end = {0, 0}},
                  {1, 128, 7, 5}, 16),
      convolution({.kernel = {3, 2},
                   .strides = {1, 1},
                   .dilations = {4, 3},
                   .pads_begin = {3, 1},
                   .pads_end = {4, 2}},
                  {1, 32, 13, 11}, 12)};
  EXPECT_GE(check_generated(halo_family(), cases), 12);
}

TEST(CudaHalo, RefusesWhatItCannotRead) {
  const auto reason = [](const LayerCase& layer) {
    const auto reasons = generated_refusals(halo_family(), layer);
    return reasons.empty() ? std::string() : reasons[0];
  };
  Conv strided = square(3, 1);
  strided.strides = {1, 2};
  EXPECT_NE(reason(convolution(strided, {1, 16, 5, 5}, 8)).find("a stride"), std::string::npos);
  EXPECT_NE(reason(convolution(square(1, 0), {1, 16, 5, 5}, 8)).find("no border"), std::string::npos);
  EXPECT_NE(reason(convolution(square(3, 1), {1, 12, 5, 5}, 8)).find("multiples of 16 bytes"),
            std::string::npos);
  EXPECT_NE(reason(convolution(square(3, 1), {1, 16, 5, 5}, 7)).find("odd number"), std::string::npos);
}

}  // namespace
}  // namespace lathe::cuda
