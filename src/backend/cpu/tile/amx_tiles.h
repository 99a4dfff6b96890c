// SPDX-License-Identifier: Apache-2.0
//
// The eight tile registers of AMX. Numbers are template arguments, as they are part of the instructions; the
// assembler knows them without a flag, and no compiler moves other memory accesses past them.
#pragma once

#include <cstdint>

namespace lathe::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int row_count, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(row_count);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};

struct AmxTiles {
  static void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config) : "memory"); }
  static void release() { asm volatile("tilerelease" ::: "memory"); }
  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void load(const void* at, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(at), "r"(stride), "i"(kTile) : "memory");
  }
  // The same of data that L1 need not keep.
  template <int kTile>
  static void load_once(const void* at, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(at), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void store(void* at, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(at), "r"(stride), "i"(kTile) : "memory");
  }
  // sum += a b, pairs of BF16 along k.
  template <int kSum, int kA, int kB>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
  }
  // sum += a b, quads along k of unsigned bytes of a and signed ones of b.
  template <int kSum, int kA, int kB>
  static void dot_bytes() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace lathe::cpu
