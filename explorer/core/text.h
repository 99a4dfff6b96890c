// SPDX-License-Identifier: Apache-2.0
//
// The analysis for people without a browser: a terminal summary, Markdown for a pull request, JUnit for a
// build server. All are views of the same data.
#pragma once

#include <string>

#include "base/short_text.h"
#include "explorer/core/comparison.h"

namespace lathe::explorer {

// Summary, slowest layers, bars by type and precision, findings; for several engines the comparison first.
// `colour`: escape sequences, for a terminal only. No line is longer than `width` characters; commands to
// copy are broken with backslashes.
std::string summary_text(const Analysis& analysis, bool colour, size_t width = 80);

std::string summary_markdown(const Analysis& analysis);

// One test case per condition of --fail-if, or one that says what was compared.
std::string summary_junit(const Analysis& analysis);

// For Perfetto (ui.perfetto.dev) and chrome://tracing.
std::string trace_json(const Analysis& analysis);

// --- parts that the views share
// Three significant digits, never an exponent for what people read: "0.0312", "124", "20500".
std::string three_digits(double value);
// "12.3 ms"
std::string ms_text(double ms);
// "12.3 GFLOP/s", "97.5 MiB"
std::string si_text(double value, const std::string& unit);
std::string binary_text(double bytes);
// A layer's short name, the same everywhere: one node's path without its middle and how many nodes more it
// has: "layer.0/…/query/MatMul +2". The innermost numbered part stays, as it alone tells repeated blocks
// apart.
std::string layer_label(const std::string& name);
// The same in at most `width` characters.
std::string layer_label(const std::string& name, size_t width);
inline constexpr size_t kLabelInText = 60;  // the width of a label in a sentence
std::string change_text(const EnginePair& pair);

}  // namespace lathe::explorer
