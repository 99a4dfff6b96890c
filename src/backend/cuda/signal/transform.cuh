// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms as sums (codegen_transform.cpp). A thread has a point of the result.
//
// The generator writes in front:
//   RANK, PARTS_OUT       dims of x, and of a result's point: 1 (real) or 2
//   HALF                  a line is half of a spectrum, whose other half is its mirror image
//   SIGN                  of the exponents: -1, for the inverse 1
//   Stored                float or double: what is between stages
// and of a stage
//   P, M, S               of its points: a line is S transforms of P M points each, interleaved
//   SOURCE(line, i)       the points in front of it: point(line, i), or between(line, i)
//   FROM, PARTS           x, and the numbers of its points
// and of a DFT
//   IN_DIMS, OUT_DIMS, GIVEN_AXIS, GIVEN_POINTS   lists of dims, the axis, and points or 0: those of the line
// of an STFT
//   LENGTH, STEP, FRAMES, BINS, GIVEN_POINTS, WINDOW(i)

//# kSums
struct Complex {
  double re, im;
};
DEV Complex times(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
// e^(SIGN 2 pi i at / n), 0 <= at < n.
DEV Complex root(long long at, long long n) {
  const double turn = 6.283185307179586476925 * (double)at / (double)n;
  return {cos(turn), SIGN * sin(turn)};
}
// The sum over j < count of point(j) e^(SIGN 2 pi i j k / n). A root is the one before it times that of k,
// and every 32nd is made anew, so that errors of products do not add up.
template <class Point> DEV Complex summed(long long count, long long k, long long n, const Point& point) {
  if (n == 1) return point(0);
  k %= n;
  const Complex step = root(k, n);
  Complex sum = {0, 0};
  for (long long first = 0; first < count; first += 32) {
    Complex w = root(first % n * k % n, n);
    const long long end = count < first + 32 ? count : first + 32;
    for (long long j = first; j < end; ++j) {
      const Complex term = times(point(j), w);
      sum.re += term.re;
      sum.im += term.im;
      w = times(w, step);
    }
  }
  return sum;
}

//# kLines
// The lines of a DFT lie along an axis; those of an STFT are frames.
const long long in_dims[RANK] = {IN_DIMS}, out_dims[RANK] = {OUT_DIMS};
long long axis = GIVEN_AXIS;
if (axis < 0) axis += RANK;
if (axis < 0 || axis + 1 >= RANK) return;
long long stride = 1;
for (int d = 0; d + 1 < RANK; ++d) stride *= d > axis ? in_dims[d] : 1;
const long long count = in_dims[axis], results = out_dims[axis];
const long long points = GIVEN_POINTS > 0 ? GIVEN_POINTS : HALF ? results : count;
const long long terms = HALF || count > points ? points : count;
const auto line_of = [&](long long at) { return at / (stride * results) * stride + at % stride; };
const auto bin_of = [&](long long at) { return at / stride % results; };
const auto point = [&](long long line, long long j) {
  const bool mirrored = HALF && 2 * j > points;
  const long long i = mirrored ? points - j : j;
  Complex p = {0, 0};
  if (i >= count) return p;
  const auto* from = FROM + ((line / stride * count + i) * stride + line % stride) * PARTS;
  p.re = widen(from[0]);
  if (PARTS == 2 && !(HALF && (i == 0 || 2 * i == points)))
    p.im = mirrored ? -widen(from[1]) : widen(from[1]);
  return p;
};

//# kFrames
const long long points = GIVEN_POINTS, terms = points;
const auto line_of = [&](long long at) { return at / BINS; };
const auto bin_of = [&](long long at) { return at % BINS; };
const auto point = [&](long long line, long long j) {
  const long long i = line % FRAMES * STEP + j;
  Complex p = {0, 0};
  if (i >= LENGTH) return p;
  const auto* from = FROM + (line / FRAMES * LENGTH + i) * PARTS;
  p.re = (double)widen(from[0]) * WINDOW(j);
  if (PARTS == 2) p.im = (double)widen(from[1]) * WINDOW(j);
  return p;
};

//# kWhole
const long long line = line_of(at);
const Complex sum = summed(terms, bin_of(at), points, [&](long long j) { return point(line, j); });

//# kBetween
const auto between = [&](long long line, long long i) {
  const Stored* p = BEFORE + 2 * (line * ((long long)S * P * M) + i);
  return Complex{(double)p[0], (double)p[1]};
};

//# kStage
// Of each transform sums of every M-th point, which are the points of P transforms of M points: S P of them
// are interleaved behind this stage.
const long long line = at / ((long long)S * P * M), i = at % ((long long)S * P * M);
const long long q = i % S, j = i / S % P, k = i / S / P;
const Complex sum = summed(P, j, P, [&](long long r) { return SOURCE(line, q + S * (k + M * r)); });
const Complex turned = times(sum, root(j* k, (long long)P* M));
BEHIND[2ll * at] = (Stored)turned.re;
BEHIND[2ll * at + 1] = (Stored)turned.im;

//# kLastStage
const long long line = line_of(at), bin = bin_of(at);
const Complex sum = summed(P, bin / S, P, [&](long long r) { return SOURCE(line, bin % S + S * r); });

//# kStore
const double scale = SIGN > 0 ? 1. / (double)points : 1.;
Result re[1] = {(Result)(sum.re * scale)}, im[1] = {(Result)(sum.im * scale)};
finish1(at* PARTS_OUT, re);
if (PARTS_OUT == 2) finish1(at * 2 + 1, im);
