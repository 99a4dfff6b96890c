// SPDX-License-Identifier: Apache-2.0
//
// Which boxes no better one hides (suppress.h).

//# kSuppression
__shared__ Box own[64];
__shared__ int number[64], hidden[64], kept_count;
__shared__ u32 overlaps[64][2], kept_bits[2];
const int t = threadIdx.x;
const int most = (int)(MOST);
int* kept_numbers = KEPT_NUMBERS;
Box* kept_boxes = KEPT_BOXES;
if (t == 0) kept_count = 0;
for (idx chunk = 0; chunk < RANKS; chunk += 64) {
  const idx r = chunk + t;
  if (t < 64) {
    int p = -1;
    if (r < RANKS) {
      p = PLACE;
      if (!(IS_CANDIDATE)) p = -1;
    }
    number[t] = p;
    hidden[t] = p < 0;
    if (p >= 0) own[t] = BOX;
  }
  __syncthreads();
  if (number[0] < 0) break;
  const int have = kept_count;
  if (t < 64 && number[t] >= 0) {
    const int p = number[t];
    ADMIT
  }
  __syncthreads();
  if (t < 64 && number[t] >= 0) {
    const int p = number[t];
    DONE
  }
  {
    const int at = t % 64, p = number[at];
    if (!hidden[at]) {
      const Box a = own[at];
      // Eight at a time, so that their loads are on the way together.
      for (int first = t / 64; first < have; first += 8 * (THREADS / 64)) {
        bool over = false;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int k = min(first + j * (THREADS / 64), have - 1), q = kept_numbers[k];
          const Box b = kept_boxes[k];
          over |= HIDES;
        }
        if (over) {
          hidden[at] = 1;
          break;
        }
      }
    }
  }
  for (int e = t; e < 64 * 64; e += THREADS) {
    const int first = e / 64, at = e % 64, q = number[first], p = number[at];
    bool over = false;
    if (first < at && p >= 0) {
      const Box a = own[at], b = own[first];
      over = HIDES;
    }
    const u32 votes = ballot(over);
    if (t % 32 == 0) overlaps[first][at / 32] = votes;
  }
  __syncthreads();
  if (t == 0) {
    u64 gone = 0, kept = 0;
    int count = have;
    for (int i = 0; i < 64; ++i) gone |= (u64)(hidden[i] != 0) << i;
    for (int i = 0; i < 64 && count < most; ++i) {
      if (gone >> i & 1) continue;
      kept |= (u64)1 << i;
      gone |= (u64)overlaps[i][1] << 32 | overlaps[i][0];
      ++count;
    }
    kept_bits[0] = (u32)kept;
    kept_bits[1] = (u32)(kept >> 32);
    kept_count = count;
  }
  __syncthreads();
  if (t < 64 && kept_bits[t / 32] >> t % 32 & 1) {
    const int at =
        have + (t < 32 ? 0 : population(kept_bits[0])) + population(kept_bits[t / 32] & lanes_below());
    kept_numbers[at] = number[t];
    kept_boxes[at] = own[t];
  }
  const bool enough = kept_count >= most;
  __syncthreads();
  if (enough) break;
}

//# kBoxes
struct Box {
  float top, left, bottom, right;
};
DEV float area(const Box& a) { return rounded_product(a.bottom - a.top, a.right - a.left); }
DEV float overlap(const Box& a, const Box& b) {
  const float height = (b.bottom < a.bottom ? b.bottom : a.bottom) - (a.top < b.top ? b.top : a.top);
  const float width = (b.right < a.right ? b.right : a.right) - (a.left < b.left ? b.left : a.left);
  if (!(height > 0) || !(width > 0)) return 0;
  const float both_boxes = rounded_product(height, width), all = area(a) + area(b) - both_boxes;
  return all > 0 ? both_boxes / all : 0;
}

//# kCenters
template <class T> DEV Box box_at(const T* p) {
  const float x = widen(p[0]), y = widen(p[1]), half_width = widen(p[2]) * 0.5f,
              half_height = widen(p[3]) * 0.5f;
  return Box{y - half_height, x - half_width, y + half_height, x + half_width};
}

//# kCorners
template <class T> DEV Box box_at(const T* p) {
  const float a = widen(p[0]), b = widen(p[1]), c = widen(p[2]), d = widen(p[3]);
  return Box{c < a ? c : a, d < b ? d : b, a < c ? c : a, b < d ? d : b};
}

//# kPixelBoxes
// A box of pixels is PIXEL larger than the difference of its bounds.
struct Box {
  double top, left, bottom, right;
};
DEV double area(const Box& a) { return rounded_product(a.right - a.left + PIXEL, a.bottom - a.top + PIXEL); }
DEV double overlap(const Box& a, const Box& b) {
  const double width = (b.right < a.right ? b.right : a.right) - (a.left < b.left ? b.left : a.left) + PIXEL;
  const double height = (b.bottom < a.bottom ? b.bottom : a.bottom) - (a.top < b.top ? b.top : a.top) + PIXEL;
  if (!(width > 0) || !(height > 0)) return 0;
  const double shared_area = rounded_product(width, height), all = area(a) + area(b) - shared_area;
  return all > 0 ? shared_area / all : 0;
}
DEV float clip(double x, bool clips) { return (float)(!clips ? x : x < 0 ? 0. : x > 1 ? 1. : x); }
