// SPDX-License-Identifier: Apache-2.0
//
// Errors that teach. Three kinds, never mixed: the input is wrong or unsupported, we have a bug, or the
// system (device, file, memory) failed. Code on the way up adds context ("while importing node X"); the
// original message stays last, so a user reads from the general to the particular.
#pragma once

#include <exception>
#include <source_location>
#include <string>
#include <string_view>

namespace lathe {

enum class ErrorKind {  // numbered as in lathe/types.h, which has one more
  Input,                // the model, file or option is wrong or not supported: the user can act on it
  Internal,             // an invariant of ours does not hold: a bug
  System,               // a file, device or allocation failed
};

// What failed, for programs that go on differently for each: the codes and numbers of TensorRT's ErrorCode,
// and one more. lathe/types.h says what each means.
enum class ErrorCode {
  Success,
  UnspecifiedError,
  InternalError,
  InvalidArgument,
  InvalidConfig,
  FailedAllocation,
  FailedInitialization,
  FailedExecution,
  FailedComputation,
  InvalidState,
  UnsupportedState,
  NotOnThisHardware,
};
// Of errors that say no more than their kind.
ErrorCode code_of(ErrorKind kind);

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);
  Error(ErrorKind kind, ErrorCode code, std::string message);

  ErrorKind kind() const { return kind_; }
  ErrorCode code() const { return code_; }
  // Context first, then the original message, joined by ": ".
  const char* what() const noexcept override { return text_.c_str(); }
  // The same in parts: what was wrong, and the context, from the general to the particular; empty when there
  // is none.
  const std::string& message() const { return message_; }
  const std::string& context() const { return context_; }
  // The node of the model that the error is about and its operator; empty when it is about none, or about
  // many.
  const std::string& node() const { return node_; }
  const std::string& op_type() const { return op_type_; }
  // Says which node that is, unless somebody deeper has.
  Error& set_node(std::string_view name, std::string_view op_type);
  // Puts a line of context before everything said so far. Returns *this, so that a catch block can
  // write `error.add_context("while importing node X"); throw;`.
  Error& add_context(std::string_view context);

 private:
  ErrorKind kind_;
  ErrorCode code_;
  std::string message_, context_, text_, node_, op_type_;
};

[[noreturn]] void throw_input_error(std::string message, ErrorCode code = ErrorCode::InvalidArgument);
[[noreturn]] void throw_system_error(std::string message, ErrorCode code = ErrorCode::FailedExecution);

// An invariant of ours. Stays on in release builds, so keep it out of inner loops.
void check(bool condition, std::string_view message,
           std::source_location where = std::source_location::current());

}  // namespace lathe
