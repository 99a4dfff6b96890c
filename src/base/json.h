// SPDX-License-Identifier: Apache-2.0
//
// JSON, in the order in which it was written. nlohmann-json was chosen because it is strict, packaged
// everywhere and keeps member order; include this header in .cpp files only, it is heavy.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"

// The library converts any number to any integer, also 1e30, which has no defined result. Here that is an
// Input error.
template <class T>
struct nlohmann::adl_serializer<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  template <class AnyJson>
  static void to_json(AnyJson& json, T value) {
    nlohmann::to_json(json, value);
  }
  template <class AnyJson>
  static void from_json(const AnyJson& json, T& value) {
    constexpr double kLimit = 9223372036854775808.0;  // 2^63
    bool fits = true;
    if (json.is_number_unsigned())
      fits = std::in_range<T>(json.template get_ref<const uint64_t&>());
    else if (json.is_number_integer())
      fits = std::in_range<T>(json.template get_ref<const int64_t&>());
    else if (json.is_number_float()) {
      const double number = json.template get_ref<const double&>();
      fits = number >= -kLimit && number < kLimit && std::in_range<T>(static_cast<int64_t>(number));
    }
    if (!fits) lathe::throw_input_error(fmt::format("{} is no integer of {} bytes", json.dump(), sizeof(T)));
    nlohmann::from_json(json, value);
  }
};

namespace lathe {

// Parses strict JSON. Throws an Input error with `source` (a file name), line and column.
Json parse_json(std::string_view text, std::string_view source);
// `indent` < 0: one line. Invalid UTF-8 in strings is replaced, so it never throws for a name.
std::string dump_json(const Json& json, int indent = 2);

}  // namespace lathe
