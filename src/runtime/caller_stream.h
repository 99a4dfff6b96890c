// SPDX-License-Identifier: Apache-2.0
//
// Runs of one context on streams of its caller, in the order in which they were enqueued: they share the
// context's memory, so a run on another stream than the last one waits for that.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace lathe {

class CallerStreamRuns {
 public:
  explicit CallerStreamRuns(const Backend& backend) : backend_(&backend) {}
  // The caller's stream, for the next run. Throws Input where the backend knows no such streams.
  Stream& begin(void* handle);
  // The run was enqueued.
  void end();
  // Waits for the last run: what comes now is no work of the caller's stream.
  void finish();

 private:
  const Backend* backend_;
  std::unique_ptr<Stream> stream_;
  void* handle_ = nullptr;
  std::unique_ptr<TimeEvent> done_;
  bool is_pending_ = false;
};

}  // namespace lathe
