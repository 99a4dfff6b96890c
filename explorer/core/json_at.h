// SPDX-License-Identifier: Apache-2.0
//
// A value in a JSON file together with where it is, so that every complaint about a foreign file names file
// and field: "layers.json: Layers[3].Inputs[0].Dimensions: expected a list of integers, found a string
// ("N")".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"

namespace lathe::explorer {

class JsonAt {
 public:
  JsonAt(const Json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  const Json& json() const { return *value_; }
  const std::string& place() const { return place_; }

  // Throws Input when this is no object or has no such key.
  JsonAt at(std::string_view key) const;
  // Nothing when the key is missing or null.
  std::optional<JsonAt> find(std::string_view key) const;
  // Throws Input when this is no list.
  size_t size() const;
  JsonAt item(size_t index) const;

  std::string text() const;
  double number() const;  // finite
  int64_t integer() const;
  std::vector<int64_t> integers() const;

  [[noreturn]] void fail(std::string_view expected) const;

 private:
  const Json* value_;
  std::string place_;
};

// The text of a member that may be absent.
std::string text_or(const JsonAt& at, std::string_view key, std::string otherwise = "");

// Strict JSON; where that fails only because of raw control characters inside strings, which trtexec writes
// for some names, they are escaped and `repaired` is set. Throws Input with file, line and column.
Json parse_foreign_json(const std::string& text, const std::string& file, bool* repaired);

}  // namespace lathe::explorer
