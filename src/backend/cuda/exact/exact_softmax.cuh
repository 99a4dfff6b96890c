// SPDX-License-Identifier: Apache-2.0
//
// Softmax in double: a warp for each line (codegen_exact_softmax.cpp).
//
// The generator writes in front:
//   LENGTH, INNER, LINES  elements of a line, numbers from one to the next, and lines
//   LOG                   the logarithm is wanted
//   FROM                  x

//# kSoftmax
const idx line = (idx)blockIdx.x * 4 + threadIdx.x / 32;
const int lane = threadIdx.x % 32;
if (line >= LINES) return;
const idx first = line / INNER * LENGTH * INNER + line % INNER;
double top = -(double)infinity(), sum = 0;
for (idx i = lane; i < LENGTH; i += 32) top = wide_max(top, FROM[first + i * INNER]);
top = joined_lanes(top, wide_max);
for (idx i = lane; i < LENGTH; i += 32) sum += exp(FROM[first + i * INNER] - top);
sum = joined_lanes(sum, wide_sum);
const double log_sum = log(sum);
for (idx i = lane; i < LENGTH; i += 32) {
  const idx at = first + i * INNER;
  double v[1] = {FROM[at] - top};
  v[0] = LOG ? v[0] - log_sum : exp(v[0]) / sum;
  finish1(at, v);
}
