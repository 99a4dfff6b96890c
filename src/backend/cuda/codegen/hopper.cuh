// SPDX-License-Identifier: Apache-2.0
//
// Primitives of compute capability 9.0: the copy engine (TMA), barriers in shared memory that count its
// bytes, clusters, and what stands around the products of warpgroups (wgmma). codegen_hopper.cpp writes the
// products themselves, whose operands are listed one by one. The emulator has its own of each
// (emulator/hopper.h).

//# kHopper
typedef unsigned long long u64;
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};
DEV void barrier_init(u64* b, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
// What barrier_init wrote, for the copy engine; a barrier of the block has to follow.
DEV void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void barrier_expect(u64* b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
               : "memory");
}
DEV void barrier_arrive(u64* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
// Until the phase of that parity is complete.
DEV void barrier_wait(u64* b, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra "
      "FINISHED;\nbra AGAIN;\n"
      "FINISHED:\n}" ::"r"(shared_address(b)),
      "r"(parity)
      : "memory");
}
// What earlier kernels stored, for the copy engine.
DEV void stored_before_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
// The box at those coordinates into shared memory; its bytes arrive at the barrier.
DEV void copy_box(void* to, const TensorMap* map, int c0, int c1, u64* b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(shared_address(to)),
      "l"(map), "r"(c0), "r"(c1), "r"(shared_address(b))
      : "memory");
}
DEV void copy_box(void* to, const TensorMap* map, int c0, int c1, int c2, u64* b) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4}], [%5];" ::"r"(shared_address(to)),
      "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(shared_address(b))
      : "memory");
}
DEV void copy_box(void* to, const TensorMap* map, int c0, int c1, int c2, int c3, u64* b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4, %5}], [%6];" ::"r"(shared_address(to)),
      "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(shared_address(b))
      : "memory");
}
// Of a map whose dims behind the first are a block of rows in another order (wgmma_maps), the block `block`.
DEV void copy_block(void* to, const TensorMap* map, int c0, int block, u64* b) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%3, %3, %4}], [%5];" ::"r"(shared_address(to)),
      "l"(map), "r"(c0), "r"(0), "r"(block), "r"(shared_address(b))
      : "memory");
}
// A box of channels of pixels from the window's corner (x, y) of the image on, each moved by (dx, dy).
DEV void copy_windows(void* to, const TensorMap* map, int channel, int x, int y, int image, int dx, int dy,
                      u64* b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4, %5}], [%6], {%7, %8};" ::"r"(shared_address(to)),
      "l"(map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(shared_address(b)), "h"((u16)dx), "h"((u16)dy)
      : "memory");
}
// All threads of the blocks of a cluster that have not left: what they wrote before is seen behind the wait.
DEV void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEV void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// 16 bytes that lie in block `rank` of the cluster where `own` is in this one.
DEV void load_shared_of(int rank, const float* own, float (&x)[4]) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
      : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
      : "r"(shared_address(own)), "r"(rank)
      : "memory");
}
// 16 or 8 bytes to block `rank` of the cluster, where `own` is in this one.
DEV void store_shared_of(int rank, float* own, const float (&x)[4]) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n}" ::"r"(shared_address(own)),
      "r"(rank), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
      : "memory");
}
DEV void store_shared_of(int rank, float* own, const float (&x)[2]) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.v2.f32 [there], {%2, %3};\n}" ::"r"(shared_address(own)),
      "r"(rank), "f"(x[0]), "f"(x[1])
      : "memory");
}
DEV void prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// The first `threads` threads of the block meet.
template <int threads> DEV void meet_first() { asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory"); }
// What this thread stored to shared memory, for products; a barrier has to follow.
DEV void stored_before_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Describes a tile in shared memory, rows of 128 or 64 swizzled bytes; + 2 is 32 bytes further along them.
template <int ROW_BYTES = 128> DEV u64 tile_operand(const void* tile) {
  static_assert(ROW_BYTES == 128 || ROW_BYTES == 64);
  return (u64)((shared_address(tile) & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(8 * ROW_BYTES / 16) << 32 |
         (u64)(ROW_BYTES == 128 ? 1 : 2) << 62;
}
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
DEV void store_matrix(void* row, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
DEV void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// Results are read behind this only.
template <int N> DEV void multiply_done(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> DEV void multiply_done(int (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

//# kSend
// 16 bytes to block `rank` of the cluster, to where `own` is in this one; they arrive at that block's
// barrier.
DEV void send_words(int rank, void* own, const u32 (&w)[4], u64* barrier) {
  asm volatile(
      "{\n.reg .b32 there, signal;\nmapa.shared::cluster.u32 there, %0, %2;\n"
      "mapa.shared::cluster.u32 signal, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [there], {%3, %4, %5, %6}, "
      "[signal];\n}" ::"r"(shared_address(own)),
      "r"(shared_address(barrier)), "r"(rank), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
      : "memory");
}

//# kCluster
// Four sums at the same place in the shared memory of all blocks of the cluster, added up in their order.
template <int BLOCKS> DEV void sum_over_blocks(const float* own, float (&sum)[4]) {
  float part[BLOCKS][4];
#pragma unroll
  for (int r = 0; r < BLOCKS; ++r) load_shared_of(r, own, part[r]);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    sum[j] = part[0][j];
#pragma unroll
    for (int r = 1; r < BLOCKS; ++r) sum[j] += part[r][j];
  }
}
