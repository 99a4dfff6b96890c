// SPDX-License-Identifier: Apache-2.0
//
// For tests: enough of CUDA's execution model to run a generated kernel on the host, so that its arithmetic
// and indexing are checked where there is no GPU. Threads of a block are fibers that run until they meet a
// barrier; the primitives of the hardware (codegen/primitives.cuh) are replaced by what they mean.
// Asynchronous copies arrive only when they are waited for, shared memory starts as garbage, and a barrier
// that not all threads reach is an error.
//
// Included in front of kernel sources by the emulator's driver; not part of the library.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};
static Index3 threadIdx, blockIdx, blockDim, gridDim;

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define DEV inline

typedef unsigned short u16;
typedef unsigned int u32;

namespace emulator {

struct Copy {
  void* to;
  const void* from;
  int bytes;
};
struct Fiber {
  ucontext_t context;  // for the first entry; from then on `place`, which goes without a system call
  jmp_buf place;
  bool started = false;
  std::vector<char> stack;
  bool done = false;
  std::vector<std::vector<Copy>> groups;
  unsigned cluster_phase = 0;  // in which it arrived
};
struct Warp {
  alignas(16) unsigned char slots[32][64];
  int arrived = 0;
  unsigned generation = 0;
};

// A block of the cluster that runs.
constexpr unsigned kMostBlocks = 16;
struct Block {
  std::vector<Warp> warps{32};
  int arrived = 0, first_arrived = 0;
  unsigned generation = 0, first_generation = 0;
  Index3 index;
};

static ucontext_t scheduler_context;
static jmp_buf scheduler;
static std::vector<Fiber> fibers;
static std::vector<Block> blocks(kMostBlocks);
static unsigned current, thread_count, cluster_arrived, cluster_phase, progress;  // thread_count: of a block
static unsigned cluster_threads, finished;                                        // of all its blocks
static std::function<void()> kernel;
alignas(1024) static char shared_memories[kMostBlocks][232448];

inline Block& block() {
  return blocks[current / thread_count];
}
inline char* shared() {
  return shared_memories[current / thread_count];
}

inline void yield() {
  if (_setjmp(fibers[current].place) == 0) _longjmp(scheduler, 1);
}
inline void resume(Fiber& f) {
  if (_setjmp(scheduler) != 0) return;
  if (f.started) _longjmp(f.place, 1);
  f.started = true;
  swapcontext(&scheduler_context, &f.context);
}
inline void fiber_main() {
  kernel();
  fibers[current].done = true;
  ++finished;
  ++progress;
  yield();
}
inline void meet(int& count, unsigned& gen, int all) {
  const unsigned mine = gen;
  if (++count == all) {
    count = 0;
    ++gen;
    ++progress;
  } else {
    while (gen == mine) yield();
  }
}
inline Warp& warp() {
  return block().warps[current % thread_count / 32];
}
inline void warp_meet() {
  const int lanes = thread_count < 32 ? static_cast<int>(thread_count) : 32;
  meet(warp().arrived, warp().generation, lanes);
}
inline int lane() {
  return static_cast<int>(current % thread_count % 32);
}
template <class T>
inline void put(const T& x) {
  static_assert(sizeof(T) <= 64);
  memcpy(warp().slots[lane()], &x, sizeof(T));
  warp_meet();
}
template <class T>
inline T get(int from) {
  T x;
  memcpy(&x, warp().slots[from], sizeof(T));
  return x;
}

// The blocks of a cluster, from `first` on along z.
inline int run_cluster(Index3 first, unsigned count, unsigned threads) {
  memset(shared_memories, 0xcd, count * sizeof shared_memories[0]);
  thread_count = threads;
  cluster_arrived = 0;
  for (unsigned b = 0; b < count; ++b) {
    blocks[b].index = {first.x, first.y, first.z + b};
    blocks[b].arrived = blocks[b].first_arrived = 0;
    for (Warp& w : blocks[b].warps) w.arrived = 0;
  }
  threads *= count;
  cluster_threads = threads;
  finished = 0;
  if (fibers.size() < threads) fibers.resize(threads);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& f = fibers[t];
    f.stack.resize(64 << 10);
    f.done = f.started = false;
    f.groups.assign(1, {});
    getcontext(&f.context);
    f.context.uc_stack = {.ss_sp = f.stack.data(), .ss_flags = 0, .ss_size = f.stack.size()};
    f.context.uc_link = nullptr;
    makecontext(&f.context, fiber_main, 0);
  }
  for (;;) {
    const unsigned before = progress;
    for (unsigned t = 0; t < threads; ++t) {
      if (fibers[t].done) continue;
      current = t;
      threadIdx = {t % thread_count, 0, 0};
      blockIdx = block().index;
      resume(fibers[t]);
    }
    if (finished == threads) return 0;
    if (progress == before) return 1;  // threads wait for others that have left
  }
}

template <class... A, size_t... I>
void call(void (*f)(A...), void** args, std::index_sequence<I...>) {
  f(*static_cast<std::remove_const_t<A>*>(args[I])...);
}

// 0, or 1 when threads of a block never meet at a barrier.
template <class... A>
int launch(void (*f)(A...), void** args, const unsigned* grid, unsigned threads, unsigned cluster) {
  kernel = [=] { call(f, args, std::index_sequence_for<A...>()); };
  blockDim = {threads, 1, 1};
  gridDim = {grid[0], grid[1], grid[2]};
  for (unsigned z = 0; z < grid[2]; z += cluster)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x)
        if (run_cluster({x, y, z}, cluster, threads)) return 1;
  return 0;
}

}  // namespace emulator

inline void __syncthreads() {
  emulator::meet(emulator::block().arrived, emulator::block().generation,
                 static_cast<int>(emulator::thread_count));
}
inline void __syncwarp() {
  emulator::warp_meet();
}
inline void __threadfence() {}

inline float __uint_as_float(u32 x) {
  float f;
  memcpy(&f, &x, 4);
  return f;
}
inline u32 __float_as_uint(float x) {
  u32 u;
  memcpy(&u, &x, 4);
  return u;
}
inline float __expf(float x) {
  return expf(x);
}
inline float power_of_two(float x) {
  return exp2f(x);
}
inline float reciprocal(float x) {
  return 1.f / x;
}
inline float larger(float a, float b) {
  return a > b || a != a ? a : b;
}
inline float smaller(float a, float b) {
  return a < b || a != a ? a : b;
}
inline float saturate(float x) {
  return x > 0 ? (x < 1 ? x : 1.f) : 0.f;
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float rsqrtf(float x) {
  return 1.f / sqrtf(x);
}
inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
template <class T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T max(T a, T b) {
  return a < b ? b : a;
}

inline float f16_to_f32(u16 x) {
  _Float16 h;
  memcpy(&h, &x, 2);
  return static_cast<float>(h);
}
inline u16 f32_to_f16(float x) {
  const _Float16 h = static_cast<_Float16>(x);
  u16 u;
  memcpy(&u, &h, 2);
  return u;
}
inline u16 f32_to_bf16(float x) {
  const u32 u = __float_as_uint(x);
  if (x != x) return 0x7fff;
  return static_cast<u16>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
// E4M3 by its definition: the nearest of its 254 numbers, the one with an even last bit in the middle.
inline float e4m3_to_f32(unsigned char x) {
  const int exponent = x >> 3 & 15, fraction = x & 7;
  if ((x & 127) == 127) return __builtin_nanf("");
  const float size = exponent == 0 ? ldexpf(static_cast<float>(fraction), -9)
                                   : ldexpf(static_cast<float>(8 + fraction), exponent - 10);
  return x & 128 ? -size : size;
}
inline unsigned char f32_to_e4m3(float x) {
  const unsigned char sign = std::signbit(x) ? 128 : 0;
  if (x != x) return 127;
  const float size = fabsf(x);
  int best = 0;
  for (int i = 1; i < 127; ++i) {
    const float before = fabsf(size - e4m3_to_f32(static_cast<unsigned char>(best))),
                now = fabsf(size - e4m3_to_f32(static_cast<unsigned char>(i)));
    if (now < before || (now == before && i % 2 == 0)) best = i;
  }
  return static_cast<unsigned char>(sign | (size > 448 ? 126 : best));
}
inline u16 f32_to_e4m3x2(float lo, float hi) {
  return static_cast<u16>(f32_to_e4m3(lo) | f32_to_e4m3(hi) << 8);
}
inline u32 e4m3x2_to_f16x2(u16 x) {
  return f32_to_f16(e4m3_to_f32(static_cast<unsigned char>(x))) |
         static_cast<u32>(f32_to_f16(e4m3_to_f32(static_cast<unsigned char>(x >> 8)))) << 16;
}
inline u32 f32_to_f16x2(float lo, float hi) {
  return f32_to_f16(lo) | static_cast<u32>(f32_to_f16(hi)) << 16;
}
inline u32 f32_to_bf16x2(float lo, float hi) {
  return f32_to_bf16(lo) | static_cast<u32>(f32_to_bf16(hi)) << 16;
}

template <class T>
inline T shuffle_xor(T x, int mask) {
  emulator::put(x);
  const T y = emulator::get<T>(emulator::lane() ^ mask);
  emulator::warp_meet();
  return y;
}
inline float shuffle(float x, int lane) {
  emulator::put(x);
  const float y = emulator::get<float>(lane);
  emulator::warp_meet();
  return y;
}
inline u32 ballot(bool x) {
  emulator::put(x);
  u32 votes = 0;
  for (int l = 0; l < 32; ++l) votes |= u32{emulator::get<bool>(l)} << l;
  emulator::warp_meet();
  return votes;
}
inline int population(u32 x) {
  return __builtin_popcount(x);
}
inline u32 atomic_add(u32* p, u32 x) {
  const u32 old = *p;
  *p += x;
  return old;
}
inline void atomic_max(int* p, int x) {
  *p = max(*p, x);
}
inline float rounded_product(float a, float b) {
  return a * b;
}
inline double rounded_product(double a, double b) {
  return a * b;
}
inline char* shared_memory() {
  return emulator::shared();
}
inline void copy_async(void* to, const void* from, int bytes) {
  emulator::fibers[emulator::current].groups.back().push_back({to, from, bytes});
}
inline void copy_commit() {
  emulator::fibers[emulator::current].groups.emplace_back();
}
template <int N>
inline void copy_wait() {
  auto& groups = emulator::fibers[emulator::current].groups;
  while (groups.size() > N + 1) {
    for (const emulator::Copy& c : groups.front()) {
      memset(c.to, 0, 16);
      memcpy(c.to, c.from, static_cast<size_t>(c.bytes));
    }
    groups.erase(groups.begin());
  }
}
inline void load_matrix(u32 (&r)[4], const void* row) {
  emulator::put(row);
  const int l = emulator::lane();
  for (int m = 0; m < 4; ++m) memcpy(&r[m], emulator::get<const char*>(m * 8 + l / 4) + (l % 4) * 4, 4);
  emulator::warp_meet();
}
inline void load_matrix_transposed(u32 (&r)[4], const void* row) {
  emulator::put(row);
  const int l = emulator::lane();
  for (int m = 0; m < 4; ++m) {
    u16 e[2];
    for (int i = 0; i < 2; ++i)
      memcpy(&e[i], emulator::get<const char*>(m * 8 + (l % 4) * 2 + i) + (l / 4) * 2, 2);
    memcpy(&r[m], e, 4);
  }
  emulator::warp_meet();
}
// d += a (16 rows of eight words) times b (eight words of 8 columns); a word holds elements of type T.
template <class T, class Sum, class Product>
inline void multiply(Sum (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, Product product) {
  constexpr int kInWord = 4 / sizeof(T), kBits = 8 * sizeof(T);
  struct Both {
    u32 a[4], b[2];
  } mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  emulator::put(mine);
  const int l = emulator::lane(), g = l / 4, t = l % 4;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 8 * kInWord; ++k) {
      const int word = k / kInWord, shift = kBits * (k % kInWord);
      const u32 left = emulator::get<Both>(g * 4 + word % 4).a[word / 4 * 2 + i / 2],
                right = emulator::get<Both>((t * 2 + i % 2) * 4 + word % 4).b[word / 4];
      d[i] += product(static_cast<T>(left >> shift), static_cast<T>(right >> shift));
    }
  emulator::warp_meet();
}
inline void multiply_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply<u16>(d, a, b0, b1, [](u16 x, u16 y) { return f16_to_f32(x) * f16_to_f32(y); });
}
inline void multiply_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  const auto widen16 = [](u16 x) { return __uint_as_float(static_cast<u32>(x) << 16); };
  multiply<u16>(d, a, b0, b1, [&](u16 x, u16 y) { return widen16(x) * widen16(y); });
}
inline int byte_product(unsigned char x, unsigned char y) {
  return x * static_cast<signed char>(y);
}
inline float e4m3_product(unsigned char x, unsigned char y) {
  return e4m3_to_f32(x) * e4m3_to_f32(y);
}
inline void multiply_u8(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply<unsigned char>(d, a, b0, b1, byte_product);
}
inline void multiply_e4m3(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  multiply<unsigned char>(d, a, b0, b1, e4m3_product);
}
inline void load_once(const void* p, u32* w) {
  memcpy(w, p, 16);
}
inline void load_early(const void* p, u32* w) {
  memcpy(w, p, 16);
}
template <class Widen, class Narrow>
inline u32 subtract_pair(u32 a, u32 b, Widen widen16, Narrow narrow) {
  u32 both = 0;
  for (int i = 0; i < 2; ++i)
    both |= u32{narrow(widen16(static_cast<u16>(a >> 16 * i)) - widen16(static_cast<u16>(b >> 16 * i)))}
            << 16 * i;
  return both;
}
inline u32 subtract_f16x2(u32 a, u32 b) {
  return subtract_pair(a, b, f16_to_f32, f32_to_f16);
}
inline u32 subtract_bf16x2(u32 a, u32 b) {
  const auto widen16 = [](u16 x) { return __uint_as_float(static_cast<u32>(x) << 16); };
  return subtract_pair(a, b, widen16, f32_to_bf16);
}
inline u32 byte_permute(u32 a, u32 b, u32 selector) {
  const uint64_t bytes = a | static_cast<uint64_t>(b) << 32;
  u32 out = 0;
  for (int i = 0; i < 4; ++i) out |= static_cast<u32>(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  return out;
}
inline void wait_for_previous_kernel() {}
inline void allow_next_kernel() {}
#include "hopper.h"
