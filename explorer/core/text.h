// SPDX-License-Identifier: Apache-2.0
//
// The analysis for people without a browser: a terminal summary of 80 columns, Markdown for a pull request, JUnit for a
// build server. All are views of the same data.
#pragma once

#include <string>

#include "explorer/core/comparison.h"

namespace lathe::explorer {

// Summary, slowest layers, bars by type and precision, findings; for several engines the comparison first. `colour`: escape
// sequences, for a terminal only. No line is longer than 80 characters; commands to copy are broken with backslashes.
std::string summary_text(const Analysis& analysis, bool colour);

std::string summary_markdown(const Analysis& analysis);

// One test case per condition of --fail-if, or one that says what was compared.
std::string summary_junit(const Analysis& analysis);

// For Perfetto (ui.perfetto.dev) and chrome://tracing.
std::string trace_json(const Analysis& analysis);

// --- parts that the views share
// "12.3 GFLOP/s", "97.5 MiB"
std::string si_text(double value, const std::string& unit);
std::string binary_text(double bytes);
// At most `width` characters, the middle replaced by "..".
std::string shorten(const std::string& text, size_t width);
// A layer's name in at most `width` characters: whole, or one node's path without its middle and how many nodes more
// it has: "layer.0/../query/MatMul +2". The innermost numbered part stays, as it alone tells repeated blocks apart.
std::string layer_label(const std::string& name, size_t width);
inline constexpr size_t kLabelInText = 60;  // the width of a label in a sentence
// Characters, not bytes.
size_t text_width(const std::string& text);
std::string change_text(const EnginePair& pair);

}  // namespace lathe::explorer
