// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign (codegen_roi_align.cpp): the sampled points of a cell, and the body of the kernel.

//# kPoints
struct Points {
  double start, step, first, last, count;
};
DEV bool is_finite(double x) { return fabs(x) < 1e300; }
DEV Points points_of(double low, double high, int index, int bins, double extent) {
  const double begin = low * SCALE - SHIFT;
  double length = high * SCALE - SHIFT - begin;
  if (!HALF_PIXEL && !(length >= 1)) length = 1;
  const double bin = length / bins, count = RATIO > 0 ? (double)RATIO : ceil(bin);
  Points p = {begin + index * bin, bin / count, 0, -1, count > 0 ? count : 0};
  if (!(count >= 1)) return p;
  double first = p.step == 0 ? -0.5 : (-1 - p.start) / p.step - 0.5;
  double last = p.step == 0 ? count : (extent - p.start) / p.step - 0.5;
  if (first > last) {
    const double other = first;
    first = last;
    last = other;
  }
  p.first = fmax(0., floor(first) - 1);
  p.last = fmin(count - 1, ceil(last) + 1);
  return p;
}
struct Pair {
  idx low, high;
  float fraction;
};
DEV bool pair_at(double at, idx extent, Pair& pair) {
  if (!(at >= -1 && at <= (double)extent)) return false;
  at = fmax(at, 0.);
  pair.low = (idx)at;
  pair.fraction = 0;
  if (pair.low >= extent - 1) {
    pair.low = pair.high = extent - 1;
  } else {
    pair.high = pair.low + 1;
    pair.fraction = (float)(at - (double)pair.low);
  }
  return true;
}

//# kBody
const idx at = (idx)blockIdx.x * 128 + threadIdx.x;
if (at >= ROIS * BINS) return;
const idx roi = at / BINS;
const int bin = (int)(at % BINS);
const idx c0 = (idx)blockIdx.y * CHANNELS;
const long long image = IMAGES[roi];
double box[4];
bool finite = true;
#pragma unroll
for (int i = 0; i < 4; ++i) {
  box[i] = (double)widen(BOXES[roi * 4 + i]);
  finite = finite && is_finite(box[i]);
}
const bool inside = image >= 0 && image < N && H > 0 && W > 0;
float sum[CHANNELS], top[CHANNELS];
double points = 1;
#pragma unroll
for (int c = 0; c < CHANNELS; ++c) sum[c] = top[c] = 0;
if (inside && finite) {
  const Points rows = points_of(box[1], box[3], bin / OW, OH, (double)H);
  const Points columns = points_of(box[0], box[2], bin % OW, OW, (double)W);
  points = rows.count * columns.count;
  double found = 0;
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) top[c] = -infinity();
  const auto* plane = FROM + ((idx)image * C + c0) * H * W;
  for (double i = rows.first; i <= rows.last; i += 1) {
    Pair y;
    if (!pair_at(rows.start + (i + 0.5) * rows.step, H, y)) continue;
    for (double j = columns.first; j <= columns.last; j += 1) {
      Pair x;
      if (!pair_at(columns.start + (j + 0.5) * columns.step, W, x)) continue;
      found += 1;
      const float w00 = (1 - y.fraction) * (1 - x.fraction), w01 = (1 - y.fraction) * x.fraction;
      const float w10 = y.fraction * (1 - x.fraction), w11 = y.fraction * x.fraction;
#pragma unroll
      for (int c = 0; c < CHANNELS; ++c) {
        if (c0 + c >= C) continue;
        const auto* from = plane + c * H * W;
        const float p00 = w00 * widen(from[y.low * W + x.low]), p01 = w01 * widen(from[y.low * W + x.high]);
        const float p10 = w10 * widen(from[y.high * W + x.low]), p11 = w11 * widen(from[y.high * W + x.high]);
        sum[c] += p00 + p01 + p10 + p11;
        if (p00 > top[c]) top[c] = p00;
        if (p01 > top[c]) top[c] = p01;
        if (p10 > top[c]) top[c] = p10;
        if (p11 > top[c]) top[c] = p11;
      }
    }
  }
  // Points outside of the image read zeros.
  if (points > found)
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
      if (!(top[c] > 0)) top[c] = 0;
}
#pragma unroll
for (int c = 0; c < CHANNELS; ++c) {
  if (c0 + c >= C) continue;
  float v[1] = {MAX ? (points < 1 ? 0.f : top[c]) : (float)(sum[c] / fmax(points, 1.))};
  if (inside && !finite) v[0] = not_a_number();
  finish1((roi * C + c0 + c) * BINS + bin, v);
}
