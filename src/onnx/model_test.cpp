// SPDX-License-Identifier: Apache-2.0
#include "onnx/model.h"

#include <gtest/gtest.h>

#include "onnx/import_check.h"
#include "onnx/wire.h"

namespace lathe::onnx {
namespace {

std::string parse_error(const std::string& bytes) {
  try {
    parse_model(as_bytes(bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "no error";
}

TEST(Model, ReadsWhatWasWritten) {
  TestModel m(13, 7);
  m.input("x", 1, {"batch", "3"}).ints("axes", {1, -2}).output("y");
  m.node("Squeeze", {"x", "axes"}, {"y"}, {TestModel::int_attribute("keep", -5)});
  const std::string bytes = m.bytes();
  const ModelProto model = parse_model(as_bytes(bytes));
  EXPECT_EQ(model.ir_version, 7);
  ASSERT_EQ(model.opsets.size(), 1u);
  EXPECT_EQ(model.opsets[0].version, 13);
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  EXPECT_EQ(model.graph.nodes[0].attributes[0].i, -5);
  EXPECT_EQ((*model.graph.inputs[0].type.shape)[0].param, "batch");
  TensorSource source(nullptr, {});
  EXPECT_EQ(source.load(model.graph.initializers[0]).to_int64s(), (std::vector<int64_t>{1, -2}));
}

TEST(Model, LengthsAreCheckedAndPlacesNamed) {
  std::string bytes = TestModel().input("x", 1, {"2"}).node("Relu", {"x"}, {"y"}).output("y").bytes();
  expect_says(parse_error(bytes.substr(0, bytes.size() - 3)), "damaged ONNX data in the model near byte");
  // The input's dims claim more bytes than there are.
  const size_t at = bytes.find("\x12\x04\x0a\x02\x08\x02");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = 0x7f;
  expect_says(parse_error(bytes), "graph.input[0].type.tensor_type.shape");
  expect_says(parse_error(bytes), "says 127 bytes but only 2 are left");
}

TEST(Model, FilesThatAreNoModels) {
  expect_says(parse_error(""), "it is empty");
  expect_says(parse_error(std::string("\x08\x07", 2)), "there is no graph");
  expect_says(parse_error("PK\3\4 this is a zip"), "cannot be");
  expect_says(parse_error("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "more than ten bytes");
  std::string graph_as_number;
  put_int(graph_as_number, 7, 1);
  expect_says(parse_error(graph_as_number), "has wire type 0 instead of 2");
  std::string fixed;
  put_key(fixed, 1, WireType::Fixed32);
  expect_says(parse_error(fixed + "a"), "has wire type 5 instead of 0");
  std::string unknown;
  put_key(unknown, 900, WireType::Fixed64);
  expect_says(parse_error(unknown + "abc"), "a number passes the end");
}

TEST(Model, NestingIsBounded) {
  std::string graph;
  for (int i = 0; i < 100; ++i) {
    std::string node;
    put_bytes(node, 4, "If");
    put_bytes(node, 5, TestModel::graph_attribute("then_branch", graph));
    graph.clear();
    put_bytes(graph, 1, node);
  }
  std::string model;
  put_bytes(model, 7, graph);
  expect_says(parse_error(model), "nested deeper than");
}

TEST(Model, GraphMistakes) {
  std::string empty_node;
  put_bytes(empty_node, 1, "");
  std::string model;
  put_bytes(model, 7, empty_node);
  expect_says(parse_error(model), "graph.node[0]");
  expect_says(parse_error(model), "a node without op_type");
  std::string twice;
  put_bytes(twice, 7, "");
  put_bytes(twice, 7, "");
  expect_says(parse_error(twice), "a second graph");
}

std::string load_error(const std::string& tensor) {
  try {
    TensorSource(nullptr, {}).load(parse_tensor(as_bytes(tensor)));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(TensorSource, DimsAndDataMustAgree) {
  expect_says(load_error(TestModel::make_tensor("w", 1, {3}, "12345678")),
              "has 8 bytes of data instead of 12");
  expect_says(load_error(TestModel::make_tensor("w", 1, {-1}, "")), "negative dimension");
  expect_says(load_error(TestModel::make_tensor("w", 1, {1 << 30, 1 << 30, 1 << 30}, "")),
              "more elements than can be");
  expect_says(load_error(TestModel::make_tensor("w", 8, {1}, "a")), "element type 8 (string)");
  expect_says(load_error(TestModel::make_tensor("w", 99, {1}, "a")), "element type 99");
  std::string typed;
  put_int(typed, 1, 1000000000);
  put_int(typed, 2, 1);
  expect_says(load_error(typed), "has 0 elements of data instead of 1000000000");
}

TEST(TensorSource, TypedListsAndBools) {
  std::string halves;  // float16 sits in int32_data
  put_int(halves, 1, 2);
  put_int(halves, 2, 10);
  put_int(halves, 5, 0x3c00);
  put_int(halves, 5, 0xc000);
  TensorSource source(nullptr, {});
  EXPECT_EQ(source.load(parse_tensor(as_bytes(halves))).to_doubles(), (std::vector<double>{1, -2}));
  const std::string bools = TestModel::make_tensor("b", 9, {3}, std::string("\0\7\1", 3));
  const Tensor b = source.load(parse_tensor(as_bytes(bools)));
  EXPECT_EQ(b.data<uint8_t>()[1], 1);
}

TEST(TensorSource, AlignedBytesAreNotCopied) {
  alignas(64) static const char kData[16] = {};
  TensorProto t;
  t.data_type = 1;
  t.dims = {4};
  t.raw_data = std::as_bytes(std::span(kData));
  const auto owner = std::make_shared<int>(0);
  TensorSource source(owner, {});
  EXPECT_EQ(static_cast<const void*>(source.load(t).bytes().data()), kData);
  t.dims = {3};
  t.raw_data = std::as_bytes(std::span(kData)).subspan(1, 12);
  EXPECT_NE(static_cast<const void*>(source.load(t).bytes().data()), kData + 1);
}

}  // namespace
}  // namespace lathe::onnx
