// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily recurrent_tactics();
namespace {

struct RecurrentSizes {
  int64_t steps = 5, batch = 3, width = 7, hidden = 19;
};

LayerCase recurrent(Op op, int64_t gates, const RecurrentSizes& s) {
  const int64_t rows = gates * s.hidden;
  return {.op = std::move(op),
          .inputs = {{.extents = {s.steps, s.batch, s.width}},
                     {.extents = {rows, s.width}, .constant = true, .low = -0.5, .high = 0.5},
                     {.extents = {rows, s.hidden}, .constant = true, .low = -0.5, .high = 0.5},
                     {.extents = {2 * rows}, .constant = true}},
          .outputs = gates == 4 ? size_t{3} : size_t{2},
          .allowed_types = {DType::BFloat16, DType::Float16},
          .tolerance = 1e-5,
          .rounding = 8};
}

TEST(RecurrentTactics, EveryKindAndDirection) {
  for (const RecurrentSizes& sizes : {RecurrentSizes{}, RecurrentSizes{1, 1, 1, 1},
                                      RecurrentSizes{9, 1, 40, 64}, RecurrentSizes{4, 14, 16, 33}})
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(sizes.hidden);
      EXPECT_GE(check_layer(recurrent_tactics(), recurrent(RNN{.reverse = reverse}, 1, sizes)), 3);
      for (const bool linear : {false, true})
        EXPECT_GE(check_layer(recurrent_tactics(),
                              recurrent(GRU{.reverse = reverse, .linear_before_reset = linear}, 3, sizes)),
                  3);
      EXPECT_GE(check_layer(recurrent_tactics(), recurrent(LSTM{.reverse = reverse}, 4, sizes)), 3);
    }
}

// Members share out hidden values, not sequences.
TEST(RecurrentTactics, FewSequencesOfManyHiddenValues) {
  for (const RecurrentSizes& sizes : {RecurrentSizes{4, 1, 5, 250}, RecurrentSizes{3, 2, 40, 288}})
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(sizes.hidden);
      EXPECT_GE(check_layer(recurrent_tactics(),
                            recurrent(RNN{.reverse = reverse}, 1, {3, 1, 7, 2 * sizes.hidden})),
                3);
      for (const bool linear : {false, true})
        EXPECT_GE(check_layer(recurrent_tactics(),
                              recurrent(GRU{.reverse = reverse, .linear_before_reset = linear}, 3, sizes)),
                  3);
      LayerCase layer = recurrent(LSTM{.reverse = reverse}, 4, sizes);
      layer.inputs.push_back({.absent = true});
      layer.inputs.push_back({.extents = {sizes.batch, sizes.hidden}});
      layer.inputs.push_back({.extents = {sizes.batch, sizes.hidden}});
      layer.inputs.push_back({.extents = {3 * sizes.hidden}, .constant = true});
      EXPECT_GE(check_layer(recurrent_tactics(), layer), 3);
    }
}

TEST(RecurrentTactics, LengthsStatesAndPeepholes) {
  for (const bool reverse : {false, true})
    for (const bool input_forget : {false, true}) {
      const RecurrentSizes s;
      LayerCase layer = recurrent(LSTM{.clip = 1.5f, .reverse = reverse, .input_forget = input_forget}, 4, s);
      layer.inputs.push_back({.dtype = DType::Int32, .extents = {s.batch}, .low = 0, .high = 5.5});
      layer.inputs.push_back({.extents = {s.batch, s.hidden}});
      layer.inputs.push_back({.extents = {s.batch, s.hidden}});
      layer.inputs.push_back({.extents = {3 * s.hidden}, .constant = true});
      EXPECT_GE(check_layer(recurrent_tactics(), layer), 3);
    }
}

TEST(RecurrentTactics, EveryActivation) {
  for (int kind = 0; kind <= static_cast<int>(lathe::Activation::Softplus); ++kind) {
    SCOPED_TRACE(kind);
    const RNN op{.f = static_cast<lathe::Activation>(kind), .alpha = {0.5f}, .beta = {0.25f}};
    LayerCase layer = recurrent(op, 1, {});
    layer.inputs[3].absent = true;
    EXPECT_GE(check_layer(recurrent_tactics(), layer), 3);
  }
}

TEST(RecurrentTactics, SaysWhyNot) {
  LayerCase layer = recurrent(RNN{}, 1, {});
  layer.inputs[1].constant = false;
  const auto reasons = refusals(recurrent_tactics(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("the weights are known only at run time"), std::string::npos) << reasons[0];
}

}  // namespace
}  // namespace lathe::cpu
