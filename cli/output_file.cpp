// SPDX-License-Identifier: Apache-2.0
#include "output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

std::string problem_of(const fs::path& file, WriteMode mode) {
  std::error_code ignored;
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const fs::file_status status = fs::status(file, ignored);
  if (fs::is_directory(status)) return "it is a folder";
  if (!fs::is_directory(folder, ignored)) return "there is no folder " + folder.string();
  const bool stays = fs::exists(status) && (mode == WriteMode::InPlace || !fs::is_regular_file(status));
  if (stays) return access(file.c_str(), W_OK) == 0 ? "" : "it is not writable";
  return access(folder.c_str(), W_OK) == 0 ? ""
                                           : fmt::format("the folder {} is not writable", folder.string());
}

}  // namespace

std::string why_unwritable(const std::string& file, WriteMode mode) {
  if (file.empty()) return "";
  const std::string problem = problem_of(file, mode);
  return problem.empty() ? "" : fmt::format("{} cannot be written: {}", file, problem);
}

void require_writable(const std::string& file, WriteMode mode) {
  if (file == "-") return;
  if (const std::string reason = why_unwritable(file, mode); !reason.empty()) throw_input_error(reason);
}

void require_new_file(const std::string& file, const std::string& example, bool may_replace) {
  if (file.empty()) throw_input_error("-o names the file to write: -o " + example);
  std::error_code ignored;
  if (!may_replace && fs::exists(file, ignored)) throw_input_error(file + " exists: --force overwrites it");
  require_writable(file);
}

}  // namespace lathe::cli
