// SPDX-License-Identifier: Apache-2.0
//
// What all oneDNN families share. oneDNN is called on partitions that we make, so it must never start threads
// of its own: Debian's build uses OpenMP, whose thread count belongs to the calling thread.
// SingleThreadedOneDnn sets it to one and restores it, because the caller's thread is the user's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// "2.6.3"
std::string onednn_version();
// Lets oneDNN use at most `isa`. Once per process: throws Input when it was called with another level before.
void cap_onednn_isa(Isa isa);

// What a family lists for a layer that none of its variants can run.
std::vector<Tactic> refused_tactic(const LayerQuery& query, std::string_view runner, std::string name,
                                   const std::string& reason);

// The pairs of types that its products and convolutions have kernels for.
bool onednn_computes(DType source, DType result, const Machine& machine);

class SingleThreadedOneDnn {
 public:
  SingleThreadedOneDnn();
  ~SingleThreadedOneDnn();
  SingleThreadedOneDnn(const SingleThreadedOneDnn&) = delete;
  SingleThreadedOneDnn& operator=(const SingleThreadedOneDnn&) = delete;

 private:
  int before_ = 1;
};

}  // namespace lathe::cpu
