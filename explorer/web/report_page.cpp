// SPDX-License-Identifier: Apache-2.0
//
// The JSON stands inside a script element, which "</script" or "<!--" in a layer's name would end or upset. '<' occurs in
// JSON only inside strings, where \u003c means the same; U+2028 and U+2029 are harmless, as the text is parsed as
// JSON and not run.
#include "explorer/web/report_page.h"

#include "base/error.h"

namespace lathe::explorer {
namespace {

constexpr std::string_view kPlaceholder = "@ANALYSIS_JSON@";

void append_escaped(std::string& out, std::string_view json) {
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c == '\n' || c == '\r' ? ' ' : c;  // only between tokens: inside a string they are escaped
    }
  }
}

}  // namespace

std::string fill_template(std::string_view page, std::string_view analysis_json) {
  const size_t at = page.find(kPlaceholder);
  check(at != std::string_view::npos && page.find(kPlaceholder, at + 1) == std::string_view::npos,
        "the report template must contain @ANALYSIS_JSON@ once");
  std::string out;
  out.reserve(page.size() + analysis_json.size() + analysis_json.size() / 16);
  out += page.substr(0, at);
  append_escaped(out, analysis_json);
  out += page.substr(at + kPlaceholder.size());
  return out;
}

std::string report_page(std::string_view analysis_json) {
  if (report_template().empty()) {
    throw_input_error(
        "This build of Lathe carries no report page, because npm's registry was out of reach when it was "
        "built. "
        "Run `tools/setup-web.sh page` and build again; text and JSON output work without it.");
  }
  return fill_template(report_template(), analysis_json);
}

}  // namespace lathe::explorer
