// SPDX-License-Identifier: Apache-2.0
//
// Reductions in double or in integers of 64 bits, over dims that the generator or an operand says
// (codegen_exact_reduce.cpp); behind wide_lanes.cuh.
//
// The generator writes in front:
//   RANK                  dims of the walk
//   LANES                 threads that share a result: 1 or 32
//   KIND                  a ReduceKind: 0 Sum, 1 Mean, 2 Max, 3 Min, 4 Prod, 5 L1, 6 L2, 7 LogSum,
//                         8 LogSumExp, 9 SumSquare
//   Number                double, long long or unsigned long long
//   kStart                what a maximum or minimum of nothing is

//# kExactReduce
// Dims of the input, the outermost first; bit d of `reduced` says that dim d goes.
struct ReducedDims {
  idx extents[RANK > 0 ? RANK : 1], strides[RANK > 0 ? RANK : 1];
  u32 reduced;
  // The elements of a result, or the results.
  DEV idx count(bool inside) const {
    idx n = 1;
#pragma unroll
    for (int d = 0; d < RANK; ++d)
      if ((reduced >> d & 1) == inside) n *= extents[d];
    return n;
  }
  DEV idx offset(idx i, bool inside) const {
    idx at = 0;
#pragma unroll
    for (int d = RANK - 1; d >= 0; --d)
      if ((reduced >> d & 1) == inside) {
        at += i % extents[d] * strides[d];
        i /= extents[d];
      }
    return at;
  }
};
// The dims that an operand lists. One outside of the rank is passed over.
template <class T> DEV u32 listed_dims(const T* axes, int count) {
  u32 reduced = 0;
  for (int i = 0; i < count; ++i) {
    const long long axis = widen(axes[i]) < 0 ? widen(axes[i]) + RANK : widen(axes[i]);
    if (axis >= 0 && axis < RANK) reduced |= 1u << axis;
  }
  return reduced;
}

DEV double times(double a, double b) { return a * b; }
DEV long long times(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}
DEV unsigned long long times(unsigned long long a, unsigned long long b) { return a * b; }
DEV Number mapped(Number x) {
  if constexpr (KIND == 5) return x < 0 ? 0 - x : x;
  if constexpr (KIND == 6 || KIND == 9) return times(x, x);
  return x;
}
// What is not a number stays.
DEV Number joined(Number a, Number b) {
  if constexpr (KIND == 2) return b > a || b != b ? b : a;
  if constexpr (KIND == 3) return b < a || b != b ? b : a;
  if constexpr (KIND == 4) return times(a, b);
  return a + b;
}
template <class Join> DEV Number over_lanes(Number x, const Join& join) {
#pragma unroll
  for (int m = LANES / 2; m > 0; m >>= 1) x = join(x, shuffle_wide(x, m));
  return x;
}

// Of the result whose elements begin at `from`; all lanes have it.
template <class T> DEV Number reduced_elements(const T* from, const ReducedDims& dims, int lane) {
  const idx n = dims.count(true);
  Number total = kStart;
  if constexpr (KIND == 8) {
    Number top = -(Number)infinity();
    for (idx i = lane; i < n; i += LANES) {
      const Number x = (Number)widen(from[dims.offset(i, true)]);
      top = x > top ? x : top;
    }
    top = over_lanes(top, [](Number a, Number b) { return b > a ? b : a; });
    if (top == (Number)infinity() || top == -(Number)infinity()) return top;
    for (idx i = lane; i < n; i += LANES)
      total += exp((double)((Number)widen(from[dims.offset(i, true)]) - top));
    return top + log((double)over_lanes(total, [](Number a, Number b) { return a + b; }));
  } else {
    for (idx i = lane; i < n; i += LANES)
      total = joined(total, mapped((Number)widen(from[dims.offset(i, true)])));
    total = over_lanes(total, [](Number a, Number b) { return joined(a, b); });
    if constexpr (KIND == 1) return total / (Number)n;
    if constexpr (KIND == 6) return sqrt((double)total);
    if constexpr (KIND == 7) return log((double)total);
    return total;
  }
}
