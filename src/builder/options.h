// SPDX-License-Identifier: Apache-2.0
//
// Everything a build depends on besides the model: one struct, set in one place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/all.h"
#include "passes/pass.h"
#include "plan/plan.h"
#include "tune/timing_cache.h"

namespace lathe {

enum class TimingCacheMode {
  Local,     // used within this build, not stored
  Global,    // read from and merged back into `timing_cache_file`
  Disabled,  // nothing is looked up
};

// What a layer computes in, and the types of its results, by the name of its node in the model; '*' in it
// stands for any text.
struct LayerPrecision {
  std::string layer;
  std::optional<DType> compute;
  std::vector<DType> outputs;  // one for all, or one for each
};

// What LayerPrecision is worth: nothing; as much as there are tactics for; an error where there is none.
enum class PrecisionConstraints { None, Prefer, Obey };

struct BuildOptions {
  // --- what the engine accepts. Empty: one profile made from static shapes, unknown dims are 1.
  std::vector<OptimizationProfile> profiles;

  // --- types that layers may compute in besides the model's own; the faster engine is kept.
  bool bf16 = false, fp16 = false;
  bool best = false;            // all of the above that the device has
  bool strongly_typed = false;  // types come from the model: the flags above have no effect
  std::vector<LayerPrecision> layer_precisions;
  PrecisionConstraints precision_constraints = PrecisionConstraints::Obey;
  bool winograd = true;         // tactics with error_factor > 1, within the error budget
  bool keep_nan = false;        // only tactics that keep NaN (--checkNumerics)
  // Items of the batch at a time, each part on a thread of its own (backend/batch_split.h). 0: the whole
  // batch at once; -1: one, a thread's share, or the whole batch, whatever is faster.
  int64_t batch_part = -1;

  // --- effort
  int optimization_level = 3;       // 0 .. 5
  int max_tactics = -1;             // per layer; -1: the level's default
  int avg_timing = 8;               // repetitions per tactic
  double time_budget_seconds = -1;  // tuning stops here and takes the best so far; -1: the level's default
  std::set<std::string, std::less<>>
      disabled_runners;  // tactic sources that are switched off, by runner name

  // --- timing cache
  TimingCacheMode timing_cache_mode = TimingCacheMode::Local;
  std::filesystem::path timing_cache_file;    // Global
  std::shared_ptr<TimingCache> timing_cache;  // the caller's, used instead of a file when set
  bool error_on_timing_cache_miss = false;

  // --- the rest
  bool fail_on_fallback = false;       // a layer that only the reference can run is an error
  int64_t workspace_limit_bytes = -1;  // of one layer's scratch; tactics that need more are refused; -1: none
  std::stop_token stop;  // asks the build to end: it saves the timing cache and throws Interrupted
  ProfilingVerbosity verbosity = ProfilingVerbosity::LayerNamesOnly;
  bool fast_load = false;  // the engine file has packed weights, too (plan.h)
  // Plugin libraries that the engine file carries; who loads it must say that it is trusted.
  std::vector<std::filesystem::path> plugin_libraries;
  PassOptions passes;
};

}  // namespace lathe
