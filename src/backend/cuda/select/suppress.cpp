// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/select/suppress.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kText = R"cuda(
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
      for (int k = t / 64; k < have; k += THREADS / 64) {
        const int q = kept_numbers[k];
        const Box b = kept_boxes[k];
        if (HIDES) {
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
    const int at = have + (t < 32 ? 0 : population(kept_bits[0])) + population(kept_bits[t / 32] & lanes_below());
    kept_numbers[at] = number[t];
    kept_boxes[at] = own[t];
  }
  const bool enough = kept_count >= most;
  __syncthreads();
  if (enough) break;
}
)cuda";

}  // namespace

void emit_suppression(KernelBuilder& b, const Suppression& s) {
  b.kernel().threads = kSuppressThreads;
  b.line(filled_in(kText, {{"KEPT_NUMBERS", s.kept_numbers},
                           {"KEPT_BOXES", s.kept_boxes},
                           {"THREADS", std::to_string(kSuppressThreads)},
                           {"RANKS", s.ranks},
                           {"PLACE", s.place},
                           {"IS_CANDIDATE", s.is_candidate},
                           {"BOX", s.box},
                           {"HIDES", s.hides},
                           {"MOST", s.most},
                           {"ADMIT", s.admit},
                           {"DONE", s.admitted}}));
}

std::string box_text(std::string_view number) {
  return "struct Box { " + std::string(number) + " top, left, bottom, right; };";
}

void add_rounded_products(KernelBuilder& b) {
  b.hardware(
      "DEV float rounded_product(float a, float b) { return __fmul_rn(a, b); }\n"
      "DEV double rounded_product(double a, double b) { return __dmul_rn(a, b); }\n");
}

}  // namespace lathe::cuda
