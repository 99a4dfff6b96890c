// SPDX-License-Identifier: Apache-2.0
//
// Elements on grids whose scales stand for blocks along an axis (codegen_block_grids.cpp).
//
// The generator writes in front:
//   BLOCK                 elements of a block; 0: one scale for all, -1: one for each index of the axis
//   ONE_ZERO              the zero point is one number
//   ROUNDS                quotients become whole numbers

//# kBlockGrids
// Which scale belongs to an element: elements behind the axis and along it, and blocks along it.
struct ScaleIndex {
  idx inner, length, blocks;
  DEV idx operator()(idx i) const {
    if constexpr (BLOCK == 0) return 0;
    const idx along = i / inner % length;
    if constexpr (BLOCK < 0) return along;
    return (i / inner / length * blocks + along / BLOCK) * inner + i % inner;
  }
};
struct NoZeros {
  DEV float operator[](idx) const { return 0.f; }
};
// The quotient is FP32: one that lands on a half decides a whole step.
template <class X, class Scales, class Zeros>
DEV double quantized(const X& x, const Scales& scales, const Zeros& zeros, const ScaleIndex& scale_of,
                     idx i) {
  const idx at = scale_of(i);
  const float quotient = (float)x[i] / (float)scales[at];
  return (double)(ROUNDS ? rintf(quotient) : quotient) + (double)zeros[ONE_ZERO ? 0 : at];
}
template <class X, class Scales, class Zeros>
DEV float dequantized(const X& x, const Scales& scales, const Zeros& zeros, const ScaleIndex& scale_of,
                      idx i) {
  const idx at = scale_of(i);
  return ((float)x[i] - (float)zeros[ONE_ZERO ? 0 : at]) * (float)scales[at];
}
// As an integer between two bounds.
DEV long long clamped(double x, double low, double high) {
  return x != x ? 0 : (long long)(x < low ? low : x > high ? high : x);
}
