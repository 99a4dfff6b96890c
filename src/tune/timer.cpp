// SPDX-License-Identifier: Apache-2.0
//
// Successive halving: rivals leave when their best run so far is behind the leader's by a factor that shrinks
// with the number of runs. The factors are wide compared with the noise of a minimum of few runs (a few
// percent on a quiet machine; up to 2x for single runs where other processes hold the cores), so a rival that
// could win is not lost. A single run may also take a whole slice of another process, a hundred times what a
// short layer takes: a rival leaves after several runs, or when no slice can have made the difference, and a
// leader whose best run is far below its score runs on.
#include "tune/timer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/interrupted.h"
#include "base/stopwatch.h"
#include "tune/running_percentile.h"

namespace lathe {
namespace {

// Most noise adds, and it may touch up to 65 % of the runs. But the layers of a network do not have their
// best runs at once: sums of the 20th percentile were 7 % below what ResNet-50 and BERT took on two threads,
// of this one 5 % (Zen 5, means of three and six builds).
constexpr double kScore = 0.35;

// What another process adds to a run where it holds the core: often 12 ms, on two cores with a load of 5.
constexpr double kLongestSliceMs = 25;
// With the warm-up that makes three runs: one in twenty falls into a slice on a machine like that.
constexpr size_t kRunsToLeave = 2;
// A score this far above the best run is one of slices. A race runs on for it, up to so many times the
// repetitions.
constexpr double kOfSlices = 2;
constexpr int kPatience = 4;

// What is known of a rival, whatever the number of its runs.
struct Record {
  RunningPercentile<> score{kScore};
  double best_ms = HUGE_VAL;

  size_t runs() const { return score.count(); }
  void add(double ms) {
    score.add(ms);
    best_ms = std::min(best_ms, ms);
  }
};

class Race {
 public:
  Race(std::span<const std::function<double()>> rivals, const TimerOptions& options)
      : rivals_(rivals),
        options_(options),
        records_(rivals.size()),
        warm_up_(rivals.size()),
        result_(rivals.size()),
        running_(rivals.size(), true) {}

  std::vector<Timing> run() {
    warm_up();
    const int rounds = std::max(1, options_.repetitions);
    for (int round = 1; (round <= rounds || leader_is_of_slices(round)) && !out_of_time(); ++round) {
      for (size_t i = 0; i < rivals_.size(); ++i)
        if (running_[i] && !(out_of_time() && round > 1)) records_[i].add(run_once(i));
      drop_rivals(round < 3 ? 3.0 : round < 5 ? 1.6 : round < 8 ? 1.25 : 1.1);
      if (round >= options_.least_repetitions && is_decided()) break;
    }
    if (options_.yardstick >= 0) run_at_the_end(static_cast<size_t>(options_.yardstick));
    for (size_t i = 0; i < rivals_.size(); ++i) {
      if (records_[i].runs() == 0) records_[i].add(warm_up_[i]);  // dropped at once: its only figure
      result_[i].best_ms = records_[i].best_ms;
      result_[i].score_ms = records_[i].score.value();
      result_[i].runs = static_cast<int>(records_[i].runs());
    }
    return std::move(result_);
  }

 private:
  double run_once(size_t i) {
    const Stopwatch watch;
    const double ms = rivals_[i]();
    result_[i].seconds += watch.seconds();
    return ms;
  }
  bool out_of_time() const { return watch_.seconds() > options_.limit_seconds; }
  double best(size_t i) const { return records_[i].runs() == 0 ? warm_up_[i] : records_[i].best_ms; }
  double leader_ms() const {
    double least = HUGE_VAL;
    for (size_t i = 0; i < rivals_.size(); ++i)
      if (running_[i]) least = std::min(least, best(i));
    return least;
  }

  // The first run pays for page faults and code generation, so it decides only against the hopeless.
  void warm_up() {
    for (size_t i = 0; i < rivals_.size(); ++i) warm_up_[i] = run_once(i);
    drop_rivals(8.0);
  }
  void drop_rivals(double factor) {
    const double limit = leader_ms() * factor;
    for (size_t i = 0; i < rivals_.size(); ++i) {
      if (!running_[i]) continue;
      while (best(i) > limit && best(i) < limit + kLongestSliceMs && records_[i].runs() < kRunsToLeave &&
             !out_of_time())
        records_[i].add(run_once(i));
      if (best(i) > limit) running_[i] = false;
    }
  }
  // What it took then may be of another phase of the device.
  void run_at_the_end(size_t i) {
    constexpr int kRuns = 3;
    if (running_[i]) return;
    records_[i] = {};
    for (int k = 0; k < kRuns; ++k) records_[i].add(run_once(i));
  }
  // Of those that run, by score.
  std::optional<size_t> leader() const {
    std::optional<size_t> leader;
    for (size_t i = 0; i < rivals_.size(); ++i) {
      if (!running_[i] || records_[i].runs() == 0) continue;
      if (!leader || records_[i].score.value() < records_[*leader].score.value()) leader = i;
    }
    return leader;
  }
  bool is_of_slices(size_t i) const { return records_[i].score.value() > kOfSlices * records_[i].best_ms; }
  bool leader_is_of_slices(int round) const {
    const auto first = leader();
    return first && is_of_slices(*first) && round <= kPatience * std::max(1, options_.repetitions);
  }
  bool is_decided() const {
    const auto first = leader();
    if (!first || is_of_slices(*first)) return false;
    // Alone on the track, or ahead of everybody's best.
    const double leading = records_[*first].score.value();
    for (size_t i = 0; i < rivals_.size(); ++i)
      if (i != *first && running_[i] && best(i) < leading * options_.clearly_ahead) return false;
    return true;
  }

  std::span<const std::function<double()>> rivals_;
  const TimerOptions& options_;
  std::vector<Record> records_;
  std::vector<double> warm_up_;
  std::vector<Timing> result_;
  std::vector<bool> running_;
  const Stopwatch watch_;
};

}  // namespace

void stop_if_asked(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Interrupted();
}

std::vector<Timing> time_interleaved(std::span<const std::function<double()>> rivals,
                                     const TimerOptions& options) {
  if (rivals.empty()) return {};
  return Race(rivals, options).run();
}

}  // namespace lathe
