// SPDX-License-Identifier: Apache-2.0
//
// Strassen's seven products on a tile of a matrix product in FP32, one table per instruction set.
//
// A tile has two halves of rows and two panels of columns, and k is halved as well:
//
//   | C11 C12 |   | A11 A12 | | B11 B12 |     rows of A: upper, lower half; columns: halves of k
//   | C21 C22 | = | A21 A22 | | B21 B22 |     columns of B: left and right panel
//
// In Winograd's form, in the order in which the kernel runs the products:
//
//   product   left operand             right operand             sums
//   0         A11                      B11                       P
//   1         A12                      B21                       C11 = P + it
//   2         S = A21 + A22 - A11      T = B22 - B12 + B11       U = P + it
//   3         A11 - A21                B22 - B12                 V = U + it
//   4         A22                      B21 - T                   C21 = V + it
//   5         A21 + A22                B12 - B11                 C22 = V + it
//   6         A12 - S                  B22                       C12 = U + product 5 + it
//
// So most products go on with the sums that the one before has left in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/vector/register_tail.h"

namespace lathe::cpu {

constexpr int kStrassenProducts = 7;
constexpr int kFormedRight = 5;     // right operands that are sums: of products 0, 1, 2, 3 and 5
constexpr int64_t kLeftSteps = 16;  // of a row of the left operands, that lie together

// From one product's left operands to the next: stored together, they shall not fall into one set of L1.
constexpr int64_t left_operand_floats(int64_t rows, int64_t steps) {
  return rows * steps + kLeftSteps;
}

// Rows that are wanted soon, `line_count` lines of 64 bytes each.
struct RowsAhead {
  const float* first = nullptr;
  int64_t rows = 0, stride = 0, line_count = 0;
};

struct StrassenTile {
  int64_t rows = 0;        // of each half, at most the table's
  int64_t lower_rows = 0;  // of the lower half that exist: `rows` or one less
  int64_t steps = 0;       // half of k
  // Left operands, in the order in which they are read: [product][block of steps][row][kLeftSteps].
  const float* a = nullptr;
  // Right operands: two panels of weights, [step][panel], whose second half of k is `quarter` elements behind
  // the first; and sums of their quarters, one `sum_stride` behind the other. The first tile over these
  // panels forms the sums as it needs them.
  const float *left = nullptr, *right = nullptr;
  int64_t quarter = 0;
  float* sums = nullptr;
  int64_t sum_stride = 0;
  bool forms = true;
  const float* bias = nullptr;  // of both panels; null: none
  // k in several calls: sums [quarter][row][panel] between them. `first` call: not read; `last`: not written.
  float* partial = nullptr;
  bool first = true, last = true;
  // The last call's result. Rows of the lower half follow those of the upper, the right panel follows the
  // left.
  const float* operand = nullptr;  // null: none
  int64_t operand_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  RegisterTail tail;
  // Brought into L2 on the way, so many bytes per step of each product: the weights of the next panels, and
  // the left operands of the next tile.
  const float* ahead[kStrassenProducts] = {};
  const float* left_ahead = nullptr;
  int64_t ahead_bytes = 0, left_ahead_bytes = 0;
  RowsAhead rows_ahead;  // from which the next left operands are formed
};

struct StrassenTable {
  int64_t tile_rows, panel;  // of a half; columns of one panel
  void (*run)(const StrassenTile& tile);
  // The left operands of row `row` of each half, which have `rows` (see StrassenTile::a), each with 2 `steps`
  // elements; `lower`: null for zeros.
  void (*form_left)(const float* upper, const float* lower, int64_t steps, int64_t row, int64_t rows,
                    float* out);
};

const StrassenTable& strassen_table_avx2();
const StrassenTable& strassen_table_avx512();

}  // namespace lathe::cpu
