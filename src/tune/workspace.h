// SPDX-License-Identifier: Apache-2.0
//
// The workspace limit: a tactic that needs more scratch memory is refused. Only tactics that are about to be
// chosen are asked, since the answer costs as much as making the layer.
#pragma once

#include <map>
#include <string>

#include "backend/backend.h"

namespace lathe {

class WorkspaceLimit {
 public:
  // `bytes` < 0: there is no limit.
  WorkspaceLimit(const Backend& backend, int64_t bytes) : backend_(backend), bytes_(bytes) {}

  // Why the tactic may not run; empty when it may.
  std::string refusal(const LayerQuery& query, const Tactic& tactic);
  // Some tactic did not say what it needs, so the limit could not be held against it.
  bool unknown() const { return unknown_; }

 private:
  const Backend& backend_;
  const int64_t bytes_;
  bool unknown_ = false;
  std::map<std::string, int64_t> needs_;  // by everything that they depend on
};

}  // namespace lathe
