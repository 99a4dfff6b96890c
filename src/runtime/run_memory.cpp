// SPDX-License-Identifier: Apache-2.0
#include "runtime/run_memory.h"

#include <string>

#include "backend/caller_memory.h"
#include "backend/caller_streams.h"
#include "base/error.h"

namespace lathe {

void expect_run_memory(Execution& execution) {
  auto* const runs = dynamic_cast<CallerMemory*>(&execution);
  if (runs == nullptr) throw_input_error("the backend's executions have memory of their own only");
  runs->expect_arena();
}

RunMemory::RunMemory(v1::Allocator* allocator, Execution& execution, const Stream* stream)
    : allocator_(allocator) {
  constexpr size_t kAlignment = 256;
  auto* const runs = dynamic_cast<CallerMemory*>(&execution);
  if (allocator == nullptr || runs == nullptr || runs->arena_bytes() == 0) return;
  if (const auto* native = dynamic_cast<const NativeStream*>(stream)) stream_ = native->native_handle();
  const auto bytes = static_cast<size_t>(runs->arena_bytes());
  memory_ = allocator->allocate(bytes, kAlignment, stream_);
  const auto refuse = [&](const std::string& what) {
    throw_system_error("the allocator of the context " + what + ": " + std::to_string(bytes) +
                           " bytes at a multiple of " + std::to_string(kAlignment) +
                           " were asked for, for the activations of a run",
                       ErrorCode::FailedAllocation);
  };
  if (memory_ == nullptr) refuse("has no memory");
  if (reinterpret_cast<uintptr_t>(memory_) % kAlignment != 0) {
    allocator->deallocate(memory_, stream_);
    refuse("gave memory that is not aligned");
  }
  runs->use_arena(memory_);
}

RunMemory::~RunMemory() {
  if (memory_ != nullptr) allocator_->deallocate(memory_, stream_);
}

}  // namespace lathe
