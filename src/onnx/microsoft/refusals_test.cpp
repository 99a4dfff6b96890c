// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: what operators on tables, weights and lengths refuse, and the forms that depend on what is
// known when a model is read. Their values are compared with ONNX Runtime's in tests/conformance/domains.
#include <gtest/gtest.h>

#include <algorithm>

#include "onnx/import_check.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;

struct TypedInput {
  std::string name;
  int type = kFloat;
  Names dims = {};
};

Names names_of(const std::vector<TypedInput>& inputs) {
  Names names;
  for (const TypedInput& input : inputs) names.push_back(input.name);
  return names;
}

// Inputs of the model, and of a node of com.microsoft. Those of `constants` are in `m` already.
TestModel refused_node(std::string_view op, const std::vector<TypedInput>& inputs,
                       const Names& attributes = {}, const Names& outputs = {"y"}, TestModel m = TestModel(),
                       const Names& constants = {}) {
  for (const TypedInput& input : inputs)
    if (!input.name.empty() && std::find(constants.begin(), constants.end(), input.name) == constants.end())
      m.input(input.name, input.type, input.dims);
  m.node(op, names_of(inputs), outputs, attributes, "com.microsoft");
  for (const std::string& name : outputs)
    if (!name.empty()) m.output(name);
  return m;
}

std::string shape_of_output(const TestModel& model, size_t i = 0) {
  const Graph graph = import_graph(model);
  return to_string(graph.value(graph.outputs()[i]).shape);
}

const auto kInt = [](std::string_view name, int64_t value) { return TestModel::int_attribute(name, value); };

// --- GatherBlockQuantized
TestModel gather(int data_type, const Names& data, const Names& scales, const Names& attributes,
                 int index_type = kInt64) {
  return refused_node(
      "GatherBlockQuantized",
      {{"data", data_type, data}, {"index", index_type, {"b", "s"}}, {"scales", kFloat, scales}}, attributes);
}

TEST(ImportGatherBlockQuantized, KeepsSymbolicDims) {
  EXPECT_EQ(
      shape_of_output(gather(kUInt8, {"v", "32"}, {"v", "2"}, {kInt("bits", 4), kInt("block_size", 32)})),
      "[b, s, 64]");
}

TEST(ImportGatherBlockQuantized, RefusesWhatMeansNothing) {
  const auto says = [](const TestModel& model, std::string_view part) {
    expect_says(import_error(model), part);
  };
  says(gather(kUInt8, {"9", "32"}, {"9", "2"}, {kInt("bits", 3)}),
       "attribute 'bits' is 3, expected 2, 4 or 8");
  says(gather(kUInt8, {"9", "32"}, {"9", "2"}, {kInt("block_size", 24)}),
       "block_size is 24, expected a power of 2 from 16 on");
  says(gather(kUInt8, {"9", "32"}, {"9", "2"}, {kInt("block_size", 0)}), "block_size is 0");
  says(gather(kUInt8, {"9", "32"}, {"9", "2"}, {kInt("gather_axis", 1)}),
       "gather_axis is 1, which must be 0 for data of uint8");
  says(gather(kUInt8, {"9", "32"}, {"9", "2"}, {kInt("quantize_axis", 0)}),
       "gather_axis and quantize_axis must differ where bytes hold several elements");
  says(gather(kUInt8, {"9", "32"}, {"9", "3"}, {kInt("block_size", 32)}),
       "its scales have 3 elements in dimension 1, expected 2");
  says(gather(kUInt8, {"9", "32"}, {"9"}, {kInt("block_size", 32)}),
       "its scales need as many dimensions as its data");
  says(gather(kInt16, {"9", "32"}, {"9", "2"}, {}),
       "its data is int16, expected int4, uint4, uint8 or a float");
  says(gather(kUInt4, {"9", "32"}, {"9", "2"}, {kInt("block_size", 16)}),
       "its data and zero points depend on an input; they must be constant");
  says(gather(kUInt8, {"9", "n"}, {"9", "2"}, {}), "the size of its quantize_axis depends on an input");
  says(gather(kUInt8, {}, {}, {}), "its data needs a dimension at least");
  says(gather(kUInt8, {"9", "32"}, {"9", "2"}, {kInt("block_size", 32)}, kFloat),
       "its indices must be int32 or int64");
  const std::vector<TypedInput> with_zeros = {{"data", kUInt8, {"9", "32"}},
                                              {"index", kInt64, {"s"}},
                                              {"scales", kFloat, {"9", "2"}},
                                              {"zeros", kUInt8, {"9", "2"}}};
  says(refused_node("GatherBlockQuantized", with_zeros, {kInt("block_size", 32)}),
       "its zero points have shape [9, 2], expected [9, 1]");
  std::vector<TypedInput> other_type = with_zeros;
  other_type[3] = {"zeros", kInt8, {"9", "1"}};
  says(refused_node("GatherBlockQuantized", other_type, {kInt("block_size", 32)}),
       "its zero points must have the type of its data");
}

// --- QAttention, QEmbedLayerNormalization
std::vector<TypedInput> attention(const Names& scales) {
  return {{"x", kUInt8, {"b", "s", "4"}},
          {"w", kInt8, {"4", "12"}},
          {"bias", kFloat, {"12"}},
          {"x_scale", kFloat, {}},
          {"w_scale", kFloat, scales}};
}

TEST(ImportQAttention, SaysItsShapeAndRefusesTheRest) {
  const auto heads = kInt("num_heads", 2);
  EXPECT_EQ(shape_of_output(refused_node("QAttention", attention({"12"}), {heads})), "[b, s, 4]");
  expect_says(import_error(refused_node("QAttention", attention({"3"}), {heads})),
              "scales and zero points of its weights are one, or one per column (12)");
  expect_says(import_error(refused_node("QAttention", attention({}), {heads, kInt("do_rotary", 1)})),
              "rotary embeddings inside of it (do_rotary)");
  expect_says(
      import_error(refused_node("QAttention", attention({}), {heads, kInt("past_present_share_buffer", 1)})),
      "past and present in one buffer (past_present_share_buffer)");
  std::vector<TypedInput> flat = attention({});
  flat[0].dims = {"s", "4"};
  expect_says(import_error(refused_node("QAttention", flat, {heads})),
              "it takes an input of three dimensions, weights of two and a bias of one");
}

TEST(ImportQEmbedLayerNormalization, RefusesScalesPerRowAndHalfOfTheSegments) {
  std::vector<TypedInput> inputs = {{"ids", kInt32, {"b", "s"}},    {"", 0}, {"words", kUInt8, {"9", "4"}},
                                    {"places", kUInt8, {"7", "4"}}, {"", 0}, {"gamma", kUInt8, {"4"}},
                                    {"beta", kUInt8, {"4"}},        {"", 0}};
  for (const char* name : {"s0", "s1", "", "s3", "s4"}) inputs.push_back({name, kFloat, {}});
  for (const char* name : {"z0", "z1", "", "z3", "z4"}) inputs.push_back({name, kUInt8, {}});
  EXPECT_EQ(shape_of_output(refused_node("QEmbedLayerNormalization", inputs, {}, {"y", "counts"}), 1), "[b]");
  std::vector<TypedInput> per_row = inputs;
  per_row[8].dims = {"9"};
  expect_says(import_error(refused_node("QEmbedLayerNormalization", per_row, {}, {"y", "counts"})),
              "input 8 must be one number, a scale or a zero point of a whole tensor");
  inputs[1] = {"segments", kInt32, {"b", "s"}};
  expect_says(import_error(refused_node("QEmbedLayerNormalization", inputs, {}, {"y", "counts"})),
              "segment ids and their table come together, or neither is there");
}

// --- weights of few bits
TestModel bnb4(size_t bytes, size_t factors, const Names& attributes) {
  TestModel m;
  m.constant<uint8_t>("codes", kUInt8, {static_cast<int64_t>(bytes)}, std::vector<uint8_t>(bytes, 0x21));
  m.constant<float>("factors", kFloat, {static_cast<int64_t>(factors)}, std::vector<float>(factors, 1));
  return refused_node("MatMulBnb4", {{"x", kFloat, {"m", "4"}}, {"codes"}, {"factors"}}, attributes, {"y"}, m,
                      {"codes", "factors"});
}

TEST(ImportMatMulBnb4, ChecksEverySize) {
  const auto sizes = [](int64_t n, int64_t k, int64_t block, int64_t type) {
    return Names{kInt("N", n), kInt("K", k), kInt("block_size", block), kInt("quant_type", type)};
  };
  EXPECT_EQ(shape_of_output(bnb4(10, 2, sizes(5, 4, 16, 1))), "[m, 5]");
  expect_says(import_error(bnb4(9, 2, sizes(5, 4, 16, 1))), "its weights have 9 bytes, expected 10 of uint8");
  expect_says(import_error(bnb4(10, 1, sizes(5, 4, 16, 1))), "absmax has 1 elements, expected 2");
  expect_says(import_error(bnb4(10, 2, sizes(5, 4, 17, 1))),
              "block_size is 17, expected a power of 2 from 16 on");
  expect_says(import_error(bnb4(10, 2, sizes(5, 4, 16, 2))), "quant_type is 2, expected 0 (FP4) or 1 (NF4)");
  expect_says(import_error(bnb4(10, 2, sizes(int64_t{1} << 62, 4, 16, 1))),
              "N is 4611686018427387904 and K is 4");
  expect_says(import_error(refused_node(
                  "MatMulBnb4", {{"x", kFloat, {"m", "4"}}, {"c", kUInt8, {"10"}}, {"f", kFloat, {"2"}}},
                  sizes(5, 4, 16, 1))),
              "its weights depend on an input; they must be constant");
}

TEST(ImportMatMulNBits, RefusesSizesWhoseProductIsTooLarge) {
  expect_says(import_error(refused_node(
                  "MatMulNBits", {{"x", kFloat, {"m", "4"}}, {"w", kUInt8, {"1"}}, {"s", kFloat, {"1"}}},
                  {kInt("N", int64_t{1} << 40), kInt("K", int64_t{1} << 40), kInt("block_size", 16)})),
              "K, N or block_size is too large");
}

TEST(ImportMatMulInteger16, TakesIntegersOf16Bits) {
  EXPECT_EQ(shape_of_output(
                refused_node("MatMulInteger16", {{"a", kInt16, {"m", "4"}}, {"b", kInt16, {"4", "3"}}})),
            "[m, 3]");
  expect_says(
      import_error(refused_node("MatMulInteger16", {{"a", kInt8, {"m", "4"}}, {"b", kInt16, {"4", "3"}}})),
      "its operands are integers of 16 bits");
}

TestModel mixture(const Names& attributes, const std::vector<int64_t>& scales = {2, 4}) {
  TestModel m;
  int64_t count = 1;
  for (const int64_t extent : scales) count *= extent;
  m.constant<uint8_t>("w1", kUInt8, {2, 4, 4}, std::vector<uint8_t>(32, 0x97));
  m.constant<uint8_t>("w2", kUInt8, {2, 8, 2}, std::vector<uint8_t>(32, 0x97));
  m.constant<float>("s1", kFloat, scales, std::vector<float>(static_cast<size_t>(count), 1));
  m.constant<float>("s2", kFloat, {2, 8}, std::vector<float>(16, 1));
  return refused_node(
      "QMoE",
      {{"x", kFloat, {"t", "8"}}, {"router", kFloat, {"t", "2"}}, {"w1"}, {"s1"}, {""}, {"w2"}, {"s2"}},
      attributes, {"y"}, m, {"w1", "s1", "w2", "s2"});
}

TEST(ImportQMoE, RefusesOtherKindsOfWeights) {
  EXPECT_EQ(shape_of_output(mixture({})), "[t, 8]");
  expect_says(import_error(mixture({TestModel::text_attribute("quant_type", "nvfp4")})),
              "weights of quant_type 'nvfp4' are not supported, only int");
  expect_says(import_error(mixture({kInt("weights_prepacked", 1)})), "(weights_prepacked) are not supported");
  expect_says(import_error(mixture({kInt("fc1_expert_weight_bits", 5)})),
              "attribute 'fc1_expert_weight_bits' is 5, expected 2, 4 or 8");
  expect_says(import_error(mixture({kInt("block_size", 3)})),
              "the rows of fc1 have 8 weights, no multiple of block_size 3");
  expect_says(import_error(mixture({}, {2, 5})), "the scales of fc1 have shape [2, 5], expected 2x4x1");
}

TEST(ImportDynamicQuantizeLSTM, WantsANumberPerDirectionOrGateRow) {
  const auto lstm = [](const Names& scale, const Names& w) {
    return refused_node("DynamicQuantizeLSTM",
                        {{"x", kFloat, {"t", "b", "3"}},
                         {"w", kInt8, w},
                         {"r", kInt8, {"1", "2", "8"}},
                         {""},
                         {""},
                         {""},
                         {""},
                         {""},
                         {"ws", kFloat, scale},
                         {"wz", kInt8, {"1"}},
                         {"rs", kFloat, {"1"}},
                         {"rz", kInt8, {"1"}}},
                        {kInt("hidden_size", 2)});
  };
  EXPECT_EQ(shape_of_output(lstm({"1", "8"}, {"1", "3", "8"})), "[t, 1, b, 2]");
  expect_says(import_error(lstm({"8"}, {"1", "3", "8"})), "input 8 must have a number per direction");
  expect_says(import_error(lstm({"1"}, {"3", "8"})),
              "input 1 must be (1 or 2 directions, width, 4 hidden sizes)");
}

// --- positions and padding
TEST(ImportRelativePositionBias, LengthsMayBeShapes) {
  TestModel m;
  m.input("x", kFloat, {"b", "s"}).input("table", kFloat, {"32", "h"}).ints("one", {1}).output("y");
  m.node("Shape", {"x"}, {"shape"}).node("Gather", {"shape", "one"}, {"length"});
  m.node("RelativePositionBias", {"table", "length", "length"}, {"y"}, {kInt("max_distance", 128)},
         "com.microsoft");
  EXPECT_EQ(shape_of_output(m), "[1, h, s, s]");
}

TEST(ImportRelativePositionBias, RefusesDistancesWithoutBuckets) {
  const auto bias = [](const Names& table, int64_t farthest, int64_t both = 0) {
    return refused_node("RelativePositionBias",
                        {{"table", kFloat, table}, {"q", kInt64, {}}, {"k", kInt64, {}}},
                        {kInt("max_distance", farthest), kInt("is_bidirectional", both)});
  };
  expect_says(
      import_error(bias({"8", "2"}, 4)),
      "max_distance is 4, expected more than the 4 distances with a bucket each, and at most 1048576");
  expect_says(import_error(bias({"8", "2"}, int64_t{1} << 40)), "at most 1048576");
  expect_says(import_error(bias({"3", "2"}, 9, 1)), "its table has 3 buckets, expected 4 or more");
  expect_says(import_error(bias({"8"}, 9)), "its table needs two dimensions (buckets, heads)");
  expect_says(import_error(bias({"n", "2"}, 9)), "the number of its buckets is not constant");
}

TEST(ImportGatedRelativePositionBias, RefusesGatesWithoutHalves) {
  const auto gated = [](const Names& weights) {
    return refused_node("GatedRelativePositionBias",
                        {{"q", kFloat, {"b", "s", "8"}},
                         {"bias", kFloat, {"8"}},
                         {"pos", kFloat, {"1", "2", "s", "s"}},
                         {"w", kFloat, weights},
                         {"wb", kFloat, {"6"}},
                         {"a", kFloat, {"1", "2", "1", "1"}}},
                        {kInt("num_heads", 2)});
  };
  EXPECT_EQ(shape_of_output(gated({"4", "6"})), "[b, 2, s, s]");
  expect_says(import_error(gated({"4", "5"})),
              "its gate weights need two dimensions, the second of them even");
}

TEST(ImportRemovePadding, KnowsAllSizesButTheTokens) {
  const TestModel m = refused_node("RemovePadding", {{"x", kFloat, {"b", "s", "8"}}, {"n", kInt32, {"b"}}},
                                   {}, {"tokens", "places", "sums", "longest"});
  EXPECT_EQ(shape_of_output(m, 1), "[b, s]");
  EXPECT_EQ(shape_of_output(m, 2), "[b + 1]");
  EXPECT_EQ(shape_of_output(m, 3), "[1]");
  expect_says(import_error(refused_node("RemovePadding", {{"x", kFloat, {"b", "8"}}, {"n", kInt32, {"b"}}})),
              "it takes an input of three dimensions (batch, sequence, width)");
  expect_says(import_error(refused_node("RestorePadding", {{"x", kFloat, {"t", "8"}}, {"n", kInt32, {"b"}}})),
              "its token offsets need two dimensions (batch, sequence)");
}

// --- signals, numbers, images
TEST(ImportSignals, RefusesOtherTransforms) {
  const std::vector<TypedInput> x = {{"x", kFloat, {"b", "8"}}};
  EXPECT_EQ(shape_of_output(refused_node("Rfft", x)), "[b, 5, 2]");
  EXPECT_EQ(
      shape_of_output(refused_node("Irfft", {{"x", kFloat, {"b", "n", "2"}}}, {kInt("signal_ndim", 1)})),
      "[b, 2*n - 2]");
  expect_says(import_error(refused_node("Rfft", x, {kInt("signal_ndim", 2)})),
              "signals of 2 dimensions (signal_ndim)");
  expect_says(import_error(refused_node("Rfft", x, {kInt("onesided", 0)})),
              "two-sided transforms (onesided 0)");
  expect_says(import_error(refused_node("Irfft", x, {kInt("normalized", 1)})),
              "normalized transforms (normalized)");
  expect_says(import_error(refused_node("Irfft", x)), "the last one of real and imaginary part");
}

TEST(ImportIsAllFinite, GivesOneValue) {
  const std::vector<TypedInput> x = {{"a", kFloat, {"b", "8"}}, {"c", kFloat, {}}};
  EXPECT_EQ(shape_of_output(refused_node("IsAllFinite", x)), "[]");
  expect_says(import_error(refused_node("IsAllFinite", x, {kInt("isnan_only", 1), kInt("isinf_only", 1)})),
              "isnan_only and isinf_only exclude each other");
  expect_says(import_error(refused_node("IsAllFinite", {{"a", kInt32, {"2"}}})), "its inputs must be floats");
}

TEST(ImportCropAndResize, RefusesCropsOfUnknownSize) {
  const auto crop = [](const std::vector<int64_t>& size, const Names& attributes = {}) {
    TestModel m;
    std::vector<int32_t> numbers(size.begin(), size.end());
    if (!size.empty()) m.constant<int32_t>("size", kInt32, {static_cast<int64_t>(size.size())}, numbers);
    return refused_node("CropAndResize",
                        {{"x", kFloat, {"n", "3", "h", "w"}},
                         {"boxes", kFloat, {"r", "4"}},
                         {"at", kInt32, {"r"}},
                         {"size", kInt32, {"2"}}},
                        attributes, {"y"}, m, size.empty() ? Names{} : Names{"size"});
  };
  EXPECT_EQ(shape_of_output(crop({5, 6})), "[r, 3, 5, 6]");
  expect_says(import_error(crop({})), "its crop_size is computed while the model runs");
  expect_says(import_error(crop({5, 0})), "crop_size has the entry 0");
  expect_says(import_error(crop({5})), "crop_size needs two entries");
  expect_says(import_error(crop({5, 6}, {TestModel::text_attribute("mode", "cubic")})),
              "mode is 'cubic', not bilinear or nearest");
}

TEST(ImportWordConvEmbedding, ChecksItsSizes) {
  const auto words = [](const Names& letters, const Names& attributes) {
    return refused_node("WordConvEmbedding",
                        {{"x", kInt32, letters},
                         {"w", kFloat, {"6", "1", "3", "4"}},
                         {"b", kFloat, {"6"}},
                         {"c", kFloat, {"30", "4"}}},
                        attributes);
  };
  EXPECT_EQ(shape_of_output(words({"n", "9"}, {})), "[n, 6]");
  expect_says(import_error(words({"n", "2"}, {})), "words of 2 characters are shorter than filters of 3");
  expect_says(import_error(words({"n", "9"}, {kInt("conv_window_size", 2)})),
              "conv_window_size is 2, but its weights have 3");
}

TEST(ImportConvTransposeWithDynamicPads, ChecksThePads) {
  const auto conv = [](int type, const Names& dims) {
    return refused_node(
        "ConvTransposeWithDynamicPads",
        {{"x", kFloat, {"n", "4", "5", "5"}}, {"w", kFloat, {"4", "2", "3", "3"}}, {"pads", type, dims}});
  };
  expect_says(import_error(conv(kInt64, {"2"})), "its pads need two entries of int64 per spatial dimension");
  expect_says(import_error(conv(kInt32, {"4"})), "its pads need two entries of int64 per spatial dimension");
  TestModel m;
  m.ints("pads", {1, -1, 0, 0});
  expect_says(import_error(refused_node(
                  "ConvTransposeWithDynamicPads",
                  {{"x", kFloat, {"n", "4", "5", "5"}}, {"w", kFloat, {"4", "2", "3", "3"}}, {"pads"}}, {},
                  {"y"}, m, {"pads"})),
              "pads has the entry -1");
}

TEST(ImportMicrosoft, MasksOfPools) {
  const auto pool = [](const TypedInput& x, const TypedInput& mask, const Names& attributes) {
    return import_error(refused_node("MaxpoolWithMask", {x, mask}, attributes));
  };
  const TypedInput x{"x", kFloat, {"N", "3", "7", "9"}}, mask{"mask", kInt32, {"1", "1", "7", "9"}};
  const std::string square = TestModel::ints_attribute("kernel_shape", {3, 3});
  expect_says(pool(x, mask, {}), "attribute 'kernel_shape' is missing");
  expect_says(pool(x, mask, {TestModel::ints_attribute("kernel_shape", {3, 0})}),
              "kernel_shape has the entry 0");
  expect_says(pool(x, mask, {TestModel::ints_attribute("kernel_shape", {1, 65})}),
              "windows of more than 64 columns are not supported");
  expect_says(pool(x, mask, {square, TestModel::text_attribute("auto_pad", "SAME_UPPER")}),
              "auto_pad is not supported here");
  expect_says(pool({"x", kUInt8, x.dims}, mask, {square}), "x is uint8, expected float32");
  expect_says(pool(x, {"mask", kInt64, mask.dims}, {square}), "the mask is int64, expected int32");
  expect_says(pool(x, {"mask", kInt32, {"1", "1", "7", "8"}}, {square}),
              "the shape of the mask is [1, 1, 7, 8], expected [1, 1, 7, 9]");
  expect_says(pool(x, {"mask", kInt32, {"1", "3", "7", "9"}}, {square}),
              "masks of several planes are not supported");
  EXPECT_EQ(shape_of_output(refused_node("MaxpoolWithMask", {x, mask}, {square})), "[N, 3, 5, 7]");
}

TEST(ImportMicrosoft, BiasOfASoftmaxNeedsItsDimensions) {
  expect_says(
      import_error(refused_node("BiasSoftmax", {{"x", kFloat, {"2", "3", "4"}}, {"bias", kFloat, {"4"}}},
                                {kInt("axis", 1), kInt("is_inner_broadcast", 1)})),
      "the bias has fewer dimensions than the softmax, 2");
}

}  // namespace
}  // namespace lathe::onnx
