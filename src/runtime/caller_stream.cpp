// SPDX-License-Identifier: Apache-2.0
#include "runtime/caller_stream.h"

#include "backend/caller_streams.h"
#include "base/error.h"

namespace lathe {

Stream& CallerStreamRuns::begin(void* handle) {
  if (stream_ != nullptr && handle == handle_) return *stream_;
  const auto* streams = dynamic_cast<const CallerStreams*>(backend_);
  if (streams == nullptr)
    throw_input_error("a CUDA stream was given, but the engine runs on " + backend_->target().description);
  std::unique_ptr<Stream> next = streams->borrow_stream(handle);
  if (done_ == nullptr) done_ = backend_->create_event();
  if (is_pending_) backend_->make_wait(*next, *done_);
  stream_ = std::move(next);
  handle_ = handle;
  return *stream_;
}

void CallerStreamRuns::end() {
  done_->record(*stream_);
  is_pending_ = true;
}

void CallerStreamRuns::finish() {
  if (is_pending_) done_->synchronize();
  is_pending_ = false;
}

}  // namespace lathe
