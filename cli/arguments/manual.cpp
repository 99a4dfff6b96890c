// SPDX-License-Identifier: Apache-2.0
#include "arguments/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "arguments/command_table.h"
#include "arguments/flag.h"
#include "arguments/help_text.h"
#include "arguments/suggest.h"
#include "base/error.h"
#include "base/version.h"

namespace lathe::cli {
namespace {

// Text as roff takes it: dashes that can be copied, and no line that begins with a request.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool starts_line = result.empty() || result.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::string paragraph(std::string_view text) {
  return escaped(wrapped(text, 0, 72)) + "\n";
}

std::string head(std::string_view page, std::string_view summary) {
  std::string upper;
  for (const char c : page) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(
      ".\\\" Made from the program's tables: lathe man {}\n.TH {} 1 {} \"Lathe {}\" \"User Commands\"\n"
      ".SH NAME\n{} \\- {}\n",
      page, upper, release_date(), version(), page, escaped(summary));
}

std::string option_entry(const CommandOption& option) {
  const char* separator = option.name.starts_with("--") ? "=" : " ";
  const std::string value =
      option.value.empty() ? "" : fmt::format("{}\\fI{}\\fR", separator, escaped(option.value));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}", escaped(option.name), value, paragraph(option.help));
}

std::string code_block(std::string_view text) {
  return fmt::format(".EX\n{}.EE\n", escaped(text));
}

// "list the models." as a sentence.
std::string sentence(std::string_view summary) {
  std::string text(summary);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return paragraph(text + ".");
}

std::string command_section(const CommandSyntax& command) {
  std::string text =
      fmt::format(".SS lathe {} {}\n", command.name, escaped(command.arguments)) + sentence(command.summary);
  const auto options = command.flags == TrtexecFlags::All ? command.options : all_options(command);
  for (const auto& option : options) text += option_entry(option);
  if (command.flags == TrtexecFlags::All && command.name != "trtexec")
    text += ".PP\nIt also takes the options of\n.BR trtexec (1).\n";
  std::string notes(command.notes.substr(0, command.notes.find_last_not_of('\n') + 1));
  std::replace(notes.begin(), notes.end(), '\n', ' ');
  if (!notes.empty()) text += ".PP\n" + paragraph(notes);
  return text + ".PP\n" + code_block(command.examples);
}

std::string lathe_page() {
  std::string text =
      head("lathe", "builds and runs inference engines, and shows where the time goes") +
      ".SH SYNOPSIS\n.B lathe\n.I command\n[\\fIarguments\\fR]\n.br\n.B lathe\n.B help\n[\\fIcommand\\fR]\n"
      ".br\n.B lathe \\-\\-version\n.SH DESCRIPTION\n"
      "Lathe turns an ONNX model into the fastest engine for the machine it runs on,\n"
      "runs it, and shows where the time goes. It runs on CPUs and on NVIDIA GPUs.\n.PP\n"
      "An option takes its value behind an equals sign or as the next word.\n.SH COMMANDS\n";
  for (const auto& command : command_table()) text += command_section(command);
  return text +
         ".SH EXIT STATUS\n0 on success, 1 on an error,\n.B lathe diff\nalso when a layer is out of "
         "tolerance;\n"
         ".B lathe explore\nexits with 3 when a condition of\n.B \\-\\-fail\\-if\nholds.\n"
         ".SH SEE ALSO\n.BR trtexec (1)\n";
}

std::string trtexec_page() {
  std::string text =
      head("trtexec", "builds, runs and profiles inference engines") +
      ".SH SYNOPSIS\n.B trtexec\n\\fB\\-\\-onnx=\\fIfile\\fR [\\fIoptions\\fR]\n.br\n.B trtexec\n"
      "\\fB\\-\\-loadEngine=\\fIfile\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n"
      "The command line of TensorRT's trtexec, over Lathe: builds an engine from an\n"
      "ONNX model or loads one, runs it, and prints times. Log lines, reports and exit\n"
      "codes are those of TensorRT 10, so that scripts keep working.\n.PP\n"
      "Values follow an equals sign. Options that only other devices have are known,\n"
      "and answered with a reason.\n"
      ".SH OPTIONS\n";
  const auto flags = all_flags();
  for (const auto& [section, title] : section_titles()) {
    text += fmt::format(".SS {}\n", title);
    for (const auto& flag : flags) {
      if (flag.section == section && !flag.help.empty())
        text += option_entry({flag.name, flag.value, flag.help});
    }
  }
  return text + ".SS Help\n" + option_entry({"--help", "", "print the options"}) +
         option_entry({"--version", "", "print the version"}) +
         ".SH EXIT STATUS\n0 when everything was done, 1 otherwise.\n.SH EXAMPLES\n" +
         code_block(trtexec_examples()) + ".SH SEE ALSO\n.BR lathe (1)\n";
}

}  // namespace

std::string manual_page(std::string_view page) {
  if (page == "lathe") return lathe_page();
  if (page == "trtexec") return trtexec_page();
  const std::string hint = suggestion(page, {"lathe", "trtexec"});
  throw_input_error(fmt::format("no page {}: {}", page, hint.empty() ? "there is lathe and trtexec" : hint));
}

}  // namespace lathe::cli
