// SPDX-License-Identifier: Apache-2.0
//
// RandomUniform and RandomNormal by Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3"): a function from a key (the seed) and a counter (the number of the element) to 128 random bits. No
// element depends on another one, so the numbers are the same for any number of threads and on any device.
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox(uint64_t seed, uint64_t counter) {
  Words c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

// In [0, 1): with as many bits as a float or a double holds, so that rounding does not give 1.
double unit_number(const Words& words, DType dtype) {
  if (dtype != DType::Float64) return static_cast<double>(words[0] >> 8) * 0x1p-24;
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

// Box and Muller: a radius from one number in (0, 1] and an angle from another one.
double normal_number(const Words& words) {
  const double u = (static_cast<double>(words[0]) + 1) * 0x1p-32, v = static_cast<double>(words[1]) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

void check_type(DType dtype) {
  if (is_float(dtype) && dtype_info(dtype).bits >= 16) return;
  throw_input_error("random numbers of type " + std::string(dtype_name(dtype)) +
                    " are not defined, expected float16, bfloat16, float32 or float64");
}

template <class T>
std::vector<ResultInfo> infer_random(const T& op, const InferContext& context) {
  check_type(op.dtype);
  return {{op.dtype, context.has(0) ? context.input(0).shape : op.shape}};
}

template <class T, class Number>
std::vector<Tensor> fill(const T& op, const EvaluateContext& context, const Number& number) {
  Tensor result =
      allocate_result(op.dtype, context.has(0) ? context.input(0).extents() : context.extents(op.shape));
  const ElementWriter writer(result);
  context.parallel_for(result.size(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double value = number(philox(static_cast<uint64_t>(op.seed), static_cast<uint64_t>(i)));
      writer.store_doubles(i, 1, &value);
    }
  });
  return {result};
}

std::vector<Tensor> evaluate_uniform(const RandomUniform& op, const EvaluateContext& context) {
  const double low = op.low, width = static_cast<double>(op.high) - low;
  return fill(op, context, [&](const Words& words) { return low + width * unit_number(words, op.dtype); });
}

std::vector<Tensor> evaluate_normal(const RandomNormal& op, const EvaluateContext& context) {
  return fill(op, context, [&](const Words& words) {
    return static_cast<double>(op.mean) + static_cast<double>(op.scale) * normal_number(words);
  });
}

double random_flops(const Op&, const CostContext& context) {
  return 60.0 * static_cast<double>(element_count(context.outputs[0]));
}

}  // namespace

std::vector<OpDef> random_ops() {
  return {op_def<RandomUniform, infer_random<RandomUniform>, evaluate_uniform>(random_flops),
          op_def<RandomNormal, infer_random<RandomNormal>, evaluate_normal>(random_flops)};
}

}  // namespace lathe
