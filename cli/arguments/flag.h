// SPDX-License-Identifier: Apache-2.0
//
// The flag table: every name that trtexec 8.0 to 11.4 knows, and our own. One row gives the parser, the help
// text and the documentation. Rows are applied section by section, in order, which decides what is complained
// about first.
//
// A known flag that cannot be honoured is refused when it would change numbers or files, and only warned
// about when it affects speed alone; it is never "unknown".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments/options.h"

namespace lathe::cli {

class NumberError;

enum class Section { Model, Build, System, Inference, Reporting, Lathe, Help };

struct Flag {
  Section section;
  std::string_view name;
  std::string_view value;  // "<file>"; empty: no value
  std::string_view help;   // empty: not in the help text (old names, flags of other devices)
  void (*apply)(Options& options, const std::string& value);
  bool repeatable = false;
  bool value_is_optional = false;
};

std::vector<Flag> model_flags();
std::vector<Flag> shape_flags();  // applied by position (profiles), the rows are for the help text
std::vector<Flag> precision_flags();
std::vector<Flag> build_flags();
std::vector<Flag> inference_flags();
std::vector<Flag> reporting_flags();
std::vector<Flag> system_flags();
std::vector<Flag> lathe_flags();
std::vector<Flag> refused_flags();  // safety, DLA, tuning by build routes
std::vector<Flag> all_flags();

std::string help_text();
// Sections in the order of the help text, with their titles.
std::vector<std::pair<Section, std::string_view>> section_titles();
std::string_view trtexec_examples();

// The text of trtexec's error for a value that is no number: "stoi: --iterations=x needs ...", as its scripts
// expect; for our own flags without the function's name.
std::string trtexec_text(const NumberError& error);

// "cpu", "auto" or the number of a GPU, checked.
std::string parse_device(std::string_view flag, const std::string& text);

// Precision flags choose types while building; a loaded engine has its types.
void refuse_when_building(Options& options, std::string_view flag, std::string_view needs);
void warn_of_no_effect(Options& options, std::string_view flag, std::string_view why);

// A range check with the flag's name in the message.
int bounded_int(std::string_view flag, const std::string& text, int low, int high);
// One of the allowed words; `what` is the word of the message ("profilingVerbosity"). Throws "Unknown <what>:
// X".
std::string one_of(std::string_view what, const std::string& text, const std::vector<std::string>& words);

}  // namespace lathe::cli
