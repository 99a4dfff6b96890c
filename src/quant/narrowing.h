// SPDX-License-Identifier: Apache-2.0
//
// What float16 or bfloat16 makes of the elements of a tensor, over all samples: how large they are, and how
// much of them rounding takes.
#pragma once

#include <span>

#include "ir/dtype.h"
#include "ir/tensor.h"

namespace lathe {

double largest_finite(DType narrow);  // 65504 of float16
double unit_roundoff(DType narrow);   // 2^-11 of float16
float rounded_to(DType narrow, float value);

// The tensor with elements that the narrow type has, still float32.
Tensor rounded_to(DType narrow, const Tensor& tensor);

class NarrowingObserver {
 public:
  explicit NarrowingObserver(DType narrow) : narrow_(narrow) {}
  void add(std::span<const float> elements);

  double largest() const { return largest_; }  // magnitude of the finite elements
  // |x - rounded x| / |x| over all finite elements that stay finite.
  double relative_loss() const;

 private:
  DType narrow_;
  double largest_ = 0, squares_ = 0, lost_squares_ = 0;
};

}  // namespace lathe
