// SPDX-License-Identifier: Apache-2.0
#include "profile_engine.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/interrupted.h"
#include "base/json.h"
#include "interrupt.h"
#include "run_state.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// The [E] lines of a log without their stamps; the last line of a log that has none.
std::string error_lines(const std::string& log) {
  std::string text, last;
  size_t start = 0;
  while (start < log.size()) {
    const size_t end = std::min(log.find('\n', start), log.size());
    const std::string line = log.substr(start, end - start);
    if (const size_t mark = line.find("] [E] "); mark != std::string::npos)
      text += (text.empty() ? "" : "; ") + line.substr(mark + 6);
    if (!line.empty()) last = line;
    start = end + 1;
  }
  return text.empty() ? last : text;
}

bool has_flag(const Words& words, std::string_view name) {
  for (const auto& word : words) {
    if (word.substr(0, word.find('=')) == name) return true;
  }
  return false;
}

}  // namespace

void run_trtexec_logged(const Words& words, const fs::path& log_file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(log_file.c_str(), "w"), std::fclose);
  if (file == nullptr) throw_system_error(fmt::format("{} cannot be written", log_file.string()));
  const int code = run_trtexec("lathe trtexec", words, file.get());
  std::fflush(file.get());
  if (interrupt_signal() != 0) throw Interrupted();
  if (code != 0) throw_input_error(error_lines(read_file(log_file)));
}

bool ran_on_gpu(const fs::path& log_file) {
  const auto log = explorer::read_log(explorer::load_file(log_file.string()));
  const auto* device = log.find("Device Information");
  if (device == nullptr) return false;
  for (const auto& [key, value] : *device) {
    if (key == "Selected Device ID") return value != "cpu";
  }
  return false;
}

std::vector<explorer::InputFile> profile_engine(const std::string& engine, const Words& run_flags) {
  const TemporaryFolder folder("lathe-explore");
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  Words words = {"--loadEngine=" + engine,
                 "--profilingVerbosity=detailed",
                 "--separateProfileRun",
                 "--exportLayerInfo=" + path("layers.json"),
                 "--exportProfile=" + path("profile.json"),
                 "--exportTimes=" + path("times.json")};
  words.insert(words.end(), run_flags.begin(), run_flags.end());
  if (!has_flag(run_flags, "--noDataTransfers")) words.emplace_back("--noDataTransfers");
  try {
    RunState state;
    for (const auto& word : run_flags) {
      if (word.starts_with("--device=")) state.device = word.substr(9);
    }
    const fs::path log = folder.path() / "run.log";
    const Json hardware = watch_run(state, [&] {
      run_trtexec_logged(words, log);
      return ran_on_gpu(log);
    });
    write_file_atomically(path("hardware.json"), dump_json(hardware));
  } catch (Error& error) {
    error.add_context("while profiling " + engine);
    throw;
  }
  std::vector<explorer::InputFile> files;
  const std::string name = fs::path(engine).filename().string();
  for (const char* part : {"layers.json", "profile.json", "times.json", "run.log", "hardware.json"}) {
    files.push_back(explorer::recognise_file(fmt::format("{}.{}", name, part), read_file(path(part))));
  }
  return files;
}

}  // namespace lathe::cli
