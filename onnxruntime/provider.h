// SPDX-License-Identifier: Apache-2.0
//
// The execution provider of one session.
#pragma once

#include <memory>

#include "compiled_graph.h"

namespace lathe::onnxruntime_ep {

inline constexpr char kProviderName[] = "LatheExecutionProvider";

// The library's log lines, in the session's log.
class SessionLogger final : public v1::Logger {
 public:
  explicit SessionLogger(const OrtLogger* logger) : logger_(logger) {}
  void log(v1::Severity severity, std::string_view text) override;

 private:
  const OrtLogger* logger_;
};

struct Provider : OrtEp {
  // Throws when an option is wrong.
  Provider(const OrtSessionOptions& session, const OrtLogger* session_logger);

  SessionLogger logger;
  EngineMaker maker;
};

}  // namespace lathe::onnxruntime_ep
