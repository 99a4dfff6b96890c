// SPDX-License-Identifier: Apache-2.0
//
// The grid on which the elements of a float tensor lie: scale * (q - zero) with q a number of a narrow type,
// one scale for the tensor or one per index of an axis. A value that has one may be stored as these numbers
// without any loss; whether it is, its dtype says. So quantisation is a property of values, what it computes
// is that of the float operator, and the tuner chooses how to store each value, as it does for BF16.
//
// q is an integer, whose grid has steps of one size, or a float of 8 bits (E4M3), whose steps grow with the
// number: 8 of them from each power of two to the next. Such a grid has no zero point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/shape.h"
#include "ir/tensor.h"

namespace lathe {

struct Quantization {
  DType dtype = DType::UInt8;        // Int8, UInt8 or Float8E4M3FN
  std::vector<float> scales = {1};   // one, or one per index of `axis`
  std::vector<int32_t> zeros = {0};  // as many; numbers of `dtype`
  int64_t axis = -1;                 // -1: one scale for the tensor

  bool operator==(const Quantization&) const = default;
  bool is_per_tensor() const { return axis < 0; }
  bool has_floats() const { return dtype == DType::Float8E4M3FN; }
  // Of the tensor, or of an index of the axis.
  float scale(size_t i = 0) const { return scales[scales.size() == 1 ? 0 : i]; }
  int32_t zero(size_t i = 0) const { return zeros[zeros.size() == 1 ? 0 : i]; }
};

// Whether numbers on both are of one type, or neither is a grid.
bool same_kind(const std::optional<Quantization>& a, const std::optional<Quantization>& b);

// The largest number of E4M3: what is beyond becomes it.
inline constexpr float kMostE4M3 = 448;

// The smallest and the largest integer of Int8 or UInt8.
int32_t lowest_quantum(DType dtype);
int32_t highest_quantum(DType dtype);

// Empty, or why a value of this shape cannot have it.
std::string quantization_error(const Quantization& quantization, const Shape& shape);
// "uint8 scale [0.02] zero [128]", and " axis 0" behind it.
std::string to_string(const Quantization& quantization);

// Floats as numbers of the grid's type (the nearest; half to even; saturated), and these as FP32 numbers. NaN
// becomes the zero point of integers, and stays NaN in E4M3.
Tensor quantize(const Tensor& tensor, const Quantization& quantization);
Tensor dequantize(const Tensor& tensor, const Quantization& quantization);

}  // namespace lathe
