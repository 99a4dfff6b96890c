// SPDX-License-Identifier: Apache-2.0
//
// The one timing loop: rivals run in turn, A B C A B C, so that drift of the clock or of the machine hits all
// alike; a rival that is clearly behind leaves early; the score is a percentile below the median, because
// noise only ever adds. The tuner uses it for tactics and whole engines, the bench program for problems.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

namespace lathe {

struct TimerOptions {
  int repetitions = 8;        // per rival that stays in the race (--avgTiming)
  double limit_seconds = 1;   // for all rivals together; every rival runs at least once
  int least_repetitions = 5;  // before that a leader is not believed
  double clearly_ahead =
      1.03;  // the race ends when the leader's score beats every rival's best by this factor
  // The rival with whose earlier figure the scores will be compared; -1: none. When it leaves early it runs
  // again at the end: the device may have changed its speed since.
  int yardstick = -1;
};

struct Timing {
  double score_ms = 0;  // 35th percentile
  double best_ms = 0;
  int runs = 0;        // without the warm-up
  double seconds = 0;  // spent on this rival
};

// Calls each `rival` to run it once; it returns milliseconds.
std::vector<Timing> time_interleaved(std::span<const std::function<double()>> rivals,
                                     const TimerOptions& options);

// Throws Interrupted when `stop` asks for it. Called before each run of a race that may be long.
void stop_if_asked(const std::stop_token& stop);

}  // namespace lathe
