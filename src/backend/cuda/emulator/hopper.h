// SPDX-License-Identifier: Apache-2.0
//
// For tests: what the primitives of hopper.cuh mean. Copies arrive at once; products of warpgroups
// are computed by each thread for its own results, from the swizzled tiles in shared memory.
//
// Included by shim.h.
#pragma once

typedef unsigned long long u64;
#define __grid_constant__

// As the tests describe it to emulated kernels.
struct alignas(64) TensorMap {
  const char* base;
  int rank;
  int bytes;  // of an element
  int box[5];
  long long extents[5], strides[5];  // strides in elements
  int first[2], last[2], steps[2];   // of windows
};

namespace emulator {
// The barrier's 8 bytes: arrivals that are missing, how many a phase has, bytes that are missing, parity of
// the phase.
struct Barrier {
  unsigned short missing, count;
  int bytes : 31;
  unsigned phase : 1;
};
static_assert(sizeof(Barrier) == 8);
inline Barrier& barrier(u64* b) {
  return *reinterpret_cast<Barrier*>(b);
}
inline void complete(Barrier& b) {
  if (b.missing != 0 || b.bytes != 0) return;
  b.missing = b.count;
  b.phase ^= 1;
  ++progress;
}
// Of a tile whose rows have so many bytes: the places of 16 bytes in rows of 128, or of pairs of rows of 64,
// change with the number of the 128 bytes.
inline char* swizzled(size_t address, size_t row_bytes = 128) {
  return shared() + (address ^ (address >> 7 & (row_bytes / 16 - 1)) << 4);
}
// Element `from` of the map's memory, or zero, to place `to` of the box.
inline void copy_element(const TensorMap* map, bool inside, long long from, size_t box, int to) {
  const auto bytes = static_cast<size_t>(map->bytes);
  const size_t row_bytes = static_cast<size_t>(map->box[0]) * bytes;
  char* const place = swizzled(box + static_cast<size_t>(to) * bytes, row_bytes);
  if (inside)
    memcpy(place, map->base + from * map->bytes, bytes);
  else
    memset(place, 0, bytes);
}
// A barrier of the cluster: threads that have left count as arrived.
inline void complete_cluster() {
  if (cluster_arrived + finished < cluster_threads) return;
  cluster_arrived = 0;
  ++cluster_phase;
  ++progress;
}
}  // namespace emulator

inline u32 shared_address(const void* p) {
  return static_cast<u32>(static_cast<const char*>(p) - emulator::shared());
}
inline void barrier_init(u64* b, u32 count) {
  emulator::barrier(b) = {static_cast<unsigned short>(count), static_cast<unsigned short>(count), 0, 0};
}
inline void barriers_ready() {}
inline void barrier_arrive(u64* b) {
  --emulator::barrier(b).missing;
  emulator::complete(emulator::barrier(b));
}
inline void barrier_expect(u64* b, u32 bytes) {
  emulator::barrier(b).bytes += static_cast<int>(bytes);
  barrier_arrive(b);
}
inline void barrier_wait(u64* b, u32 parity) {
  while (emulator::barrier(b).phase == parity) emulator::yield();
}
inline void stored_before_copies() {}
inline void stored_before_products() {}
inline void prefetch_map(const TensorMap*) {}
// The box at those coordinates, of which the map's rank counts.
inline void copy_box_at(void* to, const TensorMap* map, const int (&corner)[5], u64* b) {
  const size_t start = shared_address(to);
  int box[5], count = 1;
  for (int d = 0; d < map->rank; ++d) count *= box[d] = map->box[d] > 0 ? map->box[d] : 1;
  for (int place = 0; place < count; ++place) {
    long long from = 0;
    bool inside = true;
    for (int d = 0, rest = place; d < map->rank; rest /= box[d++]) {
      const long long at = static_cast<long long>(corner[d]) + rest % box[d];
      inside = inside && at >= 0 && at < map->extents[d];
      from += at * map->strides[d];
    }
    emulator::copy_element(map, inside, from, start, place);
  }
  emulator::barrier(b).bytes -= count * map->bytes;
  emulator::complete(emulator::barrier(b));
}
inline void copy_box(void* to, const TensorMap* map, int c0, int c1, int c2, int c3, u64* b) {
  copy_box_at(to, map, {c0, c1, c2, c3}, b);
}
inline void copy_box(void* to, const TensorMap* map, int c0, int c1, int c2, u64* b) {
  copy_box_at(to, map, {c0, c1, c2}, b);
}
inline void copy_box(void* to, const TensorMap* map, int c0, int c1, u64* b) {
  copy_box_at(to, map, {c0, c1}, b);
}
inline void copy_block(void* to, const TensorMap* map, int c0, int block, u64* b) {
  copy_box_at(to, map, {c0, 0, 0, 0, block}, b);
}
inline void copy_windows(void* to, const TensorMap* map, int channel, int x, int y, int image, int dx, int dy,
                         u64* b) {
  const size_t start = shared_address(to);
  for (int pixel = 0; pixel < map->box[1]; ++pixel) {
    const long long px = x + dx, py = y + dy;
    for (int i = 0; i < map->box[0]; ++i) {
      const bool inside = channel + i < map->extents[0] && px >= 0 && px < map->extents[1] && py >= 0 &&
                          py < map->extents[2] && image < map->extents[3];
      emulator::copy_element(
          map, inside, channel + i + px * map->strides[1] + py * map->strides[2] + image * map->strides[3],
          start, pixel * map->box[0] + i);
    }
    if ((x += map->steps[0]) <= map->last[0]) continue;
    x = map->first[0];
    if ((y += map->steps[1]) <= map->last[1]) continue;
    y = map->first[1];
    ++image;
  }
  emulator::barrier(b).bytes -= map->box[0] * map->box[1] * map->bytes;
  emulator::complete(emulator::barrier(b));
}
inline void cluster_arrive() {
  emulator::fibers[emulator::current].cluster_phase = emulator::cluster_phase;
  ++emulator::cluster_arrived;
  emulator::complete_cluster();
}
inline void cluster_wait() {
  while (emulator::fibers[emulator::current].cluster_phase == emulator::cluster_phase) {
    emulator::complete_cluster();
    if (emulator::fibers[emulator::current].cluster_phase == emulator::cluster_phase) emulator::yield();
  }
}
inline void load_shared_of(int rank, const float* own, float (&x)[4]) {
  if (shared_address(own) % 16 != 0) {
    fprintf(stderr, "16 bytes are loaded from shared memory at %u\n", shared_address(own));
    abort();
  }
  memcpy(x, emulator::shared_memories[rank] + shared_address(own), 16);
}
inline void send_words(int rank, void* own, const u32 (&words)[4], u64* b) {
  char* const there = emulator::shared_memories[rank];
  if (shared_address(own) % 16 != 0) {
    fprintf(stderr, "16 bytes are sent to shared memory at %u\n", shared_address(own));
    abort();
  }
  memcpy(there + shared_address(own), words, 16);
  auto& barrier = *reinterpret_cast<emulator::Barrier*>(there + shared_address(b));
  barrier.bytes -= 16;
  ++emulator::progress;
  emulator::complete(barrier);
}
template <int N>
inline void store_shared_of(int rank, float* own, const float (&x)[N]) {
  if (shared_address(own) % (4 * N) != 0) {
    fprintf(stderr, "%d bytes are stored to shared memory at %u\n", 4 * N, shared_address(own));
    abort();
  }
  memcpy(emulator::shared_memories[rank] + shared_address(own), x, 4 * N);
}
template <int threads>
inline void meet_first() {
  emulator::meet(emulator::block().first_arrived, emulator::block().first_generation, threads);
}
inline void store_matrix(void* row, const u32 (&r)[4]) {
  emulator::put(row);
  const int l = emulator::lane();
  for (int m = 0; m < 4; ++m) memcpy(emulator::get<char*>(m * 8 + l / 4) + (l % 4) * 4, &r[m], 4);
  emulator::warp_meet();
}
template <int ROW_BYTES = 128>
inline u64 tile_operand(const void* tile) {
  return shared_address(tile) >> 4 | static_cast<u64>(ROW_BYTES) << 32;
}
inline void multiply_begin() {}
inline void multiply_commit() {}
template <int N>
inline void multiply_wait() {}
template <class T, int N>
inline void multiply_done(T (&)[N]) {}
template <int N, class Widen>
inline void multiply_tile(float (&d)[N], u64 a, u64 b, Widen widen16) {
  const int t = static_cast<int>(threadIdx.x % 128);
  float rows[2][16];
  const auto row_of = [&](u64 tile, int row, float* to) {
    for (int k = 0; k < 16; ++k) {
      u16 x;
      const size_t row_bytes = tile >> 32, start = (tile & 0xffffffff) << 4;
      memcpy(&x,
             emulator::swizzled(start + static_cast<size_t>(row) * row_bytes + static_cast<size_t>(2 * k),
                                row_bytes),
             2);
      to[k] = widen16(x);
    }
  };
  for (int h = 0; h < 2; ++h) row_of(a, t / 32 * 16 + t % 32 / 4 + 8 * h, rows[h]);
  for (int j = 0; j < N / 4; ++j)
    for (int e = 0; e < 2; ++e) {
      float column[16];
      row_of(b, 8 * j + t % 4 * 2 + e, column);
      for (int h = 0; h < 2; ++h)
        for (int k = 0; k < 16; ++k) d[4 * j + 2 * h + e] += rows[h][k] * column[k];
    }
}
template <int N>
inline void multiply_tile_f16(float (&d)[N], u64 a, u64 b) {
  multiply_tile(d, a, b, [](u16 x) { return f16_to_f32(x); });
}
template <int N>
inline void multiply_tile_bf16(float (&d)[N], u64 a, u64 b) {
  multiply_tile(d, a, b, [](u16 x) { return __uint_as_float(static_cast<u32>(x) << 16); });
}
// 32 bytes of K: product(x, y) of a byte of A and one of B is added to a sum.
template <class Sum, int N, class Product>
inline void multiply_bytes(Sum (&d)[N], u64 a, u64 b, Product product) {
  const int t = static_cast<int>(threadIdx.x % 128);
  const auto byte_of = [](u64 tile, int row, int k) {
    const size_t row_bytes = tile >> 32, start = (tile & 0xffffffff) << 4;
    return static_cast<unsigned char>(*emulator::swizzled(
        start + static_cast<size_t>(row) * row_bytes + static_cast<size_t>(k), row_bytes));
  };
  for (int j = 0; j < N / 4; ++j)
    for (int e = 0; e < 2; ++e)
      for (int h = 0; h < 2; ++h)
        for (int k = 0; k < 32; ++k)
          d[4 * j + 2 * h + e] +=
              product(byte_of(a, t / 32 * 16 + t % 32 / 4 + 8 * h, k), byte_of(b, 8 * j + t % 4 * 2 + e, k));
}
template <int N>
inline void multiply_tile_u8(int (&d)[N], u64 a, u64 b) {
  multiply_bytes(d, a, b, byte_product);
}
template <int N>
inline void multiply_tile_e4m3(float (&d)[N], u64 a, u64 b) {
  multiply_bytes(d, a, b, e4m3_product);
}
// A left operand in registers; `place(column, k)`: where an element of the right one lies in its tile, in
// bytes.
template <int N, class Widen>
inline void multiply_registers(float (&d)[N], const u32 (&a)[4], u64 b, Widen widen16,
                               size_t place(int, int)) {
  struct Rows {
    u32 a[4];
  } mine = {{a[0], a[1], a[2], a[3]}};
  emulator::put(mine);
  const int l = emulator::lane();
  float rows[2][16];
  for (int h = 0; h < 2; ++h)
    for (int k = 0; k < 16; ++k) {
      const Rows from = emulator::get<Rows>(l / 4 * 4 + k % 8 / 2);
      rows[h][k] = widen16(static_cast<u16>(from.a[k / 8 * 2 + h] >> 16 * (k % 2)));
    }
  emulator::warp_meet();
  for (int j = 0; j < N / 4; ++j)
    for (int e = 0; e < 2; ++e)
      for (int k = 0; k < 16; ++k) {
        u16 x;
        memcpy(&x, emulator::swizzled(((b & 0xffffffff) << 4) + place(8 * j + l % 4 * 2 + e, k)), 2);
        for (int h = 0; h < 2; ++h) d[4 * j + 2 * h + e] += rows[h][k] * widen16(x);
      }
}
// The right operand's rows are K, or columns of the result.
inline size_t rows_are_k(int column, int k) {
  return static_cast<size_t>(k * 128 + column * 2);
}
inline size_t rows_are_columns(int column, int k) {
  return static_cast<size_t>(column * 128 + k * 2);
}
template <int N>
inline void multiply_rows_f16(float (&d)[N], const u32 (&a)[4], u64 b) {
  multiply_registers(
      d, a, b, [](u16 x) { return f16_to_f32(x); }, rows_are_k);
}
template <int N>
inline void multiply_rows_bf16(float (&d)[N], const u32 (&a)[4], u64 b) {
  multiply_registers(
      d, a, b, [](u16 x) { return __uint_as_float(static_cast<u32>(x) << 16); }, rows_are_k);
}
template <int N>
inline void multiply_kept_f16(float (&d)[N], const u32 (&a)[4], u64 b) {
  multiply_registers(
      d, a, b, [](u16 x) { return f16_to_f32(x); }, rows_are_columns);
}
template <int N>
inline void multiply_kept_bf16(float (&d)[N], const u32 (&a)[4], u64 b) {
  multiply_registers(
      d, a, b, [](u16 x) { return __uint_as_float(static_cast<u32>(x) << 16); }, rows_are_columns);
}
