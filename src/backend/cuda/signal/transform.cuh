// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms as sums (codegen_transform.cpp). A thread has a point of the result.
//
// The generator writes in front:
//   RANK, PARTS_OUT       dims of x, and of a result's point: 1 (real) or 2
//   HALF                  a line is half of a spectrum, whose other half is its mirror image
//   SIGN                  of the exponents: -1, for the inverse 1
//   FACTOR, REST          of the points of a transform in two stages
//   Stored                float or double: what is between the stages
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

//# kFirstStage
// Every FACTOR-th point of a line, from point q on.
const long long line = at / (FACTOR * REST), q = at / REST % FACTOR, k = at % REST;
const Complex sum = summed(REST, k, REST, [&](long long j) { return point(line, q + j * FACTOR); });
const Complex turned = times(sum, root(q* k, (long long)FACTOR* REST));
BETWEEN[2ll * at] = (Stored)turned.re;
BETWEEN[2ll * at + 1] = (Stored)turned.im;

//# kSecondStage
const long long k = bin_of(at);
const Stored* between = BETWEEN + 2 * (line_of(at) * FACTOR * REST + k % REST);
const Complex sum = summed(FACTOR, k / REST, FACTOR, [&](long long q) {
  return Complex{(double)between[2 * q * REST], (double)between[2 * q * REST + 1]};
});

//# kStore
const double scale = SIGN > 0 ? 1. / (double)points : 1.;
Result re[1] = {(Result)(sum.re * scale)}, im[1] = {(Result)(sum.im * scale)};
finish1(at* PARTS_OUT, re);
if (PARTS_OUT == 2) finish1(at * 2 + 1, im);
