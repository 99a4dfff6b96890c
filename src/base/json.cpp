// SPDX-License-Identifier: Apache-2.0
//
// The two doors to JSON. Depth is limited: nlohmann's parser is iterative, but a document of a million
// brackets would overflow the stack when its tree is destroyed or walked. It is counted before parsing and
// not by the parser's callback: with one, the end of each object walks over all of its siblings before it,
// which is quadratic for lists of objects.
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace lathe {

JsonValue::JsonValue(Json json) : json_(std::make_shared<const Json>(std::move(json))) {}

JsonValue JsonValue::object() {
  return Json::object();
}

const Json& JsonValue::operator*() const {
  static const Json null;
  return json_ ? *json_ : null;
}

namespace {

constexpr int kMaxDepth = 512;

struct Position {
  size_t line = 1, column = 1;
};

Position position_of(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const size_t last_break = before.rfind('\n');
  return {static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1,
          last_break == std::string_view::npos ? before.size() + 1 : before.size() - last_break};
}

// nlohmann's text without its error code and without its own idea of the position.
std::string_view plain_reason(std::string_view what) {
  if (const size_t bracket = what.find("] "); bracket != std::string_view::npos)
    what.remove_prefix(bracket + 2);
  if (what.substr(0, 11) == "parse error") {
    if (const size_t colon = what.find(": "); colon != std::string_view::npos) what.remove_prefix(colon + 2);
  }
  return what;
}

// Brackets open at once outside of strings. In what is no JSON that is as true as the parser gets in it.
bool nests_deeper_than(int most, std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json(std::string_view text, std::string_view source) {
  if (nests_deeper_than(kMaxDepth, text))
    throw_input_error(fmt::format("{}: not valid JSON: nested deeper than {} levels", source, kMaxDepth));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    const Position at = position_of(text, error.byte == 0 ? 0 : error.byte - 1);
    throw_input_error(
        fmt::format("{}:{}:{}: not valid JSON: {}", source, at.line, at.column, plain_reason(error.what())));
  } catch (const Json::exception& error) {  // a number that no type holds
    throw_input_error(fmt::format("{}: not valid JSON: {}", source, plain_reason(error.what())));
  }
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lathe
