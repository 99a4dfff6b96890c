// SPDX-License-Identifier: Apache-2.0
#include "onnx/random_weights.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/floats.h"

namespace lathe::onnx {

namespace {

// SplitMix64's finaliser on a counter (Steele, Lea, Flood 2014): every bit of the counter reaches every bit
// of the result.
uint64_t draw_bits(uint64_t seed, int64_t index) {
  uint64_t z = seed + (static_cast<uint64_t>(index) + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double draw_normal(const WeightRecipe& r, uint64_t bits) {
  const int64_t sum = static_cast<int64_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                           ((bits >> 32) & 0xffff) + (bits >> 48));
  // The sum has mean 2 * 65535 and deviation sqrt((65536^2 - 1) / 3) = 37837.22.
  const double unit = static_cast<double>(sum - 2 * 65535) / 37837.22;
  return std::clamp(unit * r.std + r.mean, r.min, r.max);
}

int64_t draw_integer(const WeightRecipe& r, uint64_t bits) {
  const auto low = static_cast<int64_t>(r.min), high = static_cast<int64_t>(r.max);
  return low + static_cast<int64_t>(bits % (static_cast<uint64_t>(high - low) + 1));
}

template <class T, class Draw>
std::string draw(uint64_t seed, int64_t begin, int64_t count, Draw&& value) {
  std::string out(static_cast<size_t>(count) * sizeof(T), '\0');
  for (int64_t i = 0; i < count; ++i) {
    const T v = value(draw_bits(seed, begin + i));
    std::memcpy(out.data() + static_cast<size_t>(i) * sizeof(T), &v, sizeof(T));
  }
  return out;
}

template <class T>
std::string draw_integers(const WeightRecipe& r, uint64_t seed, int64_t begin, int64_t count) {
  return draw<T>(seed, begin, count, [&](uint64_t bits) { return static_cast<T>(draw_integer(r, bits)); });
}

}  // namespace

std::string draw_weights(const WeightRecipe& r, uint64_t seed, int64_t begin, int64_t count) {
  switch (r.dtype) {
    case DType::Float32:
      return draw<float>(seed, begin, count,
                         [&](uint64_t bits) { return static_cast<float>(draw_normal(r, bits)); });
    case DType::Float64:
      return draw<double>(seed, begin, count, [&](uint64_t bits) { return draw_normal(r, bits); });
    case DType::Float16:
      return draw<uint16_t>(seed, begin, count, [&](uint64_t bits) {
        return float_to_fp16(static_cast<float>(draw_normal(r, bits)));
      });
    case DType::BFloat16:
      return draw<uint16_t>(seed, begin, count, [&](uint64_t bits) {
        return float_to_bf16(static_cast<float>(draw_normal(r, bits)));
      });
    case DType::Int8:
      return draw_integers<int8_t>(r, seed, begin, count);
    case DType::UInt8:
      return draw_integers<uint8_t>(r, seed, begin, count);
    case DType::Int32:
      return draw_integers<int32_t>(r, seed, begin, count);
    case DType::Int64:
      return draw_integers<int64_t>(r, seed, begin, count);
    default:
      throw_input_error("a recipe cannot have weights of type " + std::string(dtype_name(r.dtype)));
  }
}

}  // namespace lathe::onnx
