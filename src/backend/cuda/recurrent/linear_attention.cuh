// SPDX-License-Identifier: Apache-2.0
//
// LinearAttention: columns of the state stay in registers for all steps (codegen_linear_attention.cpp). The
// body of the kernel.
//
// The generator writes in front:
//   LANES, EACH, COLUMNS, THREADS   that share a column, its elements in a lane, columns and threads
//                         of a block
//   HEADS, SHARED         key heads, and query heads of each
//   KEY, VALUE            widths of a head
//   AHEAD                 steps that lie in shared memory
//   DECAY, BETA           numbers of a step's decay and beta for a head; 0: there is none
//   SCALE, TIMES          of the scores; steps
//   PAST, K_ROWS, Q_ROWS, V_ROWS, DECAY_OF, BETA_OF, RESULT   operands

//# kBody
const int column = threadIdx.x / LANES, lane = threadIdx.x % LANES;
const int value = blockIdx.y * COLUMNS + column;
const idx head = (idx)blockIdx.x % HEADS, item = (idx)blockIdx.x / HEADS;
const bool live = value < VALUE;
float* keys = (float*)shared_memory();
float* queries = keys + AHEAD * KEY;
float* decays = queries + AHEAD * SHARED * KEY;
float* betas = decays + AHEAD * DECAY;
// Element i * LANES + lane of the column.
float state[EACH];
#pragma unroll
for (int i = 0; i < EACH; ++i) {
  const int k = i * LANES + lane;
  state[i] = live && k < KEY ? PAST(((item * HEADS + head) * KEY + k) * VALUE + value) : 0.f;
}
for (idx t0 = 0; t0 < TIMES; t0 += AHEAD) {
  const int steps = (int)min(TIMES - t0, (idx)AHEAD);
  const idx row0 = item * TIMES + t0;
  __syncthreads();
  for (int i = threadIdx.x; i < steps * KEY; i += THREADS)
    keys[i] = widen(K_ROWS[((row0 + i / KEY) * HEADS + head) * KEY + i % KEY]);
  for (int i = threadIdx.x; i < steps * SHARED * KEY; i += THREADS)
    queries[i] =
        widen(Q_ROWS[((row0 + i / (SHARED * KEY)) * HEADS + head) * (SHARED * KEY) + i % (SHARED * KEY)]);
  if constexpr (DECAY > 0)
    for (int i = threadIdx.x; i < steps * DECAY; i += THREADS)
      decays[i] = expf(DECAY_OF((row0 + i / DECAY) * (HEADS * DECAY) + head * DECAY + i % DECAY));
  if constexpr (BETA > 0)
    for (int i = threadIdx.x; i < steps; i += THREADS)
      betas[i] = BETA_OF((row0 + i) * BETA + (BETA == 1 ? 0 : head));
  __syncthreads();
  float next = live ? widen(V_ROWS[(row0 * HEADS + head) * VALUE + value]) : 0.f;
  for (int s = 0; s < steps; ++s) {
    float write = next;
    if (s + 1 < steps && live) next = widen(V_ROWS[((row0 + s + 1) * HEADS + head) * VALUE + value]);
    const float* key = keys + s * KEY;
    if constexpr (DECAY > 0)
#pragma unroll
      for (int i = 0; i < EACH; ++i)
        if (i * LANES + lane < KEY) state[i] *= decays[s * DECAY + (DECAY == 1 ? 0 : i * LANES + lane)];
    if constexpr (BETA > 0) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < EACH; ++i)
        if (i * LANES + lane < KEY) sum += key[i * LANES + lane] * state[i];
      write = (write - over_lanes(sum)) * betas[s];
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i)
      if (i * LANES + lane < KEY) state[i] += key[i * LANES + lane] * write;
    for (int h = 0; h < SHARED; ++h) {
      const float* query = queries + (s * SHARED + h) * KEY;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < EACH; ++i)
        if (i * LANES + lane < KEY) sum += query[i * LANES + lane] * state[i];
      sum = over_lanes(sum);
      if (live && lane == 0)
        RESULT[((row0 + s) * (HEADS * SHARED) + head * SHARED + h) * VALUE + value] =
            Narrow<T>::from(SCALE * sum);
    }
  }
}
STORE_STATE
