// SPDX-License-Identifier: Apache-2.0
//
// Slice and Pad whose parameters are operands (codegen_value_moves.cpp). What they say is read by each
// thread, a few numbers from the L1; the extents of the result are known before. Whatever the operands say,
// no memory outside of the input is read.
//
// The generator writes in front:
//   RANK                  dims of input and result
//   MODE                  of a Pad: 0 Constant, 1 Reflect, 2 Edge, 3 Wrap

//# kLists
// Of a list of axes, or of the first ones where there is none.
struct FirstAxes {
  DEV long long operator[](int k) const { return k; }
};
struct Ones {
  DEV long long operator[](int) const { return 1; }
};
template <class T> struct Numbers {
  const T* numbers;
  DEV long long operator[](int k) const { return widen(numbers[k]); }
};
template <class T> DEV Numbers<T> numbers(const T* list) { return {list}; }
// Where dim d stands in the list; -1: it does not.
template <class Axes> DEV int place_of(int d, const Axes& axes, int count) {
  int place = -1;
  for (int k = 0; k < count; ++k)
    if ((axes[k] < 0 ? axes[k] + RANK : axes[k]) == d) place = k;
  return place;
}

//# kSlice
// The element of dim d that result coordinate `at` shows; -1: none.
template <class Starts, class Axes, class Steps>
DEV long long sliced(int d, long long at, long long extent, const Starts& starts, const Axes& axes,
                     const Steps& steps, int count) {
  const int k = place_of(d, axes, count);
  if (k < 0) return at < extent ? at : -1;
  const long long step = steps[k], last = step > 0 ? extent : extent - 1;
  long long start = starts[k] < 0 ? starts[k] + extent : starts[k];
  start = min(max(start, 0ll), last);
  const long long from = start + at * step;
  return from >= 0 && from < extent ? from : -1;
}

//# kPad
// The same of a padded dim. A mode is applied to what negative pads have left.
template <class Pads, class Axes>
DEV long long padded(int d, long long at, long long extent, const Pads& pads, const Axes& axes, int count) {
  const int k = place_of(d, axes, count);
  const long long begin = k < 0 ? 0 : pads[k], end = k < 0 ? 0 : pads[k + count];
  const long long cut = max(0ll, -begin), left = extent - cut - max(0ll, -end);
  long long i = at - max(0ll, begin);
  if (left <= 0 || left > extent) return -1;
  if (i < 0 || i >= left) {
    if (MODE == 0) return -1;
    if (MODE == 1) {
      const long long period = left > 1 ? 2 * (left - 1) : 1;
      i = (i % period + period) % period;
      i = i < left ? i : period - i;
    }
    if (MODE == 2) i = min(max(i, 0ll), left - 1);
    if (MODE == 3) i = (i % left + left) % left;
  }
  return i + cut;
}
