// SPDX-License-Identifier: Apache-2.0
//
// An execution whose activations may lie in memory of the caller. Without it they lie in memory of the
// execution's own, which is taken when the first shapes are set.
#pragma once

#include <cstdint>

namespace lathe {

class CallerMemory {
 public:
  virtual ~CallerMemory() = default;
  // What all shapes of the program need.
  virtual int64_t arena_bytes() const = 0;
  // From the next run on, activations lie at `memory`, of the backend's device and arena_bytes() long. Null:
  // in the execution's own memory again.
  virtual void use_arena(void* memory) = 0;
  // No memory of the execution's own is taken from now on: use_arena() comes in front of each run.
  virtual void expect_arena() = 0;
};

}  // namespace lathe
