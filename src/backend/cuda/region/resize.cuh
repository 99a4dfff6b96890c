// SPDX-License-Identifier: Apache-2.0
//
// Resize with everything that ONNX has for it (the device's form of ops/resize.cpp): what codegen_resize.cpp
// writes out for plain ones is a table of taps for each dim there, which a thread here works out for its own
// position. Arithmetic is double, in the order of ops/resize.cpp: a position decides which neighbour is seen.
//
// The generator writes in front:
//   AXES                  resized dims
//   MODE                  0 Nearest, 1 Linear, 2 Cubic
//   NEAREST               0 RoundPreferFloor, 1 RoundPreferCeil, 2 Floor, 3 Ceil
//   COORDINATES           0 HalfPixel, 1 HalfPixelSymmetric, 2 PytorchHalfPixel, 3 AlignCorners,
//                         4 Asymmetric, 5 TfCropAndResize, 6 TfHalfPixelForNn
//   ANTIALIAS, EXCLUDE    flags of the operator
//   kCubic, kExtrapolation

//# kResize
// A resized dim and the position of a thread's result along it.
struct ResizedDim {
  idx in, out, stride, at;
  double scale, roi_begin, roi_end;
  // What follows from these: the taps.
  idx first;
  int taps;
  double ratio, sum, sum_inside;
  bool outside, same;
};

DEV double source_position(const ResizedDim& d) {
  const double x = (double)d.at, in = (double)d.in, out = rounded_product(d.scale, in);
  if (COORDINATES == 3) return out == 1 ? 0. : rounded_product(x, in - 1.) / (out - 1.);
  if (COORDINATES == 4) return x / d.scale;
  if (COORDINATES == 5) {
    const double width = d.roi_end - d.roi_begin;
    const double at = out == 1 ? rounded_product(width, in - 1.) / 2.
                               : rounded_product(rounded_product(x, width), in - 1.) / (out - 1.);
    return at + rounded_product(d.roi_begin, in - 1.);
  }
  if (COORDINATES == 2 && out == 1) return -0.5;
  if (COORDINATES == 1) return rounded_product(in / 2., 1. - (double)d.out / out) + (x + 0.5) / d.scale - 0.5;
  if (COORDINATES == 6) return (x + 0.5) / d.scale;
  return (x + 0.5) / d.scale - 0.5;
}

DEV double cubic(double x) {
  const double a = kCubic;
  x = fabs(x);
  if (x <= 1) {
    const double line = rounded_product(a + 2., x) - (a + 3.);
    return rounded_product(rounded_product(line, x), x) + 1.;
  }
  if (x >= 2) return 0.;
  const double line = rounded_product(a, x) - 5. * a;
  return rounded_product(rounded_product(line, x) + 8. * a, x) - 4. * a;
}
// A kernel, stretched where it shrinks the image.
DEV double stretched(const ResizedDim& d, int i) {
  const double scale = d.scale < 1. ? d.scale : 1., x = rounded_product(scale, (double)i - d.ratio);
  if (MODE == 2) return cubic(x);
  const double line = 1. - fabs(x);
  return line < 0. ? 0. : line > 1. ? 1. : line;
}
// Of tap k, before what lies outside is excluded.
DEV double whole_weight(const ResizedDim& d, int k) {
  if (MODE == 0) {
    const bool right = d.ratio == 1. || (NEAREST == 0   ? d.ratio > 0.5
                                         : NEAREST == 1 ? d.ratio >= 0.5
                                                        : NEAREST == 3);
    return (k == 1) == right ? 1. : 0.;
  }
  if (ANTIALIAS) return stretched(d, k + 1 - d.taps / 2) / d.sum;
  if (MODE == 1) return k == 0 ? 1. - d.ratio : d.ratio;
  return cubic(k == 0 ? d.ratio + 1. : k == 1 ? d.ratio : k == 2 ? 1. - d.ratio : 2. - d.ratio);
}
DEV double weight_of(const ResizedDim& d, int k) {
  if (!EXCLUDE) return whole_weight(d, k);
  if (d.first + k < 0 || d.first + k >= d.in || d.sum_inside == 0.) return 0.;
  return whole_weight(d, k) / d.sum_inside;
}

// Fills in what follows from the dim's extents, scale and position.
DEV void find_taps(ResizedDim& d) {
  d.same = d.in == d.out && fabs(d.scale - 1.) <= 1e-9 && d.roi_begin == 0. && d.roi_end == 1.;
  if (d.same) return;
  const double position = source_position(d);
  d.outside = COORDINATES == 5 && (position < 0. || position > (double)(d.in - 1));
  const double at = position < -1e15 ? -1e15 : position > 1e15 ? 1e15 : position, whole = floor(at);
  d.ratio = at == whole ? 1. : at - whole;
  d.taps = MODE == 2 ? 4 : 2;
  if (ANTIALIAS) {
    const double scale = d.scale < 1. ? d.scale : 1., most = 1e9;  // taps of an absurd scale
    const double reach = floor(-(MODE == 2 ? 2. : 1.) / scale);
    const int start = (int)(reach < -most ? -most : reach) + 1;
    d.taps = 2 - 2 * start;
    d.sum = 0.;
    for (int k = 0; k < d.taps; ++k) d.sum += stretched(d, start + k);
  }
  const long long first = (long long)whole - (at == whole ? 1 : 0) - (d.taps / 2 - 1), far = 1ll << 30;
  d.first = (idx)min(max(first, -far), far);
  d.sum_inside = 0.;
  if (EXCLUDE)
    for (int k = 0; k < d.taps; ++k)
      d.sum_inside += d.first + k < 0 || d.first + k >= d.in ? 0. : whole_weight(d, k);
}
DEV idx place_of(const ResizedDim& d, int k) { return min(max(d.first + k, (idx)0), d.in - 1); }

// Where the one element lies that a nearest result is.
DEV idx nearest_offset(const ResizedDim (&dims)[AXES], idx offset) {
#pragma unroll
  for (int a = 0; a < AXES; ++a)
    offset +=
        (dims[a].same ? dims[a].at : place_of(dims[a], weight_of(dims[a], 0) != 0. ? 0 : 1)) * dims[a].stride;
  return offset;
}
// Dims are resized one after the other, the first one first.
template <int A, class T> DEV double resized(const T* from, const ResizedDim (&dims)[AXES], idx offset) {
  if constexpr (A < 0) {
    return (double)widen(from[offset]);
  } else {
    const ResizedDim& d = dims[A];
    if (d.same) return resized<A - 1>(from, dims, offset + d.at * d.stride);
    if (d.outside) return kExtrapolation;
    double sum = 0.;
    for (int k = 0; k < d.taps; ++k) {
      const double weight = weight_of(d, k);
      if (weight == 0.) continue;  // infinity must not become NaN
      sum += rounded_product(weight, resized<A - 1>(from, dims, offset + place_of(d, k) * d.stride));
    }
    return sum;
  }
}
