// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <utility>

namespace lathe {

Error::Error(ErrorKind kind, std::string message) : kind_(kind), text_(std::move(message)) {}

Error& Error::add_context(std::string_view context) {
  text_ = std::string(context) + ": " + text_;
  return *this;
}

void throw_input_error(std::string message) { throw Error(ErrorKind::Input, std::move(message)); }

void throw_system_error(std::string message) { throw Error(ErrorKind::System, std::move(message)); }

void check(bool condition, std::string_view message, std::source_location where) {
  if (condition) return;
  std::string_view file = where.file_name();
  if (const auto src = file.rfind("src/"); src != std::string_view::npos) file.remove_prefix(src);
  throw Error(ErrorKind::Internal, "internal error at " + std::string(file) + ":" + std::to_string(where.line()) +
                                       ": " + std::string(message) + " (this is a bug in Lathe, please report it)");
}

}  // namespace lathe
