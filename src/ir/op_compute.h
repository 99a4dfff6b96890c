// SPDX-License-Identifier: Apache-2.0
//
// Operators that compute: element by element, products and windows, norms, reductions, quantization.
// op.h says what holds for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/floats.h"
#include "ir/dtype.h"
#include "ir/op_fields.h"
#include "ir/pointwise.h"

namespace lathe {

// --- pointwise --------------------------------------------------------------------------------------------
// inputs: arity(code) operands, broadcast; output: result. Where: bool condition first.
struct Pointwise {
  static constexpr std::string_view kName = "Pointwise";
  PointwiseCode code = PointwiseCode::Identity;
  float alpha = 0, beta = 0;
  LATHE_FIELDS(v("code", s.code); v("alpha", s.alpha); v("beta", s.beta);)
  bool operator==(const Pointwise&) const = default;
};
// A fused chain as a layer: inputs are the program's, output its result.
struct PointwiseChain {
  static constexpr std::string_view kName = "PointwiseChain";
  PointwiseProgram program;
  LATHE_FIELDS(v("program", s.program);)
  bool operator==(const PointwiseChain&) const = default;
};
// input: x; output: x in type `to`.
struct Cast {
  static constexpr std::string_view kName = "Cast";
  DType to = DType::Float32;
  bool saturate = true;
  E8M0Rounding round = E8M0Rounding::Up;
  LATHE_FIELDS(v("to", s.to); v("saturate", s.saturate); v("round", s.round);)
  bool operator==(const Cast&) const = default;
};
// Same elements in another type or format: what the tuner inserts. Output's type and format come from its
// value.
struct Reformat {
  static constexpr std::string_view kName = "Reformat";
  LATHE_FIELDS()
  bool operator==(const Reformat&) const = default;
};

// --- convolution, products --------------------------------------------------------------------------------
enum class AutoPad : uint8_t { NotSet, SameUpper, SameLower, Valid };
// inputs: x (N, C, spatial...), w (M, C/groups, kernel...), [bias (M)]; output (N, M, spatial...). Vectors
// have one entry per spatial dim. pads_end counts only with NotSet.
struct Conv {
  static constexpr std::string_view kName = "Conv";
  Ints kernel, strides, dilations, pads_begin, pads_end;
  int64_t groups = 1;
  AutoPad auto_pad = AutoPad::NotSet;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations);
               v("pads_begin", s.pads_begin); v("pads_end", s.pads_end); v("groups", s.groups);
               v("auto_pad", s.auto_pad);)
  bool operator==(const Conv&) const = default;
};
// inputs: x (N, C, ...), w (C, M/groups, kernel...), [bias (M)]. output_shape (spatial) overrides pads when
// not empty.
struct ConvTranspose {
  static constexpr std::string_view kName = "ConvTranspose";
  Ints kernel, strides, dilations, pads_begin, pads_end, output_padding, output_shape;
  int64_t groups = 1;
  AutoPad auto_pad = AutoPad::NotSet;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations);
               v("pads_begin", s.pads_begin); v("pads_end", s.pads_end);
               v("output_padding", s.output_padding); v("output_shape", s.output_shape);
               v("groups", s.groups); v("auto_pad", s.auto_pad);)
  bool operator==(const ConvTranspose&) const = default;
};
// A depthwise convolution (2-D, one filter per channel) as one layer with its pointwise (1x1) neighbours.
// Seven inputs, absent ones kNoValue: x (N, C, H, W), [expand w (D, C, 1, 1), [expand bias (D)]], depthwise w
// (D, 1, kernel...), [bias (D)], [project w (M, D, 1, 1), [project bias (M)]]. Without expand w: D = C;
// without project w the result has D channels. The programs (of one input) follow the first two convolutions
// where another one follows; the layer's epilogue follows the last one.
struct DepthwiseBlock {
  static constexpr std::string_view kName = "DepthwiseBlock";
  // Numbers of the weights; biases follow.
  static constexpr size_t kExpand = 1, kDepthwise = 3, kProject = 5, kInputs = 7;
  Ints kernel, strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::NotSet;
  PointwiseProgram expand_epilogue, depthwise_epilogue;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations);
               v("pads_begin", s.pads_begin); v("pads_end", s.pads_end); v("auto_pad", s.auto_pad);
               v("expand_epilogue", s.expand_epilogue); v("depthwise_epilogue", s.depthwise_epilogue);)
  bool operator==(const DepthwiseBlock&) const = default;
};
// inputs: a (..., M, K), b (..., K, N); numpy matmul with batch broadcast, rank 1 as in numpy. transpose_*
// swaps the last two dims first. Gemm becomes MatMul (+ Pointwise).
struct MatMul {
  static constexpr std::string_view kName = "MatMul";
  bool transpose_a = false, transpose_b = false;
  LATHE_FIELDS(v("transpose_a", s.transpose_a); v("transpose_b", s.transpose_b);)
  bool operator==(const MatMul&) const = default;
};
// Two products with a function between them, as transformers have them after attention. inputs: x (..., M,
// K), first w (K, H), second w (H, N), then what `hidden` reads beside the first product; output (..., M, N)
// = hidden(x first) second. An empty `hidden` is none. transpose_* swaps the dims of weights first.
struct FeedForward {
  static constexpr std::string_view kName = "FeedForward";
  static constexpr size_t kFirst = 1, kSecond = 2, kOperands = 3;  // numbers of the inputs
  bool transpose_first = false, transpose_second = false;
  PointwiseProgram hidden;
  LATHE_FIELDS(v("transpose_first", s.transpose_first); v("transpose_second", s.transpose_second);
               v("hidden", s.hidden);)
  bool operator==(const FeedForward&) const = default;
};
// inputs: q (B, H, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv), [mask, broadcast to (B, H, Sq, Sk): bool
// (true keeps) or float (added)]; output (B, H, Sq, Dv) = softmax(q k^T * scale + mask) v, FP32 inside. H is
// a multiple of Hkv: as many heads of q as that in a row share a head of k and v. Layout BSHD: q, k, v and
// output are (B, S, H, D) in memory order instead, so that no transpose runs.
enum class AttentionLayout : uint8_t { BHSD, BSHD };
struct Attention {
  static constexpr std::string_view kName = "Attention";
  float scale = 1;
  bool causal = false;
  AttentionLayout layout = AttentionLayout::BHSD;
  LATHE_FIELDS(v("scale", s.scale); v("causal", s.causal); v("layout", s.layout);)
  bool operator==(const Attention&) const = default;
};
// Rotary position embedding. inputs: cosines, sines, x, [more x]; outputs: each x with pairs of its elements
// turned. R is the last dim of cosines and sines, which broadcast to an x less its elements from R on; those
// stay as they are. Of the first R elements y = x cos + turned sin, where turned holds -x[i + R/2] at i and
// x[i] at i + R/2, or, interleaved, -x[2i + 1] at 2i and x[2i] at 2i + 1.
struct Rotary {
  static constexpr std::string_view kName = "Rotary";
  static constexpr size_t kOperands = 2;  // number of the first x
  bool interleaved = false;
  LATHE_FIELDS(v("interleaved", s.interleaved);)
  bool operator==(const Rotary&) const = default;
};

// --- pooling, normalization, reduction --------------------------------------------------------------------
enum class PoolKind : uint8_t { Max, Average, Lp };
// input: x (N, C, spatial...); outputs: y, [indices (int64, Max only)].
struct Pool {
  static constexpr std::string_view kName = "Pool";
  PoolKind kind = PoolKind::Max;
  Ints kernel, strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::NotSet;
  bool ceil_mode = false, count_include_pad = false;
  int64_t p = 2;              // Lp
  bool column_major = false;  // storage_order of the indices
  LATHE_FIELDS(v("kind", s.kind); v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations);
               v("pads_begin", s.pads_begin); v("pads_end", s.pads_end); v("auto_pad", s.auto_pad);
               v("ceil_mode", s.ceil_mode); v("count_include_pad", s.count_include_pad); v("p", s.p);
               v("column_major", s.column_major);)
  bool operator==(const Pool&) const = default;
};
enum class ReduceKind : uint8_t { Sum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp, SumSquare };
// inputs: x, [axes (int64) when `axes` is not set]; axes set and empty: no axis (identity). Unset and no
// input: all.
struct Reduce {
  static constexpr std::string_view kName = "Reduce";
  ReduceKind kind = ReduceKind::Sum;
  std::optional<Ints> axes;
  bool keepdims = true;
  bool noop_with_empty_axes = false;
  LATHE_FIELDS(v("kind", s.kind); v("axes", s.axes); v("keepdims", s.keepdims);
               v("noop_with_empty_axes", s.noop_with_empty_axes);)
  bool operator==(const Reduce&) const = default;
};
// inputs: x (N, C, spatial...), w1 (S, C, 1...), [b1 (S)], w2 (C, S, 1...), [b2 (C)]. Output: x times a gate
// per image and channel, gate = excite(w2 * squeeze(w1 * mean(x) + b1) + b2), where mean is over all spatial
// positions. Both functions are programs of one input. The gates are FP32 inside, whatever x is stored as.
struct SqueezeExcite {
  static constexpr std::string_view kName = "SqueezeExcite";
  PointwiseProgram squeeze, excite;
  LATHE_FIELDS(v("squeeze", s.squeeze); v("excite", s.excite);)
  bool operator==(const SqueezeExcite&) const = default;
};
struct ArgReduce {  // input: x; output: int64 index of the largest (or smallest) element
  static constexpr std::string_view kName = "ArgReduce";
  bool max = true;
  int64_t axis = 0;
  bool keepdims = true, select_last_index = false;
  LATHE_FIELDS(v("max", s.max); v("axis", s.axis); v("keepdims", s.keepdims);
               v("select_last_index", s.select_last_index);)
  bool operator==(const ArgReduce&) const = default;
};
struct Softmax {  // input: x; softmax (or log softmax) over one axis
  static constexpr std::string_view kName = "Softmax";
  int64_t axis = -1;
  bool log = false;
  LATHE_FIELDS(v("axis", s.axis); v("log", s.log);)
  bool operator==(const Softmax&) const = default;
};
// inputs: x, [scale], [bias] (shape of x from `axis` on); outputs: y, [mean], [inverse standard deviation].
// rms: no mean is subtracted (RMSNormalization).
struct LayerNorm {
  static constexpr std::string_view kName = "LayerNorm";
  // A fourth output, which ONNX has not: y as it is in front of the epilogue.
  static constexpr size_t kPlainResult = 3;
  int64_t axis = -1;
  float epsilon = 1e-5f;
  bool rms = false;
  LATHE_FIELDS(v("axis", s.axis); v("epsilon", s.epsilon); v("rms", s.rms);)
  bool operator==(const LayerNorm&) const = default;
};
struct BatchNorm {  // inputs: x, scale, bias, mean, variance (C); output y
  static constexpr std::string_view kName = "BatchNorm";
  float epsilon = 1e-5f;
  LATHE_FIELDS(v("epsilon", s.epsilon);)
  bool operator==(const BatchNorm&) const = default;
};
struct GroupNorm {  // inputs: x, scale, bias (C); groups == 0: one group per channel (InstanceNormalization)
  static constexpr std::string_view kName = "GroupNorm";
  int64_t groups = 0;
  float epsilon = 1e-5f;
  LATHE_FIELDS(v("groups", s.groups); v("epsilon", s.epsilon);)
  bool operator==(const GroupNorm&) const = default;
};
struct Lrn {  // input: x
  static constexpr std::string_view kName = "Lrn";
  int64_t size = 5;
  float alpha = 1e-4f, beta = 0.75f, bias = 1;
  LATHE_FIELDS(v("size", s.size); v("alpha", s.alpha); v("beta", s.beta); v("bias", s.bias);)
  bool operator==(const Lrn&) const = default;
};
struct CumSum {  // inputs: x, axis (scalar)
  static constexpr std::string_view kName = "CumSum";
  bool exclusive = false, reverse = false;
  LATHE_FIELDS(v("exclusive", s.exclusive); v("reverse", s.reverse);)
  bool operator==(const CumSum&) const = default;
};

// --- quantization -----------------------------------------------------------------------------------------
// inputs: x, scale, [zero_point]; per tensor, per axis or blocked (block_size > 0). Output type `to`.
struct QuantizeLinear {
  static constexpr std::string_view kName = "QuantizeLinear";
  int64_t axis = 1, block_size = 0;
  DType to = DType::UInt8;
  bool saturate = true;
  LATHE_FIELDS(v("axis", s.axis); v("block_size", s.block_size); v("to", s.to); v("saturate", s.saturate);)
  bool operator==(const QuantizeLinear&) const = default;
};
struct DequantizeLinear {  // inputs: x, scale, [zero_point]; output has type `to`
  static constexpr std::string_view kName = "DequantizeLinear";
  int64_t axis = 1, block_size = 0;
  DType to = DType::Float32;
  LATHE_FIELDS(v("axis", s.axis); v("block_size", s.block_size); v("to", s.to);)
  bool operator==(const DequantizeLinear&) const = default;
};

}  // namespace lathe
