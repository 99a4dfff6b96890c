// SPDX-License-Identifier: Apache-2.0
//
// What GridSample reads along one dim (the device's form of ops/grid_taps.cpp). Places are double.
//
// The generator writes in front:
//   TAPS                  of a dim: 1 nearest, 2 linear, 4 cubic
//   CORNERS               the first and the last pixel's centers are -1 and 1
//   PADDING               0 Zeros, 1 Border, 2 Reflection
//   Number                what pixels are summed in

//# kGridSample
struct Taps {
  idx index[TAPS];
  Number weight[TAPS];
};
DEV double within(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
DEV double reflect(double x, double n) {
  const double low = CORNERS ? 0. : -0.5, range = CORNERS ? n - 1. : n;
  if (range <= 0) return low;
  double from_low = fmod(fabs(x - low), 2 * range);
  if (from_low > range) from_low = 2 * range - from_low;
  return low + from_low;
}
// Of the taps at x, the first one's place and all weights.
DEV double weigh(double x, Number (&weights)[TAPS]) {
  if constexpr (TAPS == 1) {
    weights[0] = 1;
    return rint(x);
  } else if constexpr (TAPS == 2) {
    const double first = floor(x);
    weights[0] = (Number)(1 - (x - first));
    weights[1] = (Number)(x - first);
    return first;
  } else {
    const double whole = floor(x), a = -0.75;
#pragma unroll
    for (int i = 0; i < TAPS; ++i) {
      const double d = fabs(x - whole + 1 - i);
      weights[i] =
          (Number)(d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a);
    }
    return whole - 1;
  }
}
DEV Taps taps_at(double normalized, idx extent) {
  const double n = (double)extent;
  double x = CORNERS ? (normalized + 1) / 2 * (n - 1) : ((normalized + 1) * n - 1) / 2;
  if (!(fabs(x) < 1e300)) {  // nor what is not a number
    x = -2e9;
  } else {
    if (TAPS == 1) x = rint(x);
    if (x < (CORNERS ? 0. : -0.5) || x > (CORNERS ? n - 1 : n - 0.5)) {
      if (PADDING == 1 && TAPS < 4) x = within(x, 0., n - 1);
      if (PADDING == 2) x = reflect(x, n);
    }
    x = within(x, -2e9, 2e9);
  }
  Taps taps;
  const double first = weigh(x, taps.weight);
#pragma unroll
  for (int i = 0; i < TAPS; ++i) {
    double at = first + i;
    if (!(at >= 0 && at < n)) {
      if (PADDING == 0) taps.weight[i] = 0;
      if (PADDING == 2) at = trunc(reflect(at, n));
    }
    if (extent < 1) taps.weight[i] = 0;
    taps.index[i] = (idx)within(at, 0., n - 1);
  }
  return taps;
}
