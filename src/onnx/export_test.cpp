// SPDX-License-Identifier: Apache-2.0
//
// What is written is read again and computes the same. All operators are written and read by
// tests/conformance; here is what its models do not have: dims that depend on inputs, epilogues, fused
// layers, bodies that capture.
#include "onnx/export.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "ir/text.h"
#include "onnx/import.h"
#include "ops/interpreter.h"

namespace lathe {
namespace {

Graph again(const Graph& graph) {
  NullObserver observer;
  const std::string model = export_onnx(graph);
  return import_onnx(std::as_bytes(std::span(model)), {}, observer).graph;
}

Tensor numbers(DType dtype, const Extents& extents) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(extents); ++i) values.push_back(static_cast<double>(i % 7) - 2);
  return Tensor::from_doubles(dtype, extents, values);
}

// The graph of a text and what became of it give the same on inputs of these extents.
void expect_same(const std::string& text, const std::vector<Extents>& extents) {
  const Graph graph = parse_graph(text), read = again(graph);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < extents.size(); ++i)
    inputs.push_back(numbers(graph.value(graph.inputs()[i]).dtype, extents[i]));
  const auto expected = interpret(graph, inputs), actual = interpret(read, inputs);
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].extents(), actual[i].extents());
    const std::vector<double> a = expected[i].to_doubles(), b = actual[i].to_doubles();
    for (size_t e = 0; e < a.size(); ++e) EXPECT_NEAR(a[e], b[e], 1e-5) << text;
  }
}

TEST(Export, DimsThatDependOnInputs) {
  expect_same(R"(graph "g" {
  input %x: float32[batch, seq, 12]
  input %y: float32[batch, 2*seq]
  %a: float32[batch, seq, 3, 4] = Reshape "a" (%x) {shape=[batch, seq, 3, 4]}
  %b: float32[batch*seq, 12] = Reshape "b" (%x) {shape=[batch*seq, 12]}
  %c: int64[4] = ShapeTensor "c" () {dims=[2*seq + 1, floor_div(seq + 1, 2), mod(seq, 3), max(batch, seq)]}
  const %e: float32[12, 1] = random 3
  %d: float32[min(seq, 5), 12, batch] = Expand "d" (%e) {shape=[min(seq, 5), 12, batch]}
  %f: int64[] = ShapeTensor "f" () {dims=[batch - seq + 9], scalar=true}
  %h: float32[batch, floor_div(seq, 2), 12] = Slice "h" (%x) {starts=[0], ends=[floor_div(seq, 2)], axes=[1], steps=[1]}
  %i: float32[batch, seq, 12] = Slice "i" (%x) {starts=[seq - 1], ends=[-1], axes=[1], steps=[-1]}
  output %a
  output %b
  output %c
  output %d
  output %f
  output %h
  output %i
})",
              {{2, 7, 12}, {2, 14}});
}

TEST(Export, EpiloguesAndFusedLayers) {
  expect_same(R"(graph "g" {
  input %x: float32[n, 4, 6, 6]
  const %w: float32[4, 4, 3, 3] = random 1
  const %d: float32[4, 1, 3, 3] = random 2
  const %p: float32[5, 4, 1, 1] = random 3
  const %s: float32[2, 4, 1, 1] = random 4
  const %t: float32[4, 2, 1, 1] = random 5
  const %b: float32[4] = random 6
  %y: float32[n, 4, 6, 6] = Conv "conv" (%x, %w, _, %x) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} epilogue 2 {Add(0,1) Silu[1](2)}
  %z: float32[n, 5, 6, 6] = DepthwiseBlock "block" (%y, _, _, %d, %b, %p, _) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], depthwise_epilogue={Clip[0,6](0)}}
  %g: float32[n, 4, 6, 6] = SqueezeExcite "gate" (%y, %s, _, %t, %b) {squeeze={Relu(0)}, excite={HardSigmoid[0.2,0.5](0)}}
  %c: float32[n, 4, 6, 6] = PointwiseChain "chain" (%g, %y) {program=2 {Square(1) Linear[2,1](2) Rsqrt(3) Mul(0,4) GeluTanh(5)}}
  output %z
  output %g
  output %c
})",
              {{2, 4, 6, 6}});
  expect_same(R"(graph "g" {
  input %x: float32[n, 8]
  const %a: float32[8, 16] = random 1
  const %b: float32[8, 16] = random 2
  const %h: float32[16] = random 3
  %y: float32[n, 8] = FeedForward "mlp" (%x, %a, %b, %h) {transpose_second=true, hidden=2 {Add(0,1) GeluErf(2)}}
  %q: float32[n, 1, 2, 4] = Reshape "q" (%y) {shape=[n, 1, 2, 4]}
  %o: float32[n, 1, 2, 4] = Attention "attention" (%q, %q, %q) {scale=0.5, causal=true, layout=BSHD}
  output %o
})",
              {{3, 8}});
  expect_same(R"(graph "g" {
  input %x: float32[n, 8]
  const %s: float32[8] = random 1
  %r: float32[n, 8], _, _, %p: float32[n, 8] = LayerNorm "norm" (%x, %s) epilogue {RoundToE4M3[0.25](0)}
  output %r
  output %p
})",
              {{3, 8}});
}

TEST(Export, Rotary) {
  expect_same(R"(graph "g" {
  input %x: float32[n, 2, 3, 6]
  input %c: float32[3, 4]
  input %s: float32[3, 4]
  %y: float32[n, 2, 3, 6] = Rotary "halves" (%c, %s, %x)
  %a: float32[n, 2, 3, 4] = Slice "front" (%x) {starts=[0], ends=[4], axes=[3], steps=[1]}
  %z: float32[n, 2, 3, 6], %b: float32[n, 2, 3, 4] = Rotary "pairs" (%c, %s, %y, %a) {interleaved=true}
  output %z
  output %b
})",
              {{2, 2, 3, 6}, {3, 4}, {3, 4}});
}

// Values that are stored as the integers of their grid are quantized there and dequantized where they are
// read.
TEST(Export, StoredIntegers) {
  expect_same(R"(graph "g" {
  input %x: float32[n, 4]
  const %w: float32[4, 4] = random 1
  %a: uint8[n, 4] quantized uint8 scale [0.5] zero [8] = PointwiseChain "a" (%x) {program=1 {Clip[-4,3.5](0) RoundTo[0.5](1)}}
  %b: int8[n, 4] quantized int8 scale [0.25] zero [0] = MatMul "b" (%a, %w) epilogue {Clip[-32,31.75](0) RoundTo[0.25](1)}
  %y: float32[n, 4] = Pointwise "y" (%b) {code=Neg}
  output %y
})",
              {{3, 4}});
}

TEST(Export, StoredFloatsOfEightBits) {
  expect_same(R"(graph "g" {
  input %x: float32[n, 4]
  const %w: float32[4, 4] = random 1
  %a: float8e4m3fn[n, 4] quantized float8e4m3fn scale [0.5] zero [0] = PointwiseChain "a" (%x) {program=1 {RoundToE4M3[0.5](0)}}
  %b: float32[n, 4] = MatMul "b" (%a, %w) epilogue {RoundToE4M3[0.25](0)}
  %y: float32[n, 4] = Pointwise "y" (%b) {code=Neg}
  output %y
})",
              {{3, 4}});
}

TEST(Export, BodiesReadWhatIsAroundThem) {
  expect_same(R"(graph "g" {
  input %x: float32[n, 3]
  input %count: int64[]
  const %go: bool[] = [1]
  const %two: float32[] = [2]
  %big: float32[n, 3] = Pointwise "big" (%x, %two) {code=Mul}
  %y: float32[n, 3], %rows: float32[loop_trips<=9, n, 3] = Loop "loop" (%count, %go, %x, %big) {carried=1, body=graph "body" {
    input %i: int64[]
    input %c: bool[]
    input %x: float32[n, 3]
    input %big: float32[n, 3]
    %d: bool[] = Pointwise "on" (%c) {code=Identity}
    %next: float32[n, 3] = Pointwise "next" (%x, %big) {code=Add}
    %row: float32[n, 3] = Pointwise "row" (%next) {code=Neg}
    output %d
    output %next
    output %row
  }}
  output %y
  output %rows
})",
              {{2, 3}, {}});
}

TEST(Export, AFileOfWeights) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[2]
  const %w: float32[2] = [3, 4]
  %y: float32[2] = Pointwise "add" (%x, %w) {code=Add}
  output %y
})");
  const std::string path = testing::TempDir() + "/lathe_export.onnx";
  export_onnx(graph, path);
  NullObserver observer;
  EXPECT_EQ(interpret(import_onnx(std::filesystem::path(path), observer).graph,
                      std::vector{Tensor::from<float>({2}, {1, 1})})[0]
                .to_doubles(),
            (std::vector<double>{4, 5}));
  std::filesystem::remove(path);
}

TEST(Export, WhatOnnxCannotSay) {
  const Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[2*n]
  %y: int64[1] = ShapeTensor "size" () {dims=[n]}
  output %y
})");
  try {
    export_onnx(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_STREQ(error.what(),
                 "node 'size' (ShapeTensor): the dim 'n' cannot be written as ONNX: no input and no result "
                 "before its use has it");
    EXPECT_EQ(error.node(), "size");
    EXPECT_EQ(error.op_type(), "ShapeTensor");
  }
}

}  // namespace
}  // namespace lathe
