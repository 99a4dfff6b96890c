// SPDX-License-Identifier: Apache-2.0
//
// Det and Inverse: a warp for each matrix (codegen_matrices.cpp). Bodies of kernels.
//
// The generator writes in front:
//   N                     rows of a matrix
//   FROM                  the matrices

//# kPivot
// The row, from k on, whose element in column k is the largest, the first of equals.
DEV int pivot_of(const double* m, int k) {
  int pivot = k;
  for (int i = k + 1; i < N; ++i)
    if (fabs(m[i * N + k]) > fabs(m[pivot * N + k])) pivot = i;
  return pivot;
}

//# kLoad
const idx matrix = blockIdx.x;
const int lane = threadIdx.x;
double* m = (double*)shared_memory();
for (int i = lane; i < N * N; i += 32) m[i] = (double)widen(FROM[matrix * (N * N) + i]);
__syncwarp();

//# kDet
// Every lane finds the same pivot; row k is read by all while the columns behind k change.
double result = 1;
for (int k = 0; k < N; ++k) {
  const int pivot = pivot_of(m, k);
  const double top = m[pivot * N + k];
  if (top == 0) {
    result = 0;
    break;
  }
  __syncwarp();
  if (pivot != k) {
    for (int j = lane; j < N; j += 32) {
      const double x = m[k * N + j];
      m[k * N + j] = m[pivot * N + j];
      m[pivot * N + j] = x;
    }
    result = -result;
  }
  result *= top;
  __syncwarp();
  for (int i = k + 1; i < N; ++i) {
    const double factor = m[i * N + k] / top;
    for (int j = k + 1 + lane; j < N; j += 32) m[i * N + j] -= factor * m[k * N + j];
  }
  __syncwarp();
}
if (lane == 0) {
  float v[1] = {(float)result};
  finish1(matrix, v);
}

//# kInverse
double* inverse = m + N * N;
for (int i = lane; i < N * N; i += 32) inverse[i] = i / N == i % N ? 1 : 0;
__syncwarp();
for (int k = 0; k < N; ++k) {
  const int pivot = pivot_of(m, k);
  __syncwarp();
  const double scale = 1 / m[pivot * N + k];
  __syncwarp();
  for (int j = lane; j < N; j += 32) {
    const double x = m[k * N + j], y = inverse[k * N + j];
    m[k * N + j] = m[pivot * N + j] * scale;
    inverse[k * N + j] = inverse[pivot * N + j] * scale;
    if (pivot != k) {
      m[pivot * N + j] = x;
      inverse[pivot * N + j] = y;
    }
  }
  __syncwarp();
  for (int i = 0; i < N; ++i) {
    const double factor = i == k ? 0 : m[i * N + k];
    __syncwarp();
    if (factor == 0) continue;
    for (int j = lane; j < N; j += 32) {
      m[i * N + j] -= factor * m[k * N + j];
      inverse[i * N + j] -= factor * inverse[k * N + j];
    }
    __syncwarp();
  }
}
for (int i = lane; i < N * N; i += 32) {
  float v[1] = {(float)inverse[i]};
  finish1(matrix * (N * N) + i, v);
}
