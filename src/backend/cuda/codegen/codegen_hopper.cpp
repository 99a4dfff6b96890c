// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/codegen/codegen_hopper.h"

#include <string_view>

#include "backend/cuda/device/device.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kCopies = R"cuda(
typedef unsigned long long u64;
struct alignas(64) TensorMap { unsigned char bytes[128]; };
DEV void barrier_init(u64* b, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
// What barrier_init wrote, for the copy engine; a barrier of the block has to follow.
DEV void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void barrier_expect(u64* b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}
DEV void barrier_arrive(u64* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
// Until the phase of that parity is complete.
DEV void barrier_wait(u64* b, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra FINISHED;\nbra AGAIN;\n"
      "FINISHED:\n}" ::"r"(shared_address(b)), "r"(parity) : "memory");
}
// What earlier kernels stored, for the copy engine.
DEV void stored_before_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }
// The box at those coordinates into shared memory; its bytes arrive at the barrier.
DEV void copy_box(void* to, const TensorMap* map, int c0, int c1, u64* b) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   shared_address(to)), "l"(map), "r"(c0), "r"(c1), "r"(shared_address(b)) : "memory");
}
DEV void copy_box(void* to, const TensorMap* map, int c0, int c1, int c2, u64* b) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                   shared_address(to)), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(shared_address(b)) : "memory");
}
// A box of channels of pixels from the window's corner (x, y) of the image on, each moved by (dx, dy).
DEV void copy_windows(void* to, const TensorMap* map, int channel, int x, int y, int image, int dx, int dy, u64* b) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
      ::"r"(shared_address(to)), "l"(map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(shared_address(b)), "h"((u16)dx), "h"((u16)dy)
      : "memory");
}
// All threads of the blocks of a cluster that have not left: what they wrote before is seen behind the wait.
DEV void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
DEV void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// 16 bytes that lie in block `rank` of the cluster where `own` is in this one.
DEV void load_shared_of(int rank, const float* own, float (&x)[4]) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
               "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(shared_address(own)), "r"(rank) : "memory");
}
// 16 or 8 bytes to block `rank` of the cluster, where `own` is in this one.
DEV void store_shared_of(int rank, float* own, const float (&x)[4]) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
               "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n}"
               ::"r"(shared_address(own)), "r"(rank), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}
DEV void store_shared_of(int rank, float* own, const float (&x)[2]) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
               "st.shared::cluster.v2.f32 [there], {%2, %3};\n}"
               ::"r"(shared_address(own)), "r"(rank), "f"(x[0]), "f"(x[1]) : "memory");
}
DEV void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
// The first `threads` threads of the block meet.
template <int threads> DEV void meet_first() { asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory"); }
// What this thread stored to shared memory, for products; a barrier has to follow.
DEV void stored_before_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Describes a tile in shared memory, rows of 128 swizzled bytes; + 2 is 16 elements further along the rows.
DEV u64 tile_operand(const void* tile) {
  return (u64)((shared_address(tile) & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
DEV void store_matrix(void* row, const u32 (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(row)), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
DEV void multiply_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void multiply_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Results are read behind this only.
template <int N> DEV void multiply_done(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> DEV void multiply_done(int (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
)cuda";

// Operands %0, %1, ... and constraints of n / 2 accumulators.
struct Accumulators {
  std::string registers, operands;
  explicit Accumulators(int n, char kind = 'f') {
    for (int i = 0; i < n / 2; ++i) {
      registers += (i ? ", %" : "%") + std::to_string(i);
      operands += std::string(i ? ", " : "") + "\"+" + kind + "\"(d[" + std::to_string(i) + "])";
    }
  }
};

// Bytes times signed bytes.
std::string integer_primitives(int n) {
  const Accumulators d(n, 'r');
  return "// d += a (64x32) times b (32x" + std::to_string(n) +
         ") in 32 bits; places as those of floats.\nDEV void multiply_tile_u8(int (&d)[" +
         std::to_string(n / 2) +
         "], u64 a, u64 b) {\nasm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, "
         "0;\\nwgmma.mma_async.sync.aligned.m64n" +
         std::to_string(n) + "k32.s32.u8.s8 {" + d.registers + "}, %" + std::to_string(n / 2) + ", %" +
         std::to_string(n / 2 + 1) + ", p;\\n}\" : " + d.operands + " : \"l\"(a), \"l\"(b));\n}\n";
}

}  // namespace

std::string multiplied_name(DType type) {
  return type == DType::UInt8 ? "u8" : type == DType::BFloat16 ? "bf16" : "f16";
}

std::string hopper_primitives(DType type, int n) {
  if (type == DType::UInt8) return std::string(kCopies) + integer_primitives(n);
  const std::string kind = multiplied_name(type);
  const Accumulators d(n);
  return std::string(kCopies) + "// d += a (64x16) times b (16x" + std::to_string(n) +
         "): thread t of the warpgroup has rows t / 32 * 16 + t % 32 / 4 + 8 h, columns 8 j + t % 4 * 2 + e "
         "in\n"
         "// d[4 j + 2 h + e].\nDEV void multiply_tile_" +
         kind + "(float (&d)[" + std::to_string(n / 2) +
         "], u64 a, u64 b) {\nasm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, "
         "0;\\nwgmma.mma_async.sync.aligned.m64n" +
         std::to_string(n) + "k16.f32." + kind + "." + kind + " {" + d.registers + "}, %" +
         std::to_string(n / 2) + ", %" + std::to_string(n / 2 + 1) +
         ", p, 1, 1, 0, 0;\\n}\" : " + d.operands + " : \"l\"(a), \"l\"(b));\n}\n";
}

std::string hopper_rows_primitive(DType type, int n) {
  const std::string kind = multiplied_name(type);
  const Accumulators d(n);
  std::string a;
  for (int i = 0; i < 5; ++i) a += (i ? ", %" : "%") + std::to_string(n / 2 + i) + (i == 3 ? "}" : "");
  return "// d += a (64x16) times b (16x" + std::to_string(n) +
         "), b a tile of 16 rows: a thread has its rows of a as it has those of d, columns t % 4 * 2 + e and "
         "8\n"
         "// further on in a[h] and a[2 + h].\nDEV void multiply_rows_" +
         kind + "(float (&d)[" + std::to_string(n / 2) +
         "], const u32 (&a)[4], u64 b) {\nasm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, "
         "0;\\nwgmma.mma_async.sync.aligned.m64n" +
         std::to_string(n) + "k16.f32." + kind + "." + kind + " {" + d.registers + "}, {" + a +
         ", p, 1, 1, 1;\\n}\" : " + d.operands +
         " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));\n}\n";
}

std::string_view multiply_steps() {
  return R"(for (int i = 0, s = 0, parity = 0; i < tiles; ++i) {
barrier_wait(full + s, parity);
const u64 a = tile_operand(base + s * STAGE + warp / 4 * 8192), b = tile_operand(base + s * STAGE + ROWS * 128);
multiply_begin();
#pragma unroll
for (int k = 0; k < 4; ++k) MULTIPLY(sum, a + 2 * k, b + 2 * k);
multiply_commit();
// One product may be under way while the next is started; the stage before it is free.
multiply_wait<1>();
if (i > 0 && lane == 0) barrier_arrive(empty + (s == 0 ? STAGES - 1 : s - 1));
if (++s == STAGES) { s = 0; parity ^= 1; }
}
multiply_wait<0>();
multiply_done(sum);
)";
}

std::string_view multiply_next_tile() {
  return R"(for (int i = 0; i < STEPS; ++i) {
barrier_wait(full + s, parity);
const u64 a = tile_operand(base + s * STAGE + group * 8192), b = tile_operand(base + s * STAGE + ROWS * 128);
multiply_begin();
#pragma unroll
for (int k = 0; k < 4; ++k) MULTIPLY(sum, a + 2 * k, b + 2 * k);
multiply_commit();
multiply_wait<1>();
if (i > 0 && lane == 0) barrier_arrive(empty + (s == 0 ? STAGES - 1 : s - 1));
if (++s == STAGES) { s = 0; parity ^= 1; }
}
multiply_wait<0>();
if (lane == 0) barrier_arrive(empty + (s == 0 ? STAGES - 1 : s - 1));
multiply_done(sum);
)";
}

std::string_view tile_to_shared() {
  return R"(meet_first<128 * GROUPS>();
// The tile as rows, sixteen for each warp; the pitch keeps rows in different banks.
float* tile = (float*)base;
float* strip = tile + warp * 16 * (BN + 8);
#pragma unroll
for (int j = 0; j < BN / 8; ++j)
#pragma unroll
for (int h = 0; h < 2; ++h) {
uint2 pair;
pair.x = __float_as_uint((float)sum[4 * j + 2 * h]);
pair.y = __float_as_uint((float)sum[4 * j + 2 * h + 1]);
*(uint2*)(strip + (lane / 4 + 8 * h) * (BN + 8) + 8 * j + lane % 4 * 2) = pair;
}
)";
}

std::string_view fetch_own_rows() {
  return R"(constexpr int TURNS = 16 * (BN / V) / 32, TOGETHER = TURNS % 4 == 0 ? 4 : TURNS % 3 == 0 ? 3 : TURNS % 2 == 0 ? 2 : 1;
idx at[TOGETHER];
Operands operands[TOGETHER];
const auto fetch_turn = [&](int turn) {
#pragma unroll
for (int u = 0; u < TOGETHER; ++u) {
const int i = (turn + u) * 32 + lane;
const idx column = column0 + i % (BN / V) * V;
at[u] = place(pixel(warp * 16 + i / (BN / V)), column);
fetch(at[u] < 0 ? 0 : at[u], at[u] < 0 ? 0 : column, operands[u]);
}
};
if constexpr (EARLY) fetch_turn(0);
)";
}

std::string_view store_own_rows() {
  return R"(__syncwarp();
for (int turn = 0; turn < TURNS; turn += TOGETHER) {
if (!EARLY || turn > 0) fetch_turn(turn);
float v[TOGETHER][V];
#pragma unroll
for (int u = 0; u < TOGETHER; ++u) {
const int i = (turn + u) * 32 + lane;
load(strip + i / (BN / V) * (BN + 8) + i % (BN / V) * V, v[u]);
apply(operands[u], v[u]);
}
#pragma unroll
for (int u = 0; u < TOGETHER; ++u)
if (at[u] >= 0) store(RESULT + at[u], v[u]);
})";
}

std::string hopper_primitives() {
  return std::string(kCopies);
}

std::string hopper_kept_primitive(DType type, int n) {
  const std::string kind = multiplied_name(type);
  const Accumulators d(n);
  std::string a;
  for (int i = 0; i < 4; ++i) a += (i ? ", %" : "%") + std::to_string(n / 2 + i);
  return "// The same with a in registers: a thread has its two rows in a[h] and a[2 + h], columns t % 4 * 2 "
         "+ e and "
         "8\n// further on.\nDEV void multiply_kept_" +
         kind + "(float (&d)[" + std::to_string(n / 2) +
         "], const u32 (&a)[4], u64 b) {\nasm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, "
         "0;\\nwgmma.mma_async.sync.aligned.m64n" +
         std::to_string(n) + "k16.f32." + kind + "." + kind + " {" + d.registers + "}, {" + a + "}, %" +
         std::to_string(n / 2 + 4) + ", p, 1, 1, 0;\\n}\" : " + d.operands +
         " : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b));\n}\n";
}

}  // namespace lathe::cuda
