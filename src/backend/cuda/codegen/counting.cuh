// SPDX-License-Identifier: Apache-2.0
//
// Device text for kernels that count and sort (counting.h): votes of a warp and integer atomics, which the
// emulator has of its own; prefix sums of a block; and keys whose order as unsigned numbers is the order of
// elements.

//# kHardware
typedef unsigned long long u64;
DEV u32 ballot(bool x) { return __ballot_sync(0xffffffffu, x); }
DEV int population(u32 x) { return __popc(x); }
DEV u32 atomic_add(u32* p, u32 x) { return atomicAdd(p, x); }
DEV void atomic_max(int* p, int x) { atomicMax(p, x); }

//# kPrefix
DEV u32 lanes_below() { return (1u << threadIdx.x % 32) - 1; }
template <int kThreads, class T> DEV T block_prefix(T x, T* buffer, T& all) {
  const int t = threadIdx.x;
  buffer[t] = x;
  __syncthreads();
  for (int step = 1; step < kThreads; step <<= 1) {
    const T before = t >= step ? buffer[t - step] : (T)0;
    __syncthreads();
    buffer[t] += before;
    __syncthreads();
  }
  all = buffer[kThreads - 1];
  const T mine = buffer[t] - x;
  __syncthreads();
  return mine;
}

//# kKeys
DEV u32 ascending_key(float x) {
  if (x != x) return 0xffffffffu;
  const u32 u = __float_as_uint(x + 0.f);
  return u >> 31 ? ~u : u | 0x80000000u;
}
DEV u32 half_key(u32 u, bool is_nan) {
  if (is_nan) return 0xffffu;
  if (u == 0x8000u) u = 0;
  return u >> 15 ? ~u & 0xffffu : u | 0x8000u;
}
DEV u32 ascending_key(f16 x) { return half_key(x.bits, (x.bits & 0x7fff) > 0x7c00); }
DEV u32 ascending_key(bf16 x) { return half_key(x.bits, (x.bits & 0x7fff) > 0x7f80); }
DEV u64 ascending_key(long long x) { return (u64)x ^ 0x8000000000000000ull; }
DEV u32 ascending_key(int x) { return (u32)x ^ 0x80000000u; }
DEV u32 ascending_key(u32 x) { return x; }
DEV u32 ascending_key(short x) { return (u16)x ^ 0x8000u; }
DEV u32 ascending_key(u16 x) { return x; }
DEV u32 ascending_key(signed char x) { return (unsigned char)x ^ 0x80u; }
DEV u32 ascending_key(unsigned char x) { return x; }
DEV u32 ascending_key(boolean x) { return x.bits != 0; }
DEV u64 ascending_key(unsigned long long x) { return x; }
DEV u64 ascending_key(double x) {
  if (x != x) return ~0ull;
  const double number = x + 0.;
  u64 u;
  memcpy(&u, &number, 8);
  return u >> 63 ? ~u : u | 0x8000000000000000ull;
}
