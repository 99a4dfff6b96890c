// SPDX-License-Identifier: Apache-2.0
//
// trtexec's help: sections in trtexec's layout, made from the flag table, and examples to copy.
#include <fmt/format.h>

#include <utility>

#include "arguments/flag.h"
#include "arguments/help_text.h"

namespace lathe::cli {
namespace {

constexpr size_t kColumn = 30;  // where descriptions begin
constexpr size_t kWidth = 116;

constexpr std::string_view kExamples = R"(=== Examples ===
  trtexec --onnx=model.onnx
                              build for the model's own shapes, run, report
  trtexec --onnx=model.onnx --saveEngine=model.engine --timingCacheFile=model.cache \
          --minShapes=input:1x3x224x224 --optShapes=input:8x3x224x224 --maxShapes=input:32x3x224x224
                              one engine for batches 1 to 32, tuned for 8; the cache makes the next build fast
  trtexec --loadEngine=model.engine --shapes=input:8x3x224x224 --dumpProfile --separateProfileRun
                              run the engine and show where the time goes
  trtexec --loadEngine=model.engine --loadInputs=input:x.npy --exportOutput=y.json
                              run with values of your own

  A model to try: `lathe zoo resnet50 -o resnet50.onnx`. Names and shapes of inputs: `lathe inspect model.onnx`.
)";

std::string flag_text(const Flag& flag) {
  return flag_line(std::string(flag.name) + (flag.value.empty() ? "" : "=" + std::string(flag.value)),
                   flag.help);
}

}  // namespace

std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string result;
  size_t column = indent;
  while (!text.empty()) {
    const auto blank = text.find(' ');
    const auto word = text.substr(0, blank);
    text = blank == std::string_view::npos ? std::string_view() : text.substr(blank + 1);
    if (column > indent && column + 1 + word.size() > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string flag_line(std::string_view name_and_value, std::string_view help) {
  std::string text = "  " + std::string(name_and_value);
  text +=
      text.size() + 1 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - text.size(), ' ');
  return text + wrapped(help, kColumn, kWidth) + "\n";
}

std::vector<std::pair<Section, std::string_view>> section_titles() {
  return {{Section::Model, "Model"},         {Section::Build, "Build"},   {Section::Inference, "Inference"},
          {Section::Reporting, "Reporting"}, {Section::System, "System"}, {Section::Lathe, "Lathe"}};
}

std::string_view trtexec_examples() {
  return kExamples.substr(kExamples.find('\n') + 1);
}

std::string help_text() {
  const auto flags = all_flags();
  std::string text;
  for (const auto& [section, title] : section_titles()) {
    text += fmt::format("=== {} Options ===\n", title);
    for (const auto& flag : flags) {
      if (flag.section == section && !flag.help.empty()) text += flag_text(flag);
    }
    text += "\n";
  }
  text += "=== Help ===\n" + flag_text({Section::Help, "--help, -h", "", "print this text", nullptr}) +
          flag_text({Section::Help, "--version", "", "print the version", nullptr}) + "\n";
  text += kExamples;
  return text;
}

}  // namespace lathe::cli
