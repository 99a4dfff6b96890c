// SPDX-License-Identifier: Apache-2.0
//
// What each pointwise operation computes, on one element. The only definition: the oracle, folding and the
// tests of code generators call it. Float operations are templates, so that the oracle computes in double and
// a kernel's test in float; integer operations wrap around as two's complement does and never trap.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/floats.h"
#include "ir/pointwise.h"

namespace lathe {

// --- comparisons: any type with an order
template <class T>
bool pointwise_compare(PointwiseCode code, T a, T b) {
  switch (code) {
    case PointwiseCode::Equal:
      return a == b;
    case PointwiseCode::Less:
      return a < b;
    case PointwiseCode::LessOrEqual:
      return a <= b;
    case PointwiseCode::Greater:
      return a > b;
    case PointwiseCode::GreaterOrEqual:
      return a >= b;
    default:
      return false;
  }
}

constexpr bool is_comparison(PointwiseCode code) {
  return code >= PointwiseCode::Equal && code <= PointwiseCode::GreaterOrEqual;
}

// --- floating point. `b` is ignored by unary operations. NaN goes in, NaN comes out: Min, Max, Relu and Clip
// too.
template <class T>
T pointwise_float(PointwiseCode code, T a, T b, T alpha, T beta) {
  using C = PointwiseCode;
  const auto sigmoid = [](T x) { return T(1) / (T(1) + std::exp(-x)); };
  // log(1 + e^x) without overflow
  const auto softplus = [](T x) { return std::log1p(std::exp(-std::abs(x))) + (x > 0 ? x : T(0)); };
  constexpr T kSqrtHalf = T(0.70710678118654752440), kSqrt2OverPi = T(0.79788456080286535588);
  switch (code) {
    case C::Identity:
      return a;
    case C::Abs:
      return std::abs(a);
    case C::Neg:
      return -a;
    case C::Sign:
      return a > 0 ? T(1) : a < 0 ? T(-1) : a == 0 ? T(0) : a;
    case C::Reciprocal:
      return T(1) / a;
    case C::Sqrt:
      return std::sqrt(a);
    case C::Rsqrt:
      return T(1) / std::sqrt(a);
    case C::Square:
      return a * a;
    case C::Exp:
      return std::exp(a);
    case C::Log:
      return std::log(a);
    case C::Sin:
      return std::sin(a);
    case C::Cos:
      return std::cos(a);
    case C::Tan:
      return std::tan(a);
    case C::Asin:
      return std::asin(a);
    case C::Acos:
      return std::acos(a);
    case C::Atan:
      return std::atan(a);
    case C::Sinh:
      return std::sinh(a);
    case C::Cosh:
      return std::cosh(a);
    case C::Tanh:
      return std::tanh(a);
    case C::Asinh:
      return std::asinh(a);
    case C::Acosh:
      return std::acosh(a);
    case C::Atanh:
      return std::atanh(a);
    case C::Erf:
      return std::erf(a);
    case C::Ceil:
      return std::ceil(a);
    case C::Floor:
      return std::floor(a);
    case C::Round:
      return std::nearbyint(a);  // half to even in the default rounding mode
    case C::Relu:
      return a < 0 ? T(0) : a;
    case C::Sigmoid:
      return sigmoid(a);
    case C::Softplus:
      return softplus(a);
    case C::Softsign:
      return a / (T(1) + std::abs(a));
    case C::HardSwish: {
      const T gate = a / T(6) + T(0.5);
      return a * (gate < 0 ? T(0) : gate > 1 ? T(1) : gate);
    }
    case C::Mish:
      return a * std::tanh(softplus(a));
    case C::Silu:
      return a * sigmoid(alpha * a);
    case C::GeluErf:
      return T(0.5) * a * (T(1) + std::erf(a * kSqrtHalf));
    case C::GeluTanh:
      return T(0.5) * a * (T(1) + std::tanh(kSqrt2OverPi * (a + T(0.044715) * a * a * a)));
    case C::LeakyRelu:
      return a < 0 ? alpha * a : a;
    case C::Elu:
      return a < 0 ? alpha * std::expm1(a) : a;
    case C::Celu:
      return a < 0 ? alpha * std::expm1(a / alpha) : a;
    case C::Selu:
      return beta * (a > 0 ? a : alpha * std::expm1(a));
    case C::ThresholdedRelu:
      return a > alpha ? a : T(0);
    case C::HardSigmoid: {
      const T line = alpha * a + beta;
      return line < 0 ? T(0) : line > 1 ? T(1) : line;
    }
    case C::Clip: {
      const T raised = a < alpha ? alpha : a;
      return raised > beta ? beta : raised;
    }
    case C::Shrink:
      return a < -beta ? a + alpha : a > beta ? a - alpha : a == a ? T(0) : a;
    case C::Linear:
      return alpha * a + beta;
    case C::RoundTo: {
      const float scale = static_cast<float>(alpha);
      return std::nearbyint(static_cast<float>(a) / scale) * scale;
    }
    case C::RoundToE4M3: {
      const float scale = static_cast<float>(alpha);
      const uint8_t nearest = float_to_fp8(static_cast<float>(a) / scale, Fp8Kind::E4M3FN);
      return fp8_to_float(nearest, Fp8Kind::E4M3FN) * scale;
    }
    case C::Add:
      return a + b;
    case C::Sub:
      return a - b;
    case C::Mul:
      return a * b;
    case C::Div:
      return a / b;
    case C::Pow:
      return std::pow(a, b);
    case C::Min:
      return a < b || a != a ? a : b;
    case C::Max:
      return a > b || a != a ? a : b;
    case C::Mod: {
      const T rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case C::FMod:
      return std::fmod(a, b);
    case C::PRelu:
      return a < 0 ? a * b : a;
    default:
      return std::numeric_limits<T>::quiet_NaN();  // not a float operation: pointwise_dtype refuses it
  }
}

// IsNaN and IsInf.
template <class T>
bool pointwise_classify(PointwiseCode code, T a, T alpha, T beta) {
  if (code == PointwiseCode::IsNaN) return std::isnan(a);
  return std::isinf(a) && (a < 0 ? alpha != 0 : beta != 0);
}

// --- integers and bool. Values are int64; `is_uint64`: they are uint64 bits. The caller wraps the result to
// its type.
inline int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return static_cast<int64_t>(result);
}

inline int64_t integer_divide(int64_t a, int64_t b, bool is_uint64) {
  if (b == 0) return 0;  // the hardware would trap; ONNX leaves the result open
  if (is_uint64) return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}

inline int64_t integer_remainder(int64_t a, int64_t b, bool is_uint64) {  // sign of the dividend
  if (b == 0 || b == -1) return is_uint64 && b == -1 ? (a == -1 ? 0 : a) : 0;
  if (is_uint64) return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  return a % b;
}

inline int64_t pointwise_integer(PointwiseCode code, int64_t a, int64_t b, bool is_uint64, float alpha,
                                 float beta) {
  using C = PointwiseCode;
  const uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const auto less = [&](int64_t x, int64_t y) {
    return is_uint64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
  };
  const bool negative = less(a, 0);
  switch (code) {
    case C::Identity:
      return a;
    case C::Abs:
      return negative ? static_cast<int64_t>(0 - ua) : a;
    case C::Neg:
      return static_cast<int64_t>(0 - ua);
    case C::Sign:
      return negative ? -1 : a != 0;
    case C::Square:
      return static_cast<int64_t>(ua * ua);
    case C::Relu:
      return negative ? 0 : a;
    case C::Not:
      return a == 0;
    case C::BitwiseNot:
      return ~a;
    case C::Clip: {
      // Bounds are float parameters; compared as double, which is exact for every bound that a float can
      // hold.
      const double value = is_uint64 ? static_cast<double>(ua) : static_cast<double>(a);
      if (value > static_cast<double>(beta)) return static_cast<int64_t>(beta);
      return value < static_cast<double>(alpha) ? static_cast<int64_t>(alpha) : a;
    }
    case C::Add:
      return static_cast<int64_t>(ua + ub);
    case C::Sub:
      return static_cast<int64_t>(ua - ub);
    case C::Mul:
      return static_cast<int64_t>(ua * ub);
    case C::Div:
      return integer_divide(a, b, is_uint64);
    case C::Pow:
      return integer_power(a, b);
    case C::Min:
      return less(b, a) ? b : a;
    case C::Max:
      return less(a, b) ? b : a;
    case C::Mod: {
      const int64_t rest = integer_remainder(a, b, is_uint64);
      return !is_uint64 && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case C::FMod:
      return integer_remainder(a, b, is_uint64);
    case C::PRelu:
      return negative ? static_cast<int64_t>(ua * ub) : a;
    case C::And:
      return a != 0 && b != 0;
    case C::Or:
      return a != 0 || b != 0;
    case C::Xor:
      return (a != 0) != (b != 0);
    case C::BitwiseAnd:
      return a & b;
    case C::BitwiseOr:
      return a | b;
    case C::BitwiseXor:
      return a ^ b;
    case C::ShiftLeft:
      return ub < 64 ? static_cast<int64_t>(ua << ub) : 0;
    case C::ShiftRight:
      // Shifts beyond the width (negative ones count as huge) leave nothing but copies of the sign.
      if (is_uint64) return ub < 64 ? static_cast<int64_t>(ua >> ub) : 0;
      return a >> (ub < 64 ? ub : 63);
    default:
      return 0;  // not an integer operation: pointwise_dtype refuses it
  }
}

}  // namespace lathe
