// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily recurrent_family();
namespace {

struct Sizes {
  int64_t steps = 5, batch = 3, width = 7, hidden = 19;
};

LayerCase recurrent(Op op, int64_t gates, const Sizes& s) {
  const int64_t rows = gates * s.hidden;
  return {.op = std::move(op),
          .inputs = {{.extents = {s.steps, s.batch, s.width}},
                     {.extents = {rows, s.width}, .constant = true, .low = -0.5, .high = 0.5},
                     {.extents = {rows, s.hidden}, .constant = true, .low = -0.5, .high = 0.5},
                     {.extents = {2 * rows}, .constant = true}},
          .outputs = gates == 4 ? size_t{3} : size_t{2},
          .allowed_types = {DType::BFloat16, DType::Float16},
          .tolerance = 1e-5,
          .rounding = 8,
          .emulated = 2};
}

TEST(CudaRecurrent, EveryKindAndDirection) {
  std::vector<LayerCase> cases;
  for (const bool reverse : {false, true}) {
    cases.push_back(recurrent(RNN{.reverse = reverse}, 1, {}));
    cases.push_back(recurrent(GRU{.reverse = reverse}, 3, {}));
    cases.push_back(recurrent(GRU{.reverse = reverse, .linear_before_reset = true}, 3, {}));
    cases.push_back(recurrent(LSTM{.reverse = reverse}, 4, {}));
  }
  cases.push_back(recurrent(LSTM{}, 4, {1, 1, 1, 1}));
  EXPECT_GE(check_generated(recurrent_family(), cases), 9 * 3);
}

// Rows of r in registers, in shared memory, and in the L2; states that go through a cluster.
TEST(CudaRecurrent, SizesAndClusters) {
  std::vector<LayerCase> cases;
  for (const Sizes& sizes : {Sizes{3, 9, 40, 64}, Sizes{3, 2, 24, 130}}) {
    cases.push_back(recurrent(LSTM{.reverse = true}, 4, sizes));
    cases.push_back(recurrent(GRU{}, 3, sizes));
    for (size_t i = cases.size() - 2; i < cases.size(); ++i) {
      cases[i].allowed_types = {DType::Float16};
      cases[i].emulated = sizes.hidden > 100 ? 1 : 3;
      for (const size_t weights : {1, 2})
        cases[i].inputs[weights].low = -(cases[i].inputs[weights].high = 0.125);
    }
  }
  EXPECT_GE(check_generated(recurrent_family(), cases), 12);
}

TEST(CudaRecurrent, LengthsStatesAndPeepholes) {
  std::vector<LayerCase> cases;
  for (const bool reverse : {false, true})
    for (const bool input_forget : {false, true}) {
      const Sizes s{.hidden = 17};
      LayerCase layer = recurrent(LSTM{.clip = 1.5f, .reverse = reverse, .input_forget = input_forget}, 4, s);
      const DType lengths = reverse ? DType::Int32 : DType::Int64;
      layer.inputs.push_back({.dtype = lengths, .extents = {s.batch}, .low = 0, .high = 5.5});
      layer.inputs.push_back({.extents = {s.batch, s.hidden}});
      layer.inputs.push_back({.extents = {s.batch, s.hidden}});
      layer.inputs.push_back({.extents = {3 * s.hidden}, .constant = true});
      cases.push_back(layer);
      LayerCase gru = recurrent(GRU{.reverse = reverse, .linear_before_reset = input_forget}, 3, s);
      gru.inputs.push_back({.dtype = lengths, .extents = {s.batch}, .low = 0, .high = 5.5});
      gru.inputs.push_back({.extents = {s.batch, s.hidden}});
      cases.push_back(gru);
    }
  for (LayerCase& layer : cases) layer.emulated = 1;
  EXPECT_GE(check_generated(recurrent_family(), cases), 8 * 3);
}

TEST(CudaRecurrent, EveryActivation) {
  std::vector<LayerCase> cases;
  for (int kind = 0; kind <= static_cast<int>(Activation::Softplus); ++kind) {
    const RNN op{.f = static_cast<Activation>(kind), .alpha = {0.5f}, .beta = {0.25f}};
    cases.push_back(recurrent(op, 1, {}));
    cases.back().inputs[3].absent = true;
    cases.back().allowed_types = {DType::Float16};
    cases.back().emulated = 1;
  }
  EXPECT_GE(check_generated(recurrent_family(), cases), 11 * 2);
}

// Packed by kernels: for plain multiply-adds and for tensor cores, one product and two, one block and
// several.
TEST(CudaRecurrent, WeightsOfTheRun) {
  std::vector<LayerCase> cases;
  for (const Sizes& sizes : {Sizes{}, Sizes{3, 2, 24, 40}}) {
    cases.push_back(recurrent(RNN{}, 1, sizes));
    cases.push_back(recurrent(GRU{}, 3, sizes));
    cases.push_back(recurrent(GRU{.linear_before_reset = true}, 3, sizes));
    cases.push_back(recurrent(LSTM{.reverse = true}, 4, sizes));
  }
  for (LayerCase& layer : cases) layer.inputs[1].constant = layer.inputs[2].constant = false;
  for (const size_t weights : {1, 2}) {  // one of them is a constant
    cases.push_back(recurrent(RNN{}, 1, {}));
    cases.back().inputs[weights].constant = false;
  }
  for (LayerCase& layer : cases) {
    layer.allowed_types = {DType::Float16};
    layer.emulated = 1;
  }
  EXPECT_GE(check_generated(recurrent_family(), cases), 10 * 2);
}

TEST(CudaRecurrent, AnyBatchAndNoSteps) {
  LayerCase none = recurrent(LSTM{}, 4, {.steps = 0});
  LayerCase any = recurrent(GRU{.linear_before_reset = true}, 3, {});
  any.dynamic_batch = true;  // the first dim of x: the steps
  EXPECT_GE(check_generated(recurrent_family(), {none, any}), 6);
}

TEST(CudaRecurrent, SaysWhyNot) {
  LayerCase layer = recurrent(RNN{}, 1, {});
  layer.inputs[1].dtype = DType::Float64;
  layer.inputs[1].constant = false;
  const auto reasons = generated_refusals(recurrent_family(), layer);
  ASSERT_FALSE(reasons.empty());
  EXPECT_NE(reasons[0].find("weights of the run must be 16 or 32 bit floats"), std::string::npos)
      << reasons[0];
}

}  // namespace
}  // namespace lathe::cuda
