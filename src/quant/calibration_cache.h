// SPDX-License-Identifier: Apache-2.0
//
// TensorRT's calibration caches: one line for each tensor with the bits of its scale, the largest magnitude /
// 127.
//
//   TRT-8601-EntropyCalibration2
//   input: 3c010a14
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "quant/observer.h"

namespace lathe {

using TensorScales = std::map<std::string, float, std::less<>>;

bool is_calibration_cache(std::string_view text);
// Throws Input with the line when it is none, or a scale is no positive number. `file` is named.
TensorScales parse_calibration_cache(std::string_view text, const std::string& file);
std::string calibration_cache_text(const TensorScales& scales, CalibrationMethod method);

}  // namespace lathe
