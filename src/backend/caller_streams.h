// SPDX-License-Identifier: Apache-2.0
//
// A backend that enqueues on streams of its caller: those of a CUDA program that Lathe is a part of.
#pragma once

#include <memory>

#include "backend/program.h"

namespace lathe {

// A stream that others than the backend can use.
class NativeStream {
 public:
  virtual ~NativeStream() = default;
  virtual void* native_handle() const = 0;  // the CUstream
};

class CallerStreams {
 public:
  virtual ~CallerStreams() = default;
  // `handle`: a CUstream, which is the same as a cudaStream_t; null is the default stream. It stays the
  // caller's and must outlive the result.
  virtual std::unique_ptr<Stream> borrow_stream(void* handle) const = 0;
};

}  // namespace lathe
