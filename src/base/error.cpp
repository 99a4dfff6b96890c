// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <utility>

namespace lathe {
namespace {

// Control characters, which the names in a damaged file may hold, as \n or \x1b, so that an error is one
// line; only a list begins lines of its own, each with two spaces.
std::string in_one_line(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool list_entry = c == '\n' && text.substr(i + 1).starts_with("  ");
    if ((c >= ' ' && c != 0x7f) || list_entry)
      result += text[i];
    else if (c == '\n')
      result += "\\n";
    else
      result += {'\\', 'x', kDigits[c / 16], kDigits[c % 16]};
  }
  return result;
}

}  // namespace

ErrorCode code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Input:
      return ErrorCode::InvalidArgument;
    case ErrorKind::Internal:
      return ErrorCode::InternalError;
    case ErrorKind::System:
      return ErrorCode::FailedExecution;
  }
  return ErrorCode::UnspecifiedError;
}

Error::Error(ErrorKind kind, std::string message) : Error(kind, code_of(kind), std::move(message)) {}

Error::Error(ErrorKind kind, ErrorCode code, std::string message)
    : kind_(kind), code_(code), message_(in_one_line(message)), text_(message_) {}

Error& Error::add_context(std::string_view context) {
  context_ = in_one_line(context) + (context_.empty() ? "" : ": " + context_);
  text_ = context_ + ": " + message_;
  return *this;
}

Error& Error::set_node(std::string_view name, std::string_view op_type) {
  if (!node_.empty()) return *this;
  node_ = in_one_line(name);
  op_type_ = in_one_line(op_type);
  return *this;
}

void throw_input_error(std::string message, ErrorCode code) {
  throw Error(ErrorKind::Input, code, std::move(message));
}

void throw_system_error(std::string message, ErrorCode code) {
  throw Error(ErrorKind::System, code, std::move(message));
}

void check(bool condition, std::string_view message, std::source_location where) {
  if (condition) return;
  std::string_view file = where.file_name();
  if (const auto src = file.rfind("src/"); src != std::string_view::npos) file.remove_prefix(src);
  throw Error(ErrorKind::Internal, "internal error at " + std::string(file) + ":" +
                                       std::to_string(where.line()) + ": " + std::string(message) +
                                       " (this is a bug in Lathe, please report it)");
}

}  // namespace lathe
