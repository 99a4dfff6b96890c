// SPDX-License-Identifier: Apache-2.0
//
// The explorer's report as one HTML file: the page that build.mjs made, which this binary carries, with an
// analysis put into it (docs/schema/README.md, "The page").
#pragma once

#include <string>
#include <string_view>

namespace lathe::explorer {

// The page without data; empty in a build without npm (tools/setup-web.sh).
std::string_view report_template();

// Throws an input error that says what to do when this build carries no page. For callers with much to do
// before they have an analysis.
void require_report_page();

// A file that any browser opens, from the JSON text of an analysis. Throws an input error when this build
// carries no page.
std::string report_page(std::string_view analysis_json);

// The same with a template of the caller's.
std::string fill_template(std::string_view page, std::string_view analysis_json);

}  // namespace lathe::explorer
