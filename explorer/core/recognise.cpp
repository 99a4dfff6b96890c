// SPDX-License-Identifier: Apache-2.0
//
// Which file is this? By content: names are conventions that scripts break.
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/out_of_memory.h"
#include "explorer/core/readers.h"

namespace lathe::explorer {
namespace {

constexpr std::string_view kKnown =
    "layer information (--exportLayerInfo), a profile (--exportProfile), times (--exportTimes), a trtexec "
    "log, metadata made from one, clocks and power of a run, times of its layers run by run, "
    "the result of `lathe diff --json`, or a model's nodes (`lathe inspect --graph`)";

bool looks_like_log(const std::string& text) {
  return text.find("=== ") != std::string::npos &&
         (text.find("[I]") != std::string::npos || text.find("&&&& ") != std::string::npos);
}

FileKind kind_of_object(const Json& json, const std::string& name) {
  if (json.contains("Layers")) return FileKind::Layers;
  for (const char* key : {"performance_summary", "build_options", "model_options"}) {
    if (json.contains(key)) return FileKind::Metadata;
  }
  if (json.contains("layers") && json.contains("outputs") && json.contains("threshold"))
    return FileKind::Accuracy;
  if (json.value("schema", Json()) == "lathe-hardware") return FileKind::Hardware;
  if (json.value("schema", Json()) == "lathe-model") return FileKind::Model;
  if (json.value("schema", Json()) == "lathe-layer-runs") return FileKind::LayerRuns;
  if (json.value("schema", Json()) == "lathe-analysis") {
    throw_input_error(name +
                      ": this is an analysis, the result of `lathe explore --json`; give the layer "
                      "information that it was made from");
  }
  std::string keys;
  for (const auto& [key, value] : json.items()) {
    if (keys.size() < 120) keys += (keys.empty() ? "" : ", ") + key;
  }
  throw_input_error(fmt::format("{}: an object with the keys {} is none of the files that explore reads: {}",
                                name, keys.empty() ? "(none)" : keys, kKnown));
}

FileKind kind_of_list(const Json& json, const std::string& name) {
  for (const auto& item : json) {
    if (item.is_string()) break;
    if (!item.is_object()) continue;
    if (item.contains("latencyMs")) return FileKind::Times;
    if (item.contains("LayerType")) return FileKind::Layers;
    if (item.contains("name") || item.contains("count")) return FileKind::Profile;
  }
  if (json.empty()) throw_input_error(name + ": an empty list: nothing was measured");
  throw_input_error(
      fmt::format("{}: a list whose items have none of the keys \"name\", \"latencyMs\" or \"LayerType\"; "
                  "explore reads {}",
                  name, kKnown));
}

}  // namespace

InputFile recognise_file(std::string name, std::string text) {
  InputFile file;
  file.name = std::move(name);
  file.text = std::move(text);
  if (file.text.starts_with("\xEF\xBB\xBF")) file.text.erase(0, 3);
  const size_t start = file.text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) throw_input_error(file.name + ": the file is empty");
  const bool json_like = file.text[start] == '{' || file.text[start] == '[';
  // A log line may start with '[', too: its time stamp.
  if (looks_like_log(file.text) && (!json_like || file.text.find("] [I]") != std::string::npos)) {
    file.kind = FileKind::Log;
    return file;
  }
  if (!json_like)
    throw_input_error(
        fmt::format("{}: neither JSON nor a log of trtexec; explore reads {}", file.name, kKnown));
  file.json = parse_foreign_json(file.text, file.name, &file.repaired);
  file.kind =
      file.json->is_object() ? kind_of_object(*file.json, file.name) : kind_of_list(*file.json, file.name);
  return file;
}

InputFile load_file(const std::string& path) {
  size_t bytes = 0;
  const auto what_for = [&] {
    return "reading '" + path + "' of " + std::to_string(bytes) +
           " bytes, which takes up to ten times as much";
  };
  return with_memory_for(what_for, [&] {
    std::error_code unknown;
    bytes = static_cast<size_t>(std::filesystem::file_size(path, unknown));
    return recognise_file(path, read_file(path));
  });
}

}  // namespace lathe::explorer
