// SPDX-License-Identifier: Apache-2.0
//
// The memory of one run's activations, from an allocator of the caller.
#pragma once

#include "backend/program.h"
#include "lathe/allocator.h"

namespace lathe {

// The execution takes no memory of its own from now on. Throws Input where it has memory of its own only.
void expect_run_memory(Execution& execution);

class RunMemory {
 public:
  // `allocator`: null: the execution has memory. `stream`: of the run; null: it is done before this object
  // ends. Throws System where the allocator has no memory.
  RunMemory(v1::Allocator* allocator, Execution& execution, const Stream* stream);
  // Given back in the order of the stream.
  ~RunMemory();
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

 private:
  v1::Allocator* allocator_;
  void* memory_ = nullptr;
  void* stream_ = nullptr;  // null where work runs at once
};

}  // namespace lathe
