// SPDX-License-Identifier: Apache-2.0
//
// Which tactics of a layer are considered, and what an untimed one is expected to cost.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "base/observer.h"
#include "tune/level.h"

namespace lathe {

// What the tactic computes in: the type of its first operand of floats that is no packed constant, else of
// its result.
DType compute_type(const Tactic& tactic);

// Supported tactics in the backend's order, at most `effort.max_tactics`, but at least one for each
// combination of types and formats that is among the level's. Refused ones are told to the observer with
// their reason. Throws Input when there is none, with all reasons, or none with types that must be.
std::vector<Tactic> considered_tactics(const Backend& backend, const LayerQuery& query,
                                       const TuneOptions& options, const Effort& effort, Observer& observer);

// Expected milliseconds: what the tactic's family expects, else a rough roofline and a little more for each
// place behind the first. A family that expects something is one of those that all do for such a layer. It
// orders tactics and weighs them against reformats when nothing is timed (level 0, no time left); it never
// meets a measured time of the same layer.
double estimated_ms(const TuningTraits& traits, const LayerQuery& query, const Tactic& tactic, size_t rank);

// The order in which tactics are worth timing: each runner's best guess for each combination of types and
// formats first, then the second ones, so that a limit or the end of the time costs every runner alike.
std::vector<size_t> timing_order(const std::vector<Tactic>& tactics);

}  // namespace lathe
