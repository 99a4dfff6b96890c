// SPDX-License-Identifier: Apache-2.0
//
// Numbers of 64 bits that lanes of a warp give each other.

//# kWideLanes
template <class N> DEV N shuffle_wide(N x, int mask) {
  int words[2];
  memcpy(words, &x, 8);
  for (int i = 0; i < 2; ++i) words[i] = shuffle_xor(words[i], mask);
  memcpy(&x, words, 8);
  return x;
}
// Of all lanes, in an order that is always the same.
template <class N, class Join> DEV N joined_lanes(N x, const Join& join) {
#pragma unroll
  for (int m = 16; m > 0; m >>= 1) x = join(x, shuffle_wide(x, m));
  return x;
}
DEV double wide_max(double a, double b) { return b > a || b != b ? b : a; }  // what is not a number stays
DEV double wide_sum(double a, double b) { return a + b; }
