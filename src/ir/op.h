// SPDX-License-Identifier: Apache-2.0
//
// The core operators: small attribute structs in a variant. The importer expands everything else into these.
//
// Each struct names its fields once, in visit(); text form, plan file, hashing and printing follow from that. Fields may
// be bool, int64_t, float, double, std::string, DType, an enum with enum_name/enum_from_name, vectors of int64_t/float, Dims,
// PointwiseProgram and Body. What an operator means stands in ops/ under the same name.
//
// Inputs and outputs are listed at each struct; [x] is optional (an absent input is kNoValue).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/floats.h"
#include "ir/body.h"
#include "ir/dtype.h"
#include "ir/format.h"
#include "ir/plugin.h"
#include "ir/pointwise.h"
#include "ir/shape.h"

namespace lathe {

using Ints = std::vector<int64_t>;

#define LATHE_FIELDS(...)                                      \
  template <class Self, class V>                               \
  static void visit([[maybe_unused]] Self& s, [[maybe_unused]] V&& v) { __VA_ARGS__ }
// (The one macro of the IR: it spares each struct two identical visitor templates, const and not.)

// --- pointwise ---------------------------------------------------------------------------------------------------
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
// Same elements in another type or format: what the tuner inserts. Output's type and format come from its value.
struct Reformat {
  static constexpr std::string_view kName = "Reformat";
  LATHE_FIELDS()
  bool operator==(const Reformat&) const = default;
};

// --- convolution, products ---------------------------------------------------------------------------------------
enum class AutoPad : uint8_t { NotSet, SameUpper, SameLower, Valid };
// inputs: x (N, C, spatial...), w (M, C/groups, kernel...), [bias (M)]; output (N, M, spatial...). Vectors have one
// entry per spatial dim. pads_end counts only with NotSet.
struct Conv {
  static constexpr std::string_view kName = "Conv";
  Ints kernel, strides, dilations, pads_begin, pads_end;
  int64_t groups = 1;
  AutoPad auto_pad = AutoPad::NotSet;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations); v("pads_begin", s.pads_begin);
               v("pads_end", s.pads_end); v("groups", s.groups); v("auto_pad", s.auto_pad);)
  bool operator==(const Conv&) const = default;
};
// inputs: x (N, C, ...), w (C, M/groups, kernel...), [bias (M)]. output_shape (spatial) overrides pads when not empty.
struct ConvTranspose {
  static constexpr std::string_view kName = "ConvTranspose";
  Ints kernel, strides, dilations, pads_begin, pads_end, output_padding, output_shape;
  int64_t groups = 1;
  AutoPad auto_pad = AutoPad::NotSet;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations); v("pads_begin", s.pads_begin);
               v("pads_end", s.pads_end); v("output_padding", s.output_padding); v("output_shape", s.output_shape);
               v("groups", s.groups); v("auto_pad", s.auto_pad);)
  bool operator==(const ConvTranspose&) const = default;
};
// A depthwise convolution (2-D, one filter per channel) as one layer with its pointwise (1x1) neighbours. Seven inputs, absent
// ones kNoValue: x (N, C, H, W), [expand w (D, C, 1, 1), [expand bias (D)]], depthwise w (D, 1, kernel...), [bias (D)],
// [project w (M, D, 1, 1), [project bias (M)]]. Without expand w: D = C; without project w the result has D channels. The
// programs (of one input) follow the first two convolutions where another one follows; the layer's epilogue follows the last one.
struct DepthwiseBlock {
  static constexpr std::string_view kName = "DepthwiseBlock";
  static constexpr size_t kExpand = 1, kDepthwise = 3, kProject = 5, kInputs = 7;  // numbers of the weights; biases follow
  Ints kernel, strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::NotSet;
  PointwiseProgram expand_epilogue, depthwise_epilogue;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations); v("pads_begin", s.pads_begin);
               v("pads_end", s.pads_end); v("auto_pad", s.auto_pad); v("expand_epilogue", s.expand_epilogue);
               v("depthwise_epilogue", s.depthwise_epilogue);)
  bool operator==(const DepthwiseBlock&) const = default;
};
// inputs: a (..., M, K), b (..., K, N); numpy matmul with batch broadcast, rank 1 as in numpy. transpose_* swaps the last
// two dims first. Gemm becomes MatMul (+ Pointwise).
struct MatMul {
  static constexpr std::string_view kName = "MatMul";
  bool transpose_a = false, transpose_b = false;
  LATHE_FIELDS(v("transpose_a", s.transpose_a); v("transpose_b", s.transpose_b);)
  bool operator==(const MatMul&) const = default;
};
// Two products with a function between them, as transformers have them after attention. inputs: x (..., M, K), first w (K, H),
// second w (H, N), then what `hidden` reads beside the first product; output (..., M, N) = hidden(x first) second. An empty
// `hidden` is none. transpose_* swaps the dims of weights first.
struct FeedForward {
  static constexpr std::string_view kName = "FeedForward";
  static constexpr size_t kFirst = 1, kSecond = 2, kOperands = 3;  // numbers of the inputs
  bool transpose_first = false, transpose_second = false;
  PointwiseProgram hidden;
  LATHE_FIELDS(v("transpose_first", s.transpose_first); v("transpose_second", s.transpose_second);
               v("hidden", s.hidden);)
  bool operator==(const FeedForward&) const = default;
};
// inputs: q (B, H, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv), [mask, broadcast to (B, H, Sq, Sk): bool (true keeps) or
// float (added)]; output (B, H, Sq, Dv) = softmax(q k^T * scale + mask) v, FP32 inside. H is a multiple of Hkv: as many heads of q
// as that in a row share a head of k and v. Layout BSHD: q, k, v and output are (B, S, H, D) in memory order instead, so that no
// transpose runs.
enum class AttentionLayout : uint8_t { BHSD, BSHD };
struct Attention {
  static constexpr std::string_view kName = "Attention";
  float scale = 1;
  bool causal = false;
  AttentionLayout layout = AttentionLayout::BHSD;
  LATHE_FIELDS(v("scale", s.scale); v("causal", s.causal); v("layout", s.layout);)
  bool operator==(const Attention&) const = default;
};
// Rotary position embedding. inputs: cosines, sines, x, [more x]; outputs: each x with pairs of its elements turned. R is the
// last dim of cosines and sines, which broadcast to an x less its elements from R on; those stay as they are. Of the first R elements
// y = x cos + turned sin, where turned holds -x[i + R/2] at i and x[i] at i + R/2, or, interleaved, -x[2i + 1] at 2i and x[2i] at 2i + 1.
struct Rotary {
  static constexpr std::string_view kName = "Rotary";
  static constexpr size_t kOperands = 2;  // number of the first x
  bool interleaved = false;
  LATHE_FIELDS(v("interleaved", s.interleaved);)
  bool operator==(const Rotary&) const = default;
};

// --- pooling, normalization, reduction ---------------------------------------------------------------------------
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
// inputs: x, [axes (int64) when `axes` is not set]; axes set and empty: no axis (identity). Unset and no input: all.
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
// inputs: x (N, C, spatial...), w1 (S, C, 1...), [b1 (S)], w2 (C, S, 1...), [b2 (C)]. Output: x times a gate per image and
// channel, gate = excite(w2 * squeeze(w1 * mean(x) + b1) + b2), where mean is over all spatial positions. Both functions are
// programs of one input. The gates are FP32 inside, whatever x is stored as.
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
  LATHE_FIELDS(v("max", s.max); v("axis", s.axis); v("keepdims", s.keepdims); v("select_last_index", s.select_last_index);)
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

// --- shape and data movement -------------------------------------------------------------------------------------
// Where an attribute is optional<Shape> and a tensor input exists too: the importer sets the attribute whenever the
// tensor's contents are known (constant or symbolic) and leaves the input out, so the input is the rare, truly dynamic case.
struct ReshapeOp {  // inputs: x, [shape (int64)]; `shape` holds final dims (0 and -1 are resolved)
  static constexpr std::string_view kName = "Reshape";
  std::optional<Shape> shape;
  bool allow_zero = false;  // meaning of 0 in the tensor input
  LATHE_FIELDS(v("shape", s.shape); v("allow_zero", s.allow_zero);)
  bool operator==(const ReshapeOp&) const = default;
};
struct Transpose {
  static constexpr std::string_view kName = "Transpose";
  Ints perm;
  LATHE_FIELDS(v("perm", s.perm);)
  bool operator==(const Transpose&) const = default;
};
struct Concat {  // inputs: one or more
  static constexpr std::string_view kName = "Concat";
  int64_t axis = 0;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const Concat&) const = default;
};
struct Split {  // input: x; outputs: one per size. Sizes are always set (the importer computes equal parts).
  static constexpr std::string_view kName = "Split";
  int64_t axis = 0;
  Shape sizes;
  LATHE_FIELDS(v("axis", s.axis); v("sizes", s.sizes);)
  bool operator==(const Split&) const = default;
};
// inputs: x, [starts, ends, [axes], [steps]] (int64 tensors) when `starts` is not set. Attribute form: one entry per axis
// in `axes`; starts and ends already clamped to [0, dim]; steps != 0 (negative: starts in [0, dim-1], ends in [-1, dim-1]).
struct Slice {
  static constexpr std::string_view kName = "Slice";
  std::optional<Shape> starts, ends;
  Ints axes, steps;
  LATHE_FIELDS(v("starts", s.starts); v("ends", s.ends); v("axes", s.axes); v("steps", s.steps);)
  bool operator==(const Slice&) const = default;
};
struct Expand {  // inputs: x, [shape]
  static constexpr std::string_view kName = "Expand";
  std::optional<Shape> shape;
  LATHE_FIELDS(v("shape", s.shape);)
  bool operator==(const Expand&) const = default;
};
struct Tile {  // inputs: x, [repeats]
  static constexpr std::string_view kName = "Tile";
  std::optional<Shape> repeats;
  LATHE_FIELDS(v("repeats", s.repeats);)
  bool operator==(const Tile&) const = default;
};
enum class PadMode : uint8_t { Constant, Reflect, Edge, Wrap };
struct Pad {  // inputs: x, [pads (int64) when unset], [value (scalar)], [axes]; pads: begin per dim, then end per dim
  static constexpr std::string_view kName = "Pad";
  PadMode mode = PadMode::Constant;
  std::optional<Shape> pads;
  LATHE_FIELDS(v("mode", s.mode); v("pads", s.pads);)
  bool operator==(const Pad&) const = default;
};
enum class ResizeMode : uint8_t { Nearest, Linear, Cubic };
enum class CoordinateMode : uint8_t {
  HalfPixel, HalfPixelSymmetric, PytorchHalfPixel, AlignCorners, Asymmetric, TfCropAndResize, TfHalfPixelForNn
};
enum class NearestMode : uint8_t { RoundPreferFloor, RoundPreferCeil, Floor, Ceil };
enum class AspectPolicy : uint8_t { Stretch, NotLarger, NotSmaller };
// inputs: x, [roi], [scales (float)], [sizes (int64)]. `scales`/`sizes` hold constants when known (one per axis in
// `axes`, all axes when empty).
struct Resize {
  static constexpr std::string_view kName = "Resize";
  ResizeMode mode = ResizeMode::Nearest;
  CoordinateMode coordinates = CoordinateMode::HalfPixel;
  NearestMode nearest = NearestMode::RoundPreferFloor;
  AspectPolicy aspect = AspectPolicy::Stretch;
  float cubic_coeff_a = -0.75f, extrapolation_value = 0;
  bool exclude_outside = false, antialias = false;
  std::vector<float> scales;
  std::optional<Shape> sizes;
  Ints axes;
  LATHE_FIELDS(v("mode", s.mode); v("coordinates", s.coordinates); v("nearest", s.nearest); v("aspect", s.aspect);
               v("cubic_coeff_a", s.cubic_coeff_a); v("extrapolation_value", s.extrapolation_value);
               v("exclude_outside", s.exclude_outside); v("antialias", s.antialias); v("scales", s.scales);
               v("sizes", s.sizes); v("axes", s.axes);)
  bool operator==(const Resize&) const = default;
};
struct Gather {  // inputs: x, indices
  static constexpr std::string_view kName = "Gather";
  int64_t axis = 0;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const Gather&) const = default;
};
struct GatherElements {  // inputs: x, indices
  static constexpr std::string_view kName = "GatherElements";
  int64_t axis = 0;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const GatherElements&) const = default;
};
struct GatherND {  // inputs: x, indices
  static constexpr std::string_view kName = "GatherND";
  int64_t batch_dims = 0;
  LATHE_FIELDS(v("batch_dims", s.batch_dims);)
  bool operator==(const GatherND&) const = default;
};
enum class ScatterReduction : uint8_t { None, Add, Mul, Min, Max };
struct ScatterElements {  // inputs: x, indices, updates
  static constexpr std::string_view kName = "ScatterElements";
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::None;
  LATHE_FIELDS(v("axis", s.axis); v("reduction", s.reduction);)
  bool operator==(const ScatterElements&) const = default;
};
struct ScatterND {  // inputs: x, indices, updates
  static constexpr std::string_view kName = "ScatterND";
  ScatterReduction reduction = ScatterReduction::None;
  LATHE_FIELDS(v("reduction", s.reduction);)
  bool operator==(const ScatterND&) const = default;
};
struct Trilu {  // inputs: x, [k]
  static constexpr std::string_view kName = "Trilu";
  bool upper = true;
  LATHE_FIELDS(v("upper", s.upper);)
  bool operator==(const Trilu&) const = default;
};
struct ReverseSequence {  // inputs: x, lengths (int64, one per item of `batch_axis`)
  static constexpr std::string_view kName = "ReverseSequence";
  int64_t batch_axis = 1, time_axis = 0;
  LATHE_FIELDS(v("batch_axis", s.batch_axis); v("time_axis", s.time_axis);)
  bool operator==(const ReverseSequence&) const = default;
};
struct OneHot {  // inputs: indices, depth, values (off, on)
  static constexpr std::string_view kName = "OneHot";
  int64_t axis = -1;
  LATHE_FIELDS(v("axis", s.axis);)
  bool operator==(const OneHot&) const = default;
};
struct DepthToSpace {  // input: x; blocks == DCR or CRD order; inverse: SpaceToDepth
  static constexpr std::string_view kName = "DepthToSpace";
  int64_t block = 2;
  bool crd = false, inverse = false;
  LATHE_FIELDS(v("block", s.block); v("crd", s.crd); v("inverse", s.inverse);)
  bool operator==(const DepthToSpace&) const = default;
};

// --- values from shapes, data-dependent shapes -------------------------------------------------------------------
// No inputs: an int64 tensor of dims, written when shapes are known. scalar: rank 0 with one dim.
struct ShapeTensor {
  static constexpr std::string_view kName = "ShapeTensor";
  Shape dims;
  bool scalar = false;
  LATHE_FIELDS(v("dims", s.dims); v("scalar", s.scalar);)
  bool operator==(const ShapeTensor&) const = default;
};
struct ShapeOf {  // input: x; output: int64 dims [start, end); the importer folds it to ShapeTensor when x's shape is known
  static constexpr std::string_view kName = "ShapeOf";
  int64_t start = 0;
  std::optional<Ints> end;  // one entry when set
  LATHE_FIELDS(v("start", s.start); v("end", s.end);)
  bool operator==(const ShapeOf&) const = default;
};
struct Range {  // inputs: start, limit, delta (scalars); the length is a Dim when contents are known, else data-dependent
  static constexpr std::string_view kName = "Range";
  LATHE_FIELDS()
  bool operator==(const Range&) const = default;
};
struct Fill {  // inputs: [shape (int64) when unset]; output filled with `value` in type `dtype` (ConstantOfShape)
  static constexpr std::string_view kName = "Fill";
  std::optional<Shape> shape;
  DType dtype = DType::Float32;
  double value = 0;
  LATHE_FIELDS(v("shape", s.shape); v("dtype", s.dtype); v("value", s.value);)
  bool operator==(const Fill&) const = default;
};
struct TopK {  // inputs: x, k (int64, one element); outputs: values, indices (int64)
  static constexpr std::string_view kName = "TopK";
  int64_t axis = -1;
  bool largest = true, sorted = true;
  LATHE_FIELDS(v("axis", s.axis); v("largest", s.largest); v("sorted", s.sorted);)
  bool operator==(const TopK&) const = default;
};
struct NonZero {  // input: x; output: int64 (rank, count), count data-dependent
  static constexpr std::string_view kName = "NonZero";
  LATHE_FIELDS()
  bool operator==(const NonZero&) const = default;
};
// inputs: boxes (B, N, 4), scores (B, C, N), [max_output_boxes_per_class], [iou_threshold], [score_threshold];
// output: int64 (selected, 3), selected data-dependent.
struct NonMaxSuppression {
  static constexpr std::string_view kName = "NonMaxSuppression";
  bool center_point_box = false;
  LATHE_FIELDS(v("center_point_box", s.center_point_box);)
  bool operator==(const NonMaxSuppression&) const = default;
};

// --- quantization ------------------------------------------------------------------------------------------------
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

// --- recurrent layers --------------------------------------------------------------------------------------------
// One direction each; the importer joins two for a bidirectional layer. T steps, B sequences, I inputs and H hidden values;
// G gates of H rows each lie one after the other in weights and biases. Inputs: x (T, B, I), w (G*H, I), r (G*H, H),
// [bias (2*G*H): of w, then of r], [lengths (B, int32)], [initial h (B, H)]. Outputs: y (T, B, H), the last h (B, H). With
// lengths, steps behind a sequence's length give zeros and leave h as it is. `reverse` starts at a sequence's last step.
// alpha and beta: of the activations in their order, or empty when none of them has parameters. clip bounds what goes
// into activations to [-clip, clip]; 0: no bound.
enum class Activation : uint8_t {
  Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign, Softplus
};
struct RNN {  // G = 1
  static constexpr std::string_view kName = "RNN";
  Activation f = Activation::Tanh;
  std::vector<float> alpha, beta;
  float clip = 0;
  bool reverse = false;
  LATHE_FIELDS(v("f", s.f); v("alpha", s.alpha); v("beta", s.beta); v("clip", s.clip); v("reverse", s.reverse);)
  bool operator==(const RNN&) const = default;
};
struct GRU {  // G = 3: update, reset, hidden. linear_before_reset: the reset gate scales the product with r, not h.
  static constexpr std::string_view kName = "GRU";
  Activation f = Activation::Sigmoid, g = Activation::Tanh;
  std::vector<float> alpha, beta;
  float clip = 0;
  bool reverse = false, linear_before_reset = false;
  LATHE_FIELDS(v("f", s.f); v("g", s.g); v("alpha", s.alpha); v("beta", s.beta); v("clip", s.clip);
               v("reverse", s.reverse); v("linear_before_reset", s.linear_before_reset);)
  bool operator==(const GRU&) const = default;
};
// G = 4: input, output, forget, cell. More inputs: [initial c (B, H)], [peepholes (3*H): input, output, forget]; one more
// output: the last c (B, H). input_forget: the forget gate is 1 - the input gate.
struct LSTM {
  static constexpr std::string_view kName = "LSTM";
  Activation f = Activation::Sigmoid, g = Activation::Tanh, h = Activation::Tanh;
  std::vector<float> alpha, beta;
  float clip = 0;
  bool reverse = false, input_forget = false;
  LATHE_FIELDS(v("f", s.f); v("g", s.g); v("h", s.h); v("alpha", s.alpha); v("beta", s.beta); v("clip", s.clip);
               v("reverse", s.reverse); v("input_forget", s.input_forget);)
  bool operator==(const LSTM&) const = default;
};
enum class LinearAttentionRule : uint8_t { Linear, Gated, Delta, GatedDelta };
// inputs: q (B, T, q_heads*K), k (B, T, kv_heads*K), v (B, T, kv_heads*V), [past state (B, kv_heads, K, V)], [decay (B, T, kv_heads or
// kv_heads*K), log space], [beta (B, T, kv_heads or 1)]; outputs: y (B, T, q_heads*V), present state.
struct LinearAttention {
  static constexpr std::string_view kName = "LinearAttention";
  LinearAttentionRule rule = LinearAttentionRule::GatedDelta;
  int64_t q_heads = 1, kv_heads = 1;
  float scale = 1;
  LATHE_FIELDS(v("rule", s.rule); v("q_heads", s.q_heads); v("kv_heads", s.kv_heads); v("scale", s.scale);)
  bool operator==(const LinearAttention&) const = default;
};

// --- sampling of images ------------------------------------------------------------------------------------------
enum class GridPadding : uint8_t { Zeros, Border, Reflection };
// inputs: x (N, C, spatial...), grid (N, out spatial..., rank of the spatial dims: innermost first); output (N, C, out spatial...).
struct GridSample {
  static constexpr std::string_view kName = "GridSample";
  ResizeMode mode = ResizeMode::Linear;
  GridPadding padding = GridPadding::Zeros;
  bool align_corners = false;
  LATHE_FIELDS(v("mode", s.mode); v("padding", s.padding); v("align_corners", s.align_corners);)
  bool operator==(const GridSample&) const = default;
};
// inputs: x (N, C, H, W), rois (R, 4), batch indices (R, int64); output (R, C, output_height, output_width).
struct RoiAlign {
  static constexpr std::string_view kName = "RoiAlign";
  bool max = false, half_pixel = true;
  int64_t output_height = 1, output_width = 1, sampling_ratio = 0;
  float spatial_scale = 1;
  LATHE_FIELDS(v("max", s.max); v("half_pixel", s.half_pixel); v("output_height", s.output_height);
               v("output_width", s.output_width); v("sampling_ratio", s.sampling_ratio);
               v("spatial_scale", s.spatial_scale);)
  bool operator==(const RoiAlign&) const = default;
};
// inputs: x (N, C, H, W), rois (R, 5): batch index, x1, y1, x2, y2; output (R, C, output_height, output_width).
struct MaxRoiPool {
  static constexpr std::string_view kName = "MaxRoiPool";
  int64_t output_height = 1, output_width = 1;
  float spatial_scale = 1;
  LATHE_FIELDS(v("output_height", s.output_height); v("output_width", s.output_width);
               v("spatial_scale", s.spatial_scale);)
  bool operator==(const MaxRoiPool&) const = default;
};
// inputs: x (N, C, H, W), w (M, C/groups, kernel...), offset (N, offset_groups*kernel*2, out H, out W), [bias (M)],
// [mask (N, offset_groups*kernel, out H, out W)]; output (N, M, out H, out W).
struct DeformConv {
  static constexpr std::string_view kName = "DeformConv";
  Ints kernel, strides, dilations, pads_begin, pads_end;
  int64_t groups = 1, offset_groups = 1;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations); v("pads_begin", s.pads_begin);
               v("pads_end", s.pads_end); v("groups", s.groups); v("offset_groups", s.offset_groups);)
  bool operator==(const DeformConv&) const = default;
};
// inputs: x (N, C*block, L), image shape (int64), block shape (int64); output (N, C, image...). Blocks are added up.
struct Col2Im {
  static constexpr std::string_view kName = "Col2Im";
  Ints strides, dilations, pads_begin, pads_end;
  LATHE_FIELDS(v("strides", s.strides); v("dilations", s.dilations); v("pads_begin", s.pads_begin);
               v("pads_end", s.pads_end);)
  bool operator==(const Col2Im&) const = default;
};

// --- signals -----------------------------------------------------------------------------------------------------
// inputs: x (..., 1 or 2: real or complex), [length (int64 scalar)], [axis (int64 scalar), else -2]; output in pairs of real
// and imaginary part. onesided: only the first half and the middle; with inverse it reads such a half and gives reals.
struct DFT {
  static constexpr std::string_view kName = "DFT";
  bool inverse = false, onesided = false;
  LATHE_FIELDS(v("inverse", s.inverse); v("onesided", s.onesided);)
  bool operator==(const DFT&) const = default;
};
// inputs: signal (B, L, 1 or 2), step (int64 scalar), [window], [frame length (int64 scalar)]; output (B, frames, bins, 2).
struct STFT {
  static constexpr std::string_view kName = "STFT";
  bool onesided = true;
  LATHE_FIELDS(v("onesided", s.onesided);)
  bool operator==(const STFT&) const = default;
};
// inputs, all scalars: mel bins, DFT length, sample rate, lower and upper edge in hertz; output (DFT length / 2 + 1, mel bins).
struct MelWeightMatrix {
  static constexpr std::string_view kName = "MelWeightMatrix";
  DType dtype = DType::Float32;
  LATHE_FIELDS(v("dtype", s.dtype);)
  bool operator==(const MelWeightMatrix&) const = default;
};

// --- random numbers ----------------------------------------------------------------------------------------------
// inputs: [x: its shape is the result's; needed only where a run finds that shape]. Philox 4x32-10 keyed by the seed and
// counted by the element: the same numbers in every run, on every backend.
struct RandomUniform {  // in [low, high)
  static constexpr std::string_view kName = "RandomUniform";
  Shape shape;
  DType dtype = DType::Float32;
  float low = 0, high = 1;
  int64_t seed = 0;
  LATHE_FIELDS(v("shape", s.shape); v("dtype", s.dtype); v("low", s.low); v("high", s.high); v("seed", s.seed);)
  bool operator==(const RandomUniform&) const = default;
};
struct RandomNormal {  // by Box and Muller's method
  static constexpr std::string_view kName = "RandomNormal";
  Shape shape;
  DType dtype = DType::Float32;
  float mean = 0, scale = 1;
  int64_t seed = 0;
  LATHE_FIELDS(v("shape", s.shape); v("dtype", s.dtype); v("mean", s.mean); v("scale", s.scale); v("seed", s.seed);)
  bool operator==(const RandomNormal&) const = default;
};

// --- other -------------------------------------------------------------------------------------------------------
struct CumProd {  // inputs: x, axis (scalar)
  static constexpr std::string_view kName = "CumProd";
  bool exclusive = false, reverse = false;
  LATHE_FIELDS(v("exclusive", s.exclusive); v("reverse", s.reverse);)
  bool operator==(const CumProd&) const = default;
};
struct Det {  // input: x (..., N, N); output (...)
  static constexpr std::string_view kName = "Det";
  LATHE_FIELDS()
  bool operator==(const Det&) const = default;
};
struct Inverse {  // input: x (..., N, N); output: the inverse of each matrix, infinities where it has none
  static constexpr std::string_view kName = "Inverse";
  LATHE_FIELDS()
  bool operator==(const Inverse&) const = default;
};
// Decision trees: each row of x goes from the root of each tree to a leaf, and the leaf's weights count for some of the targets.
// inputs: x (N, F), features (int32, nodes), thresholds (nodes, type of x), modes (uint8, nodes), children (int32, 2 nodes), roots
// (int32, trees), leaf_begins (int32, leaves + 1), leaf_targets (int32, weights), leaf_weights (weights, type of x); output
// (N, targets). A node compares x[feature] with its threshold and goes to its first child when that holds, or when x is NaN and
// its mode says so. Children have larger numbers than their parent; leaf i is -1 - i, as a child or as a root. A target that no
// leaf counts for is 0.
enum class TreeAggregate : uint8_t { Sum, Average, Min, Max };
struct TreeEnsemble {
  static constexpr std::string_view kName = "TreeEnsemble";
  // A mode is one of these, plus kMissingIsTrue.
  enum Compare : uint8_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMissingIsTrue = 8 };
  static constexpr size_t kFeatures = 1, kThresholds = 2, kModes = 3, kChildren = 4, kRoots = 5, kLeafBegins = 6, kLeafTargets = 7,
                          kLeafWeights = 8, kInputs = 9;  // numbers of the inputs
  int64_t targets = 1;
  TreeAggregate aggregate = TreeAggregate::Sum;
  LATHE_FIELDS(v("targets", s.targets); v("aggregate", s.aggregate);)
  bool operator==(const TreeEnsemble&) const = default;
};
struct BitCast {  // input: x; output: its bits as `to`, which has as many
  static constexpr std::string_view kName = "BitCast";
  DType to = DType::Float32;
  LATHE_FIELDS(v("to", s.to);)
  bool operator==(const BitCast&) const = default;
};
// input: x; outputs: y, first indices, inverse indices, counts (int64); counted over slices of `axis`, else over the elements.
struct Unique {
  static constexpr std::string_view kName = "Unique";
  std::optional<Ints> axis;  // one entry when set
  bool sorted = true;
  LATHE_FIELDS(v("axis", s.axis); v("sorted", s.sorted);)
  bool operator==(const Unique&) const = default;
};
enum class TfIdfMode : uint8_t { TF, IDF, TFIDF };
// input: x (C) or (N, C), integers; output: float32 (..., columns). The pool holds n-grams of 1, then of 2 ... items;
// ngram_counts says where each length begins, ngram_indexes which column an n-gram counts for.
struct TfIdfVectorizer {
  static constexpr std::string_view kName = "TfIdfVectorizer";
  TfIdfMode mode = TfIdfMode::TF;
  int64_t min_gram = 1, max_gram = 1, max_skip = 0;
  Ints ngram_counts, ngram_indexes, pool;
  std::vector<float> weights;
  LATHE_FIELDS(v("mode", s.mode); v("min_gram", s.min_gram); v("max_gram", s.max_gram); v("max_skip", s.max_skip);
               v("ngram_counts", s.ngram_counts); v("ngram_indexes", s.ngram_indexes); v("pool", s.pool);
               v("weights", s.weights);)
  bool operator==(const TfIdfVectorizer&) const = default;
};

// inputs: boxes (B, N, 4) or (B, N, 1 or C, 4) as corners x1, y1, x2, y2, scores (B, N, C); outputs: counts (B, 1) int32, boxes
// (B, keep, 4), scores (B, keep), classes (B, keep) int32. Candidates are the pairs of box and class whose score is above the threshold;
// the best come first, one that overlaps a chosen one of its class goes. What is not filled is 0, a class `pad_class`.
struct DetectionNms {
  static constexpr std::string_view kName = "DetectionNms";
  int64_t keep = 100;       // detections per item
  int64_t top_k = -1;       // candidates per class; -1: all
  int64_t background = -1;  // a class that is left out
  int64_t pad_class = 0;
  float score_threshold = 0, iou_threshold = 0.5F;
  bool any_class = false;   // boxes of one class hide those of another
  bool pixels = false;      // corners are pixels that belong to the box: its width is x2 - x1 + 1
  bool clip = false;        // the boxes that are returned to 0 .. 1
  LATHE_FIELDS(v("keep", s.keep); v("top_k", s.top_k); v("background", s.background); v("pad_class", s.pad_class);
               v("score_threshold", s.score_threshold); v("iou_threshold", s.iou_threshold);
               v("any_class", s.any_class); v("pixels", s.pixels); v("clip", s.clip);)
  bool operator==(const DetectionNms&) const = default;
};
// A custom operator: inputs and outputs are what its plugin says. `fields` are its attributes (plugin_fields_text).
struct Plugin {
  static constexpr std::string_view kName = "Plugin";
  std::string plugin, version, name_space, fields;
  std::shared_ptr<const PluginCode> code;  // null until it is bound; no part of what the operator says
  PluginIdentity identity() const { return {plugin, version, name_space}; }
  LATHE_FIELDS(v("plugin", s.plugin); v("version", s.version); v("name_space", s.name_space); v("fields", s.fields);)
  bool operator==(const Plugin& other) const { return identity() == other.identity() && fields == other.fields; }
};

// --- control flow ------------------------------------------------------------------------------------------------
// inputs: condition (bool, one element), captured values; outputs: those of the branch that the condition selects. Both branches take
// the captured values and give as many outputs of the same types.
struct If {
  static constexpr std::string_view kName = "If";
  Body then_branch, else_branch;
  LATHE_FIELDS(v("then_branch", s.then_branch); v("else_branch", s.else_branch);)
  bool operator==(const If&) const = default;
};
// inputs: [trip count] (int64, one element), [condition] (bool, one element), `carried` values, captured values. The body takes the
// iteration (int64 scalar), the condition (bool scalar), the carried and the captured values; it gives the next condition, the carried
// values and what is scanned. Outputs: the carried values as the last iteration left them, what was scanned, stacked along a new axis 0.
struct Loop {
  static constexpr std::string_view kName = "Loop";
  Body body;
  int64_t carried = 0;
  LATHE_FIELDS(v("body", s.body); v("carried", s.carried);)
  bool operator==(const Loop&) const = default;
};
// inputs: `states` values, as many scanned ones as `input_axes` has entries, captured values. The body takes the states, a slice of each
// scanned value without its axis, and the captured values; it gives the states and slices of the other outputs. Outputs: the states
// after the last slice, and the slices stacked along `output_axes`. A reversed input is read from its end, a reversed output filled so.
struct Scan {
  static constexpr std::string_view kName = "Scan";
  Body body;
  int64_t states = 0;
  Ints input_axes, output_axes, input_reversed, output_reversed;  // one entry per scanned value; reversed: 0 or 1
  LATHE_FIELDS(v("body", s.body); v("states", s.states); v("input_axes", s.input_axes); v("output_axes", s.output_axes);
               v("input_reversed", s.input_reversed); v("output_reversed", s.output_reversed);)
  bool operator==(const Scan&) const = default;
};

#undef LATHE_FIELDS

using OpFields = std::variant<Pointwise, PointwiseChain, Cast, Reformat, Conv, ConvTranspose, DepthwiseBlock, MatMul,
                              FeedForward, Attention, Rotary, Pool, Reduce, SqueezeExcite, ArgReduce, Softmax, LayerNorm,
                              BatchNorm, GroupNorm, Lrn, CumSum, ReshapeOp, Transpose, Concat, Split, Slice, Expand, Tile, Pad,
                              Resize, Gather, GatherElements, GatherND, ScatterElements, ScatterND, Trilu,
                              ReverseSequence, OneHot, DepthToSpace, ShapeTensor, ShapeOf, Range, Fill, TopK, NonZero,
                              NonMaxSuppression, QuantizeLinear, DequantizeLinear, RNN, GRU, LSTM, LinearAttention,
                              GridSample, RoiAlign, MaxRoiPool, DeformConv, Col2Im, DFT, STFT, MelWeightMatrix,
                              RandomUniform, RandomNormal, CumProd, Det, Inverse, TreeEnsemble, BitCast, Unique, TfIdfVectorizer,
                              DetectionNms, Plugin, If, Loop, Scan>;

// Which of the variant's alternatives T is; their number when it is none.
template <class T, class... Fields>
constexpr size_t alternative_index(const std::variant<Fields...>*) {
  size_t index = 0;
  (void)((std::is_same_v<T, Fields> || (++index, false)) || ...);
  return index;
}
template <class T>
inline constexpr size_t kOpIndex = alternative_index<T>(static_cast<const OpFields*>(nullptr));

// One of the operators above. A class around the variant, so that copying, moving, destroying and comparing so many
// alternatives is compiled once, in op.cpp, and not in every file that copies a node. std::visit, std::get_if, std::get and
// std::holds_alternative take an Op as they take the variant.
class Op : public OpFields {
 public:
  Op();
  template <class T>
    requires(kOpIndex<T> < std::variant_size_v<OpFields>)
  Op(T fields) : Op(kOpIndex<T>, &fields) {}
  Op(const Op& other);
  Op(Op&& other) noexcept;
  Op& operator=(const Op& other);
  Op& operator=(Op&& other) noexcept;
  ~Op();
  friend bool operator==(const Op& a, const Op& b);

 private:
  Op(size_t index, void* fields);  // moves from the alternative `index` that lies at `fields`
};

// kName of the alternative; for Pointwise use pointwise_info(code).name to name the operation to a person.
std::string_view op_name(const Op& op);
// The operator of that kName with all fields at their defaults; nullopt when there is none.
std::optional<Op> op_from_name(std::string_view name);
// What logs call it: "Conv", "Relu" (the pointwise code), "MatMul".
std::string_view op_display_name(const Op& op);

// Its bodies, in the order of its fields; most operators have none.
std::vector<Body> bodies_of(const Op& op);
// The operator with map(body) in place of each body.
Op map_bodies(Op op, const std::function<Graph(const Graph&)>& map);

// Names of the enums above: enum_name(value) and enum_from_name<E>("SameUpper") (nullopt when unknown).
std::string_view enum_name(AutoPad), enum_name(AttentionLayout), enum_name(PoolKind), enum_name(ReduceKind),
    enum_name(PadMode), enum_name(ResizeMode), enum_name(CoordinateMode), enum_name(NearestMode),
    enum_name(AspectPolicy), enum_name(ScatterReduction), enum_name(E8M0Rounding), enum_name(Activation),
    enum_name(LinearAttentionRule), enum_name(GridPadding), enum_name(TfIdfMode), enum_name(TreeAggregate);
template <class E>
std::optional<E> enum_from_name(std::string_view name);  // instantiated in op.cpp for each enum
template <>
std::optional<PointwiseCode> enum_from_name(std::string_view name);

}  // namespace lathe
