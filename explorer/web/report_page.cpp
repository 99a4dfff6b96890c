// SPDX-License-Identifier: Apache-2.0
//
// The JSON stands inside a script element, which "</script" or "<!--" in a layer's name would end or upset.
// '<' occurs in JSON only inside strings, where \u003c means the same; U+2028 and U+2029 are harmless, as the
// text is parsed as JSON and not run. Ten thousand layers are some 17 MB of JSON, which no mail server takes,
// and 1 MB compressed: above a limit the text goes in as gzip in base64, which every browser since 2023
// unpacks by itself. Below it the JSON stays readable, for people and for scripts that look for it.
#include "explorer/web/report_page.h"

#include <zlib.h>

#include <limits>

#include "base/error.h"

namespace lathe::explorer {
namespace {

constexpr std::string_view kPlaceholder = "@ANALYSIS_JSON@";
constexpr size_t kCompressFrom = size_t{4} << 20;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, with gzip's header

void append_escaped(std::string& out, std::string_view json) {
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c == '\n' || c == '\r' ? ' ' : c;  // only between tokens: inside a string they are escaped
    }
  }
}

std::string gzip(std::string_view text) {
  check(text.size() <= std::numeric_limits<uInt>::max(), "an analysis over 4 GB does not fit into a page");
  z_stream stream = {};
  check(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib refused to start");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib's interface predates const
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  check(result == Z_STREAM_END, "zlib did not finish");
  return out;
}

void append_base64(std::string& out, std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&](size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U; };
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const unsigned group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out += kDigits[group >> 18];
    out += kDigits[group >> 12 & 63];
    out += i + 1 < bytes.size() ? kDigits[group >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
  }
}

}  // namespace

std::string fill_template(std::string_view page, std::string_view analysis_json) {
  const size_t at = page.find(kPlaceholder);
  check(at != std::string_view::npos && page.find(kPlaceholder, at + 1) == std::string_view::npos,
        "the report template must contain @ANALYSIS_JSON@ once");
  std::string out;
  out += page.substr(0, at);
  if (analysis_json.size() >= kCompressFrom) {
    append_base64(out, gzip(analysis_json));
  } else {
    append_escaped(out, analysis_json);
  }
  out += page.substr(at + kPlaceholder.size());
  return out;
}

void require_report_page() {
  if (!report_template().empty()) return;
  throw_input_error(
      "This build of Lathe carries no report page: npm's packages for it were not there when it was built. "
      "Run "
      "`tools/setup-web.sh page` (it says so when npm's registry is out of reach), then configure and build "
      "again "
      "(`make build` does all three); text and JSON output work without it.");
}

std::string report_page(std::string_view analysis_json) {
  require_report_page();
  return fill_template(report_template(), analysis_json);
}

}  // namespace lathe::explorer
