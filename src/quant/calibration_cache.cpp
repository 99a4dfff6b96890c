// SPDX-License-Identifier: Apache-2.0
#include "quant/calibration_cache.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace lathe {
namespace {

constexpr std::string_view kStart = "TRT-";

// Takes the first line, without its end and the carriage return of other systems.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Of "name: 3c010a14"; NaN when it is none.
std::pair<std::string_view, float> tensor_of(std::string_view line) {
  const size_t colon = line.rfind(": ");
  if (colon == std::string_view::npos) return {line, std::nanf("")};
  const std::string_view digits = line.substr(colon + 2);
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return {line.substr(0, colon), whole ? std::bit_cast<float>(bits) : std::nanf("")};
}

}  // namespace

bool is_calibration_cache(std::string_view text) {
  return text.starts_with(kStart);
}

TensorScales parse_calibration_cache(std::string_view text, const std::string& file) {
  if (!is_calibration_cache(text))
    throw_input_error(
        file + ": no calibration cache of TensorRT: its first line is like TRT-8601-EntropyCalibration2");
  take_line(text);
  TensorScales scales;
  for (int number = 2; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    const auto [name, scale] = tensor_of(line);
    if (!std::isnormal(scale) || scale < 0)
      throw_input_error(
          fmt::format("{}, line {}: expected a tensor's name and the bits of a positive FP32 number, like "
                      "'input: 3c010a14'",
                      file, number));
    scales[std::string(name)] = scale;
  }
  if (scales.empty()) throw_input_error(file + ": the calibration cache has no tensor");
  return scales;
}

std::string calibration_cache_text(const TensorScales& scales, CalibrationMethod method) {
  std::string text = method == CalibrationMethod::Entropy ? "TRT-8601-EntropyCalibration2\n"
                                                          : "TRT-8601-MinMaxCalibration\n";
  for (const auto& [name, scale] : scales)
    text += fmt::format("{}: {:08x}\n", name, std::bit_cast<uint32_t>(scale));
  return text;
}

}  // namespace lathe
