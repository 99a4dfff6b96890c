// SPDX-License-Identifier: Apache-2.0
//
// JSON for headers: its name, and a value as a member. Who looks into one includes base/json.h, which is
// heavy.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace lathe {

using Json = nlohmann::ordered_json;

// A JSON value that does not change; copies share it.
class JsonValue {
 public:
  JsonValue() = default;  // null
  JsonValue(Json json);
  static JsonValue object();  // {}

  const Json& operator*() const;
  const Json* operator->() const { return &**this; }

 private:
  std::shared_ptr<const Json> json_;
};

}  // namespace lathe
