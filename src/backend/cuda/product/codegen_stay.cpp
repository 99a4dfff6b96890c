// SPDX-License-Identifier: Apache-2.0
//
// Hopper products with short sums and many results: blocks that stay, each computing tile after tile. One
// warp starts the copies, of the next tiles too while this one is finished; each warp of the others finishes
// its sixteen rows of the tile in registers and turns them around in shared memory of its own, so that only
// the products themselves are done together. What the epilogue reads is on its way while they are multiplied.
//
// Why: with K = 64 a tile of 128 x 64 results is multiplied in a tenth of a microsecond, while a block for
// each tile takes four: to start, to get its first operands, to get those of the epilogue, and to store.
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/product/codegen_wgmma.h"

namespace lathe::cuda {
namespace {

// The warp that starts the copies: the first tile's weights before the previous kernel has ended.
constexpr std::string_view kProduce = R"(if (warp == 4 * GROUPS) {
if (lane == 0) {
bool first = true;
for (int tile = blockIdx.x, s = 0, parity = 1; tile < TILES; tile += gridDim.x) {
TILE
for (int i = 0; i < STEPS; ++i) {
barrier_wait(empty + s, parity);
barrier_expect(full + s, STAGE);
copy_box(base + s * STAGE + ROWS * 128, &B_MAP, i * KSTEP, b_row, full + s);
if (first) {
first = false;
wait_for_previous_kernel();
stored_before_copies();
}
copy_box(base + s * STAGE, &A_MAP, i * KSTEP, a_row, full + s);
if (++s == STAGES) { s = 0; parity ^= 1; }
}
}
}
return;
})";

// A thread finishes its own sums, pairs of columns, and leaves them as they are stored in its warp's memory;
// the warp then stores whole vectors. What the pairs read is on its way while the sums are multiplied.
constexpr std::string_view kFetch = R"(Places places[BN / 8][2];
idx at[2];
#pragma unroll
for (int h = 0; h < 2; ++h) at[h] = row0 + warp * 16 + lane / 4 + 8 * h;
#pragma unroll
for (int j = 0; j < BN / 8; ++j)
#pragma unroll
for (int h = 0; h < 2; ++h) {
const idx here = place(at[h], column0 + 8 * j + lane % 4 * 2);
fetch_place(here < 0 ? 0 : here, places[j][h]);
})";
constexpr std::string_view kFinish = R"(#pragma unroll
for (int j = 0; j < BN / 8; ++j) {
const idx column = column0 + 8 * j + lane % 4 * 2;
Columns columns;
fetch_columns(column < COLUMNS ? column : 0, columns);
#pragma unroll
for (int h = 0; h < 2; ++h) {
float v[2] = {(float)sum[4 * j + 2 * h], (float)sum[4 * j + 2 * h + 1]};
apply_columns(columns, v);
apply_place(places[j][h], v);
store_pair(strip + (lane / 4 + 8 * h) * PITCH + 8 * j + lane % 4 * 2, v);
}
}
__syncwarp();
#pragma unroll 4
for (int i = lane; i < 16 * (BN / V); i += 32) {
const int row = i / (BN / V), column = i % (BN / V) * V;
const idx here = place(row0 + warp * 16 + row, column0 + column);
Raw<Stored, V> x;
load_raw(strip + row * PITCH + column, x);
if (here >= 0) store_raw(RESULT + here, x);
}
__syncwarp();)";

}  // namespace

KernelSource stay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                         const WgmmaVariant& v, const DeviceProperties& gpu) {
  KernelBuilder b = start_kernel(query, tactic, "wgmma_stay", tactic.outputs[0].dtype);
  b.hardware(hopper_primitives(p.type, v.bn));
  GemmWriter writer(b, query, tactic, p, v.threads(), v.rows(), v.bn, p.step(), 1);
  const int result_size = dtype_size(tactic.outputs[0].dtype),
            width = vector_width(16 / result_size, {p.n, p.row_length}), stages = v.stages(gpu),
            stages_bytes = stages * v.stage_bytes(), barriers = stages_bytes + v.result_bytes();
  const Dim tiles = wgmma_tiles(p, v);
  b.kernel().threads = v.threads();
  b.kernel().resident = v.resident;
  b.kernel().grid = {min(tiles, Dim(v.blocks)), 1, 1};
  b.kernel().shared_bytes = 1024 + barriers + 16 * stages;
  b.waits_itself();
  const auto constant = [](const char* name, int value) {
    return ", " + std::string(name) + " = " + std::to_string(value);
  };
  b.global("constexpr int GROUPS = " + std::to_string(v.groups) + ", ROWS = 64 * GROUPS" +
           constant("BN", v.bn) + constant("STAGES", stages) + ", STAGE = (ROWS + BN) * 128" +
           constant("V", width) + constant("KSTEP", p.step()) + constant("PITCH", v.bn + 16 / result_size) +
           ", split = 0;\n#define MULTIPLY multiply_tile_" + multiplied_name(p.type));
  const WgmmaMaps maps = wgmma_maps(b, query, p, v);
  const std::string tile = wgmma_tile(b, p, v, "tile");
  const std::vector<std::pair<std::string_view, std::string>> names = {
      {"TILES", b.number(tiles)}, {"TILE\n", tile + "\n"}, {"STEPS", b.number(ceil_div(p.k, Dim(p.step())))},
      {"COLUMNS", b.number(p.n)}, {"A_MAP", maps.a},       {"B_MAP", maps.weights}};
  b.line(
      "char* base = shared_memory();\nbase += (1024 - shared_address(base) % 1024) % 1024;\nu64* full = "
      "(u64*)(base + " +
      std::to_string(barriers) +
      ");\nu64* empty = full + STAGES;\nconst int warp = threadIdx.x / 32, group = warp / 4, lane = "
      "threadIdx.x % "
      "32;\ntypedef " +
      b.output_type(0, tactic.outputs[0].dtype) + " Stored;\nStored* strip = (Stored*)(base + " +
      std::to_string(stages_bytes) + ") + warp * 16 * PITCH;");
  b.line("if (threadIdx.x == 0) {\nprefetch_map(&" + maps.a + ");\nprefetch_map(&" + maps.weights + R"();
#pragma unroll
for (int s = 0; s < STAGES; ++s) {
barrier_init(full + s, 1);
barrier_init(empty + s, 4 * GROUPS);
}
barriers_ready();
}
__syncthreads();)");
  b.line(filled_in(kProduce, names));
  b.line("#define RESULT " + b.output(0, tactic.outputs[0].dtype));
  b.line(
      filled_in("wait_for_previous_kernel();\nint s = 0, parity = 0;\nfor (int tile = blockIdx.x; tile < "
                "TILES; tile += "
                "gridDim.x) {\nTILE\n",
                names));
  writer.result_in_place(2);
  b.line(kFetch);
  b.line(start_sums(b, query, p, "b_row"));
  b.line(filled_in(multiply_next_tile(), names));
  b.line(filled_in(kFinish, names));
  b.line("}");
  return b.finish();
}

}  // namespace lathe::cuda
