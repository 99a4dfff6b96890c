// SPDX-License-Identifier: Apache-2.0
//
// How members divide a product of many rows with constant columns.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// Times in any unit, of one member that does everything.
struct ProductShares {
  double arithmetic = 0;
  double weights = 0, rows = 0;             // to fetch them from L3 or memory
  int64_t row_units = 1, column_units = 1;  // what is not divided further: tiles of rows, panels of columns

  // Whether members take ranges of rows, each reading all weights, or of columns, each reading all rows: what
  // takes the member with the largest share less time.
  bool by_rows(int members) const {
    if (members == 1) return true;
    const auto largest = [members](int64_t units) {
      return static_cast<double>((units + members - 1) / members) / static_cast<double>(units);
    };
    return largest(row_units) * arithmetic + weights + rows / members <=
           largest(column_units) * arithmetic + weights / members + rows;
  }
};

}  // namespace lathe::cpu
