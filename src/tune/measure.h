// SPDX-License-Identifier: Apache-2.0
//
// Times of tactics, through the timing cache: what is there is not measured, and what is measured is read
// back from there. Says what it does in the events of a TensorRT build log.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "base/observer.h"
#include "tune/level.h"
#include "tune/timing_cache.h"

namespace lathe {

class Measurer {
 public:
  Measurer(const Backend& backend, const TuneOptions& options, const Effort& effort, TimingCache& cache,
           Observer& observer);

  struct Request {
    int repetitions = 8;
    double limit_seconds =
        1;                 // for the layer, preparing included; the first tactics are measured all the same
    bool announce = true;  // tell the observer
    bool again = false;    // races for new times, which take the place of those in the cache
  };
  // Milliseconds per tactic (0 for views); kImpossible where the tactic could not be prepared or there was no
  // time for it. Empty when there was no time for any, or the layer finds an open size. What there was no
  // time for is in the cache as such, so that the answer only depends on the cache once the layer is through.
  std::vector<double> times(const LayerQuery& query, const std::vector<Tactic>& tactics,
                            const Request& request);

  // What the tactic takes now, by a few runs of it alone; kImpossible where it cannot run. The cache is
  // neither asked nor told.
  double current_ms(const LayerQuery& query, const Tactic& tactic) const;

  // A result has a size that the layer finds and that nothing bounds (backend/open_size.h): with made up data
  // that may be anything.
  static bool finds_open_size(const LayerQuery& query);

  // The time is in the cache, or there is nothing to time.
  bool is_known(const LayerQuery& query, const Tactic& tactic) const;
  bool out_of_time() const { return seconds_left() <= 0; }
  double seconds_left() const;
  double seconds_spent() const;

 private:
  struct Result {
    double ms = 0, seconds = 0;
    bool known = false, from_cache = false, untimed = false;
    std::string failure;
    bool refuses_input = false;  // the failure is one of the data or the sizes
  };
  void look_up(const LayerQuery& query, const std::vector<Tactic>& tactics, bool again,
               std::vector<Result>& results);
  void measure(const LayerQuery& query, const std::vector<Tactic>& tactics, const Request& request,
               std::vector<Result>& results);
  static std::optional<size_t> fastest_known(const std::vector<Tactic>& tactics,
                                             const std::vector<Result>& results);
  struct Rival {
    size_t tactic = 0;
    std::unique_ptr<TimedLayer> layer;  // once it is prepared
    bool refuses = false;               // its data
  };
  // Prepares `rivals` where they are not, races them for this share of the time left, and stores what comes
  // out.
  void race(const LayerQuery& query, const std::vector<Tactic>& tactics, std::vector<Rival>& rivals,
            const Request& request, double share, std::vector<Result>& results);
  void leave_untimed(const LayerQuery& query, const Tactic& tactic, Result& result);
  // Where all tactics refused to be prepared, an estimate of each: at the sizes of a run they may well fit.
  void estimate_refused(const LayerQuery& query, const std::vector<Tactic>& tactics,
                        std::vector<Result>& results, bool tell);
  void announce(const LayerQuery& query, const std::vector<Tactic>& tactics,
                const std::vector<Result>& results);

  double left_of(const Request& request) const;

  const Backend& backend_;
  const TuneOptions& options_;
  const Effort& effort_;
  TimingCache& cache_;
  Observer& observer_;
  const TuningTraits traits_;
  const uint64_t target_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double layer_start_ = 0;  // seconds_spent() when the layer's turn came
};

}  // namespace lathe
