// SPDX-License-Identifier: Apache-2.0
//
// The integers reach from -8 to 7 (-128 to 127). The largest magnitude of a block takes the side with one
// more: its scale is that element / -8, which may be negative. Cutting it off a little makes all other steps
// finer, so some smaller scales are tried, and each gets the scale that fits its integers best: sum(w * q) /
// sum(q * q).
#include "onnx/round_weights.h"

#include <algorithm>
#include <array>
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

  float scale_of(std::span<const float> block) const {
    float extreme = 0;
    for (const float w : block)
      if (std::abs(w) > std::abs(extreme)) extreme = w;
    // A block of zeros has any scale; the smallest normal numbers would have none.
    if (!(std::abs(extreme) > 1e-30f)) return 1;
    float best = 1, least = 0;
    for (int i = 0; i < tries_; ++i) {
      const float tried = extreme / low_ * (1 - 0.025f * static_cast<float>(i));
      const Fit fitted = fit(block, tried);
      float scale = stored(fitted.squares > 0 ? fitted.products / fitted.squares : tried);
      if (!(std::abs(scale) > 1e-30f)) scale = stored(tried);
      if (const float lost = error(block, scale); i == 0 || lost < least) {
        least = lost;
        best = scale;
      }
    }
    return best;
  }

  float quantum(float w, float scale) const { return nearest(std::clamp(w / scale, low_, high_)); }
  int zero() const { return static_cast<int>(-low_); }
  float low() const { return low_; }
  float high() const { return high_; }

 private:
  // As an FP16 number, unless that is denormal or infinite.
  static float stored(float scale) {
    const float half = fp16_to_float(float_to_fp16(scale));
    return std::isfinite(half) && std::abs(half) >= 0x1p-14f ? half : scale;
  }

  struct Fit {
    float products = 0, squares = 0;  // of w * q and q * q
  };

  Fit fit(std::span<const float> block, float scale) const {
    const auto [products, squares] = in_lanes<2>(block, 1 / scale, [](float w, float q, auto add) {
      add(0, w * q);
      add(1, q * q);
    });
    return {products, squares};
  }

  // The squared error of the block.
  float error(std::span<const float> block, float scale) const {
    return in_lanes<1>(block, 1 / scale,
                       [scale](float w, float q, auto add) { add(0, (w - scale * q) * (w - scale * q)); })[0];
  }

  // Sums over the weights and their integers, in lanes, which compilers vectorise: a block has a power of two
  // of elements, 16 or more.
  template <size_t kSums, class Terms>
  std::array<float, kSums> in_lanes(std::span<const float> block, float inverse, const Terms& terms) const {
    constexpr size_t kLanes = 16;
    float lanes[kSums][kLanes] = {};
    for (size_t i = 0; i < block.size(); i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float w = block[i + lane];
        terms(w, nearest(std::min(std::max(w * inverse, low_), high_)),
              [&](size_t sum, float term) { lanes[sum][lane] += term; });
      }
    std::array<float, kSums> all{};
    for (size_t sum = 0; sum < kSums; ++sum)
      for (const float term : lanes[sum]) all[sum] += term;
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

// Block by block; with a spread each weight takes up the errors of those before it.
RoundedColumn round_in_turn(const BlockRounder& rounder, std::vector<float> column, int64_t k, int64_t block,
                            const ErrorSpread* spread) {
  RoundedColumn rounded{.integers = std::vector<float>(column.size()),
                        .scales = std::vector<float>(column.size())};
  for (size_t first = 0; first < column.size(); first += static_cast<size_t>(block)) {
    const float scale = rounder.scale_of(std::span(column).subspan(first, static_cast<size_t>(block)));
    for (size_t i = first; i < first + static_cast<size_t>(block); ++i) {
      rounded.integers[i] = rounder.quantum(column[i], scale);
      rounded.scales[i] = scale;
      if (spread && static_cast<int64_t>(i) < k)
        pass_error_on(std::span(column).subspan(i), column[i] - rounded.integers[i] * scale,
                      spread->row(static_cast<int64_t>(i)));
    }
  }
  return rounded;
}

double output_error(const InputSums& inputs, std::span<const float> column, const RoundedColumn& rounded) {
  std::vector<float> errors(column.size());
  for (size_t i = 0; i < errors.size(); ++i) errors[i] = column[i] - rounded.integers[i] * rounded.scales[i];
  return output_error(inputs, errors);
}

// The better of what compensation and the nearest integers become when they have settled: never worse than
// the nearest.
RoundedColumn round_by_samples(const BlockRounder& rounder, const std::vector<float>& column, int64_t k,
                               int64_t block, const ErrorSpread& spread) {
  const InputSums& inputs = spread.inputs();
  RoundedColumn compensated = round_in_turn(rounder, column, k, block, &spread);
  settle(inputs, column, rounder.low(), rounder.high(), compensated);
  RoundedColumn near = round_in_turn(rounder, column, k, block, nullptr);
  const double least = output_error(inputs, column, compensated);
  if (least <= output_error(inputs, column, near)) return compensated;
  RoundedColumn settled = near;
  settle(inputs, column, rounder.low(), rounder.high(), settled);
  return output_error(inputs, column, settled) <= output_error(inputs, column, near) ? settled : near;
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
      const RoundedColumn rounded = spread
                                        ? round_by_samples(rounder, column, matrix.k, rounding.block, *spread)
                                        : round_in_turn(rounder, column, matrix.k, rounding.block, nullptr);
      for (int64_t i = 0; i < blocks * rounding.block; ++i) {
        const auto k = static_cast<size_t>(i);
        scales[static_cast<size_t>(c * blocks + i / rounding.block)] = rounded.scales[k];
        bytes[static_cast<size_t>(c * blocks * block_bytes + i / per_byte)] |= static_cast<uint8_t>(
            (static_cast<int>(rounded.integers[k]) + rounder.zero()) << (i % per_byte * rounding.bits));
      }
    }
  });
  return result;
}

}  // namespace lathe::onnx
