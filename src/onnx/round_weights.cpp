// SPDX-License-Identifier: Apache-2.0
//
// The integers reach from -8 to 7 (-128 to 127). The largest magnitude of a block takes the side with one
// more: its scale is that element / -8, which may be negative. Cutting it off a little makes all other steps
// finer, so some smaller scales are tried, and each gets the scale that fits its integers best: sum(w * q) /
// sum(q * q).
#include "onnx/round_weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/floats.h"
#include "base/thread_pool.h"

namespace lathe::onnx {
namespace {

// The nearest integer, half to even, of less than 2^22; as one addition and one subtraction, which compilers
// vectorise.
float nearest(float x) {
  constexpr float kShift = 0x1.8p23f;
  return (x + kShift) - kShift;
}

class BlockRounder {
 public:
  explicit BlockRounder(int64_t bits)
      : low_(bits == 4 ? -8.0f : -128.0f), high_(bits == 4 ? 7.0f : 127.0f), tries_(bits == 4 ? 16 : 1) {}

  // Of integers q, the best scale is sum(w * q) / sum(q * q), and what it leaves of the squared error is sum(w * w) less
  // sum(w * q)^2 / sum(q * q).
  float scale_of(std::span<const float> block) const {
    float extreme = 0;
    for (const float w : block)
      if (std::abs(w) > std::abs(extreme)) extreme = w;
    // A block of zeros has any scale; the smallest normal numbers would have none.
    if (!(std::abs(extreme) > 1e-30f)) return 1;
    // Where no integer has a square, the first scale stays.
    float scale = extreme / low_, most = 0;
    for (int i = 0; i < tries_; ++i) {
      const auto [products, squares] = sums(block, extreme / low_ * (1 - 0.025f * static_cast<float>(i)));
      if (!(squares > 0)) continue;
      const float taken = products / squares * products;
      if (taken <= most) continue;
      most = taken;
      scale = products / squares;
    }
    // Its integers once more, which may be nearer ones, and the scale that fits these best.
    if (const auto [products, squares] = sums(block, scale); squares > 0 && most > 0)
      scale = products / squares;
    return std::abs(stored(scale)) > 1e-30f ? stored(scale) : stored(extreme / low_);
  }

  float quantum(float w, float scale) const { return nearest(std::clamp(w / scale, low_, high_)); }
  int zero() const { return static_cast<int>(-low_); }

 private:
  // As an FP16 number, unless that is denormal or infinite.
  static float stored(float scale) {
    const float half = fp16_to_float(float_to_fp16(scale));
    return std::isfinite(half) && std::abs(half) >= 0x1p-14f ? half : scale;
  }

  struct Sums {
    float products = 0, squares = 0;
  };
  // In lanes, which compilers vectorise: a block has a power of two of elements, 16 or more.
  Sums sums(std::span<const float> block, float scale) const {
    constexpr size_t kLanes = 16;
    float products[kLanes] = {}, squares[kLanes] = {};
    const float inverse = 1 / scale;
    for (size_t i = 0; i < block.size(); i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float w = block[i + lane], q = nearest(std::min(std::max(w * inverse, low_), high_));
        products[lane] += w * q;
        squares[lane] += q * q;
      }
    Sums all;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      all.products += products[lane];
      all.squares += squares[lane];
    }
    return all;
  }

  float low_, high_;
  int tries_;
};

// Zeros behind the last weight, up to a whole block.
void read_column(std::span<const float> weights, const WeightMatrix& matrix, int64_t column,
                 std::vector<float>& out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (int64_t k = 0; k < matrix.k; ++k)
    out[static_cast<size_t>(k)] =
        weights[static_cast<size_t>(matrix.transposed ? column * matrix.k + k : k * matrix.columns + column)];
}

}  // namespace

RoundedWeights round_weights(const std::string& name, std::span<const float> weights,
                             const WeightMatrix& matrix, const WeightRounding& rounding,
                             const ErrorSpread* spread) {
  if (!std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); }))
    throw_input_error("the weights '" + name + "' have an element that is not a finite number");
  const BlockRounder rounder(rounding.bits);
  const int64_t blocks = (matrix.k + rounding.block - 1) / rounding.block, per_byte = 8 / rounding.bits,
                block_bytes = rounding.block / per_byte;
  RoundedWeights result{Tensor::allocate(DType::UInt8, {matrix.columns, blocks, block_bytes}),
                        Tensor::allocate(DType::Float32, {matrix.columns, blocks})};
  const auto bytes = result.integers.mutable_data<uint8_t>();
  const auto scales = result.scales.mutable_data<float>();
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  ThreadPool pool;
  pool.parallel_for(matrix.columns, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> column(static_cast<size_t>(blocks * rounding.block));
    for (int64_t c = begin; c < end; ++c) {
      read_column(weights, matrix, c, column);
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at = c * blocks + b, first = b * rounding.block;
        const float scale = scales[static_cast<size_t>(at)] = rounder.scale_of(
            std::span(column).subspan(static_cast<size_t>(first), static_cast<size_t>(rounding.block)));
        for (int64_t i = 0; i < rounding.block; ++i) {
          const auto k = static_cast<size_t>(first + i);
          const float quantum = rounder.quantum(column[k], scale);
          if (spread && first + i < matrix.k)
            pass_error_on(std::span(column).subspan(k), column[k] - quantum * scale, spread->row(first + i));
          bytes[static_cast<size_t>(at * block_bytes + i / per_byte)] |= static_cast<uint8_t>(
              (static_cast<int>(quantum) + rounder.zero()) << (i % per_byte * rounding.bits));
        }
      }
    }
  });
  return result;
}

}  // namespace lathe::onnx
