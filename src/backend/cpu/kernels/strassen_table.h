// SPDX-License-Identifier: Apache-2.0
//
// Strassen's seven products on a tile of a matrix product in FP32, one table per instruction set.
//
// A tile has two halves of rows and two panels of columns, and k is halved as well:
//
//   | C11 C12 |   | A11 A12 | | B11 B12 |     rows of A: upper and lower half; columns: first and second half of k
//   | C21 C22 | = | A21 A22 | | B21 B22 |     columns of B: left and right panel
//
//   product   left operand   right operand   goes to              in the order in which the kernel runs them
//   0         A11 + A22      B11 + B22       C11, C22
//   1         A12 - A22      B21 + B22       C11
//   2         A21 - A11      B11 + B12       C22
//   3         A22            B21 - B11       C11, C21
//   4         A11 + A12      B22             C12, -C11
//   5         A11            B12 - B22       C12, C22
//   6         A21 + A22      B11             C21, -C22
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/register_tail.h"

namespace lathe::cpu {

constexpr int kStrassenProducts = 7;
constexpr int kFormedRight = 5;  // right operands that are sums: of products 0, 1, 2, 3 and 5

// Sums of right operands: elements [begin, end) of each, multiples of a vector.
struct StrassenSums {
  const float *left = nullptr, *right = nullptr;  // panels: two quarters, one behind the other
  int64_t quarter = 0;                            // elements: half of k times the panel
  float* out = nullptr;                           // kFormedRight of them
  int64_t out_quarter = 0;                        // from one to the next
  int64_t begin = 0, end = 0;
};
constexpr int64_t kStepsPerSum = 4;
constexpr int64_t kLeftSteps = 16;  // of a row, that lie together

struct StrassenTile {
  int64_t rows = 0;        // of each half, at most the table's
  int64_t lower_rows = 0;  // of the lower half that exist: `rows` or one less
  int64_t steps = 0;       // half of k
  const float* a =
      nullptr;  // left operands, in the order in which they are read: [product][block of steps][row][kLeftSteps]
  const float* b[kStrassenProducts] = {};  // right operands: [step][panel]
  const float* bias = nullptr;             // of both panels; null: none
  // k in several calls: sums [quarter][row][panel] between them. `first` call: not read; `last`: not written.
  float* partial = nullptr;
  bool first = true, last = true;
  // The last call's result. Rows of the lower half follow those of the upper, the right panel follows the left.
  const float* operand = nullptr;  // null: none
  int64_t operand_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  RegisterTail tail;
  // Brought into L2 on the way, so many bytes per step of each product: the weights of the next panels, and the left operands
  // of the next tile.
  const float* ahead[kStrassenProducts] = {};
  const float* left_ahead = nullptr;
  int64_t ahead_bytes = 0, left_ahead_bytes = 0;
  // Formed on the way: sums of the right operands of the next panels, beside the multiply-adds, whose ports additions do not need.
  // At most a vector for every kStepsPerSum steps.
  StrassenSums next;
};

struct StrassenTable {
  int64_t tile_rows, panel;  // of a half; columns of one panel
  int64_t vector;            // elements
  void (*run)(const StrassenTile& tile);
  // The left operands of row `row` of each half, which have `rows` (see StrassenTile::a), each with 2 `steps` elements; `lower`: null
  // for zeros.
  void (*form_left)(const float* upper, const float* lower, int64_t steps, int64_t row, int64_t rows,
                    float* out);
  void (*form_right)(const StrassenSums& sums);
};

const StrassenTable& strassen_table_avx2();
const StrassenTable& strassen_table_avx512();

}  // namespace lathe::cpu
