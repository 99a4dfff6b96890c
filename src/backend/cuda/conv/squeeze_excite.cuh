// SPDX-License-Identifier: Apache-2.0
//
// SqueezeExcite on pixels with their channels last (codegen_squeeze_excite.cpp): in one kernel, by clusters
// of blocks, or in three.
//
// The generator writes in front:
//   THREADS                of a block
//   C, PITCH               channels, and those padded to 8
//   MIDDLE, MP             what they are squeezed to, and that padded to 4
//   PART                   channels of a block of a cluster
//   V                      channels that a thread reads at once
//   G, LANES               threads that read a pixel, and pixels that are read at once
//   PARTS                  into which an image's pixels are split
//   STAGED                 weights have room in shared memory
//   T                      type of image and weights
//   squeeze(x), excite(x)  the functions

//# kSums
// Sums of pixels `first` to `last` by channel: in each lane's row of C sums those of every LANES-th pixel.
// UNROLL pixels are under way together.
template <int UNROLL> DEV void sum_pixels(const T* from, idx first, idx last, float* lanes) {
  const int lane = threadIdx.x / G;
  if (lane < LANES)
    for (int c = threadIdx.x % G * V; c < C; c += G * V) {
      float sum[V] = {};
#pragma unroll UNROLL
      for (idx p = first + lane; p < last; p += LANES) {
        float e[V];
        load(from + p * C + c, e);
#pragma unroll
        for (int j = 0; j < V; ++j) sum[j] += e[j];
      }
#pragma unroll
      for (int j = 0; j < V; ++j) lanes[lane * C + c + j] = sum[j];
    }
  __syncthreads();
}
DEV float sum_lanes(const float* lanes, int c) {
  float sum = 0;
  for (int l = 0; l < LANES; ++l) sum += lanes[l * C + c];
  return sum;
}

//# kCluster
// An image by a cluster of BLOCKS blocks. Each sums up its part of the pixels; the channels' means, the
// middle layer and the gates are computed in parts, too, which go from block to block through shared memory,
// always added up in the order of the blocks. `weights`: [block][middle][part of the channels], then
// [block][part of the channels][middle].
constexpr int BLOCKS = 8;
template <class Stored, class Tail>
DEV void scale_image(const T* images, const T* weights, const float* biases, Stored* result, idx pixels,
                     const Tail& tail) {
  const int rank = blockIdx.z, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const idx image = blockIdx.x, p0 = pixels * rank / BLOCKS, p1 = pixels * (rank + 1) / BLOCKS;
  float* lanes = (float*)shared_memory();
  float* sums = lanes + (LANES * C + 3) / 4 * 4;
  float* gates = sums + BLOCKS * PART;
  float* means = gates + BLOCKS * PART;
  float* own_gates = means + PART;
  float* middle = own_gates + PART;
  float* middle_sums = middle + MP;
  const T* w1 = weights + rank * MIDDLE * PART;
  const T* w2 = weights + (BLOCKS + rank) * MIDDLE * PART;
  if constexpr (STAGED) {
    T* staged = (T*)(middle_sums + MP);
    constexpr int EACH = 16 / sizeof(T), COUNT = MIDDLE * PART / EACH;
    for (int i = threadIdx.x; i < 2 * COUNT; i += THREADS)
      copy_async(staged + i * EACH, (i < COUNT ? w1 : w2 - MIDDLE * PART) + i * EACH, 16);
    copy_commit();
    w1 = staged;
    w2 = staged + MIDDLE * PART;
  }
  wait_for_previous_kernel();
  const T* from = images + image * pixels * C;
  sum_pixels<4>(from, p0, p1, lanes);
  for (int c = threadIdx.x; c < BLOCKS * PART; c += THREADS) sums[c] = c < C ? sum_lanes(lanes, c) : 0.f;
  cluster_arrive();
  cluster_wait();
  for (int i = threadIdx.x; i < PART / 4; i += THREADS) {
    float sum[4];
    sum_over_blocks<BLOCKS>(sums + rank * PART + 4 * i, sum);
#pragma unroll
    for (int j = 0; j < 4; ++j) means[4 * i + j] = sum[j] / (float)pixels;
  }
  copy_wait<0>();
  __syncthreads();
  for (int u = warp; u < MP; u += THREADS / 32) {
    float sum = 0;
    if (u < MIDDLE)
      for (int c = lane; c < PART; c += 32) sum += widen(w1[u * PART + c]) * means[c];
    sum = warp_reduce(sum, SumOp());
    if (lane == 0) middle_sums[u] = sum;
  }
  cluster_arrive();
  cluster_wait();
  for (int i = threadIdx.x; i < MP / 4; i += THREADS) {
    float sum[4];
    sum_over_blocks<BLOCKS>(middle_sums + 4 * i, sum);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      middle[4 * i + j] = 4 * i + j < MIDDLE ? squeeze(sum[j] + biases[4 * i + j]) : 0.f;
  }
  __syncthreads();
  for (int c = warp; c < PART; c += THREADS / 32) {
    float sum = 0;
    for (int u = lane; u < MIDDLE; u += 32) sum += widen(w2[c * MIDDLE + u]) * middle[u];
    sum = warp_reduce(sum, SumOp());
    if (lane == 0) own_gates[c] = rank * PART + c < C ? excite(sum + biases[MIDDLE + rank * PART + c]) : 0.f;
  }
  cluster_arrive();
  cluster_wait();
  for (int i = threadIdx.x; i < 2 * PART; i += THREADS) {
    float gate[4];
    load_shared_of(i / (PART / 4), own_gates + i % (PART / 4) * 4, gate);
#pragma unroll
    for (int j = 0; j < 4; ++j) gates[4 * i + j] = gate[j];
  }
  // Nobody leaves before all have read.
  cluster_arrive();
  __syncthreads();
  const idx end = p1 * (C / V);
  for (idx first = p0 * (C / V) + threadIdx.x; first < end; first += 4 * THREADS) {
    float v[4][V];
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const idx i = first + u * THREADS;
      if (i >= end) continue;
      load(from + i * V, v[u]);
#pragma unroll
      for (int j = 0; j < V; ++j) v[u][j] *= gates[i % (C / V) * V + j];
      typename Tail::Operands o;
      tail.fetch(image * pixels * C + i * V, i % (C / V) * V, o);
      tail.apply(o, v[u]);
    }
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      const idx i = first + u * THREADS;
      if (i < end) store(result + image * pixels * C + i * V, v[u]);
    }
  }
  cluster_wait();
}

//# kStoreSums
// The first of three kernels: sums of a part of an image's pixels.
DEV void store_sums(const T* images, float* sums, idx pixels) {
  const idx image = blockIdx.x, part = blockIdx.y;
  float* lanes = (float*)shared_memory();
  sum_pixels<8>(images + image * pixels * C, pixels * part / PARTS, pixels * (part + 1) / PARTS, lanes);
  for (int c = threadIdx.x; c < C; c += THREADS) sums[(image * PARTS + part) * C + c] = sum_lanes(lanes, c);
}

//# kGates
// The second: the gates of an image, a block for each. `weights`: [middle][channels] twice, rows of PITCH.
DEV void store_gates(const T* weights, const float* biases, const float* sums, float* gates, idx pixels) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const idx image = blockIdx.x;
  float* means = (float*)shared_memory();
  float* middle = means + PITCH;
  const T* w1 = weights;
  if constexpr (STAGED) {
    T* staged = (T*)(middle + MP);
    constexpr int EACH = 16 / sizeof(T);
    for (int i = threadIdx.x; i < 2 * MIDDLE * PITCH / EACH; i += THREADS)
      copy_async(staged + i * EACH, w1 + i * EACH, 16);
    copy_commit();
    w1 = staged;
  }
  const T* w2 = w1 + MIDDLE * PITCH;
  wait_for_previous_kernel();
  for (int c = threadIdx.x; c < C; c += THREADS) {
    float part[PARTS];
#pragma unroll
    for (int p = 0; p < PARTS; ++p) part[p] = sums[(image * PARTS + p) * C + c];
    float sum = part[0];
#pragma unroll
    for (int p = 1; p < PARTS; ++p) sum += part[p];
    means[c] = sum / (float)pixels;
  }
  copy_wait<0>();
  __syncthreads();
  for (int u = warp; u < MIDDLE; u += THREADS / 32) {
    float sum = 0;
    for (int c = lane; c < C; c += 32) sum += widen(w1[u * PITCH + c]) * means[c];
    sum = warp_reduce(sum, SumOp());
    if (lane == 0) middle[u] = squeeze(sum + biases[u]);
  }
  __syncthreads();
  for (int c = threadIdx.x; c < C; c += THREADS) {
    float sum = biases[MIDDLE + c];
#pragma unroll 4
    for (int u = 0; u < MIDDLE; ++u) sum += widen(w2[u * PITCH + c]) * middle[u];
    gates[image * C + c] = excite(sum);
  }
}

//# kScale
// The third: `count` elements in all, V for each thread.
template <class Stored, class Tail>
DEV void scale_pixels(const T* images, const float* gates, Stored* result, idx pixels, idx count,
                      const Tail& tail) {
  const idx i = ((idx)blockIdx.x * THREADS + threadIdx.x) * V;
  if (i >= count) return;
  const idx c = i % C, image = i / (pixels * C);
  float v[V], gate[V];
  typename Tail::Operands o;
  load(images + i, v);
  load(gates + image * C + c, gate);
  tail.fetch(i, c, o);
#pragma unroll
  for (int j = 0; j < V; ++j) v[j] *= gate[j];
  tail.apply(o, v);
  store(result + i, v);
}
