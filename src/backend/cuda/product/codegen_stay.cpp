// SPDX-License-Identifier: Apache-2.0
//
// Hopper products with short sums and many results: blocks that stay, each computing tile after tile. One
// warp starts the copies, of the next tiles too while this one is finished; each warp of the others finishes
// its sixteen rows of the tile in registers and turns them around in shared memory of its own, so that only
// the products themselves are done together. What the epilogue reads is on its way while they are multiplied.
//
// Why: with K = 64 a tile of 128 x 64 results is multiplied in a tenth of a microsecond, while a block for
// each tile takes four: to start, to get its first operands, to get those of the epilogue, and to store.
// Blocks of a multiprocessor that do the same begin together and may stay in step, all multiplying and then
// all finishing. Teams of one block take turns instead: one multiplies while the others finish, out of one
// set of stages and kept weights. On an H200 in FP8, q, k and v of 4096 rows (4096 x 2304 x 768): 20.1 us
// with three teams of 64 x 128, 26.8 with one; with GELU and rounding 4096 x 3072 x 768: 29.5 us, and 34.8.
// Where a column of B fits into shared memory beside that, a block may keep it: with K = 64 that is two
// thirds of what a tile reads.
//
// Columns are dealt to threads (stay.cuh) where the epilogue reads what other layers computed. In INT8
// with a residual, 32 x 56 x 56 pixels of 64 channels to 256: 34.1 us in pairs, 29.2 dealt, of a floor of 14
// (58 MB); 32 x 14 x 14 of 256 to 1024: 10.1 and 9.5. Without a residual pairs are 7 % faster.
#include <algorithm>

#include "backend/cuda/product/codegen_wgmma.h"
#include "lathe_device_text/stay.h"
#include "lathe_device_text/wgmma_stay.h"
#include "lathe_device_text/wgmma_tiles.h"

namespace lathe::cuda {

namespace {

// The epilogue has an operand that another layer computed.
bool reads_beside_results(const LayerQuery& query) {
  const Node& node = query.layer();
  return std::any_of(node.inputs.begin() + static_cast<ptrdiff_t>(node.op_input_count()), node.inputs.end(),
                     [&](ValueId id) { return !query.graph.value(id).is_constant(); });
}

}  // namespace

KernelSource stay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                         const WgmmaVariant& v, const DeviceProperties& gpu) {
  const DType type = tactic.outputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "wgmma_stay", type);
  GemmWriter writer(b, query, tactic, p, v.threads(), v.tile.rows(), v.tile.bn, p.step(), 1);
  const int result_size = dtype_size(type), stages = v.stages(gpu), stages_bytes = stages * v.stage_bytes(),
            strips_at = stages_bytes + v.kept_bytes();
  const Dim tiles = wgmma_tiles(p, v);
  b.kernel().threads = v.threads();
  // What is kept belongs to one column of tiles.
  const int64_t columns = v.kept > 0 ? wgmma_columns(p, v) : 1;
  b.kernel().grid = {min(tiles, Dim(v.blocks / columns * columns)), 1, 1};
  add_hopper_stages(b, v.tile,
                    {.type = p.type,
                     .stages = stages,
                     .barriers_at = strips_at + v.result_bytes(),
                     .more_barriers = v.teams > 1 ? v.teams : 0,
                     .step = p.step(),
                     .teams = v.teams,
                     .width = vector_width(16 / result_size, {p.n, p.row_length}),
                     .kept_at = v.kept > 0 ? stages_bytes : 0},
                    false);
  constexpr int kDealt = 8;
  const bool whole = divides(v.tile.bn, p.n);
  const bool dealt = whole && v.tile.bn % (4 * kDealt) == 0 && reads_beside_results(query) &&
                     result_vector(query, tactic, p, kDealt, 1) == kDealt;
  const int run = dealt ? kDealt : 2;
  b.constants({{"STRIPS", strips_at},
               {"PITCH", v.tile.bn + 16 / result_size},
               {"WHOLE_COLUMNS", whole},
               {"RUN", run}});
  b.global(device_text::wgmma_tiles::kTiles);
  b.global(device_text::stay::kTiles);
  b.global(device_text::wgmma_stay::kStay);
  const WgmmaMaps maps = wgmma_maps(b, query, p, v, dealt);
  define_tile_at(b, p, v);
  writer.result_in_place(run);
  b.line("constexpr int split = 0;");
  define_start_sums(b, query, p, dealt);
  b.line("product_stays(&" + maps.a + ", &" + maps.weights + ", " + b.number(tiles) + ", " +
         b.number(ceil_div(p.k, Dim(p.step()))) + ", " + b.number(p.n) +
         ", tile_at, start_sums, place, tail, " + b.output(0, type) + ");");
  return b.finish();
}

}  // namespace lathe::cuda
