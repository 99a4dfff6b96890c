// SPDX-License-Identifier: Apache-2.0
//
// All steps of a recurrent layer (recurrent_steps.cpp): functions, and parts of the kernel's body.
//
// The generator writes in front:
//   T                     type of state and result
//   THREADS, BLOCKS       of a block, and of a cluster
//   SEQUENCES             that a cluster has
//   HIDDEN, GATES         of the layer
//   PART, WARP_UNITS      hidden values of a block and of a warp
//   ITEMS                 hidden values of a lane
//   STATE_PITCH           numbers from state to state
//   LANE_GROUPS, PADDED   groups of lanes that share a value, and values of a warp, filled up
//   REVERSE, AHEAD, JOINS, INPUT_FORGET   flags of the layer and of recurrent_plan.h
//   Rows0, Rows1          what a warp has of each product: fragments, steps, and where they are kept
//   activation_f, _g, _h  of the layer
//   TIMES, BATCH, GIVEN, RESULT, LENGTH(i), INITIAL_H(i), INITIAL_C(i), EXTRA(unit, k)   operands
// and puts the parts of the body where their names stand: START_EXCHANGE, KEEP_ROWS, BLOCKS_READY,
// SEND_WORDS, SEND_ALL, MEET, FIRST_HALF, UPDATE, IS_FIRST, LAST_STATES.

//# kFunctions
// Within 3e-7 of the functions, which every step waits for. A series for small numbers, of which the formula
// leaves few bits.
DEV float sigmoid_(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
DEV float tanh_(float x) {
  const float y = fabsf(x), large = 1.f - __fdividef(2.f, 1.f + __expf(2.f * y)), q = x * x;
  const float small =
      y +
      y * q *
          (-0.33333333f + q * (0.13333333f + q * (-0.053968254f + q * (0.021869489f - q * 0.0088632355f))));
  const float t = y < 0.4f ? small : large;
  return x < 0 ? -t : t;
}

//# kProduct
// What a warp's fragments and the state give. Several sums take turns, so that products do not wait for each
// other.
template <class P>
DEV void keep_rows(const uint4* rows, u32 (&kept)[P::KEPT * P::EACH + 1][4], uint4* staged) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int f = 0; f < P::KEPT * P::EACH; ++f) load_words(rows + f * 32 + lane, kept[f]);
  for (int f = 0; f < P::STAGED * P::EACH; ++f)
    staged[f * 32 + lane] = rows[(P::KEPT * P::EACH + f) * 32 + lane];
}
template <class P>
DEV void multiply_rows(const uint4* rows, const u32 (&kept)[P::KEPT * P::EACH + 1][4], const uint4* staged,
                       const T* h, float (&in)[ITEMS][P::INPUTS]) {
  const int lane = threadIdx.x % 32;
  Sums<P> sum[P::TURNS] = {};
#pragma unroll
  for (int s = 0; s < P::KEPT; ++s) {
    const Column<P> x(h, s);
#pragma unroll
    for (int i = 0; i < P::EACH; ++i) add_fragment<P>(sum[s % P::TURNS], i, kept[s * P::EACH + i], x);
  }
#pragma unroll 1
  for (int s0 = 0; s0 < P::STAGED; s0 += 4)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int s = s0 + j;
      if (s >= P::STAGED) continue;
      const Column<P> x(h, P::KEPT + s);
#pragma unroll
      for (int i = 0; i < P::EACH; ++i) {
        u32 w[4];
        load_words(staged + (s * P::EACH + i) * 32 + lane, w);
        add_fragment<P>(sum[j % P::TURNS], i, w, x);
      }
    }
#pragma unroll 1
  for (int s0 = P::KEPT + P::STAGED; s0 < P::STEPS; s0 += 4)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int s = s0 + j;
      if (s >= P::STEPS) continue;
      const Column<P> x(h, s);
#pragma unroll
      for (int i = 0; i < P::EACH; ++i) {
        u32 w[4];
        load_words(rows + (s * P::EACH + i) * 32 + lane, w);
        add_fragment<P>(sum[j % P::TURNS], i, w, x);
      }
    }
#pragma unroll
  for (int t = 1; t < P::TURNS; ++t) sum[0].add(sum[t]);
  join_sums<P>(sum[0], in);
}

//# kPlainSums
// A lane has a value of the warp, or several from it on: the hidden values of sequence 0, then of 1, ...
constexpr int VALUES = WARP_UNITS * SEQUENCES, LANES = 32 / LANE_GROUPS;
constexpr int SAME = PADDED < LANES ? LANES / PADDED : 1, COPIES = LANE_GROUPS * SAME;
DEV int value_of(int i) { return (int)threadIdx.x % 32 % LANES / SAME * ITEMS + i; }
DEV int own_row(int i) { return value_of(i) % WARP_UNITS; }
DEV int sequence(int i) { return value_of(i) / WARP_UNITS; }
DEV int copy_of() { return (int)threadIdx.x % 32 / LANES * SAME + (int)threadIdx.x % SAME; }
template <class P> struct Sums {
  float of[PADDED];
  DEV void add(const Sums& other) {
#pragma unroll
    for (int i = 0; i < VALUES; ++i) of[i] += other.of[i];
  }
};
template <class P> struct Column {
  float x[SEQUENCES][4];
  DEV Column(const T* h, int s) {
#pragma unroll
    for (int n = 0; n < SEQUENCES; ++n)
      load(h + n * STATE_PITCH + (s * P::LANES_OF_K + (int)threadIdx.x % P::LANES_OF_K) * 4, x[n]);
  }
};
template <class P> DEV void add_fragment(Sums<P>& sum, int i, const u32 (&w)[4], const Column<P>& h) {
#pragma unroll
  for (int n = 0; n < SEQUENCES; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) sum.of[n * WARP_UNITS + i] += __uint_as_float(w[j]) * h.x[n][j];
}
// Halves of the values go to the lanes that keep them, as long as there are several.
template <int COUNT, int M> DEV void meet_lanes(float* v) {
  if constexpr (M >= 1) {
    if constexpr (COUNT > 1) {
      const bool upper = threadIdx.x & M;
#pragma unroll
      for (int i = 0; i < COUNT / 2; ++i) {
        const float goes = upper ? v[i] : v[i + COUNT / 2], stays = upper ? v[i + COUNT / 2] : v[i];
        v[i] = stays + shuffle_xor(goes, M);
      }
      meet_lanes<COUNT / 2, M / 2>(v);
    } else {
      v[0] += shuffle_xor(v[0], M);
      meet_lanes<1, M / 2>(v);
    }
  }
}
template <class P> DEV void join_sums(Sums<P>& sum, float (&in)[ITEMS][P::INPUTS]) {
// A product of fewer gates shares out k over the groups of the others.
#pragma unroll
  for (int m = P::LANES_OF_K / 2; m >= LANES; m /= 2)
#pragma unroll
    for (int i = 0; i < VALUES; ++i) sum.of[i] += shuffle_xor(sum.of[i], m);
  meet_lanes<PADDED, LANES / 2>(sum.of);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
#pragma unroll
    for (int g = 0; g < P::INPUTS; ++g)
      in[i][g] = P::LANES_OF_K > LANES || LANE_GROUPS == 1
                     ? sum.of[i]
                     : shuffle(sum.of[i], g * LANES + (int)threadIdx.x % LANES);
}

//# kTensorSums
// Lane 4 g + t has rows g and g + 8 of a strip, columns 2 t and 2 t + 1. With four gates in a strip, lanes g
// and g + 4 have those of hidden value g % 4 between them: each takes one of the two sequences.
constexpr int COLUMNS = SEQUENCES / 8;
DEV int own_row(int i) {
  const int g = (int)threadIdx.x % 32 / 4;
  return JOINS ? i / COLUMNS * 4 + g % 4 : i / 4 / COLUMNS * 16 + g + i / 2 % 2 * 8;
}
DEV int sequence(int i) {
  const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
  return JOINS ? i % COLUMNS * 8 + t * 2 + g / 4 : i / 4 % COLUMNS * 8 + t * 2 + i % 2;
}
template <class P> struct Sums {
  float of[P::EACH][COLUMNS][4];
  DEV void add(const Sums& other) {
#pragma unroll
    for (int i = 0; i < P::EACH; ++i)
#pragma unroll
      for (int n = 0; n < COLUMNS; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) of[i][n][e] += other.of[i][n][e];
  }
};
template <class P> struct Column {
  u32 b0[COLUMNS], b1[COLUMNS];
  DEV Column(const T* h, int s) {
#pragma unroll
    for (int n = 0; n < COLUMNS; ++n) {
      const T* from =
          h + (n * 8 + (int)threadIdx.x % 32 / 4) * STATE_PITCH + s * 16 + (int)threadIdx.x % 4 * 2;
      b0[n] = *(const u32*)from;
      b1[n] = *(const u32*)(from + 8);
    }
  }
};
template <class P> DEV void add_fragment(Sums<P>& sum, int i, const u32 (&w)[4], const Column<P>& x) {
#pragma unroll
  for (int n = 0; n < COLUMNS; ++n) MULTIPLY(sum.of[i][n], w, x.b0[n], x.b1[n]);
}
template <class P> DEV void join_sums(const Sums<P>& sum, float (&in)[ITEMS][P::INPUTS]) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if constexpr (JOINS) {
      const float(&d)[4] = sum.of[i / COLUMNS][i % COLUMNS];
      const bool low = threadIdx.x % 32 < 16;
      const float a = shuffle_xor(low ? d[1] : d[0], 16), b = shuffle_xor(low ? d[3] : d[2], 16);
      in[i][0] = low ? d[0] : a;
      in[i][1] = low ? a : d[1];
      in[i][2] = low ? d[2] : b;
      if constexpr (P::INPUTS > 3) in[i][3] = low ? b : d[3];
    } else {
#pragma unroll
      for (int g = 0; g < P::INPUTS; ++g)
        in[i][g] = sum.of[i / 4 / COLUMNS * P::INPUTS + g][i / 4 % COLUMNS][i % 4];
    }
  }
}

//# kBegin
const int rank = blockIdx.z, warp = threadIdx.x / 32;
const idx b0 = (idx)blockIdx.x * SEQUENCES;
const int count = (int)min(BATCH - b0, (idx)SEQUENCES);
char* const base = shared_memory();
T* const states = (T*)(base + 16);
const int first = rank * PART + warp * WARP_UNITS,
          end = min(min(first + WARP_UNITS, (rank + 1) * PART), HIDDEN);
// A warp without hidden values of its own neither multiplies nor waits.
const bool is_warp_live = first < end;
START_EXCHANGE;
KEEP_ROWS;
for (int i = threadIdx.x; i < 2 * SEQUENCES * STATE_PITCH; i += THREADS) states[i] = Narrow<T>::from(0.f);
wait_for_previous_kernel();
__syncthreads();
for (int i = threadIdx.x; i < count * HIDDEN; i += THREADS)
  states[i / HIDDEN * STATE_PITCH + i % HIDDEN] = Narrow<T>::from(INITIAL_H(b0 * HIDDEN + i));
const auto unit_of = [&](int i) { return first + own_row(i); };
const auto is_live = [&](int i) { return sequence(i) < count && unit_of(i) < end; };
float h[ITEMS], c[ITEMS], extra[ITEMS][3], x[ITEMS][GATES] = {};
idx length[ITEMS];
#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
  const bool live = is_live(i);
  const idx at = live ? (b0 + sequence(i)) * HIDDEN + unit_of(i) : 0;
  h[i] = live ? INITIAL_H(at) : 0.f;
  c[i] = live ? INITIAL_C(at) : 0.f;
#pragma unroll
  for (int k = 0; k < 3; ++k) extra[i][k] = live ? EXTRA(unit_of(i), k) : 0.f;
  const long long given = live ? LENGTH(b0 + sequence(i)) : 0ll;
  length[i] = given < 0 ? 0 : given > TIMES ? TIMES : (idx)given;
}
// What x gives to the gates at step s.
const auto fetch = [&](int i, idx s) {
  if (s >= length[i]) return;
  const float* from =
      GIVEN + ((REVERSE ? length[i] - 1 - s : s) * BATCH + b0 + sequence(i)) * (GATES * HIDDEN) + unit_of(i);
#pragma unroll
  for (int g = 0; g < GATES; ++g) x[i][g] = from[g * HIDDEN];
};
if constexpr (AHEAD)
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) fetch(i, 0);
int turn = 0;
BLOCKS_READY;
// Sixteen bytes of hidden values from `row` on to a block. Of values that are not live lanes make zeros.
const auto send_row = [&](int r, int n, int row, const u32 (&words)[4]) {
  if (n >= count || first + row >= end) return;
  T* const place = states + ((turn + 1) % 2 * SEQUENCES + n) * STATE_PITCH + first + row;
  SEND_WORDS;
};
const auto send = [&](const float (&values)[ITEMS]) {
  float own[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) own[i] = is_live(i) ? values[i] : 0.f;
  SEND_ALL;
};
const auto meet = [&] {
  ++turn;
  MEET;
};

//# kStartExchange
// A cluster: each state's barrier counts the bytes of the values that all blocks send.
u64* const arrived = (u64*)base;
const u32 expected = count * ((HIDDEN * (int)sizeof(T) + 15) / 16) * 16;
if (threadIdx.x == 0) {
  barrier_init(arrived, 1);
  barrier_init(arrived + 1, 1);
  barriers_ready();
  barrier_expect(arrived, expected);
  barrier_expect(arrived + 1, expected);
}

//# kMeet
if (is_warp_live) {
  barrier_wait(arrived + turn % 2, (turn - 1) / 2 % 2);
  if (threadIdx.x == 0) barrier_expect(arrived + turn % 2, expected);
}

//# kPlainSend
// Four values of FP32, in one lane or in neighbours.
if constexpr (ITEMS <= 2) {
  constexpr int QUADS = PADDED / 4;
#pragma unroll
  for (int m0 = 0; m0 < QUADS * BLOCKS; m0 += 32) {
    const int m = m0 + (int)threadIdx.x % 32, q = m / BLOCKS % QUADS;
    u32 words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      words[j] = __float_as_uint(shuffle(own[j % ITEMS], (4 * q + j) / ITEMS * SAME));
    if (m < QUADS * BLOCKS) send_row(m % BLOCKS, 4 * q / WARP_UNITS, 4 * q % WARP_UNITS, words);
  }
} else {
#pragma unroll
  for (int i = 0; i < ITEMS; i += 4) {
    const u32 words[4] = {__float_as_uint(own[i]), __float_as_uint(own[i + 1]), __float_as_uint(own[i + 2]),
                          __float_as_uint(own[i + 3])};
    for (int r = copy_of(); r < BLOCKS; r += COPIES) send_row(r, sequence(i), own_row(i), words);
  }
}

//# kTensorSend
// Eight values of 16 bits: of the lanes whose numbers differ in bits 2 to 4, or in bits 2 and 3 and of two
// strips. All of these lanes have the words then, and send them to different blocks.
const int g = (int)threadIdx.x % 32 / 4;
const auto word_of = [&](float x) {
  const float other = shuffle_xor(x, 4);
  const T pair[2] = {Narrow<T>::from(g & 1 ? other : x), Narrow<T>::from(g & 1 ? x : other)};
  int word;
  memcpy(&word, pair, 4);
  return word;
};
const auto join = [&](int word, int bit, u32& low, u32& high) {
  const int other = shuffle_xor(word, 4 << bit);
  low = (u32)(g >> bit & 1 ? other : word);
  high = (u32)(g >> bit & 1 ? word : other);
};
if constexpr (JOINS) {
#pragma unroll
  for (int p = 0; p < ITEMS / COLUMNS; p += 2)
#pragma unroll
    for (int n = 0; n < COLUMNS; ++n) {
      u32 words[4];
      join(word_of(own[p * COLUMNS + n]), 1, words[0], words[1]);
      join(word_of(own[(p + 1) * COLUMNS + n]), 1, words[2], words[3]);
      for (int r = g % 4; r < BLOCKS; r += 4) send_row(r, sequence(p * COLUMNS + n), p * 4, words);
    }
} else {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    u32 low, high, words[4];
    join(word_of(own[i]), 1, low, high);
    join((int)low, 2, words[0], words[2]);
    join((int)high, 2, words[1], words[3]);
    for (int r = g; r < BLOCKS; r += 8) send_row(r, sequence(i), own_row(i) - g, words);
  }
}

//# kSteps
for (idx s = 0; s < TIMES; ++s) {
  const bool last = s + 1 == TIMES;
  if (is_warp_live) {
    float in[ITEMS][Rows0::INPUTS];
    multiply_rows<Rows0>(rows0, kept0, staged0, states + turn % 2 * SEQUENCES * STATE_PITCH, in);
    if constexpr (!AHEAD)
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) fetch(i, s);
    FIRST_HALF;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (s >= length[i]) continue;
      UPDATE;
    }
    if (!last) send(h);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const idx t = REVERSE && s < length[i] ? length[i] - 1 - s : s;
      if (is_live(i) && IS_FIRST)
        RESULT[(t * BATCH + b0 + sequence(i)) * HIDDEN + unit_of(i)] =
            Narrow<T>::from(s < length[i] ? h[i] : 0.f);
      if constexpr (AHEAD) fetch(i, s + 1);
    }
  }
  if (!last) meet();
}
#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
  if (!is_live(i) || !IS_FIRST) continue;
  const idx at = (b0 + sequence(i)) * HIDDEN + unit_of(i);
  LAST_STATES;
}

//# kLstm
const float input = activation_f(in[i][0] + x[i][0] + extra[i][0] * c[i]);
const float forget = INPUT_FORGET ? 1.f - input : activation_f(in[i][2] + x[i][2] + extra[i][2] * c[i]);
c[i] = forget * c[i] + input * activation_g(in[i][3] + x[i][3]);
h[i] = activation_f(in[i][1] + x[i][1] + extra[i][1] * c[i]) * activation_h(c[i]);

//# kLinearGru
const float update = activation_f(in[i][0] + x[i][0]), reset = activation_f(in[i][1] + x[i][1]);
const float fresh = activation_g(x[i][2] + reset * (in[i][2] + extra[i][0]));
h[i] = (1.f - update) * fresh + update * h[i];

//# kResetHalf
// The update gate waits in c; what is sent is h times the reset gate.
float reset[ITEMS];
#pragma unroll
for (int i = 0; i < ITEMS; ++i) {
  c[i] = activation_f(in[i][0] + x[i][0]);
  reset[i] = activation_f(in[i][1] + x[i][1]) * h[i];
}
send(reset);

//# kResetProduct
// Behind the meeting at which all have what was sent.
float in[ITEMS][Rows1::INPUTS];
multiply_rows<Rows1>(rows1, kept1, staged1, states + turn % 2 * SEQUENCES * STATE_PITCH, in);

//# kFreshHalf
const float fresh = activation_g(in[i][0] + x[i][2]);
h[i] = (1.f - c[i]) * fresh + c[i] * h[i];
