// SPDX-License-Identifier: Apache-2.0
//
// The pointwise operations (the device's form of ops/scalar.h, in FP32; the tests compare the two), and
// reductions over a warp and a block; behind storage.cuh in every generated kernel. `kFastMath` is true where
// the result does not need the last bits.

//# kPointwise
DEV float infinity() { return __uint_as_float(0x7f800000u); }
// What a mask adds to an exponent of two. A finite number that forbids (the lowest one) stays finite.
DEV float mask_exponent(float m) { return m < -3.40282347e38f ? m : fmaxf(m * 1.4426950408889634f, -3e38f); }
DEV float not_a_number() { return __uint_as_float(0x7fffffffu); }
DEV float exp_(float x) { return kFastMath ? __expf(x) : expf(x); }
DEV float divide(float a, float b) { return kFastMath ? __fdividef(a, b) : a / b; }

DEV float pw_Identity(float a) { return a; }
DEV float pw_Abs(float a) { return fabsf(a); }
DEV float pw_Neg(float a) { return -a; }
DEV float pw_Sign(float a) { return a > 0 ? 1.f : a < 0 ? -1.f : a == 0 ? 0.f : a; }
DEV float pw_Reciprocal(float a) { return 1.f / a; }
DEV float pw_Sqrt(float a) { return sqrtf(a); }
DEV float pw_Rsqrt(float a) { return kFastMath ? rsqrtf(a) : 1.f / sqrtf(a); }
DEV float pw_Square(float a) { return a * a; }
DEV float pw_Exp(float a) { return exp_(a); }
DEV float pw_Log(float a) { return logf(a); }
DEV float pw_Sin(float a) { return sinf(a); }
DEV float pw_Cos(float a) { return cosf(a); }
DEV float pw_Tan(float a) { return tanf(a); }
DEV float pw_Asin(float a) { return asinf(a); }
DEV float pw_Acos(float a) { return acosf(a); }
DEV float pw_Atan(float a) { return atanf(a); }
DEV float pw_Sinh(float a) { return sinhf(a); }
DEV float pw_Cosh(float a) { return coshf(a); }
DEV float pw_Tanh(float a) { return tanhf(a); }
DEV float pw_Asinh(float a) { return asinhf(a); }
DEV float pw_Acosh(float a) { return acoshf(a); }
DEV float pw_Atanh(float a) { return atanhf(a); }
DEV float pw_Erf(float a) { return erff(a); }
DEV float pw_Ceil(float a) { return ceilf(a); }
DEV float pw_Floor(float a) { return floorf(a); }
DEV float pw_Round(float a) { return rintf(a); }
DEV long long pw_IsNaN(float a) { return a != a; }
DEV float pw_Relu(float a) { return larger(a, 0.f); }
DEV float sigmoid(float a) { return kFastMath ? divide(1.f, 1.f + exp_(-a)) : 1.f / (1.f + expf(-a)); }
DEV float pw_Sigmoid(float a) { return sigmoid(a); }
DEV float pw_Softplus(float a) { return log1pf(expf(-fabsf(a))) + (a > 0 ? a : 0.f) + (a != a ? a : 0.f); }
DEV float pw_Softsign(float a) { return a / (1.f + fabsf(a)); }
DEV float pw_HardSwish(float a) {
  const float gate = a * (1.f / 6.f) + 0.5f;
  return a * (gate < 0 ? 0.f : gate > 1 ? 1.f : gate);
}
DEV float pw_Mish(float a) { return a * tanhf(pw_Softplus(a)); }
// Where __fdividef would see a divisor beyond 2^126, x * sigmoid is x / huge: 0 is the limit that it gives
// too.
DEV float pw_Silu(float a, float alpha, float) { return a * sigmoid(alpha * a); }
// Where 16 bits are stored: max(a, 0) - |a| erfc(|a| / sqrt 2) / 2 with the rational form of Abramowitz and
// Stegun (7.1.26, absolute error 1.5e-7; factors of sqrt(1/2) are in the coefficients), a third of the
// instructions of erff.
DEV float gelu_fast(float a) {
  const float x = fminf(fabsf(a), 17.f), t = reciprocal(1.f + 0.23164189f * x);
  const float p =
      t * (0.12741480f + t * (-0.14224837f + t * (0.71070688f + t * (-0.72657603f + t * 0.53070271f))));
  return larger(a, 0.f) - x * p * power_of_two(x * x * -0.72134752f);
}
DEV float pw_GeluErf(float a) {
  return kFastMath ? gelu_fast(a) : 0.5f * a * (1.f + erff(a * 0.70710678118654752f));
}
DEV float pw_GeluTanh(float a) {
  return 0.5f * a * (1.f + tanhf(0.79788456080286536f * (a + 0.044715f * a * a * a)));
}
DEV float pw_LeakyRelu(float a, float alpha, float) { return a < 0 ? alpha * a : a; }
DEV float pw_Elu(float a, float alpha, float) { return a < 0 ? alpha * expm1f(a) : a; }
DEV float pw_Celu(float a, float alpha, float) { return a < 0 ? alpha * expm1f(a / alpha) : a; }
DEV float pw_Selu(float a, float alpha, float beta) { return beta * (a > 0 ? a : alpha * expm1f(a)); }
DEV float pw_ThresholdedRelu(float a, float alpha, float) { return a > alpha ? a : 0.f; }
DEV float pw_HardSigmoid(float a, float alpha, float beta) {
  const float line = alpha * a + beta;
  return line < 0 ? 0.f : line > 1 ? 1.f : line;
}
DEV float pw_Clip(float a, float alpha, float beta) { return smaller(larger(a, alpha), beta); }
DEV float pw_Shrink(float a, float alpha, float beta) {
  return a < -beta ? a + alpha : a > beta ? a - alpha : a == a ? 0.f : a;
}
DEV long long pw_IsInf(float a, float alpha, float beta) {
  return fabsf(a) == infinity() && (a < 0 ? alpha != 0 : beta != 0);
}
DEV float pw_Linear(float a, float alpha, float beta) { return alpha * a + beta; }
// a / d, correctly rounded, from the reciprocal of d: an exact tie stays one.
DEV float quotient(float a, float d) {
  const float inverse = 1.f / d, q = a * inverse;
  return fabsf(q) < infinity() ? fmaf(fmaf(-q, d, a), inverse, q) : q;
}
DEV float pw_RoundTo(float a, float alpha, float) { return rintf(quotient(a, alpha)) * alpha; }
// The nearest number of E4M3, which has three bits behind the leading one. 2^20 times the power of two below
// a number, added to it, has its last bit at the third of them; numbers below 2^-6 keep the steps of 2^-6.
DEV float nearest_e4m3(float x) {
  const float size = smaller(fabsf(x), 448.f);
  const float power = fmaxf(__uint_as_float(__float_as_uint(size) & 0x7f800000u), 0.015625f),
              high = power * 1048576.f;
  return __uint_as_float(__float_as_uint(size + high - high) | (__float_as_uint(x) & 0x80000000u));
}
DEV float pw_RoundToE4M3(float a, float alpha, float) { return nearest_e4m3(quotient(a, alpha)) * alpha; }
// quotient() below 2^22.
DEV float near_quotient(float a, float d) {
  const float inverse = 1.f / d, q = a * inverse;
  return fmaf(fmaf(-q, d, a), inverse, q);
}
DEV float round_near(float a, float alpha) {
  return (near_quotient(a, alpha) + 12582912.f - 12582912.f) * alpha;
}
DEV float pw_Add(float a, float b) { return a + b; }
DEV float pw_Sub(float a, float b) { return a - b; }
DEV float pw_Mul(float a, float b) { return a * b; }
DEV float pw_Div(float a, float b) { return a / b; }
DEV float pw_Pow(float a, float b) { return powf(a, b); }
DEV float pw_Min(float a, float b) { return a < b || a != a ? a : b; }
DEV float pw_Max(float a, float b) { return a > b || a != a ? a : b; }
DEV float pw_Mod(float a, float b) {
  const float rest = fmodf(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
DEV float pw_FMod(float a, float b) { return fmodf(a, b); }
DEV float pw_PRelu(float a, float b) { return a < 0 ? a * b : a; }

DEV long long pw_Identity(long long a) { return a; }
DEV long long pw_Abs(long long a) { return a < 0 ? -a : a; }
DEV long long pw_Neg(long long a) { return -a; }
DEV long long pw_Sign(long long a) { return a < 0 ? -1 : a != 0; }
DEV long long pw_Square(long long a) { return a * a; }
DEV long long pw_Relu(long long a) { return a < 0 ? 0 : a; }
DEV long long pw_Not(long long a) { return a == 0; }
DEV long long pw_BitwiseNot(long long a) { return ~a; }
DEV long long pw_Clip(long long a, float alpha, float beta) {
  if ((double)a > (double)beta) return (long long)beta;
  return (double)a < (double)alpha ? (long long)alpha : a;
}
DEV long long pw_Add(long long a, long long b) { return a + b; }
DEV long long pw_Sub(long long a, long long b) { return a - b; }
DEV long long pw_Mul(long long a, long long b) { return a * b; }
DEV long long pw_Div(long long a, long long b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }
DEV long long pw_FMod(long long a, long long b) { return b == 0 || b == -1 ? 0 : a % b; }
DEV long long pw_Mod(long long a, long long b) {
  const long long rest = pw_FMod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
DEV long long pw_Pow(long long base, long long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  long long result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}
DEV long long pw_Min(long long a, long long b) { return b < a ? b : a; }
DEV long long pw_Max(long long a, long long b) { return a < b ? b : a; }
DEV long long pw_PRelu(long long a, long long b) { return a < 0 ? a * b : a; }
DEV long long pw_And(long long a, long long b) { return a != 0 && b != 0; }
DEV long long pw_Or(long long a, long long b) { return a != 0 || b != 0; }
DEV long long pw_Xor(long long a, long long b) { return (a != 0) != (b != 0); }
DEV long long pw_BitwiseAnd(long long a, long long b) { return a & b; }
DEV long long pw_BitwiseOr(long long a, long long b) { return a | b; }
DEV long long pw_BitwiseXor(long long a, long long b) { return a ^ b; }
DEV long long pw_ShiftLeft(long long a, long long b) { return b >= 0 && b < 64 ? a << b : 0; }
DEV long long pw_ShiftRight(long long a, long long b) { return a >> (b >= 0 && b < 64 ? b : 63); }
template <class C> DEV long long pw_Equal(C a, C b) { return a == b; }
template <class C> DEV long long pw_Less(C a, C b) { return a < b; }
template <class C> DEV long long pw_LessOrEqual(C a, C b) { return a <= b; }
template <class C> DEV long long pw_Greater(C a, C b) { return a > b; }
template <class C> DEV long long pw_GreaterOrEqual(C a, C b) { return a >= b; }

// Reductions over a warp, and over a block of `threads` through `buffer` (a float per warp; free again after
// the call).
template <class Op> DEV float warp_reduce(float x, Op op) {
#pragma unroll
  for (int m = 16; m > 0; m >>= 1) x = op(x, shuffle_xor(x, m));
  return x;
}
template <int kThreads, class Op> DEV float block_reduce(float x, float* buffer, Op op) {
  x = warp_reduce(x, op);
  if constexpr (kThreads == 32) return x;
  if (threadIdx.x % 32 == 0) buffer[threadIdx.x / 32] = x;
  __syncthreads();
  x = buffer[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) x = op(x, buffer[i]);
  __syncthreads();
  return x;
}
struct SumOp {
  DEV float operator()(float a, float b) const { return a + b; }
};
struct MaxOp {
  DEV float operator()(float a, float b) const { return pw_Max(a, b); }
};
struct MinOp {
  DEV float operator()(float a, float b) const { return pw_Min(a, b); }
};
struct ProdOp {
  DEV float operator()(float a, float b) const { return a * b; }
};

// A layer's tail (codegen_tail.h) on vectors of results: what it reads, of their columns and of their places,
// and the lambdas that load that and turn sums into results.
template <class ColumnsOf, class PlacesOf, class FetchColumns, class ApplyColumns, class FetchPlace,
          class ApplyPlace>
struct LayerTail {
  typedef ColumnsOf Columns;
  typedef PlacesOf Places;
  struct Operands {
    Columns columns;
    Places places;
  };
  FetchColumns fetch_columns;
  ApplyColumns apply_columns;
  FetchPlace fetch_place;
  ApplyPlace apply_place;

  DEV void fetch(idx at, idx column, Operands& o) const {
    fetch_columns(column, o.columns);
    fetch_place(at, o.places);
  }
  template <int N> DEV void apply(const Operands& o, float (&v)[N]) const {
    apply_columns(o.columns, v);
    apply_place(o.columns, o.places, v);
  }
};
template <class Columns, class Places, class... Lambdas>
DEV LayerTail<Columns, Places, Lambdas...> tail_of(Lambdas... lambdas) {
  return {lambdas...};
}
