// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/decimal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace lathe::explorer {
namespace {

constexpr int kPlaces = 18;
__extension__ using Wide = __int128;

// Digits and exponent of the shortest decimal text of a number: 12.5 is 125 and -1.
struct Decimal {
  Wide digits = 0;
  int exponent = 0;
};

Decimal shortest_decimal(double value) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::fabs(value), std::chars_format::scientific).ptr;
  Decimal decimal;
  bool after_point = false;
  const char* c = buffer;
  for (; c != end && *c != 'e'; ++c) {
    if (*c == '.') {
      after_point = true;
      continue;
    }
    decimal.digits = decimal.digits * 10 + (*c - '0');
    if (after_point) --decimal.exponent;
  }
  int exponent = 0;
  if (c != end) {
    ++c;
    if (*c == '+') ++c;
    std::from_chars(c, end, exponent);
  }
  decimal.exponent += exponent;
  if (value < 0) decimal.digits = -decimal.digits;
  return decimal;
}

}  // namespace

ExactSum& ExactSum::add(double value) {
  if (!std::isfinite(value) || std::fabs(value) >= 1e15)
    throw_input_error(fmt::format("{} is not a time that can be added up", value));
  Decimal decimal = shortest_decimal(value);
  for (; decimal.exponent > -kPlaces; --decimal.exponent) decimal.digits *= 10;
  for (; decimal.exponent < -kPlaces; ++decimal.exponent) decimal.digits /= 10;  // below 1e-18: nothing
  units_ += decimal.digits;
  return *this;
}

double ExactSum::value() const {
  Wide rest = units_ < 0 ? -units_ : units_;
  std::string text;
  for (; rest != 0; rest /= 10)
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  if (text.empty()) return 0;
  text += fmt::format("e-{}", kPlaces);
  double result = 0;
  std::from_chars(text.data(), text.data() + text.size(), result);
  return units_ < 0 ? -result : result;
}

double exact_difference(double b, double a) {
  return ExactSum().add(b).subtract(a).value();
}

}  // namespace lathe::explorer
