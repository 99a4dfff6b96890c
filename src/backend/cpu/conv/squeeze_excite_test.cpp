// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily squeeze_excite_tactics();
namespace {

PointwiseProgram function(const char* text) {
  return PointwiseProgram::parse(text, 1);
}

LayerCase squeeze_excite_layer(int64_t images, int64_t channels, int64_t middle, const Extents& spatial,
                               bool biases = true) {
  Extents x = {images, channels}, ones(spatial.size(), 1);
  x.insert(x.end(), spatial.begin(), spatial.end());
  const auto weights = [&](int64_t rows, int64_t columns) {
    Extents e = {rows, columns};
    e.insert(e.end(), ones.begin(), ones.end());
    return CheckedInput{.extents = e, .constant = true, .low = -0.5, .high = 0.5};
  };
  LayerCase layer{.op = SqueezeExcite{.squeeze = function("Silu[1](0)"), .excite = function("Sigmoid(0)")},
                  .inputs = {{.extents = x},
                             weights(middle, channels),
                             {.extents = {middle}, .constant = true, .absent = !biases},
                             weights(channels, middle),
                             {.extents = {channels}, .constant = true, .absent = !biases}},
                  .allowed_types = {DType::BFloat16, DType::Float16}};
  layer.tolerance = 1e-5;
  return layer;
}

TEST(SqueezeExciteTactics, ChannelsAndMiddle) {
  for (const auto& [channels, middle] : std::vector<std::pair<int64_t, int64_t>>{
           {32, 8}, {1, 1}, {35, 3}, {96, 4}, {240, 10}, {300, 28}, {672, 33}}) {
    SCOPED_TRACE(channels);
    EXPECT_GE(check_layer(squeeze_excite_tactics(), squeeze_excite_layer(1, channels, middle, {7, 5})), 6);
  }
}

// More threads than images, as many, and more images than can be shared out evenly.
TEST(SqueezeExciteTactics, ImagesAndThreads) {
  for (const int64_t images : {1, 2, 3, 9}) {
    SCOPED_TRACE(images);
    LayerCase layer = squeeze_excite_layer(images, 72, 6, {18, 17});
    layer.dynamic_batch = images > 2;
    EXPECT_GE(check_layer(squeeze_excite_tactics(), layer), 6);
  }
}

TEST(SqueezeExciteTactics, OtherFunctionsNoBiasOneDim) {
  LayerCase layer = squeeze_excite_layer(2, 50, 12, {9}, false);
  layer.op = SqueezeExcite{.squeeze = function("Relu(0)"), .excite = function("HardSigmoid[0.2,0.5](0)")};
  EXPECT_GE(check_layer(squeeze_excite_tactics(), layer), 6);
  layer.op = SqueezeExcite{.squeeze = {}, .excite = function("Tanh(0)")};
  EXPECT_GE(check_layer(squeeze_excite_tactics(), layer), 6);
}

// A function that is infinite at zero must not reach the padding channels.
TEST(SqueezeExciteTactics, PaddingStaysZero) {
  LayerCase layer = squeeze_excite_layer(1, 20, 4, {3, 3}, false);
  layer.op = SqueezeExcite{.squeeze = function("Sigmoid(0)"), .excite = function("Reciprocal(0)")};
  layer.inputs[3].low = 0.1;
  EXPECT_GE(check_layer(squeeze_excite_tactics(), layer), 6);
}

TEST(SqueezeExciteTactics, SaysWhyNot) {
  LayerCase layer = squeeze_excite_layer(1, 16, 4, {3, 3});
  layer.inputs[1].constant = false;
  const auto reasons = refusals(squeeze_excite_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("the weights are not constant"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
