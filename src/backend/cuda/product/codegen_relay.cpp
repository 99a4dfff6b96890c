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
#include "backend/cuda/product/codegen_wgmma.h"
#include "lathe_device_text/wgmma_relay.h"
#include "lathe_device_text/wgmma_tiles.h"

namespace lathe::cuda {

KernelSource relay_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                          const WgmmaVariant& v, const DeviceProperties& gpu) {
  KernelBuilder b = start_kernel(query, tactic, "wgmma_relay", tactic.outputs[0].dtype);
  GemmWriter writer(b, query, tactic, p, v.threads(), v.tile.rows(), v.tile.bn, p.step(), 1);
  const int width = result_vector(query, tactic, p, 8, 1), stages = v.stages(gpu),
            stages_bytes = stages * v.tile.stage_bytes();
  const Dim tiles = wgmma_tiles(p, v);
  b.kernel().threads = v.threads();
  b.kernel().grid = {min(tiles, Dim(v.blocks)), 1, 1};
  add_hopper_stages(b, v.tile,
                    {.type = p.type,
                     .stages = stages,
                     .barriers_at = stages_bytes + v.result_bytes(),
                     .more_barriers = 2 * v.tile.groups,
                     .step = p.step(),
                     .width = width},
                    false);
  b.constants(
      {{"HANDED_OVER", stages_bytes}, {"PITCH", v.result_pitch()}, {"TOGETHER", v.tile.groups == 3 ? 2 : 4}});
  b.global("#define PACK f32_to_" + multiplied_name(p.type) + "x2\ntypedef " +
           std::string(storage_name(p.type)) + " T;");
  b.global(device_text::wgmma_tiles::kTiles);
  b.global(device_text::wgmma_relay::kRelay);
  const WgmmaMaps maps = wgmma_maps(b, query, p, v);
  define_tile_at(b, p, v);
  writer.result_in_place(width);
  b.line("product_relay(&" + maps.a + ", &" + maps.weights + ", " + b.number(tiles) + ", " +
         b.number(ceil_div(p.k, Dim(p.step()))) + ", tile_at, place, tail, " +
         b.output(0, tactic.outputs[0].dtype) + ");");
  return b.finish();
}

}  // namespace lathe::cuda
