// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: what the operators become, and what they refuse. Their values are compared with ONNX
// Runtime's in tests/conformance/domains.
#include <gtest/gtest.h>

#include "onnx/import_check.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;

std::string operators(const Graph& graph) {
  std::string text;
  for (const NodeId id : graph.order())
    text += (text.empty() ? "" : " ") + std::string(op_name(graph.node(id).op));
  return text;
}

// A node whose inputs are the model's, all FP32 unless the name begins with "i" (int32).
struct MicrosoftInput {
  std::string name;
  Names dims;
};
TestModel microsoft_node(std::string_view op, const std::vector<MicrosoftInput>& inputs,
                         const Names& attributes, const Names& outputs = {"y"}) {
  TestModel m;
  Names names;
  for (const MicrosoftInput& input : inputs) {
    names.push_back(input.name);
    if (!input.name.empty()) m.input(input.name, input.name[0] == 'i' ? kInt32 : kFloat, input.dims);
  }
  m.node(op, names, outputs, attributes, "com.microsoft");
  for (const std::string& name : outputs)
    if (!name.empty()) m.output(name);
  return m;
}

const std::string kHeads = TestModel::int_attribute("num_heads", 2);
const std::vector<MicrosoftInput> kRows = {
    {"q", {"b", "s", "8"}}, {"k", {"b", "s", "8"}}, {"v", {"b", "s", "8"}}};

std::vector<MicrosoftInput> with(std::vector<MicrosoftInput> inputs,
                                 const std::vector<MicrosoftInput>& more) {
  inputs.insert(inputs.end(), more.begin(), more.end());
  return inputs;
}

TEST(ImportMicrosoft, AttentionIsTheCoreOperator) {
  const TestModel m =
      microsoft_node("MultiHeadAttention", kRows, {kHeads, TestModel::int_attribute("unidirectional", 1)});
  const Graph graph = import_graph(m);
  EXPECT_EQ(operators(graph),
            "Reshape Transpose Reshape Transpose Reshape Transpose Attention Transpose Reshape");
  EXPECT_EQ(to_string(graph.value(graph.outputs()[0]).shape), "[b, s, 8]");
}

TEST(ImportMicrosoft, WeightsOfProjectionsAreTakenApart) {
  TestModel m;
  m.input("x", kFloat, {"b", "s", "4"})
      .constant<float>("w", kFloat, {4, 12}, std::vector<float>(48, 1))
      .output("y");
  m.node("Attention", {"x", "w"}, {"y"}, {kHeads}, "com.microsoft");
  const std::string all = operators(import_graph(m));
  EXPECT_EQ(all.find("Slice"), std::string::npos) << all;
  expect_says(all, "MatMul MatMul MatMul");
}

TEST(ImportMicrosoft, QuantizedAttentionIsThreeQuantizedProducts) {
  TestModel m;
  constexpr int kUInt8 = 2, kInt8 = 3;
  m.input("x", kUInt8, {"b", "s", "4"}).constant<int8_t>("w", kInt8, {4, 12}, std::vector<int8_t>(48, 1));
  m.constant<float>("bias", kFloat, {12}, std::vector<float>(12, 1))
      .constant<float>("xs", kFloat, {}, {0.5F});
  m.constant<float>("ws", kFloat, {12}, std::vector<float>(12, 0.5F)).output("y");
  m.node("QAttention", {"x", "w", "bias", "xs", "ws"}, {"y"}, {kHeads}, "com.microsoft");
  const std::string all = operators(import_graph(m));
  EXPECT_EQ(all.find("Slice"), std::string::npos) << all;
  expect_says(all,
              "DequantizeLinear DequantizeLinear MatMul Pointwise DequantizeLinear MatMul Pointwise "
              "DequantizeLinear MatMul Pointwise");
}

TEST(ImportMicrosoft, ACacheGrowsByTheNewPositionsOrToTheTotal) {
  TestModel m;
  m.input("q", kFloat, {"b", "s", "8"})
      .input("past_k", kFloat, {"b", "2", "p", "4"})
      .input("past_v", kFloat, {"b", "2", "p", "4"});
  m.input("lengths", kInt32, {"b"}).input("mask", kInt64, {"b", "t"}).ints("at", {1}).output("present");
  m.node("Shape", {"mask"}, {"shape"}).node("Gather", {"shape", "at"}, {"length"});
  m.node("Cast", {"length"}, {"total"}, {TestModel::int_attribute("to", kInt32)});
  m.node("GroupQueryAttention", {"q", "q", "q", "past_k", "past_v", "lengths", "total"}, {"", "present"},
         {kHeads, TestModel::int_attribute("kv_num_heads", 2)}, "com.microsoft");
  const Graph graph = import_graph(m);
  EXPECT_EQ(to_string(graph.value(graph.outputs()[0]).shape), "[b, 2, max(p, t), 4]");
}

TEST(ImportMicrosoft, RefusesWhatItCannotSay) {
  const auto shared = TestModel::int_attribute("past_present_share_buffer", 1);
  const std::vector<MicrosoftInput> past = {{"pk", {"b", "2", "p", "4"}}, {"pv", {"b", "2", "p", "4"}}};
  const std::vector<MicrosoftInput> no_mask = {{"", {}}, {"", {}}};
  expect_says(import_error(microsoft_node("DecoderMaskedMultiHeadAttention", with(with(kRows, no_mask), past),
                                          {kHeads, shared})),
              "past and present in one buffer (past_present_share_buffer) are not supported: leave the "
              "attribute out");
  const auto beams =
      with(with(with(kRows, no_mask), {{"", {}}}), with(past, {{"", {}}, {"i_beams", {"b", "4", "9"}}}));
  expect_says(import_error(microsoft_node("MultiHeadAttention", beams, {kHeads})),
              "caches that several beams share (cache_indirection)");
  const auto length = with(with(with(kRows, no_mask), {{"", {}}}), with(past, {{"i_length", {"1"}}}));
  expect_says(import_error(microsoft_node("MultiHeadAttention", length, {kHeads})),
              "past and present in one buffer (past_sequence_length)");
  const std::vector<MicrosoftInput> projected = {{"x", {"b", "s", "4"}}, {"w", {"4", "12"}}};
  expect_says(import_error(
                  microsoft_node("Attention", projected, {kHeads, TestModel::int_attribute("do_rotary", 1)})),
              "rotary embeddings inside of it (do_rotary)");
  expect_says(
      import_error(microsoft_node("Attention", {{"x", {"b", "s", "4"}}, {"w", {"4", "13"}}}, {kHeads})),
      "the width of its weight, 13, does not divide into q, k and v");
  expect_says(
      import_error(microsoft_node("Attention", projected,
                                  {kHeads, TestModel::ints_attribute("qkv_hidden_sizes", {4, 4, 5})})),
      "qkv_hidden_sizes add up to 13 instead of the weight's 12");
  expect_says(
      import_error(microsoft_node("Attention", projected, {TestModel::int_attribute("num_heads", 3)})),
      "a width of 4 is not made of 3 heads");
}

TEST(ImportMicrosoft, RefusesHeadsAndPastsOfOtherRanks) {
  const std::vector<MicrosoftInput> no_mask = {{"", {}}, {"", {}}, {"", {}}};
  const auto past = with(with(kRows, no_mask), {{"pk", {"b", "p"}}, {"pv", {"b", "p"}}});
  expect_says(import_error(microsoft_node("MultiHeadAttention", past, {kHeads})),
              "its past needs four dimensions (batch, heads, positions, width)");
  const std::vector<MicrosoftInput> flat = {
      {"q", {"b", "s", "8"}}, {"k", {"b", "2", "p", "4"}}, {"v", {"b", "p", "8"}}};
  expect_says(import_error(microsoft_node("MultiHeadAttention", flat, {kHeads})),
              "its heads need four dimensions");
  const auto caches = with(kRows, {{"pk", {"b", "p"}}, {"pv", {"b", "p"}}, {"i_l", {"b"}}, {"i_t", {}}});
  expect_says(import_error(microsoft_node("GroupQueryAttention", caches,
                                          {kHeads, TestModel::int_attribute("kv_num_heads", 2)})),
              "its caches need four dimensions (batch, heads, positions, width)");
}

TEST(ImportMicrosoft, FlagsOfDecoderAttentionAreKnown) {
  TestModel m;
  for (const char* name : {"q", "k"}) m.input(name, kFloat, {"s", "b", "8"});
  m.input("wq", kFloat, {"8", "8"}).input("wkv", kFloat, {"8", "16"}).input("bias", kFloat, {"24"});
  constexpr int kBool = 9;
  for (const char* name : {"encoder", "any", "masked"}) m.constant<uint8_t>(name, kBool, {1}, {0});
  m.input("used", kBool, {"1"}).output("y");
  m.node("DecoderAttention", {"q", "k", "wq", "wkv", "bias", "", "", "", "encoder", "any", "used", "masked"},
         {"y"}, {kHeads}, "com.microsoft");
  expect_says(import_error(m), "its has_layer_state is computed while the model runs; it must be constant");
}

TEST(ImportMicrosoft, BlocksOfSparseAttentionAreChecked) {
  const auto sparse = [](const std::vector<int32_t>& ends, const std::vector<int32_t>& columns) {
    TestModel m;
    m.input("q", kFloat, {"b", "s", "16"}).input("pk", kFloat, {"b", "1", "32", "4"});
    m.input("pv", kFloat, {"b", "1", "32", "4"}).input("total", kInt32, {}).input("lengths", kInt32, {"b"});
    m.constant<int32_t>("ends", kInt32, {1, static_cast<int64_t>(ends.size())}, ends);
    m.constant<int32_t>("columns", kInt32, {1, static_cast<int64_t>(columns.size())}, columns).output("y");
    m.node("SparseAttention", {"q", "", "", "pk", "pv", "ends", "columns", "total", "lengths"},
           {"y", "k", "v"},
           {TestModel::int_attribute("num_heads", 2), TestModel::int_attribute("kv_num_heads", 1),
            TestModel::int_attribute("sparse_block_size", 16)},
           "com.microsoft");
    return m;
  };
  EXPECT_EQ(to_string(import_graph(sparse({0, 1, 3}, {0, 0, 1})).value(0).shape), "[b, s, 16]");
  expect_says(import_error(sparse({0, 1, 4}, {0, 0, 1})), "row 1 of its blocks has the columns 1 to 4 of 3");
  expect_says(import_error(sparse({0, 1, 3}, {0, 0, 2})), "block_col_indices has the entry 2 for 2 blocks");
  expect_says(import_error(sparse({0}, {0})), "its block_row_indices are of 0 blocks");
}

TEST(ImportMicrosoft, RefusesCachesOfOtherKinds) {
  const std::vector<MicrosoftInput> front =
      with(kRows, {{"pk", {"b", "2", "p", "4"}}, {"pv", {"b", "2", "p", "4"}}, {"i_l", {"b"}}, {"i_t", {}}});
  const auto groups = TestModel::int_attribute("kv_num_heads", 2);
  expect_says(
      import_error(microsoft_node("GroupQueryAttention", front,
                                  {kHeads, groups, TestModel::int_attribute("sliding_window_cache", 1)})),
      "a cache that forgets positions (sliding_window_cache)");
  const std::vector<MicrosoftInput> absent(5);
  expect_says(import_error(microsoft_node("GroupQueryAttention",
                                          with(with(front, absent), {{"scale", {"1"}}}), {kHeads, groups})),
              "its cache is quantized (k_scale, v_scale)");
}

TEST(ImportMicrosoft, RefusesParametersThatMeanNothing) {
  const std::vector<MicrosoftInput> image = {{"x", {"1", "2", "4", "4"}}, {"w", {"2", "2", "1", "1"}}};
  expect_says(
      import_error(microsoft_node("FusedConv", image, {TestModel::text_attribute("activation", "Sine")})),
      "its activation 'Sine' is not known");
  expect_says(import_error(microsoft_node("BiasSplitGelu", {{"x", {"1", "2", "5"}}, {"b", {"5"}}}, {})),
              "its last dimension, 5, has no halves");
  const std::vector<MicrosoftInput> norm = {{"x", {"1", "2", "4", "4"}}, {"g", {"4"}}, {"b", {"4"}}};
  expect_says(import_error(microsoft_node(
                  "GroupNorm", norm,
                  {TestModel::int_attribute("groups", 2), TestModel::int_attribute("activation", 3)})),
              "activation is 3, not 0 or 1");
  expect_says(import_error(microsoft_node(
                  "GroupNorm", norm,
                  {TestModel::int_attribute("groups", 0), TestModel::int_attribute("activation", 0)})),
              "groups is 0");
  const std::vector<MicrosoftInput> gated = {{"x", {"2", "6"}}, {"s", {"4"}}, {"g", {"2", "6"}}};
  expect_says(import_error(microsoft_node("GatedRMSNorm", gated, {})),
              "its last dimension is no multiple of the scale's 4 elements");
  const std::vector<MicrosoftInput> turned = {
      {"x", {"1", "2", "8"}}, {"i_p", {"3", "1", "2"}}, {"c", {"9", "4"}}, {"s", {"9", "4"}}};
  expect_says(import_error(microsoft_node("MRotaryEmbedding", turned,
                                          {TestModel::ints_attribute("mrope_section", {1, 1, 1})})),
              "mrope_section must be three numbers that add up to 4");
  expect_says(import_error(microsoft_node("RotaryEmbedding", turned,
                                          {TestModel::int_attribute("is_packed_batching", 1)})),
              "sequences of several lengths in one row (is_packed_batching)");
}

}  // namespace
}  // namespace lathe::onnx
