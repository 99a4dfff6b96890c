// SPDX-License-Identifier: Apache-2.0
//
// usage: fuzz engines|models|all [--seconds=60] [--count=N] [--first=N] [--threads=2] [--case=N [--keep=FILE]]
//
// `all` shares the seconds out. --seconds=0 --count=100000: that many, however long it takes. Case numbers
// are seeds: --case=N runs one case again, in this process, so that a debugger or a sanitizer sees it; --keep
// writes the case's file first. --threads=1 where such programs run side by side, one on each core.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "engine_edits.h"
#include "model_mutants.h"
#include "worker.h"

namespace {

double number_of(std::string_view word) {
  const std::string_view text = word.substr(word.find('=') + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error("not a number: " + std::string(word));
  return value;
}

fuzz::Case prepare_cases(const std::string& what, const fuzz::Setup& setup) {
  return what == "engines" ? fuzz::prepare_engine_edits(setup) : fuzz::prepare_model_mutants(setup);
}

// Findings, for the exit code.
int64_t run(const std::string& program, const std::string& what, const fuzz::Limits& limits,
            const fuzz::Setup& setup) {
  const auto prepare = [&] { return prepare_cases(what, setup); };
  const fuzz::Tally tally = fuzz::run_cases(program + " " + what, limits, prepare);
  std::printf("%s: %ld cases, %ld accepted, %ld refused, %ld findings\n", what.c_str(),
              static_cast<long>(tally.cases), static_cast<long>(tally.accepted),
              static_cast<long>(tally.refused), static_cast<long>(tally.findings));
  if (tally.accepted == 0 || tally.refused == 0) {
    std::printf("%s: nothing accepted or nothing refused: this checks nothing\n", what.c_str());
    return 1;
  }
  return tally.findings;
}

int run_all(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  fuzz::Limits limits;
  double one = -1;
  fuzz::Setup setup;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--seconds="))
      limits.seconds = number_of(word);
    else if (word.starts_with("--count="))
      limits.count = static_cast<int64_t>(number_of(word));
    else if (word.starts_with("--first="))
      limits.first = static_cast<int64_t>(number_of(word));
    else if (word.starts_with("--case="))
      one = number_of(word);
    else if (word.starts_with("--keep="))
      setup.keep = word.substr(7);
    else if (word.starts_with("--threads="))
      setup.threads = static_cast<int>(number_of(word));
    else
      throw std::runtime_error("unknown option " + std::string(word));
  }
  if (what != "engines" && what != "models" && what != "all")
    throw std::runtime_error("engines, models or all?");
  if (one >= 0) {
    const auto run_case = prepare_cases(what, setup);
    const bool accepted = run_case(static_cast<int64_t>(one)) == fuzz::Outcome::Accepted;
    std::puts(accepted ? "accepted" : "refused");
    return 0;
  }
  if (what != "all") return run(argv[0], what, limits, setup) > 0 ? 1 : 0;
  limits.seconds /= 2;
  const int64_t findings = run(argv[0], "engines", limits, setup) + run(argv[0], "models", limits, setup);
  return findings > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_all(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: %s\n", error.what());
    return 2;
  }
}
