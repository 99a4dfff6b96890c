// SPDX-License-Identifier: Apache-2.0
//
// JSON, in the order in which it was written. nlohmann-json was chosen because it is strict, packaged everywhere
// and keeps member order; include this header in .cpp files only, it is heavy.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lathe {

using Json = nlohmann::ordered_json;

// Parses strict JSON. Throws an Input error with `source` (a file name), line and column.
Json parse_json(std::string_view text, std::string_view source);
// `indent` < 0: one line. Invalid UTF-8 in strings is replaced, so it never throws for a name.
std::string dump_json(const Json& json, int indent = 2);

}  // namespace lathe
