// SPDX-License-Identifier: Apache-2.0
#include "quant/calibration_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace lathe {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_calibration_cache(text, "a.cache");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CalibrationCache, ReadsWhatTensorRtWrites) {
  const auto scales = parse_calibration_cache(
      "TRT-8601-EntropyCalibration2\r\ninput: 3c010a14\r\n(Unnamed Layer* 1) [Convolution]: output: "
      "3f800000\n",
      "a.cache");
  ASSERT_EQ(scales.size(), 2u);
  EXPECT_FLOAT_EQ(scales.at("input"), 0.007875938f);
  EXPECT_EQ(scales.at("(Unnamed Layer* 1) [Convolution]: output"), 1);
}

TEST(CalibrationCache, ThereAndBack) {
  const TensorScales scales = {{"a:0", 0.125f}, {"b", 3e-5f}};
  const std::string text = calibration_cache_text(scales, CalibrationMethod::Max);
  EXPECT_TRUE(is_calibration_cache(text));
  EXPECT_EQ(parse_calibration_cache(text, "a.cache"), scales);
}

TEST(CalibrationCache, Errors) {
  EXPECT_NE(error_of("input: 3c010a14\n").find("a.cache: no calibration cache of TensorRT"),
            std::string::npos);
  EXPECT_NE(error_of("TRT-8601-MinMaxCalibration\n").find("has no tensor"), std::string::npos);
  for (const char* line :
       {"input", "input: 3c010a1g", "input: 00000000", "input: 7fc00000", "input: bc010a14"})
    EXPECT_NE(error_of(std::string("TRT-8601-MinMaxCalibration\n") + line)
                  .find("a.cache, line 2: expected a tensor's"),
              std::string::npos)
        << line;
}

}  // namespace
}  // namespace lathe
