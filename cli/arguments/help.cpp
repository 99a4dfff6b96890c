// SPDX-License-Identifier: Apache-2.0
//
// trtexec's help: sections in trtexec's layout, made from the flag table, and examples to copy.
#include <fmt/format.h>

#include <utility>

#include "arguments/flag.h"

namespace lathe::cli {
namespace {

constexpr size_t kColumn = 30;  // where descriptions begin
constexpr size_t kWidth = 116;

// "  --flag=<value>            description", wrapped under itself.
std::string flag_text(const Flag& flag) {
  std::string text =
      "  " + std::string(flag.name) + (flag.value.empty() ? "" : "=" + std::string(flag.value));
  size_t column = text.size();
  if (column + 1 > kColumn) {
    text += "\n";
    column = 0;
  }
  text += std::string(kColumn - column, ' ');
  column = kColumn;
  std::string_view rest = flag.help;
  while (!rest.empty()) {
    const auto blank = rest.find(' ');
    const auto word = rest.substr(0, blank);
    rest = blank == std::string_view::npos ? std::string_view() : rest.substr(blank + 1);
    if (column > kColumn && column + 1 + word.size() > kWidth) {
      text += "\n" + std::string(kColumn, ' ');
      column = kColumn;
    }
    if (column > kColumn) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
  }
  return text + "\n";
}

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

}  // namespace

std::string help_text() {
  constexpr std::pair<Section, std::string_view> kTitles[] = {
      {Section::Model, "Model"},         {Section::Build, "Build"},   {Section::Inference, "Inference"},
      {Section::Reporting, "Reporting"}, {Section::System, "System"}, {Section::Lathe, "Lathe"}};
  const auto flags = all_flags();
  std::string text;
  for (const auto& [section, title] : kTitles) {
    text += fmt::format("=== {} Options ===\n", title);
    for (const auto& flag : flags) {
      if (flag.section == section && !flag.help.empty()) text += flag_text(flag);
    }
    text += "\n";
  }
  text += "=== Help ===\n" + flag_text({Section::Help, "--help, -h", "", "print this text", nullptr}) + "\n";
  text += kExamples;
  return text;
}

}  // namespace lathe::cli
