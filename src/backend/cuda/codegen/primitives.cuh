// SPDX-License-Identifier: Apache-2.0
//
// Primitives of the hardware, in front of every generated kernel: conversions, exchanges between lanes,
// copies into shared memory, and the products of tensor cores before Hopper. The emulator has its own of each
// (emulator/shim.h).

//# kPrimitives
typedef unsigned short u16;
typedef unsigned int u32;
#define DEV __device__ __forceinline__
DEV float f16_to_f32(u16 x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
  return f;
}
DEV u16 f32_to_f16(float x) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
DEV u16 f32_to_bf16(float x) {
  u16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
DEV u32 f32_to_f16x2(float lo, float hi) {
  u32 d;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}
DEV u32 f32_to_bf16x2(float lo, float hi) {
  u32 d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
  return d;
}
// E4M3, saturated; from compute capability 8.9 on.
DEV u16 f32_to_e4m3x2(float lo, float hi) {
  u16 d;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : "f"(hi), "f"(lo));
  return d;
}
DEV u32 e4m3x2_to_f16x2(u16 x) {
  u32 d;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"(x));
  return d;
}
// Four of the eight bytes of a and b, as the digits of the selector say.
DEV u32 byte_permute(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }
DEV float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Not a number where either is.
DEV float larger(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
DEV float smaller(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// Between 0 and 1, 0 for what is not a number; part of the multiply-add in front.
DEV float saturate(float x) { return __saturatef(x); }
DEV float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEV int shuffle_xor(int x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
DEV float shuffle(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEV char* shared_memory() {
  extern __shared__ uint4 dynamic_shared[];
  return (char*)dynamic_shared;
}
DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// 16 bytes from global to shared memory, asynchronously; zeros when `bytes` is 0.
DEV void copy_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
DEV void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
DEV void load_matrix(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
DEV void load_matrix_transposed(u32 (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// d += a (16x16) times b (16x8), FP32 accumulation.
DEV void multiply_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEV void multiply_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Before Hopper kernels follow one another.
#if __CUDA_ARCH__ >= 900
DEV void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEV void allow_next_kernel() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#else
DEV void wait_for_previous_kernel() {}
DEV void allow_next_kernel() {}
#endif

//# kEarlyLoads
// 16 bytes into four words, which the compiler leaves in front of products that follow __syncwarp().
DEV void load_early(const void* p, u32* w) {
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "l"(p));
}

//# kByteProducts
// d += a (16x32) times b (32x8): bytes times signed bytes from compute capability 8.0 on, E4M3 from 8.9 on.
DEV void multiply_u8(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#if __CUDA_ARCH__ >= 890
DEV void multiply_e4m3(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

//# kRoundedProducts
// Products that no addition takes unrounded: what they decide is decided as on the host.
DEV float rounded_product(float a, float b) { return __fmul_rn(a, b); }
DEV double rounded_product(double a, double b) { return __dmul_rn(a, b); }
