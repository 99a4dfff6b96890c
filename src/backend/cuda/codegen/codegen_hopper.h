// SPDX-License-Identifier: Apache-2.0
//
// Primitives of compute capability 9.0 as device text: the bulk tensor copy engine (TMA), barriers in shared
// memory that count its bytes, and products of warpgroups (wgmma) whose operands lie in shared memory.
// emulator/hopper.h says what they mean. Tiles are rows of 128 bytes (64 elements of 16 bits) or 64 bytes,
// swizzled, at addresses that are multiples of 1024.
#pragma once

#include <string>
#include <string_view>

#include "backend/cuda/codegen/kernel_source.h"
#include "ir/dtype.h"

namespace lathe::cuda {

struct DeviceProperties;

// For kernels that multiply tiles of 64 x `n` of that type: multiply_tile_f16 or _bf16(float (&d)[n / 2], a,
// b), multiply_tile_e4m3 for floats of 8 bits, or multiply_tile_u8(int (&d)[n / 2], a, b) for bytes times
// signed bytes.
std::string hopper_primitives(DType type, int n);
// Behind those, for a left operand in registers and a right one whose rows are K: multiply_rows_f16 or
// _bf16(float (&d)[n / 2], const u32 (&a)[4], b), n = 64.
std::string hopper_rows_primitive(DType type, int n);
// Behind those: multiply_kept_f16 or _bf16(d, a, b), for a left operand in registers.
std::string hopper_kept_primitive(DType type, int n);
// "f16", "bf16", "e4m3" or "u8", as the names above end.
std::string multiplied_name(DType type);
// Copies, barriers and clusters alone.
std::string hopper_primitives();
// A device function of primitives: sum_over_blocks<BLOCKS>(own, sum), four sums at the same place of all
// blocks of a cluster.
std::string_view cluster_sums();
// Behind those: send_words(rank, own, words, barrier) stores 16 bytes in block `rank` of the cluster where
// `own` is in this one; they arrive at that block's barrier. What a block gets takes 0.7 ns a message.
std::string_view hopper_send_primitive();

// The tile of results of a block whose warpgroups multiply what one more warp brings: 64 rows for each
// warpgroup times `bn` columns, and how many such blocks a multiprocessor is to hold.
struct HopperTile {
  int groups = 1, bn = 64, resident = 1;
  int row_bytes = 128;  // of a row's elements in a stage: 128 or 64

  int rows() const { return 64 * groups; }
  int consumers() const { return 128 * groups; }  // threads that multiply
  int stage_bytes() const { return (rows() + bn) * row_bytes; }
  // All sums as rows of floats, for which the stages make room.
  int sums_bytes() const { return rows() * (bn + 8) * 4; }
  // What a block has for its stages and `kept` bytes besides: 1 KiB goes for alignment, and the barriers.
  int64_t bytes_of_stages(const DeviceProperties& gpu, int kept = 0) const;
  int stages(const DeviceProperties& gpu, int kept = 0) const { return stages(gpu, kept, stage_bytes()); }
  int stages(const DeviceProperties& gpu, int kept, int bytes_of_one) const;
  // Threads need `others` registers besides those of their sums, and `more_warps` do not multiply.
  bool registers_fit(const DeviceProperties& gpu, int others, int more_warps) const;
};

// A kernel of such blocks, for stages.cuh.
struct HopperStages {
  DType type = DType::Float16;  // what is multiplied
  int stages = 1;
  int barriers_at = 0;    // bytes from the first stage on
  int more_barriers = 0;  // besides those of the stages
  int step = 64;          // elements of K in a stage
  int teams = 1;          // of warpgroups, each with tiles of its own
  int width = 1;          // results that are stored at once
  int kept_at = 0;        // where B is kept; 0: it comes with the stages
  int a_rows = 0;         // of a stage; 0: those of the tile
  int a_pitch = 0;        // bytes of a stage for them; 0: as many as they are
  int b_tiles = 1;        // that belong to a stage
};
// Writes the constants that stages.cuh wants and its text, and sets shared memory and residency: blocks wait
// for the previous kernel themselves. `results`: also what becomes of sums.
void add_hopper_stages(KernelBuilder& b, const HopperTile& tile, const HopperStages& stages, bool results);

}  // namespace lathe::cuda
