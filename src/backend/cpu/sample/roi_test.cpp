// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/check/layer_check.h"
#include "backend/cpu/device/machine.h"
#include "backend/packing.h"
#include "base/error.h"

namespace lathe::cpu {
TacticFamily roi_align_tactics();
TacticFamily max_roi_pool_tactics();
namespace {

constexpr DType kRoiTypes[] = {DType::Float32, DType::Float16, DType::BFloat16};

// Corners in any order, and some of them outside of the image.
CheckedInput boxes(int64_t count, double low, double high) {
  return {.extents = {count, 4}, .low = low, .high = high};
}
CheckedInput images(int64_t count, double below) {
  return {.dtype = DType::Int64, .extents = {count}, .low = 0, .high = below - 0.1};
}

TEST(RoiAlignTactics, ModesAndPoints) {
  for (const bool max : {false, true})
    for (const bool half_pixel : {false, true})
      for (const int64_t points : {0, 1, 2, 5}) {
        const RoiAlign op{.max = max,
                          .half_pixel = half_pixel,
                          .output_height = 3,
                          .output_width = 4,
                          .sampling_ratio = points,
                          .spatial_scale = 0.5f};
        EXPECT_GE(
            check_layer(roi_align_tactics(),
                        {.op = op, .inputs = {{.extents = {2, 19, 9, 11}}, boxes(7, -6, 30), images(7, 2)}}),
            max ? 1 : 5);
      }
}

TEST(RoiAlignTactics, TypesAndChannels) {
  for (const DType type : kRoiTypes)
    for (const int64_t channels : {1, 16, 33, 130}) {
      const RoiAlign op{.output_height = 7, .output_width = 7, .sampling_ratio = 2};
      EXPECT_GE(check_layer(roi_align_tactics(),
                            {.op = op,
                             .inputs = {{type, {1, channels, 20, 17}},
                                        {.dtype = type, .extents = {5, 4}, .low = -2, .high = 19},
                                        images(5, 1)},
                             .rounding = 2}),
                5);
    }
}

// Boxes of one pixel, of none, and far larger than the image; rows of bins without a point inside.
TEST(RoiAlignTactics, BoxesOfAllSizes) {
  for (const double size : {0.01, 1.0, 300.0, 1e9})
    for (const int64_t points : {0, 3}) {
      const RoiAlign op{.output_height = 2, .output_width = 3, .sampling_ratio = points};
      EXPECT_GE(check_layer(
                    roi_align_tactics(),
                    {.op = op, .inputs = {{.extents = {1, 5, 30, 1}}, boxes(9, -size, size), images(9, 1)}}),
                5);
    }
  const RoiAlign wide{.output_height = 1, .output_width = 1};  // more pixels in a bin than go into one sum
  EXPECT_GE(
      check_layer(roi_align_tactics(),
                  {.op = wide, .inputs = {{.extents = {1, 18, 40, 40}}, boxes(3, 0, 40), images(3, 1)}}),
      5);
  EXPECT_GE(check_layer(roi_align_tactics(),
                        {.op = wide, .inputs = {{.extents = {1, 3, 4, 4}}, boxes(0, 0, 1), images(0, 1)}}),
            5);
}

// What the family's first tactic says when `value` comes as an input of the run.
std::string error_of(const TacticFamily& family, const LayerCase& layer, size_t input, const Tensor& value) {
  const LayerProblem p = make_problem(layer);
  const Machine machine = make_machine(read_cpu_info(), std::nullopt, 1);
  const Tactic tactic = family.list(p.query(), machine).at(0);
  MemoryBlobStore blobs;
  const auto kernel = family.make(p.query(), tactic, machine, {blobs, "k"});
  const auto prepared = kernel->prepare({p.symbols, p.input_extents(), p.output_extents(), 1});
  LayerBuffers buffers = make_buffers(p, tactic);
  buffers.inputs[input].assign(value.bytes().begin(), value.bytes().end());
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const auto& bytes : buffers.inputs) in.push_back(bytes.data());
  for (auto& bytes : buffers.outputs) out.push_back(bytes.data());
  std::vector<std::byte> scratch(prepared->scratch_bytes() + 64);
  try {
    prepared->run({in, out, scratch.data()}, Worker{});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RoiAlignTactics, RejectsImagesThatAreNotThere) {
  for (const bool max : {false, true})
    for (const int64_t index : {int64_t{-1}, int64_t{2}, INT64_MAX}) {
      const LayerCase layer{.op = RoiAlign{.max = max},
                            .inputs = {{.extents = {2, 3, 4, 4}}, boxes(3, 0, 4), images(3, 2)}};
      const Tensor wrong = Tensor::from<int64_t>({3}, std::vector<int64_t>{1, index, 0});
      EXPECT_EQ(error_of(roi_align_tactics(), layer, 2, wrong),
                "layer (RoiAlign): box 1 is in image " + std::to_string(index) + ", there are 2");
    }
}

// Image, then two corners in any order, partly outside.
CheckedInput boxes_in(double low, double high, double image) {
  std::vector<float> values;
  for (int i = 0; i < 9; ++i) {
    values.push_back(static_cast<float>(image));
    for (int k = 0; k < 4; ++k)
      values.push_back(static_cast<float>(low + (high - low) * ((i * 7 + k * 11) % 13) / 12));
  }
  return {.constant = true, .value = Tensor::from<float>({9, 5}, values)};
}

TEST(MaxRoiPoolTactics, BoxesScalesAndTypes) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16})
    for (const float scale : {1.0f, 0.25f})
      for (const double reach : {3.0, 15.0, 1e6}) {
        const MaxRoiPool op{.output_height = 3, .output_width = 2, .spatial_scale = scale};
        EXPECT_GE(check_layer(max_roi_pool_tactics(),
                              {.op = op, .inputs = {{type, {2, 5, 9, 11}}, boxes_in(-reach / 2, reach, 1)}}),
                  1);
      }
}

TEST(MaxRoiPoolTactics, RejectsImagesAndCornersThatAreNotThere) {
  const auto error = [](float image, float corner) {
    const std::vector<float> wrong = {image, 0, corner, 3, 3};
    const LayerCase layer{.op = MaxRoiPool{},
                          .inputs = {{.extents = {2, 3, 4, 4}}, {.extents = {1, 5}, .low = 0, .high = 0.9}}};
    return error_of(max_roi_pool_tactics(), layer, 1, Tensor::from<float>({1, 5}, wrong));
  };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error(2, 0), "layer (MaxRoiPool): box 0 is in image 2, there are 2");
  EXPECT_NE(error(-1, 0).find("is in image -1"), std::string::npos);
  EXPECT_NE(error(std::numeric_limits<float>::quiet_NaN(), 0).find("is in image"), std::string::npos);
  EXPECT_EQ(error(0, infinity), "layer (MaxRoiPool): box 0 has coordinates that are not finite");
  EXPECT_EQ(error(0, 1e30f), "");
}

}  // namespace
}  // namespace lathe::cpu
