// SPDX-License-Identifier: Apache-2.0
//
// Operators over sequences, images and signals, and random numbers.
// op.h says what holds for all of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "ir/op_fields.h"
#include "ir/op_move.h"
#include "ir/shape.h"

namespace lathe {

// --- recurrent layers -------------------------------------------------------------------------------------
// One direction each; the importer joins two for a bidirectional layer. T steps, B sequences, I inputs and H
// hidden values; G gates of H rows each lie one after the other in weights and biases. Inputs: x (T, B, I), w
// (G*H, I), r (G*H, H), [bias (2*G*H): of w, then of r], [lengths (B, int32)], [initial h (B, H)]. Outputs: y
// (T, B, H), the last h (B, H). With lengths, steps behind a sequence's length give zeros and leave h as it
// is. `reverse` starts at a sequence's last step. alpha and beta: of the activations in their order, or empty
// when none of them has parameters. clip bounds what goes into activations to [-clip, clip]; 0: no bound.
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
// G = 3: update, reset, hidden. linear_before_reset: the reset gate scales the product with r, not h.
struct GRU {
  static constexpr std::string_view kName = "GRU";
  Activation f = Activation::Sigmoid, g = Activation::Tanh;
  std::vector<float> alpha, beta;
  float clip = 0;
  bool reverse = false, linear_before_reset = false;
  LATHE_FIELDS(v("f", s.f); v("g", s.g); v("alpha", s.alpha); v("beta", s.beta); v("clip", s.clip);
               v("reverse", s.reverse); v("linear_before_reset", s.linear_before_reset);)
  bool operator==(const GRU&) const = default;
};
// G = 4: input, output, forget, cell. More inputs: [initial c (B, H)], [peepholes (3*H): input, output,
// forget]; one more output: the last c (B, H). input_forget: the forget gate is 1 - the input gate.
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
// inputs: q (B, T, q_heads*K), k (B, T, kv_heads*K), v (B, T, kv_heads*V), [past state (B, kv_heads, K, V)],
// [decay (B, T, kv_heads or kv_heads*K), log space], [beta (B, T, kv_heads or 1)]; outputs: y (B, T,
// q_heads*V), present state.
struct LinearAttention {
  static constexpr std::string_view kName = "LinearAttention";
  LinearAttentionRule rule = LinearAttentionRule::GatedDelta;
  int64_t q_heads = 1, kv_heads = 1;
  float scale = 1;
  LATHE_FIELDS(v("rule", s.rule); v("q_heads", s.q_heads); v("kv_heads", s.kv_heads); v("scale", s.scale);)
  bool operator==(const LinearAttention&) const = default;
};

// --- sampling of images -----------------------------------------------------------------------------------
enum class GridPadding : uint8_t { Zeros, Border, Reflection };
// inputs: x (N, C, spatial...), grid (N, out spatial..., rank of the spatial dims: innermost first); output
// (N, C, out spatial...).
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
// inputs: x (N, C, H, W), rois (R, 5): batch index, x1, y1, x2, y2; output (R, C, output_height,
// output_width).
struct MaxRoiPool {
  static constexpr std::string_view kName = "MaxRoiPool";
  int64_t output_height = 1, output_width = 1;
  float spatial_scale = 1;
  LATHE_FIELDS(v("output_height", s.output_height); v("output_width", s.output_width);
               v("spatial_scale", s.spatial_scale);)
  bool operator==(const MaxRoiPool&) const = default;
};
// inputs: x (N, C, H, W), w (M, C/groups, kernel...), offset (N, offset_groups*kernel*2, out H, out W), [bias
// (M)], [mask (N, offset_groups*kernel, out H, out W)]; output (N, M, out H, out W).
struct DeformConv {
  static constexpr std::string_view kName = "DeformConv";
  Ints kernel, strides, dilations, pads_begin, pads_end;
  int64_t groups = 1, offset_groups = 1;
  LATHE_FIELDS(v("kernel", s.kernel); v("strides", s.strides); v("dilations", s.dilations); v("pads_begin", s.pads_begin);
               v("pads_end", s.pads_end); v("groups", s.groups); v("offset_groups", s.offset_groups);)
  bool operator==(const DeformConv&) const = default;
};
// inputs: x (N, C*block, L), image shape (int64), block shape (int64); output (N, C, image...). Blocks are
// added up.
struct Col2Im {
  static constexpr std::string_view kName = "Col2Im";
  Ints strides, dilations, pads_begin, pads_end;
  LATHE_FIELDS(v("strides", s.strides); v("dilations", s.dilations); v("pads_begin", s.pads_begin);
               v("pads_end", s.pads_end);)
  bool operator==(const Col2Im&) const = default;
};

// --- signals ----------------------------------------------------------------------------------------------
// inputs: x (..., 1 or 2: real or complex), [length (int64 scalar)], [axis (int64 scalar), else -2]; output
// in pairs of real and imaginary part. onesided: only the first half and the middle; with inverse it reads
// such a half and gives reals.
struct DFT {
  static constexpr std::string_view kName = "DFT";
  bool inverse = false, onesided = false;
  LATHE_FIELDS(v("inverse", s.inverse); v("onesided", s.onesided);)
  bool operator==(const DFT&) const = default;
};
// inputs: signal (B, L, 1 or 2), step (int64 scalar), [window], [frame length (int64 scalar)]; output (B,
// frames, bins, 2).
struct STFT {
  static constexpr std::string_view kName = "STFT";
  bool onesided = true;
  LATHE_FIELDS(v("onesided", s.onesided);)
  bool operator==(const STFT&) const = default;
};
// inputs, all scalars: mel bins, DFT length, sample rate, lower and upper edge in hertz; output (DFT length /
// 2 + 1, mel bins).
struct MelWeightMatrix {
  static constexpr std::string_view kName = "MelWeightMatrix";
  DType dtype = DType::Float32;
  LATHE_FIELDS(v("dtype", s.dtype);)
  bool operator==(const MelWeightMatrix&) const = default;
};

// --- random numbers ---------------------------------------------------------------------------------------
// inputs: [x: its shape is the result's; needed only where a run finds that shape]. Philox 4x32-10 keyed by
// the seed and counted by the element: the same numbers in every run, on every backend.
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

}  // namespace lathe
