// SPDX-License-Identifier: Apache-2.0
//
// A product whose left operand is sampled (sample.h): parts of a kernel's body.
//
// The generator writes in front:
//   POSITIONS, AREA       results of a filter, and those of an image
//   F, GF, K              filters, filters of a group, depth
//   BIAS(filter)          what is added
//   sample(k), filter_at(f, k)   the operands

//# kPositions
const idx row0 = (idx)blockIdx.x * 64, f0 = (idx)blockIdx.y * 64;
const int group = blockIdx.z;
const idx position = row0 + threadIdx.x % 64, image = position / AREA, place = position % AREA;

//# kProduct
// A thread samples four of each sixteen for its position.
__shared__ float samples[64 * 20];
__shared__ float filters[64 * 20];
const int column = threadIdx.x % 16, row = threadIdx.x / 16;
float sum[4][4] = {};
for (idx k0 = 0; k0 < K; k0 += 16) {
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 4; ++j)
    samples[threadIdx.x % 64 * 20 + threadIdx.x / 64 * 4 + j] = sample(k0 + threadIdx.x / 64 * 4 + j);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const idx f = f0 + threadIdx.x / 16 + j * 16, k = k0 + threadIdx.x % 16;
    filters[(threadIdx.x / 16 + j * 16) * 20 + threadIdx.x % 16] = f < GF && k < K ? filter_at(f, k) : 0.f;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 16; k += 4) {
    float a[4][4], b[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      load(samples + (column + i * 16) * 20 + k, a[i]);
      load(filters + (row + i * 16) * 20 + k, b[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j] += a[i][e] * b[j][e];
  }
}
#pragma unroll
for (int j = 0; j < 4; ++j) {
  const idx f = f0 + row + j * 16, filter = group * GF + f;
  if (f >= GF) continue;
  const float bias = BIAS(filter);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const idx at = row0 + column + i * 16;
    if (at >= POSITIONS) continue;
    float v[1] = {sum[i][j] + bias};
    finish1((at / AREA * F + filter) * AREA + at % AREA, v);
  }
}
