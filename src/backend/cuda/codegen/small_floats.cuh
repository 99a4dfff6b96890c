// SPDX-License-Identifier: Apache-2.0
//
// Floats of 8 and 4 bits (the device's form of base/floats.cpp): ONNX's four kinds of FP8, E8M0, and E2M1. In
// front of kernels that have such operands, behind storage.cuh. `kSaturates` and `kRoundsPowers` are what a
// Cast says: out of range becomes the largest number, and how what lies between two powers of two is rounded
// (0: up, 1: down, 2: to the nearest).

//# kSmallFloats
// A float is a significand times a power of two. The target has M bits of it and the exponent's BIAS;
// magnitudes above MOST are infinity (INF) or NaN, which in the kinds without -0 stands in its place.
template <int M, int BIAS, u32 MOST, u32 INF, u32 NAN_BITS, u32 SIGN, bool HAS_NEGATIVE_ZERO>
struct SmallFloat {
  // Magnitude bits of |x|, rounded to nearest even, as if the exponents went on for ever upwards.
  DEV static u32 rounded(u32 x) {
    const int exponent = (int)(x >> 23);
    if (exponent == 0) return 0;  // far below half of the smallest number
    const u32 significand = (x & 0x7fffffu) | 0x800000u;
    int target = exponent - 127 + BIAS, cut = 23 - M;
    if (target < 1) {  // a subnormal number: more bits fall off
      cut += 1 - target;
      target = 0;
      if (cut > 25) return 0;
    } else {
      --target;  // the significand's leading one adds it back
    }
    const u32 kept = significand >> cut, rest = significand & ((1u << cut) - 1), half = 1u << (cut - 1);
    const u32 up = rest > half || (rest == half && (kept & 1u)) ? 1 : 0;
    return ((u32)target << M) + kept + up;
  }
  DEV static u32 encode(float x, bool saturates) {
    const u32 bits = __float_as_uint(x), sign = bits >> 31 ? SIGN : 0, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return HAS_NEGATIVE_ZERO ? sign | NAN_BITS : NAN_BITS;
    const u32 magnitude = size == 0x7f800000u ? MOST + 1 : rounded(size);
    if (magnitude > MOST) return saturates ? sign | MOST : HAS_NEGATIVE_ZERO ? sign | INF : INF;
    return magnitude == 0 && !HAS_NEGATIVE_ZERO ? 0 : sign | magnitude;
  }
  DEV static float decode(u32 bits) {
    const u32 magnitude = bits & (SIGN - 1), sign = bits & SIGN ? 0x80000000u : 0;
    if (HAS_NEGATIVE_ZERO ? magnitude > INF || magnitude == NAN_BITS : bits == NAN_BITS)
      return __uint_as_float(0x7fc00000u | sign);
    if (magnitude > MOST) return __uint_as_float(0x7f800000u | sign);
    const int exponent = (int)(magnitude >> M);
    const u32 fraction = magnitude & ((1u << M) - 1);
    const float number = (float)(exponent == 0 ? fraction : fraction | (1u << M));
    const float power = __uint_as_float((u32)((exponent == 0 ? 1 : exponent) - BIAS - M + 127) << 23);
    return __uint_as_float(__float_as_uint(number * power) | sign);
  }
};
struct e4m3fn {
  unsigned char bits;
  typedef SmallFloat<3, 7, 0x7e, 0x7f, 0x7f, 0x80, true> Format;
};
struct e4m3fnuz {
  unsigned char bits;
  typedef SmallFloat<3, 8, 0x7f, 0x80, 0x80, 0x80, false> Format;
};
struct e5m2 {
  unsigned char bits;
  typedef SmallFloat<2, 15, 0x7b, 0x7c, 0x7f, 0x80, true> Format;
};
struct e5m2fnuz {
  unsigned char bits;
  typedef SmallFloat<2, 16, 0x7f, 0x80, 0x80, 0x80, false> Format;
};
DEV float widen(e4m3fn x) { return e4m3fn::Format::decode(x.bits); }
DEV float widen(e4m3fnuz x) { return e4m3fnuz::Format::decode(x.bits); }
DEV float widen(e5m2 x) { return e5m2::Format::decode(x.bits); }
DEV float widen(e5m2fnuz x) { return e5m2fnuz::Format::decode(x.bits); }
template <class T> struct NarrowSmall {
  template <class C> DEV static T from(C x) {
    return T{(unsigned char)T::Format::encode(to_float(x), kSaturates)};
  }
};
template <> struct Narrow<e4m3fn> : NarrowSmall<e4m3fn> {};
template <> struct Narrow<e4m3fnuz> : NarrowSmall<e4m3fnuz> {};
template <> struct Narrow<e5m2> : NarrowSmall<e5m2> {};
template <> struct Narrow<e5m2fnuz> : NarrowSmall<e5m2fnuz> {};

// The exponent of a power of two, 2^-127 to 2^127; 255 is NaN.
struct e8m0 {
  unsigned char bits;
};
DEV float widen(e8m0 x) {
  return __uint_as_float(x.bits == 255 ? 0x7fc00000u : x.bits == 0 ? 0x00400000u : (u32)x.bits << 23);
}
DEV unsigned char power_bits(float x) {
  if (x != x || x < 0) return 255;
  if (x == 0) return kSaturates ? 0 : 255;
  const bool tiny = __float_as_uint(x) >> 23 == 0;  // becomes a normal number, and is one power more
  const u32 bits = __float_as_uint(tiny ? x * 16777216.f : x), fraction = bits & 0x7fffffu;
  const int exponent = (int)(bits >> 23) - (tiny ? 24 : 0);
  if (exponent == 255) return kSaturates ? 254 : 255;
  const bool up = kRoundsPowers == 0 ? fraction != 0 : kRoundsPowers == 2 && fraction >= 0x400000u;
  const int power = exponent + (up ? 1 : 0);
  if (power < 0 || power > 254) return !kSaturates ? 255 : power < 0 ? 0 : 254;
  return (unsigned char)power;
}
template <> struct Narrow<e8m0> {
  template <class C> DEV static e8m0 from(C x) { return e8m0{power_bits(to_float(x))}; }
};

// E2M1 in four bits: neither infinity nor NaN, which becomes -0.
typedef SmallFloat<1, 1, 0x7, 0x7, 0x8, 0x8, true> HalfByteFloat;
DEV float widen_e2m1(u32 bits) {
  const u32 magnitude = bits & 7;
  const float size = magnitude < 4    ? 0.5f * magnitude
                     : magnitude == 4 ? 2.f
                     : magnitude == 5 ? 3.f
                     : magnitude == 6 ? 4.f
                                      : 6.f;
  return bits & 8 ? -size : size;
}
DEV u32 narrow_e2m1(float x) { return x != x ? 8 : HalfByteFloat::encode(x, true); }
