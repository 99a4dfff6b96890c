// SPDX-License-Identifier: Apache-2.0
//
// Keys' cubic convolution kernel ("Cubic convolution interpolation for digital image processing", 1981): what
// a pixel at distance `x` counts. `a` is the slope at distance 1; Resize says it, GridSample has -0.75.
#pragma once

#include <cmath>

namespace lathe {

inline double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

}  // namespace lathe
