// SPDX-License-Identifier: Apache-2.0
//
// Stages of operands in shared memory, which one warp fills through the copy engine while warpgroups multiply
// out of them: what products and convolutions for Hopper share. A stage holds KSTEP elements of K (ROW_BYTES,
// swizzled) of rows of A and, behind them, of BN rows of B; the tile of results is ROWS x BN.
//
// add_hopper_stages() writes in front:
//   GROUPS                warpgroups that multiply a tile, 64 rows each
//   TEAMS                 so many times, where each works on tiles of its own
//   BN                    columns of the tile
//   STAGES                how many
//   A_ROWS                rows of A that a stage gets
//   A_PITCH               bytes of a stage that are for them, a multiple of 1024
//   B_TILES               tiles of B that belong to a stage, of which all but one are kept
//   BARRIERS              bytes from the first stage to the barriers
//   KSTEP, ROW_BYTES      elements of K in a stage, and their bytes: 128 or 64
//   KEPT                  0, or where blocks that stay keep the rows of B of all steps, which they read once:
//                         bytes from the first stage on
//   V                     results that are stored at once
//   Sum                   type of a sum
//   MULTIPLY(sums, a, b)  64 rows of A times BN rows of B

//# kStages
constexpr int ROWS = 64 * GROUPS, TEAM = 128 * GROUPS, CONSUMERS = TEAMS * TEAM;
constexpr int A_BYTES = A_ROWS * ROW_BYTES, B_TILE = BN * ROW_BYTES, B_BYTES = B_TILES * B_TILE,
              STAGE = A_PITCH + (KEPT ? 0 : B_BYTES);

struct Stages {
  char* base;
  u64 *full, *empty;  // barriers of each stage: its bytes are there; all warps are done with them
  DEV char* a(int stage) const { return base + stage * STAGE; }
  DEV char* b(int stage, int step) const {
    return KEPT ? base + KEPT + step * B_BYTES : base + stage * STAGE + A_PITCH;
  }
};
// One of COUNT stages and the parity of its phase. Who fills stages begins with parity 1: they are empty.
template <int COUNT> struct TurnOf {
  int stage, parity;
  DEV void advance() {
    if (++stage == COUNT) {
      stage = 0;
      parity ^= 1;
    }
  }
  DEV void advance(int steps) {
    stage += steps;
    parity ^= stage / COUNT & 1;
    stage %= COUNT;
  }
  DEV int before() const { return stage == 0 ? COUNT - 1 : stage - 1; }
};
typedef TurnOf<STAGES> Turn;

// How every such kernel begins. `more` initialises what barriers it has besides, behind those of the stages.
template <class More> DEV Stages start_stages(const TensorMap* a, const TensorMap* b, More more) {
  char* base = aligned_shared_memory();
  u64* full = (u64*)(base + BARRIERS);
  u64* empty = full + STAGES;
  if (threadIdx.x == 0) {
    prefetch_map(a);
    prefetch_map(b);
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(full + s, 1);
      barrier_init(empty + s, 4 * GROUPS);
    }
    more(empty + STAGES);
    barriers_ready();
  }
  __syncthreads();
  return {base, full, empty};
}
DEV Stages start_stages(const TensorMap* a, const TensorMap* b) {
  return start_stages(a, b, [](u64*) {});
}

// Starts the copies of a block's first steps of K, as many as there are stages, and says how many.
// copy_b(step, stage) brings weights, which are there before the previous kernel has ended; copy_a(step,
// stage) brings what that kernel stored.
template <class CopyA, class CopyB>
DEV int bring_first(const Stages& stages, Turn& turn, int steps, CopyA copy_a, CopyB copy_b) {
  const int count = steps < STAGES ? steps : STAGES;
  for (int i = 0; i < count; ++i) {
    barrier_expect(stages.full + i, A_BYTES + B_BYTES);
    copy_b(i, i);
  }
  wait_for_previous_kernel();
  stored_before_copies();
  for (int i = 0; i < count; ++i) copy_a(i, i);
  turn = count < STAGES ? Turn{count, 1} : Turn{0, 0};
  return count;
}
// Starts the copies of the steps from `first` on, each when its stage is empty. `with_b`: those of B, too.
template <class CopyA, class CopyB>
DEV void bring(const Stages& stages, Turn& turn, int first, int steps, bool with_b, CopyA copy_a,
               CopyB copy_b) {
  for (int i = first; i < steps; ++i, turn.advance()) {
    barrier_wait(stages.empty + turn.stage, turn.parity);
    barrier_expect(stages.full + turn.stage, with_b ? A_BYTES + B_BYTES : A_BYTES);
    copy_a(i, turn.stage);
    if (with_b) copy_b(i, turn.stage);
  }
}

// Sums as they start: 0, or, in the first part of K, a number for each column.
DEV void clear_sums(Sum (&sum)[BN / 2]) {
#pragma unroll
  for (int j = 0; j < BN / 2; ++j) sum[j] = 0;
}
// DEALT: a thread has columns side by side (stay.cuh).
template <bool DEALT = false> DEV void start_sums_at(const int* starts, bool first_part, Sum (&sum)[BN / 2]) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e)
      sum[4 * j + e] = sum[4 * j + 2 + e] =
          first_part ? starts[(DEALT ? BN / 4 * t + 2 * j : 8 * j + 2 * t) + e] : 0;
}

// What a warpgroup does with `steps` steps of K as they arrive: `sum`, each thread's part of 64 rows of BN
// columns, grows. One product may be under way while the next is started, so the stage before it is free.
// HANDS_BACK_LAST: the last stage, too, which is filled again for the next tile. `started` is called when the
// last product is under way.
template <bool HANDS_BACK_LAST, class Started>
DEV void multiply_stages(const Stages& stages, Turn& turn, int steps, Sum (&sum)[BN / 2], Started started) {
  const int group = threadIdx.x / 128 % GROUPS, lane = threadIdx.x % 32;
  for (int i = 0; i < steps; ++i) {
    barrier_wait(stages.full + turn.stage, turn.parity);
    const u64 a = tile_operand<ROW_BYTES>(stages.a(turn.stage) + group * 64 * ROW_BYTES),
              b = tile_operand<ROW_BYTES>(stages.b(turn.stage, i));
    multiply_begin();
#pragma unroll
    for (int k = 0; k < ROW_BYTES / 32; ++k) MULTIPLY(sum, a + 2 * k, b + 2 * k);
    multiply_commit();
    multiply_wait<1>();
    if (i > 0 && lane == 0) barrier_arrive(stages.empty + turn.before());
    turn.advance();
  }
  started();
  multiply_wait<0>();
  if (HANDS_BACK_LAST && lane == 0) barrier_arrive(stages.empty + turn.before());
  multiply_done(sum);
}

//# kResults
// The sums of all warpgroups as rows of floats, in place of the stages; the pitch keeps rows in different
// banks.
constexpr int PITCH = BN + 8, TURNS = 16 * (BN / V) / 32;
DEV float* sums_to_shared(char* base, const Sum (&sum)[BN / 2]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  meet_first<CONSUMERS>();
  float* tile = (float*)base;
  float* strip = tile + warp * 16 * PITCH;
#pragma unroll
  for (int j = 0; j < BN / 8; ++j)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint2 pair;
      pair.x = __float_as_uint((float)sum[4 * j + 2 * h]);
      pair.y = __float_as_uint((float)sum[4 * j + 2 * h + 1]);
      *(uint2*)(strip + (lane / 4 + 8 * h) * PITCH + 8 * j + lane % 4 * 2) = pair;
    }
  return tile;
}

// What becomes of sums is an object with two functions: load_first(), in front of the products, and
// store_all(tile), the sums of all warpgroups as rows in shared memory.

// The results of a warp's own sixteen rows, V columns at a time. Several such vectors are worked on together:
// what the tail reads for all of them is loaded before the first is stored, because a load behind a store
// that may alias waits for it. EARLY: the first are loaded in front of the products.
template <bool EARLY, class Place, class Tail, class T> struct OwnRows {
  static constexpr int TOGETHER = TURNS % 4 == 0 ? 4 : TURNS % 3 == 0 ? 3 : TURNS % 2 == 0 ? 2 : 1;
  struct Vectors {
    idx at[TOGETHER];
    typename Tail::Operands operands[TOGETHER];
  };
  const idx row0, column0;
  const Place place;
  const Tail tail;
  T* const result;
  Vectors first;

  DEV OwnRows(idx row0, idx column0, const Place& place, const Tail& tail, T* result)
      : row0(row0), column0(column0), place(place), tail(tail), result(result) {}
  DEV void load_operands(int turn, Vectors& vectors) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const int i = (turn + u) * 32 + lane;
      const idx row = row0 + warp * 16 + i / (BN / V), column = column0 + i % (BN / V) * V;
      const idx at = vectors.at[u] = place(row, column);
      tail.fetch(at < 0 ? 0 : at, at < 0 ? 0 : column, vectors.operands[u]);
    }
  }
  DEV void finish(const float* strip, int turn, const Vectors& vectors) const {
    float v[TOGETHER][V];
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u) {
      const int i = (turn + u) * 32 + threadIdx.x % 32;
      load(strip + i / (BN / V) * PITCH + i % (BN / V) * V, v[u]);
      tail.apply(vectors.operands[u], v[u]);
    }
#pragma unroll
    for (int u = 0; u < TOGETHER; ++u)
      if (vectors.at[u] >= 0) store(result + vectors.at[u], v[u]);
  }
  DEV void load_first() {
    if constexpr (EARLY) load_operands(0, first);
  }
  DEV void store_all(const float* tile) {
    const float* strip = tile + threadIdx.x / 32 * 16 * PITCH;
    __syncwarp();
    if constexpr (EARLY) finish(strip, 0, first);
    for (int turn = EARLY ? TOGETHER : 0; turn < TURNS; turn += TOGETHER) {
      Vectors vectors;
      load_operands(turn, vectors);
      finish(strip, turn, vectors);
    }
  }
};
template <bool EARLY, class Place, class Tail, class T>
DEV OwnRows<EARLY, Place, Tail, T> own_rows(idx row0, idx column0, const Place& place, const Tail& tail,
                                            T* result) {
  return {row0, column0, place, tail, result};
}

// Parts of sums, which a second kernel adds up: result(row, column, v) stores them.
template <class Result> struct PartsOfSums {
  idx row0, column0;
  Result result;

  DEV void load_first() {}
  DEV void store_all(const float* tile) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* strip = tile + warp * 16 * PITCH;
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < 16 * (BN / V); i += 32) {
      const int row = i / (BN / V), column = i % (BN / V) * V;
      float v[V];
      load(strip + row * PITCH + column, v);
      result(row0 + warp * 16 + row, column0 + column, v);
    }
  }
};
template <class Result> DEV PartsOfSums<Result> parts_of_sums(idx row0, idx column0, const Result& result) {
  return {row0, column0, result};
}

// A block that computes one tile, or the part of its sums that `steps` steps of K are: the last warp starts
// the copies, as bring_first() and bring() want them, and the others multiply.
template <class CopyA, class CopyB, class StartSums, class Results>
DEV void compute_tile(const Stages& stages, int steps, CopyA copy_a, CopyB copy_b, StartSums start_sums,
                      Results& results) {
  if (threadIdx.x >= CONSUMERS) {
    if (threadIdx.x % 32 != 0) return;
    Turn turn;
    const int brought = bring_first(stages, turn, steps, copy_a, copy_b);
    bring(stages, turn, brought, steps, true, copy_a, copy_b);
    return;
  }
  wait_for_previous_kernel();
  results.load_first();
  Sum sum[BN / 2];
  start_sums(sum);
  Turn turn{0, 0};
  multiply_stages<false>(stages, turn, steps, sum, [] {});
  results.store_all(sums_to_shared(stages.base, sum));
}
