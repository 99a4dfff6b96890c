// SPDX-License-Identifier: Apache-2.0
//
// MaxRoiPool (codegen_max_roi_pool.cpp): the span of a cell, and the body of the kernel.

//# kSpan
struct Span {
  idx begin, end;
};
DEV double within(double x, double high) { return x > 0 ? (x < high ? x : high) : 0.; }
DEV Span span_of(float low, float high, int index, int bins, idx extent) {
  const double first = (double)roundf(low * SCALE), last = (double)roundf(high * SCALE);
  const double bin = fmax(last - first + 1, 1.) / bins, limit = (double)extent;
  return {(idx)within(floor(index * bin) + first, limit),
          (idx)within(ceil((index + 1) * bin) + first, limit)};
}

//# kBody
// A row that begins with what is not a number counts for nothing, as in the oracle.
const idx at = (idx)blockIdx.x * 256 + threadIdx.x;
if (at >= COUNT) return;
const int bin = (int)(at % (OH * OW));
const idx c = at / (OH * OW) % C, roi = at / (OH * OW) / C;
float box[5], v[1] = {0.f};
bool finite = true;
#pragma unroll
for (int i = 0; i < 5; ++i) {
  box[i] = widen(BOXES[roi * 5 + i]);
  finite = finite && fabsf(box[i]) < infinity();
}
if (finite && box[0] >= 0 && box[0] < (float)N) {
  const Span rows = span_of(box[2], box[4], bin / OW, OH, H),
             columns = span_of(box[1], box[3], bin % OW, OW, W);
  if (rows.begin < rows.end && columns.begin < columns.end) {
    const auto* plane = FROM + ((idx)box[0] * C + c) * H * W;
    v[0] = -infinity();
    for (idx y = rows.begin; y < rows.end; ++y) {
      float row = widen(plane[y * W + columns.begin]);
      for (idx x = columns.begin + 1; x < columns.end; ++x) {
        const float pixel = widen(plane[y * W + x]);
        if (row < pixel) row = pixel;
      }
      if (v[0] < row) v[0] = row;
    }
  }
}
finish1(at, v);
