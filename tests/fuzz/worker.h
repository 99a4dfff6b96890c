// SPDX-License-Identifier: Apache-2.0
//
// Cases run in a process of their own, one after the other, thousands per second. When a case ends that
// process (a signal, a sanitizer), takes too long or throws what it must not, its number is printed as a
// command that runs it again, and the next case goes on in a new process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace fuzz {

struct Limits {
  int64_t first = 0, count = -1;  // cases; -1: until the time is over
  double seconds = 60;            // <= 0: no limit
  // A case that takes longer is a finding; sanitizers take forty times as long.
  double case_seconds = 100;
};

struct Tally {
  int64_t cases = 0, findings = 0;
  int64_t accepted = 0, refused = 0;  // ran, or was an Input error
};

// How cases are made and run.
struct Setup {
  std::string keep;  // where a case writes its file before it uses it; empty: nowhere
  int threads = 2;   // of the backend that builds and runs it
};

// What a case came to. Anything else it throws is a finding.
enum class Outcome { Accepted, Refused };

// `prepare` makes what all cases share, in the process that runs them; the function it returns runs case
// number `n`.
using Case = std::function<Outcome(int64_t n)>;
Tally run_cases(const std::string& command, const Limits& limits, const std::function<Case()>& prepare);

}  // namespace fuzz
