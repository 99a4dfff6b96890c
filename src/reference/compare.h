// SPDX-License-Identifier: Apache-2.0
//
// How far a result is from the oracle's: metrics, the worst element, and a tolerance that follows from type
// and reduction length instead of from what happened to pass.
#pragma once

#include <span>
#include <string>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace lathe {

struct Comparison {
  int64_t elements = 0;
  double relative_l2 = 0;  // |actual - expected| / |expected|; of the finite elements
  double max_absolute = 0;
  double max_relative = 0;  // |a - e| / |e| where |e| is at least a thousandth of the largest
  double cosine = 1;        // 1 when both are zero
  // Elements where one is NaN (or an infinity of some sign) and the other is not.
  int64_t nan_mismatches = 0, infinity_mismatches = 0;
  // The element with the largest absolute error, or the first mismatch.
  Extents worst_index;
  double worst_actual = 0, worst_expected = 0;
  bool shapes_differ = false;  // then nothing else was compared
  std::string shape_text;      // "2x3 instead of 3x2" when they do

  // Same extents, no mismatches, and relative L2 error within `relative_l2_limit`.
  bool within(double relative_l2_limit) const;
  // One line for a person.
  std::string to_string() const;
};

// Types may differ (an engine's bf16 against the oracle's float32); values are compared as double.
Comparison compare(const Tensor& actual, const Tensor& expected);

// The relative L2 error that a computation in `dtype` may have when each result sums `reduction_length`
// products: unit roundoff times a factor for accumulation, times what the tactic declares. Integers and bool:
// 0.
double tolerance(DType dtype, int64_t reduction_length, double error_factor = 1);
// Numbers that are rounded to the steps of a grid: all of them are in steps, from the zero point.
struct RoundingToGrid {
  int64_t elements = 0;
  double rms = 0;  // root mean square of the results
  std::span<const double>
      numbers;  // before they are rounded; empty: not known, and taken for evenly spread between steps
};
// The relative L2 error behind such a rounding of numbers that may be off by `before`. A number within reach
// of the middle between two steps may fall to either, and is then off by a whole step, as one element of any
// tensor may be; no other may.
double tolerance_on_grid(double before, const RoundingToGrid& grid);
// The same for E4M3, whose steps grow with the number; `numbers` in units of the scale, before they are
// rounded, or behind that: then those before are taken for evenly spread between steps.
enum class NumbersAre : uint8_t { Unrounded, Rounded };
double tolerance_on_e4m3(double before, std::span<const double> numbers, NumbersAre are);
// How many products one output element of the node sums (1 for pointwise): Conv, MatMul, Reduce, norms, ...
int64_t reduction_length(const Node& node, std::span<const Extents> inputs);

}  // namespace lathe
