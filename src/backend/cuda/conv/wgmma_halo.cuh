// SPDX-License-Identifier: Apache-2.0
//
// A convolution with blocks that stay and keep the pixels of a tile, and those around it, in shared memory
// for all taps of the window (codegen_halo.cpp); behind stages.cuh and stay.cuh.
//
// A stage holds a patch of the image: KSTEP channels of pixels, PATCH in a row. A warpgroup multiplies 64 of
// them that lie one after the other, and for the next tap 64 that begin so many pixels further on: rows of a
// swizzled operand may begin anywhere, because the swizzle goes by the address. What lies between the end of
// one row of results and the beginning of the next is computed and thrown away.
//
// Besides what those want the generator writes in front:
//   PATCH                   pixels in a row of the patch
//   GROUP_PIXELS            pixels from a warpgroup's first to the next one's
//   PIECES                  steps of K that the channels of a tap are
//   KERNEL_H, KERNEL_W      rows and columns of a window
//   DILATION_H, DILATION_W  pixels from tap to tap
//   ROW_TAPS                taps of a row of the window whose weights come together: one, or all
//   WEIGHT_STAGES           of so many tiles of B; 0: they are kept

//# kHalo
constexpr int TAPS = KERNEL_H * KERNEL_W, WEIGHTS = ROW_TAPS * B_TILE;
typedef TurnOf<WEIGHT_STAGES ? WEIGHT_STAGES : 1> WeightTurn;

// The pixel of the patch's corner, and its image.
struct Patch {
  int x, y, image;
};

// Barriers of the weights that come one after the other, behind those of teams.
struct WeightStages {
  u64 *full, *empty;
  DEV explicit WeightStages(u64* more) : full(more + (TEAMS > 1 ? TEAMS : 0)), empty(full + WEIGHT_STAGES) {}
};

template <class TileAt, class PatchAt>
DEV void bring_patches(const Stages& stages, const WeightStages& weight_stages, const TensorMap* pixels,
                       const TensorMap* weights, int tiles, TileAt tile_at, PatchAt patch_at) {
  Turn turn{0, 1};
  WeightTurn weight{0, 1};
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const auto tile = tile_at(number);
    const Patch patch = patch_at(tile.row0);
    const bool first = number == (int)blockIdx.x;
    const auto copy_patch = [&](int piece, int s) {
      copy_box(stages.a(s), pixels, piece * KSTEP, patch.x, patch.y, patch.image, stages.full + s);
    };
    const auto copy_weights = [&](char* to, int piece, int tap, u64* barrier) {
      copy_box(to, weights, (tap * PIECES + piece) * KSTEP, tile.b_row, barrier);
    };
    if constexpr (WEIGHT_STAGES == 0) {
      const auto copy_taps = [&](int piece, int s) {
        for (int tap = 0; tap < TAPS; ++tap)
          copy_weights(stages.b(s, piece) + tap * B_TILE, piece, tap, stages.full + s);
      };
      const int brought = first ? bring_first(stages, turn, PIECES, copy_patch, copy_taps) : 0;
      bring(stages, turn, brought, PIECES, first, copy_patch, copy_taps);
    } else {
      constexpr int STEPS = TAPS / ROW_TAPS;  // of a piece
      const auto bring_weights = [&](int step) {
        barrier_wait(weight_stages.empty + weight.stage, weight.parity);
        u64* const barrier = weight_stages.full + weight.stage;
        barrier_expect(barrier, WEIGHTS);
        for (int x = 0; x < ROW_TAPS; ++x)
          copy_weights(stages.base + KEPT + weight.stage * WEIGHTS + x * B_TILE, step / STEPS,
                       step % STEPS * ROW_TAPS + x, barrier);
        weight.advance();
      };
      int brought = 0;
      if (first) {
        for (; brought < WEIGHT_STAGES && brought < PIECES * STEPS; ++brought) bring_weights(brought);
        wait_for_previous_kernel();
        stored_before_copies();
      }
      for (int piece = 0; piece < PIECES; ++piece, turn.advance()) {
        barrier_wait(stages.empty + turn.stage, turn.parity);
        barrier_expect(stages.full + turn.stage, A_BYTES);
        copy_patch(piece, turn.stage);
        for (int step = piece * STEPS; step < (piece + 1) * STEPS; ++step)
          if (step >= brought) bring_weights(step);
      }
    }
  }
}

// The products of all taps of each piece of the channels, as patches and weights arrive.
struct PatchProducts {
  const Stages& stages;
  WeightStages weight_stages;
  Turn turn;
  WeightTurn weight;

  DEV void skip(int tiles) {
    turn.advance(tiles * PIECES);
    if (WEIGHT_STAGES > 0) weight.advance(tiles * PIECES * (TAPS / ROW_TAPS));
  }
  // Who filled the stages that the product before read may fill them again.
  DEV void hand_back(bool weights, bool patch) const {
    if (threadIdx.x % 32 != 0) return;
    if (WEIGHT_STAGES > 0 && weights) barrier_arrive(weight_stages.empty + weight.before());
    if (patch) barrier_arrive(stages.empty + turn.before());
  }
  // Weights that are kept need no hand-back, so that all taps of a piece are one group of products.
  template <class Started> DEV void multiply(Sum (&sum)[BN / 2], Started started) {
    constexpr bool KEEPS = WEIGHT_STAGES == 0;
    const int group = threadIdx.x / 128 % GROUPS;
    for (int piece = 0; piece < PIECES; ++piece) {
      barrier_wait(stages.full + turn.stage, turn.parity);
      const char* const patch = stages.a(turn.stage) + group * GROUP_PIXELS * ROW_BYTES;
      if (KEEPS) multiply_begin();
      for (int y = 0; y < KERNEL_H; ++y)
#pragma unroll
        for (int x0 = 0; x0 < KERNEL_W; x0 += ROW_TAPS) {
          const char* from = stages.b(turn.stage, piece) + (y * KERNEL_W + x0) * B_TILE;
          if (!KEEPS) {
            barrier_wait(weight_stages.full + weight.stage, weight.parity);
            from = stages.base + KEPT + weight.stage * WEIGHTS;
            multiply_begin();
          }
#pragma unroll
          for (int x = 0; x < ROW_TAPS; ++x) {
            const int at = y * DILATION_H * PATCH + (x0 + x) * DILATION_W;
            const u64 a = tile_operand<ROW_BYTES>(patch + at * ROW_BYTES),
                      b = tile_operand<ROW_BYTES>(from + x * B_TILE);
#pragma unroll
            for (int k = 0; k < ROW_BYTES / 32; ++k) MULTIPLY(sum, a + 2 * k, b + 2 * k);
          }
          if (KEEPS && y + 1 < KERNEL_H) continue;
          multiply_commit();
          multiply_wait<1>();
          hand_back(piece + y + x0 > 0, piece > 0 && (KEEPS || y + x0 == 0));
          if (!KEEPS) weight.advance();
        }
      turn.advance();
    }
    started();
    multiply_wait<0>();
    hand_back(true, true);
    multiply_done(sum);
  }
};

template <class TileAt, class PatchAt, class StartSums, class Place, class Tail, class Stored>
DEV void conv_stays(const TensorMap* pixels, const TensorMap* weights, int tiles, idx columns, TileAt tile_at,
                    PatchAt patch_at, StartSums start_sums, Place place, const Tail& tail, Stored* result) {
  const Stages stages = start_stages(pixels, weights, [](u64* more) {
    start_turns(more);
    const WeightStages weight_stages(more);
    for (int s = 0; s < WEIGHT_STAGES; ++s) {
      barrier_init(weight_stages.full + s, 1);
      barrier_init(weight_stages.empty + s, 4 * GROUPS);
    }
  });
  u64* const more = stages.empty + STAGES;
  const WeightStages weight_stages(more);
  if (threadIdx.x >= CONSUMERS) {
    if (threadIdx.x % 32 == 0)
      bring_patches(stages, weight_stages, pixels, weights, tiles, tile_at, patch_at);
    return;
  }
  finish_tiles(stages.base, more, tiles, columns, PatchProducts{stages, weight_stages, {0, 0}, {0, 0}},
               tile_at, start_sums, place, tail, result);
}
