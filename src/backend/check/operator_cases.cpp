// SPDX-License-Identifier: Apache-2.0
#include "backend/check/operator_cases.h"

#include "backend/check/tree_case.h"

namespace lathe {
namespace {

CheckedInput floats(Extents extents) {
  return {.extents = std::move(extents)};
}
CheckedInput weights(Extents extents) {
  return {.extents = std::move(extents), .constant = true};
}
CheckedInput integers(Extents extents) {
  return {.dtype = DType::Int64, .extents = std::move(extents), .low = 0, .high = 1.9};
}
CheckedInput number(double value) {
  return {.dtype = DType::Int64, .extents = {1}, .constant = true, .low = value, .high = value + 0.5};
}

CheckedInput pair(double value) {
  return {.dtype = DType::Int64, .extents = {2}, .constant = true, .low = value, .high = value + 0.5};
}

}  // namespace

std::vector<LayerCase> operator_cases() {
  const Ints ones = {1, 1}, zeros = {0, 0};
  const Conv conv{
      .kernel = {1, 1}, .strides = ones, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const ConvTranspose up{.kernel = {2, 2},
                         .strides = {2, 2},
                         .dilations = ones,
                         .pads_begin = zeros,
                         .pads_end = zeros,
                         .output_padding = zeros};
  const Pool pool{
      .kernel = {2, 2}, .strides = {2, 2}, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const DeformConv deform{
      .kernel = {1, 1}, .strides = ones, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const Col2Im blocks{.strides = ones, .dilations = ones, .pads_begin = zeros, .pads_end = zeros};
  const CheckedInput image = floats({1, 8, 4, 4}), matrix = floats({4, 6}), heads = floats({1, 2, 8, 16});
  const CheckedInput scale{.extents = {}, .constant = true, .low = 0.5, .high = 1};
  const CheckedInput first_images{.dtype = DType::Int64, .extents = {3}, .low = 0, .high = 0.9};
  const CheckedInput bytes{.dtype = DType::UInt8, .extents = {4, 6}, .low = 0, .high = 9};
  const auto recurrent = [](Op op, int64_t gates) {
    return LayerCase{.op = std::move(op),
                     .inputs = {floats({2, 1, 5}), weights({gates * 8, 5}), weights({gates * 8, 8})},
                     .outputs = gates == 4 ? size_t{3} : size_t{2}};
  };
  return {
      {.op = Pointwise{PointwiseCode::Add}, .inputs = {matrix, matrix}},
      {.op = Pointwise{PointwiseCode::Mod}, .inputs = {integers({4}), number(3)}},
      {.op = PointwiseChain{PointwiseProgram::parse("Add(0,1) Relu(2)", 2)}, .inputs = {matrix, matrix}},
      {.op = Cast{DType::Int32}, .inputs = {integers({4})}},
      {.op = Cast{DType::Float16}, .inputs = {matrix}},
      {.op = conv, .inputs = {image, weights({8, 8, 1, 1})}},
      {.op = up, .inputs = {image, weights({8, 8, 2, 2})}},
      {.op = MatMul{}, .inputs = {floats({4, 6}), weights({6, 8})}},
      {.op = Attention{}, .inputs = {heads, heads, heads}},
      {.op = Rotary{}, .inputs = {floats({8, 16}), floats({8, 16}), heads, heads}, .outputs = 2},
      {.op = pool, .inputs = {image}},
      {.op = Reduce{.axes = Ints{1}}, .inputs = {matrix}},
      {.op = Reduce{.kind = ReduceKind::LogSumExp, .axes = Ints{1}}, .inputs = {matrix}},
      {.op = Reduce{.kind = ReduceKind::Prod, .axes = Ints{0}}, .inputs = {integers({4, 6})}},
      {.op = ArgReduce{}, .inputs = {matrix}},
      {.op = Softmax{.axis = 0}, .inputs = {matrix}},
      {.op = LayerNorm{}, .inputs = {matrix, weights({6}), weights({6})}},
      {.op = GroupNorm{}, .inputs = {image, weights({8}), weights({8})}},
      {.op = CumSum{}, .inputs = {matrix, number(1)}},
      {.op = CumProd{}, .inputs = {matrix, number(1)}},
      {.op = ReshapeOp{.shape = to_shape(Extents{6, 4})}, .inputs = {matrix}},
      {.op = Transpose{{1, 0}}, .inputs = {matrix}},
      {.op = Concat{0}, .inputs = {matrix, matrix}},
      {.op = Split{1, {Dim(2), Dim(4)}}, .inputs = {matrix}, .outputs = 2},
      {.op = Slice{.starts = to_shape(Extents{1}), .ends = to_shape(Extents{4}), .axes = {1}, .steps = {2}},
       .inputs = {matrix}},
      {.op = Expand{to_shape(Extents{3, 4, 6})}, .inputs = {matrix}},
      {.op = Tile{to_shape(Extents{2, 3})}, .inputs = {matrix}},
      {.op = Pad{.mode = PadMode::Reflect, .pads = to_shape(Extents{1, 1, 1, 1})}, .inputs = {matrix}},
      {.op = Resize{.scales = {1, 1, 2, 2}}, .inputs = {image}},
      {.op = Resize{.mode = ResizeMode::Linear, .scales = {1, 1, 2, 2}}, .inputs = {image}},
      {.op = Resize{.mode = ResizeMode::Cubic, .scales = {1, 1, 2, 2}}, .inputs = {image}},
      {.op = Gather{}, .inputs = {matrix, integers({3})}},
      {.op = GatherElements{}, .inputs = {matrix, integers({3, 6})}},
      {.op = GatherND{}, .inputs = {matrix, integers({3, 1})}},
      {.op = ScatterElements{}, .inputs = {matrix, integers({3, 6}), floats({3, 6})}},
      {.op = ScatterND{ScatterReduction::Add}, .inputs = {matrix, integers({3, 1}), floats({3, 6})}},
      {.op = Trilu{}, .inputs = {matrix}},
      {.op = ReverseSequence{}, .inputs = {matrix, integers({6})}},
      {.op = OneHot{}, .inputs = {integers({4}), number(3), weights({2})}},
      {.op = DepthToSpace{}, .inputs = {image}},
      {.op = ShapeTensor{.dims = to_shape(Extents{3, 4})}},
      {.op = ShapeOf{}, .inputs = {matrix}},
      {.op = Fill{.shape = to_shape(Extents{3})}},
      {.op = Range{}, .inputs = {number(2), number(9), number(3)}},
      {.op = RandomUniform{.shape = to_shape(Extents{3})}},
      {.op = RandomNormal{.shape = to_shape(Extents{3})}},
      {.op = TopK{}, .inputs = {matrix, number(2)}, .outputs = 2},
      {.op = NonZero{}, .inputs = {matrix}},
      tree_case({.rows = 4}),
      {.op = DetectionNms{}, .inputs = {floats({1, 9, 4}), floats({1, 9, 2})}, .outputs = 4},
      {.op = Unique{}, .inputs = {matrix}, .outputs = 4},
      {.op = Det{}, .inputs = {floats({3, 4, 4})}},
      {.op = Inverse{}, .inputs = {floats({3, 4, 4})}},
      {.op = TfIdfVectorizer{.ngram_counts = {0}, .ngram_indexes = {0, 1}, .pool = {0, 1}},
       .inputs = {integers({4, 6})}},
      {.op = BitCast{DType::Int32}, .inputs = {matrix}},
      {.op = Lrn{}, .inputs = {image}},
      {.op = RoiAlign{}, .inputs = {image, floats({3, 4}), first_images}},
      {.op = RoiAlign{.max = true}, .inputs = {image, floats({3, 4}), first_images}},
      {.op = MaxRoiPool{}, .inputs = {image, {.extents = {3, 5}, .low = 0, .high = 0.9}}},
      {.op = GridSample{}, .inputs = {image, floats({1, 3, 3, 2})}},
      {.op = deform, .inputs = {image, weights({8, 8, 1, 1}), floats({1, 2, 4, 4})}},
      {.op = blocks, .inputs = {floats({1, 8, 9}), pair(4), pair(2)}},
      {.op = up, .inputs = {image, floats({8, 8, 2, 2})}},
      {.op = LinearAttention{.rule = LinearAttentionRule::Linear, .q_heads = 2, .kv_heads = 2},
       .inputs = {floats({1, 3, 8}), floats({1, 3, 8}), floats({1, 3, 8})},
       .outputs = 2},
      {.op = DFT{}, .inputs = {floats({1, 8, 1})}},
      {.op = STFT{}, .inputs = {floats({1, 30, 1}), number(2), weights({8})}},
      {.op = MelWeightMatrix{},
       .inputs = {number(4),
                  number(16),
                  number(8000),
                  {.extents = {}, .low = 0, .high = 1},
                  {.extents = {}, .low = 2000, .high = 3000}}},
      {.op = NonMaxSuppression{}, .inputs = {floats({1, 9, 4}), floats({1, 2, 9}), number(3)}},
      {.op = QuantizeLinear{}, .inputs = {matrix, scale}},
      {.op = DequantizeLinear{}, .inputs = {bytes, scale}},
      recurrent(RNN{}, 1),
      recurrent(GRU{}, 3),
      recurrent(LSTM{}, 4),
  };
}

}  // namespace lathe
