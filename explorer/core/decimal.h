// SPDX-License-Identifier: Apache-2.0
//
// Exact sums of decimal numbers. Times in the files are decimals with a few digits; added as binary numbers
// their sum depends on the order and ends in digits that nobody measured. Here every number is taken as the
// shortest decimal that reads back as it, added as an integer multiple of 1e-18, and rounded once at the end.
#pragma once

#include <string>

namespace lathe::explorer {

class ExactSum {
 public:
  // Throws Input for what is not a finite number below 1e15.
  ExactSum& add(double value);
  ExactSum& subtract(double value) { return add(-value); }
  // Nearest binary number to the exact sum.
  double value() const;
  bool is_zero() const { return units_ == 0; }

 private:
  __extension__ __int128 units_ = 0;  // of 1e-18
};

// b - a, exact.
double exact_difference(double b, double a);

}  // namespace lathe::explorer
