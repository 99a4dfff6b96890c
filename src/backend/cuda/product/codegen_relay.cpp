// SPDX-License-Identifier: Apache-2.0
//
// Hopper products with blocks that stay: as many as the GPU has multiprocessors, each computing tile after
// tile. One warp starts the copies, of the next tile too while this one ends; the warpgroups multiply, and
// hand their sums, in 16 bits, through shared memory to three more warps, which apply the epilogue and store
// while the next tile is multiplied; the last tile is finished by those that multiplied it.
//
// Why: 128 x 256 results with bias and GELU are about 25 instructions each, 5 us of a multiprocessor that
// multiplies such a tile in 8 us (K = 768). Handed over, what a tile costs besides its products is packing
// and storing 16 bits (0.3 us). The sums are rounded once more than in a block for each tile.
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/product/codegen_wgmma.h"

namespace lathe::cuda {
namespace {

// The warp that starts the copies: the first tile's weights before the previous kernel has ended.
constexpr std::string_view kProduce = R"(if (warp == 4 * GROUPS + 3) {
if (lane == 0) {
bool first = true;
for (int tile = blockIdx.x, s = 0, parity = 1; tile < TILES; tile += gridDim.x) {
TILE
int i = 0;
if (first) {
first = false;
const int ahead = STEPS < STAGES ? STEPS : STAGES;
for (; i < ahead; ++i) {
barrier_expect(full + i, STAGE);
copy_box(base + i * STAGE + ROWS * 128, &B_MAP, i * 64, b_row, full + i);
}
wait_for_previous_kernel();
stored_before_copies();
for (i = 0; i < ahead; ++i) copy_box(base + i * STAGE, &A_MAP, i * 64, a_row, full + i);
s = ahead % STAGES;
parity = ahead != STAGES;
}
for (; i < STEPS; ++i) {
barrier_wait(empty + s, parity);
barrier_expect(full + s, STAGE);
copy_box(base + s * STAGE, &A_MAP, i * 64, a_row, full + s);
copy_box(base + s * STAGE + ROWS * 128, &B_MAP, i * 64, b_row, full + s);
if (++s == STAGES) { s = 0; parity ^= 1; }
}
}
}
return;
})";

constexpr std::string_view kMultiply = R"(if (warp < 4 * GROUPS) {
const int group = warp / 4;
int s = 0, parity = 0, turn = 1, tile = blockIdx.x;
for (;; tile += gridDim.x, turn ^= 1) {
float sum[BN / 2] = {};
)";
constexpr std::string_view kHandOver = R"(barrier_wait(drained + group, turn);
u16* strip = results + (warp * 16 + lane % 16) * PITCH + lane / 16 * 8;
#pragma unroll
for (int j = 0; j < BN / 8; j += 2) {
u32 r[4];
#pragma unroll
for (int h = 0; h < 4; ++h) r[h] = PACK(sum[4 * j + 2 * h], sum[4 * j + 2 * h + 1]);
store_matrix(strip + 8 * j, r);
}
__syncwarp();
if (tile + (int)gridDim.x >= TILES) break;
if (lane == 0) barrier_arrive(filled + group);
}
// Nothing is left to multiply: each warp finishes its rows of the last tile itself.
wait_for_previous_kernel();
TILE
)";

// `rows` rows of the tile from `base_row` on, by `helpers` threads.
constexpr std::string_view kFinish =
    R"(const auto finish_rows = [&](int base_row, int rows, int helper, int helpers) {
for (int i0 = helper; i0 < rows * (BN / V); i0 += TOGETHER * helpers) {
idx at[TOGETHER];
float v[TOGETHER][V];
Operands o[TOGETHER];
#pragma unroll
for (int u = 0; u < TOGETHER; ++u) {
const int i = i0 + u * helpers, row = base_row + min(i / (BN / V), rows - 1), column = i % (BN / V) * V;
at[u] = i < rows * (BN / V) ? place(row0 + row, column0 + column) : -1;
fetch(at[u] < 0 ? 0 : at[u], at[u] < 0 ? 0 : column0 + column, o[u]);
load((const T*)results + row * PITCH + column, v[u]);
}
#pragma unroll
for (int u = 0; u < TOGETHER; ++u) apply(o[u], v[u]);
#pragma unroll
for (int u = 0; u < TOGETHER; ++u)
if (at[u] >= 0) store(RESULT + at[u], v[u]);
}
};)";
constexpr std::string_view kRelayed = R"(for (int group = 0; group < GROUPS; ++group) {
barrier_wait(filled + group, turn);
finish_rows(group * 64, 64, helper, 96);
__syncwarp();
if (lane == 0) barrier_arrive(drained + group);
})";

}  // namespace

KernelSource relay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                          const WgmmaVariant& v, const DeviceProperties& gpu) {
  KernelBuilder b = start_kernel(query, tactic, "wgmma_relay", tactic.outputs[0].dtype);
  b.hardware(hopper_primitives(p.type, v.bn));
  GemmWriter writer(b, query, tactic, p, v.threads(), v.rows(), v.bn, kWgmmaStep, 1);
  const int width = result_vector(query, tactic, p, 8, 1), stages = v.stages(gpu),
            stages_bytes = stages * v.stage_bytes(), barriers = stages_bytes + v.result_bytes();
  const Dim tiles = wgmma_tiles(p, v);
  b.kernel().threads = v.threads();
  b.kernel().resident = 1;
  b.kernel().grid = {min(tiles, Dim(v.blocks)), 1, 1};
  b.kernel().shared_bytes = 1024 + barriers + 8 * (2 * stages + 2 * v.groups);
  b.waits_itself();
  const bool f16 = p.type == DType::Float16;
  const auto constant = [](const char* name, int value) {
    return std::string(name) + " = " + std::to_string(value);
  };
  b.global("constexpr int " + constant("GROUPS", v.groups) + ", ROWS = 64 * GROUPS, " + constant("BN", v.bn) +
           ", " + constant("STAGES", stages) + ", STAGE = (ROWS + BN) * 128, " + constant("V", width) + ", " +
           constant("PITCH", v.result_pitch()) + ", " + constant("TOGETHER", v.groups == 3 ? 2 : 4) +
           ";\n#define MULTIPLY multiply_tile_" + (f16 ? "f16" : "bf16") + "\n#define PACK f32_to_" +
           (f16 ? "f16" : "bf16") + "x2\ntypedef " + std::string(storage_name(p.type)) + " T;");
  const WgmmaMaps maps = wgmma_maps(b, query, p, v);
  const std::string tile = wgmma_tile(b, p, v, "tile"), count = b.number(tiles),
                    steps = b.number(ceil_div(p.k, Dim(kWgmmaStep)));
  b.line(
      "char* base = shared_memory();\nbase += (1024 - shared_address(base) % 1024) % 1024;\nu16* results = "
      "(u16*)(base + " +
      std::to_string(stages_bytes) + ");\nu64* full = (u64*)(base + " + std::to_string(barriers) +
      ");\nu64 *empty = full + STAGES, *filled = empty + STAGES, *drained = filled + GROUPS;\nconst int "
      "warp = threadIdx.x / 32, lane = threadIdx.x % 32;");
  b.line("if (threadIdx.x == 0) {\nprefetch_map(&" + maps.a + ");\nprefetch_map(&" + maps.weights + R"();
#pragma unroll
for (int s = 0; s < STAGES; ++s) {
barrier_init(full + s, 1);
barrier_init(empty + s, 4 * GROUPS);
}
#pragma unroll
for (int g = 0; g < GROUPS; ++g) {
barrier_init(filled + g, 4);
barrier_init(drained + g, 3);
}
barriers_ready();
}
__syncthreads();)");
  const std::vector<std::pair<std::string_view, std::string>> names = {{"TILES", count},
                                                                       {"TILE\n", tile + "\n"},
                                                                       {"STEPS", steps},
                                                                       {"A_MAP", maps.a},
                                                                       {"B_MAP", maps.weights}};
  b.line(filled_in(kProduce, names));
  b.line(
      filled_in(std::string(kMultiply) + std::string(multiply_next_tile()) + std::string(kHandOver), names));
  b.line("#define RESULT " + b.output(0, tactic.outputs[0].dtype));
  writer.result_in_place(width);
  b.line(kFinish);
  b.line("finish_rows(warp * 16, 16, lane, 32);\nreturn;\n}");
  b.line(
      "wait_for_previous_kernel();\nconst int helper = threadIdx.x - 128 * GROUPS;\nint turn = 0;\nfor (int "
      "tile = blockIdx.x; tile + (int)gridDim.x < " +
      count + "; tile += gridDim.x, turn ^= 1) {\n" + tile);
  writer.result_in_place(width);
  b.line(kFinish);
  b.line(kRelayed);
  b.line("}");
  return b.finish();
}

}  // namespace lathe::cuda
