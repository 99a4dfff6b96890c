// SPDX-License-Identifier: Apache-2.0
//
// The device text that every generated kernel starts with: primitives of the hardware, then storage types,
// vector access, and pointwise operations (the device's form of ops/scalar.h, in FP32; the tests compare the
// two).
#include "backend/cuda/codegen/kernel_source.h"

namespace lathe::cuda {

std::string_view device_primitives() {
  static constexpr std::string_view kText = R"cuda(
typedef unsigned short u16;
typedef unsigned int u32;
#define DEV __device__ __forceinline__
DEV float f16_to_f32(u16 x) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x)); return f; }
DEV u16 f32_to_f16(float x) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
DEV u16 f32_to_bf16(float x) { u16 h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }
DEV u32 f32_to_f16x2(float lo, float hi) {
  u32 d; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo)); return d;
}
DEV u32 f32_to_bf16x2(float lo, float hi) {
  u32 d; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo)); return d;
}
DEV float power_of_two(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float reciprocal(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// Not a number where either is.
DEV float larger(float a, float b) { float y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
DEV float smaller(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
// Between 0 and 1, 0 for what is not a number; part of the multiply-add in front.
DEV float saturate(float x) { return __saturatef(x); }
DEV float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEV int shuffle_xor(int x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEV float shuffle(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEV char* shared_memory() { extern __shared__ uint4 dynamic_shared[]; return (char*)dynamic_shared; }
DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// 16 bytes from global to shared memory, asynchronously; zeros when `bytes` is 0.
DEV void copy_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}
DEV void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
DEV void load_matrix(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
DEV void load_matrix_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory");
}
// d += a (16x16) times b (16x8), FP32 accumulation.
DEV void multiply_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEV void multiply_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Before Hopper kernels follow one another.
#if __CUDA_ARCH__ >= 900
DEV void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEV void allow_next_kernel() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#else
DEV void wait_for_previous_kernel() {}
DEV void allow_next_kernel() {}
#endif
)cuda";
  return kText;
}

std::string_view early_loads() {
  return R"cuda(DEV void load_early(const void* p, u32* w) {
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(p));
}
)cuda";
}

std::string_view device_prelude() {
  static constexpr std::string_view kText = R"cuda(
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct boolean { unsigned char bits; };
DEV float widen(float x) { return x; }
DEV float widen(f16 x) { return f16_to_f32(x.bits); }
DEV float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEV long long widen(long long x) { return x; }
DEV long long widen(int x) { return x; }
DEV long long widen(u32 x) { return x; }
DEV long long widen(short x) { return x; }
DEV long long widen(u16 x) { return x; }
DEV long long widen(signed char x) { return x; }
DEV long long widen(unsigned char x) { return x; }
DEV long long widen(boolean x) { return x.bits != 0; }
// Float to integer truncates and wraps as two's complement does.
DEV long long to_integer(float x) { return x != x ? 0 : (long long)x; }
DEV long long to_integer(long long x) { return x; }
DEV float to_float(float x) { return x; }
DEV float to_float(long long x) { return (float)x; }
template <class T> struct Narrow { template <class C> DEV static T from(C x) { return (T)to_integer(x); } };
template <> struct Narrow<float> { template <class C> DEV static float from(C x) { return to_float(x); } };
template <> struct Narrow<f16> { template <class C> DEV static f16 from(C x) { return f16{f32_to_f16(to_float(x))}; } };
template <> struct Narrow<bf16> { template <class C> DEV static bf16 from(C x) { return bf16{f32_to_bf16(to_float(x))}; } };
template <> struct Narrow<boolean> { template <class C> DEV static boolean from(C x) { return boolean{(unsigned char)(x != 0)}; } };

// N words of 4 bytes in accesses of up to 16 bytes; the address is a multiple of the access.
template <int N> DEV void load_words(const void* p, u32 (&w)[N]) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      const uint4 q = ((const uint4*)p)[i];
      w[4 * i] = q.x; w[4 * i + 1] = q.y; w[4 * i + 2] = q.z; w[4 * i + 3] = q.w;
    }
  } else if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const uint2 q = ((const uint2*)p)[i];
      w[2 * i] = q.x; w[2 * i + 1] = q.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) w[i] = ((const u32*)p)[i];
  }
}
template <int N> DEV void store_words(void* p, const u32 (&w)[N]) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      uint4 q; q.x = w[4 * i]; q.y = w[4 * i + 1]; q.z = w[4 * i + 2]; q.w = w[4 * i + 3];
      ((uint4*)p)[i] = q;
    }
  } else if constexpr (N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      uint2 q; q.x = w[2 * i]; q.y = w[2 * i + 1];
      ((uint2*)p)[i] = q;
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) ((u32*)p)[i] = w[i];
  }
}
// V consecutive elements, as wide as their size allows; addresses are multiples of that.
template <class T, class C, int V> DEV void load(const T* p, C (&x)[V]) {
  if constexpr (sizeof(T) * V % 4 == 0) {
    u32 w[sizeof(T) * V / 4];
    load_words(p, w);
    T t[V];
    memcpy(t, w, sizeof(t));
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = (C)widen(t[i]);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) x[i] = (C)widen(p[i]);
  }
}
// The same as they are stored: what waits for its turn takes a half or a quarter of the registers.
template <class T, int V> struct Raw {
  static constexpr bool kWords = sizeof(T) * V % 4 == 0 || sizeof(T) * V == 2;
  u32 w[kWords ? (sizeof(T) * V + 3) / 4 : 1];
  T t[kWords ? 1 : V];
};
template <class T, int V> DEV void load_raw(const T* p, Raw<T, V>& x) {
  if constexpr (sizeof(T) * V == 2) {
    x.w[0] = *(const u16*)p;
  } else if constexpr (Raw<T, V>::kWords) {
    load_words(p, x.w);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) x.t[i] = p[i];
  }
}
template <class T, int V> DEV void store_raw(T* p, const Raw<T, V>& x) {
  if constexpr (sizeof(T) * V == 2) {
    *(u16*)p = (u16)x.w[0];
  } else if constexpr (Raw<T, V>::kWords) {
    store_words(p, x.w);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) p[i] = x.t[i];
  }
}
template <class T, class C, int V> DEV void widen_raw(const Raw<T, V>& x, C (&to)[V]) {
  T t[V];
  memcpy(t, Raw<T, V>::kWords ? (const void*)x.w : (const void*)x.t, sizeof(t));
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = (C)widen(t[i]);
}
template <class T, class C, int V> DEV void store(T* p, const C (&x)[V]) {
  if constexpr (sizeof(T) * V % 4 == 0) {
    u32 w[sizeof(T) * V / 4];
    T t[V];
#pragma unroll
    for (int i = 0; i < V; ++i) t[i] = Narrow<T>::from(x[i]);
    memcpy(w, t, sizeof(t));
    store_words(p, w);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) p[i] = Narrow<T>::from(x[i]);
  }
}

// Conversions take four times as long as sums. A number below 2^22 plus 1.5 * 2^23 has its nearest whole
// number in the low bits, and a byte beside the bits of 2^23 is a float: so bytes of grids are written and
// read.
DEV unsigned char low_byte(float x) { return (unsigned char)__float_as_uint(x); }
DEV float from_byte(unsigned char x, float zero) { return __uint_as_float(0x4b000000u | x) - (8388608.f + zero); }

// Two numbers side by side.
template <class T> DEV void store_pair(T* p, const float (&x)[2]) {
  const T t[2] = {Narrow<T>::from(x[0]), Narrow<T>::from(x[1])};
  if constexpr (sizeof(T) == 1) {
    u16 w;
    memcpy(&w, t, 2);
    *(u16*)p = w;
  } else {
    u32 w[sizeof(T) / 2];
    memcpy(w, t, sizeof(t));
    store_words(p, w);
  }
}

DEV float infinity() { return __uint_as_float(0x7f800000u); }
// What a mask adds to an exponent of two. A finite number that forbids (the lowest one) stays finite.
DEV float mask_exponent(float m) {
  return m < -3.40282347e38f ? m : fmaxf(m * 1.4426950408889634f, -3e38f);
}
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
  const float p = t * (0.12741480f + t * (-0.14224837f + t * (0.71070688f + t * (-0.72657603f + t * 0.53070271f))));
  return larger(a, 0.f) - x * p * power_of_two(x * x * -0.72134752f);
}
DEV float pw_GeluErf(float a) {
  return kFastMath ? gelu_fast(a) : 0.5f * a * (1.f + erff(a * 0.70710678118654752f));
}
DEV float pw_GeluTanh(float a) { return 0.5f * a * (1.f + tanhf(0.79788456080286536f * (a + 0.044715f * a * a * a))); }
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
// The same where the quotient is below 2^22.
DEV float near_quotient(float a, float d) {
  const float inverse = 1.f / d, q = a * inverse;
  return fmaf(fmaf(-q, d, a), inverse, q);
}
DEV float round_near(float a, float alpha) { return (near_quotient(a, alpha) + 12582912.f - 12582912.f) * alpha; }
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
struct SumOp { DEV float operator()(float a, float b) const { return a + b; } };
struct MaxOp { DEV float operator()(float a, float b) const { return pw_Max(a, b); } };
struct MinOp { DEV float operator()(float a, float b) const { return pw_Min(a, b); } };
struct ProdOp { DEV float operator()(float a, float b) const { return a * b; } };
)cuda";
  return kText;
}

}  // namespace lathe::cuda
