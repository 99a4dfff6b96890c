// SPDX-License-Identifier: Apache-2.0
//
// MelWeightMatrix (codegen_mel.cpp): a thread for each element of the matrix.
//
// The generator writes in front:
//   ROWS, BINS            of the matrix
//   LENGTH, RATE, LOW, HIGH   of the transform and the scale
//   Result                type of v

//# kMel
const idx at = (idx)blockIdx.x * 256 + threadIdx.x;
if (at >= ROWS * BINS) return;
const long long row = at / BINS, bin = at % BINS;
const auto to_mel = [](double hertz) { return 2595. * log10(1. + hertz / 700.); };
const double first = to_mel(LOW), step = (to_mel(HIGH) - first) / (double)(BINS + 2);
// The row of the spectrum where triangle i begins.
const auto edge = [&](long long i) {
  const double hertz = 700. * (pow(10., (first + rounded_product((double)i, step)) / 2595.) - 1.);
  return to_integer(floor((LENGTH + 1.) * hertz / RATE));
};
const long long left = edge(bin), centre = edge(bin + 1), right = edge(bin + 2);
double value = 0;
if (row >= left && row <= centre)
  value = centre == left ? 1. : (double)(row - left) / (double)(centre - left);
if (row >= left && row >= centre && row < right) value = (double)(right - row) / (double)(right - centre);
Result v[1] = {(Result)value};
finish1(at, v);
