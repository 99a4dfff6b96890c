// SPDX-License-Identifier: Apache-2.0
#include "tune/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/fake_backend.h"
#include "base/error.h"
#include "ir/text.h"
#include "memory/memory_plan.h"
#include "tune/candidates.h"
#include "tune/choose.h"
#include "tune/level.h"
#include "tune/signature.h"

namespace lathe {
namespace {

// Remembers the events in the order of their telling, as short lines.
class Recorder final : public Observer {
 public:
  void on(const Event& event) override { std::visit(*this, event); }
  template <class Other>
  void operator()(const Other&) {}
  void operator()(const Message& e) { lines.push_back("message " + e.text); }
  void operator()(const CostsStarted& e) { lines.push_back("costs " + e.layer); }
  void operator()(const FormatsStarted& e) {
    lines.push_back("formats " + e.inputs[0] + " -> " + e.outputs[0]);
  }
  void operator()(const RunnerStarted& e) { lines.push_back("runner " + e.runner); }
  void operator()(const RunnerSkipped& e) { lines.push_back("skipped " + e.runner + " " + e.reason); }
  void operator()(const TacticTimed& e) {
    lines.push_back("tactic " + e.tactic + (e.from_cache ? " cached" : ""));
    cached += e.from_cache;
  }
  void operator()(const RunnerFinished& e) { lines.push_back("finished " + e.runner); }
  void operator()(const TacticChosen& e) { lines.push_back("chosen " + e.tactic); }
  void operator()(const ReformatAdded& e) {
    lines.push_back("reformat " + e.layer + " " + e.from + " -> " + e.to);
  }
  void operator()(const Progress& e) { done = e.done, total = e.total; }
  bool told(const std::string& line) const {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  }
  std::vector<std::string> lines;
  int cached = 0;
  int64_t done = 0, total = 0;
};

struct Tuned {
  TunedGraph graph;
  Recorder log;
};

Tuned tune(const std::string& text, const FakeBackend& backend, const TuneOptions& options = {},
           TimingCache* cache = nullptr, const SymbolRanges& ranges = {}) {
  Tuned result;
  TimingCache own;
  result.graph = tune_graph(parse_graph(text), ranges, backend, options, cache ? *cache : own, result.log);
  const MemoryPlan plan = plan_memory(result.graph.graph, result.graph.choices, ranges);
  SymbolValues most;
  for (const auto& [symbol, range] : ranges) most[symbol] = range.max;
  check_memory_plan(result.graph.graph, result.graph.choices, plan, most);
  return result;
}

std::vector<std::string> layers(const Tuned& tuned) {
  std::vector<std::string> names;
  for (size_t i = 0; i < tuned.graph.choices.size(); ++i)
    names.push_back(tuned.graph.graph.node(tuned.graph.graph.order()[i]).name + ": " +
                    tuned.graph.choices[i].tactic.name);
  return names;
}

constexpr const char* kChain = R"(graph "chain" {
  input %x: float32[1, 8, 4, 4]
  %a: float32[1, 8, 4, 4] = Pointwise "a" (%x) {code=Relu}
  %b: float32[1, 8, 4, 4] = Pointwise "b" (%a) {code=Relu}
  output %b
})";

TEST(Tune, FastFormatsWithReformatsAtTheBorders) {
  FakeBackend backend;
  const Tuned tuned = tune(kChain, backend);
  EXPECT_EQ(layers(tuned), (std::vector<std::string>{
                               "Reformatting CopyNode for Input Tensor 0 to a: fake_copy", "a: fake_fast",
                               "b: fake_fast", "Reformatting CopyNode for Output Tensor 0 to b: fake_copy"}));
  const Graph& graph = tuned.graph.graph;
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "b");
  EXPECT_TRUE(graph.value(graph.outputs()[0]).format.is_linear());
  EXPECT_TRUE(graph.find_value("Reformatted Output Tensor 0 to b").has_value());
  EXPECT_NEAR(tuned.graph.layers_ms, 0.4 + 0.4 + 0.05 + 0.05, 1e-6);
  EXPECT_TRUE(
      tuned.log.told("reformat Reformatted Input Tensor 0 to a (x) Float(128,16,4,1) -> Float(128,1,32,8)"));
  EXPECT_EQ(tuned.log.done, 2);
  EXPECT_EQ(tuned.log.total, 2);
}

TEST(Tune, DearReformatsKeepLayersWhereTheyAre) {
  FakeBackend backend;
  backend.times_ms["fake_copy"] = 0.7;
  EXPECT_EQ(layers(tune(kChain, backend)), (std::vector<std::string>{"a: fake_linear", "b: fake_linear"}));
}

TEST(Tune, WhatReformatsCostTheirNeighboursIsTheBackendsToSay) {
  FakeBackend backend;
  backend.traits.reformat_surcharge_ms = 0.6;  // two of them cost more than two fast layers save
  EXPECT_EQ(layers(tune(kChain, backend)), (std::vector<std::string>{"a: fake_linear", "b: fake_linear"}));
}

// The product's result is rounded to bfloat16 only when no layer norm reads it.
TEST(Tune, SumsInFrontOfAWideNormStayWide) {
  const auto chosen = [](const std::string& tail) {
    const std::string text = R"(graph "block" {
  input %x: float32[2, 8]
  const %w: float32[8, 8] = splat 0.5
  %s: float32[2, 8] = MatMul "product" (%x, %w) allow [bfloat16]
)" + tail + "  output %y\n}";
    const Tuned tuned = tune(text, FakeBackend());
    for (size_t i = 0; i < tuned.graph.choices.size(); ++i)
      if (tuned.graph.graph.node(tuned.graph.graph.order()[i]).name == "product")
        return tuned.graph.choices[i].tactic.name;
    return std::string();
  };
  EXPECT_EQ(chosen("  %y: float32[2, 8] = LayerNorm \"norm\" (%s)\n"), "fake_low_sums");
  EXPECT_EQ(chosen("  %r: float32[4, 4] = Reshape \"reshape\" (%s) {shape=[4, 4]}\n"
                   "  %y: float32[4, 4] = LayerNorm \"norm\" (%r)\n"),
            "fake_low_sums");
  EXPECT_EQ(chosen("  %y: float32[2, 8] = Pointwise \"relu\" (%s) {code=Relu}\n"), "fake_low");
}

TEST(Tune, EventsComeInTheOrderOfALog) {
  FakeBackend backend;
  const auto& lines = tune(kChain, backend).log.lines;
  const std::vector<std::string> first(lines.begin(), lines.begin() + 13);
  EXPECT_EQ(first,
            (std::vector<std::string>{"skipped Fake fake_huge: needs more memory than there is",
                                      "skipped Fake fake_huge: needs more memory than there is", "costs a",
                                      "formats Float(128,16,4,1) -> Float(128,16,4,1)", "runner Fake",
                                      "tactic fake_linear", "finished Fake", "chosen fake_linear",
                                      "formats Float(128,1,32,8) -> Float(128,1,32,8)", "runner FakeFast",
                                      "tactic fake_fast", "finished FakeFast", "chosen fake_fast"}));
}

TEST(Tune, IdenticalLayersAreTimedOnce) {
  FakeBackend backend;
  const Tuned tuned = tune(kChain, backend);
  EXPECT_EQ(tuned.log.cached, 2);     // both tactics of b
  EXPECT_EQ(backend.timings, 2 + 2);  // two tactics, two directions of the reformat
}

TEST(Tune, SameCacheSameResultWithoutTiming) {
  FakeBackend backend;
  TimingCache cache;
  const Tuned cold = tune(kChain, backend, {}, &cache);
  TimingCache read;
  read.merge_text(cache.to_text());
  const int timings = backend.timings;
  const Tuned warm = tune(kChain, backend, {.error_on_cache_miss = true}, &read);
  EXPECT_EQ(backend.timings, timings);
  EXPECT_EQ(to_text(warm.graph.graph), to_text(cold.graph.graph));
  for (size_t i = 0; i < cold.graph.choices.size(); ++i)
    EXPECT_EQ(warm.graph.choices[i].time_ms, cold.graph.choices[i].time_ms);
}

TEST(Tune, SameCacheSameResultWhenTheBudgetEndedEarly) {
  std::string text = "graph \"many\" {\n", outputs;
  for (int i = 1; i <= 16; ++i) {  // all different, so that each has to be timed
    const std::string n = std::to_string(i);
    text += "  input %x" + n + ": float32[1, 8, 4, " + n + "]\n";
    outputs +=
        "  %y" + n + ": float32[1, 8, 4, " + n + "] = Pointwise \"r" + n + "\" (%x" + n + ") {code=Relu}\n";
  }
  for (int i = 1; i <= 16; ++i) outputs += "  output %y" + std::to_string(i) + "\n";
  text += outputs + "}";
  FakeBackend slow;
  slow.prepare_seconds = 0.02;
  TimingCache cache;
  const TuneOptions hasty = {.budget_seconds = 0.15};
  const Tuned cold = tune(text, slow, hasty, &cache);
  EXPECT_NE(cold.log.lines.back().find("budget for tuning ended"), std::string::npos)
      << cold.log.lines.back();
  EXPECT_NE(cache.to_text().find(" untimed:0.15  # fake_"), std::string::npos) << cache.to_text();

  FakeBackend other;  // would choose otherwise
  other.times_ms["fake_linear"] = 0.1;
  TimingCache read;
  read.merge_text(cache.to_text());
  const Tuned warm = tune(text, other, {.budget_seconds = 0.15, .error_on_cache_miss = true}, &read);
  EXPECT_EQ(other.timings, 0);
  EXPECT_EQ(layers(warm), layers(cold));
  EXPECT_EQ(to_text(warm.graph.graph), to_text(cold.graph.graph));
  EXPECT_EQ(read, cache);

  tune(text, other, {.budget_seconds = 100}, &read);  // a larger budget times the rest
  EXPECT_GT(other.timings, 0);
  EXPECT_EQ(read.to_text().find("untimed"), std::string::npos);
}

TEST(Tune, CacheMissCanBeAnError) {
  FakeBackend backend;
  try {
    tune(kChain, backend, {.error_on_cache_miss = true});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no entry for layer 'a'"), std::string::npos) << error.what();
  }
}

TEST(Tune, LevelZeroTimesNothing) {
  FakeBackend backend;
  TimingCache cache;
  const Tuned tuned = tune(kChain, backend, {.level = 0}, &cache);
  EXPECT_EQ(backend.timings, 0);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_FALSE(tuned.graph.timed);
  EXPECT_EQ(layers(tuned), (std::vector<std::string>{"a: fake_linear", "b: fake_linear"}));  // the first
}

TEST(Tune, LevelZeroTakesTheLeastExpectedTime) {
  FakeBackend backend;
  backend.expected_us = {{"fake_linear", 9000}, {"fake_fast", 100}};
  const auto fast = layers(tune(kChain, backend, {.level = 0}));
  EXPECT_EQ(std::count(fast.begin(), fast.end(), "a: fake_fast"), 1);
  EXPECT_EQ(std::count(fast.begin(), fast.end(), "b: fake_fast"), 1);
  backend.expected_us["fake_fast"] = 9000;  // as much as the first
  EXPECT_EQ(layers(tune(kChain, backend, {.level = 0})),
            (std::vector<std::string>{"a: fake_linear", "b: fake_linear"}));
}

TEST(Tune, NoTimeLeftStillGivesAnEngine) {
  FakeBackend backend;
  const Tuned tuned = tune(kChain, backend, {.budget_seconds = 0});
  EXPECT_EQ(backend.timings, 0);
  EXPECT_EQ(layers(tuned).size(), 2u);
  EXPECT_NE(tuned.log.lines.back().find("budget for tuning ended before 2 of 2 layers"), std::string::npos);
}

// Nothing is timed at a bound that no run comes near, which would take its memory and minutes: what finds
// such a size is estimated, and what reads it is timed at a size that is assumed.
TEST(Tune, SizesThatLittleBoundsAreAssumed) {
  const char* text = R"(graph "found" {
  input %x: float32[n]
  %p: int64[1, p.count<=n] = NonZero "p" (%x)
  %r: int64[1, p.count<=n] = Pointwise "r" (%p) {code=Neg}
  output %r
})";
  const auto said_so = [&](const FakeBackend& backend, int64_t n) {
    Recorder log;
    TimingCache cache;
    tune_graph(parse_graph(text), {{"n", {1, n, n}}}, backend, {}, cache, log);
    return log.told(
        "message 1 of 2 layers find a size that little bounds; their tactics were chosen by estimate.");
  };
  FakeBackend small, large;
  EXPECT_FALSE(said_so(small, 1000));
  EXPECT_GT(small.timings, 0);
  EXPECT_TRUE(said_so(large, 500'000'000));
  EXPECT_EQ(2 * large.timings, small.timings);
}

TEST(Tune, LayersThatRefuseRandomDataAreEstimated) {
  FakeBackend backend;
  backend.throws_when_timed = true;
  TimingCache cache;
  const auto cold = layers(tune(kChain, backend, {}, &cache));
  EXPECT_EQ(cold.size(), 2u);
  EXPECT_EQ(layers(tune(kChain, backend, {.error_on_cache_miss = true}, &cache)), cold);
}

// No layer of the first graph has a size that stands for another; all of the second one do.
TEST(Tune, LayersThatRefuseAssumedSizesAreEstimated) {
  FakeBackend backend;
  backend.throws_when_prepared = true;
  EXPECT_THROW(tune(kChain, backend), Error);
  const char* text = R"(graph "found" {
  input %x: float32[100]
  %p: int64[1, p.count<=100] = NonZero "p" (%x)
  %r: int64[1, p.count<=100] = Pointwise "r" (%p) {code=Neg}
  output %r
})";
  TimingCache cache;
  const auto tuned = [&](const TuneOptions& options) {
    Tuned result;
    result.graph = tune_graph(parse_graph(text), {}, backend, options, cache, result.log);
    return result;
  };
  const Tuned cold = tuned({});
  EXPECT_EQ(layers(cold), layers(tuned({.level = 0})));
  EXPECT_TRUE(
      cold.log.told("message Layer 'r' was not timed, because sizes that only a run finds do not fit each "
                    "other at the values that were assumed for them; its tactics were chosen by estimate. "
                    "(updates of 384, expected 6144)"));
  EXPECT_EQ(layers(tuned({.error_on_cache_miss = true})), layers(cold));
}

TEST(Tune, MaxTacticsAndLevels) {
  FakeBackend backend;
  tune(kChain, backend, {.max_tactics = 1});
  EXPECT_EQ(backend.timings, 1);
  backend.timings = 0;
  tune(kChain, backend, {.level = 5});
  EXPECT_EQ(backend.timings, 3 + 2);  // the last resort is a rival at this level
}

TEST(Tune, AvgTimingScalesTheRunsOfATactic) {
  for (const int level : {1, 3, 5}) {
    const int ordinary = effort_of({.level = level}).repetitions;
    EXPECT_GT(ordinary, 2);
    EXPECT_EQ(effort_of({.level = level, .avg_timing = 16}).repetitions, 2 * ordinary);
    EXPECT_EQ(effort_of({.level = level, .avg_timing = 1}).repetitions, std::max(1, ordinary / 8));
  }
}

// With operands as large as these only two rivals race at a time, and the leader runs again with the third.
TEST(Tune, LeaderOfAGroupIsPreparedOnce) {
  FakeBackend backend;
  tune(R"(graph "large" {
  input %x: float32[1, 8, 800, 800]
  %a: float32[1, 8, 800, 800] = Pointwise "a" (%x) {code=Relu}
  output %a
})",
       backend, {.level = 5});
  EXPECT_EQ(backend.timings, 3 + 2);
}

// The third rival races when the machine is half as fast, and still wins, beside one that was timed before
// and in an earlier build.
TEST(Tune, RivalsCountByTheirRatioToTheLeader) {
  constexpr const char* kLarge = R"(graph "large" {
  input %x: float32[1, 8, 800, 800]
  %a: float32[1, 8, 800, 800] = Pointwise "a" (%x) {code=Relu}
  output %a
})";
  FakeBackend backend;
  backend.times_ms["fake_linear"] = 0.4;
  backend.times_ms["fake_fast"] = 5;
  backend.times_ms["fake_reference"] = 0.3;
  backend.slow_from = 3;
  EXPECT_EQ(layers(tune(kLarge, backend, {.level = 5})), std::vector<std::string>{"a: fake_reference"});

  FakeBackend later;
  later.times_ms = backend.times_ms;
  TimingCache cache;
  EXPECT_EQ(layers(tune(kLarge, later, {}, &cache)), std::vector<std::string>{"a: fake_linear"});
  later.slow_from = 0;
  EXPECT_EQ(layers(tune(kLarge, later, {.level = 5}, &cache)), std::vector<std::string>{"a: fake_reference"});
}

// Its first race falls into a slow phase; the engine of the cache is the same without timing anything.
TEST(Tune, WhatWasTimedInASlowPhaseIsTimedAgain) {
  FakeBackend backend;
  backend.slow_until = 3;
  EXPECT_NEAR(tune(kChain, backend).graph.layers_ms, 0.8 + 0.8 + 0.05 + 0.05, 1e-6);
  EXPECT_EQ(backend.timings, 2 + 2);

  FakeBackend shared;
  shared.slow_until = 3;
  shared.traits.has_slow_phases = true;
  TimingCache cache;
  const Tuned cold = tune(kChain, shared, {}, &cache);
  EXPECT_NEAR(cold.graph.layers_ms, 0.4 + 0.4 + 0.05 + 0.05, 1e-6);
  EXPECT_EQ(shared.timings, 2 + 1 + 2 + 2);  // the race, another look, the race again, the reformats
  EXPECT_TRUE(
      cold.log.told("message 1 of 1 layers were timed in a slow phase of the machine, up to 2 times slower "
                    "than now; they were timed again."));

  const int timings = shared.timings;
  const Tuned warm = tune(kChain, shared, {.error_on_cache_miss = true}, &cache);
  EXPECT_EQ(shared.timings, timings);
  EXPECT_EQ(to_text(warm.graph.graph), to_text(cold.graph.graph));
  EXPECT_EQ(warm.graph.layers_ms, cold.graph.layers_ms);
}

// Another process holds the core while one format is timed: no reformats go around the layer for that.
TEST(Tune, ATacticFarSlowerInOneFormatIsTimedAgain) {
  FakeBackend backend;
  backend.fast_tactics = false;
  backend.linear_in_channels_last = true;
  backend.waits = 0;
  EXPECT_EQ(layers(tune(kChain, backend)).size(), 4u);

  FakeBackend shared;
  shared.fast_tactics = false;
  shared.linear_in_channels_last = true;
  shared.waits = 0;
  shared.traits.has_slow_phases = true;
  EXPECT_EQ(layers(tune(kChain, shared)), (std::vector<std::string>{"a: fake_linear", "b: fake_linear"}));
}

TEST(Tune, TacticsBeyondTheWorkspaceLimitAreRefused) {
  FakeBackend backend;
  backend.scratch = {{"fake_fast", 1000}, {"fake_linear", 100}};
  EXPECT_EQ(layers(tune(kChain, backend, {.workspace_limit_bytes = 1000}))[1], "a: fake_fast");
  for (const int level : {0, 3}) {
    const Tuned tuned = tune(kChain, backend, {.level = level, .workspace_limit_bytes = 999});
    EXPECT_EQ(layers(tuned), (std::vector<std::string>{"a: fake_linear", "b: fake_linear"}));
    EXPECT_EQ(level == 3,
              tuned.log.told("skipped FakeFast fake_fast: it needs 1000 bytes of scratch memory, and the "
                             "workspace limit is 999 bytes"));
  }
  const Tuned slow = tune(kChain, backend, {.workspace_limit_bytes = 99});
  EXPECT_EQ(layers(slow), (std::vector<std::string>{"a: fake_reference", "b: fake_reference"}));
  backend.scratch["fake_reference"] = 100;
  try {
    tune(kChain, backend, {.workspace_limit_bytes = 99});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "no tactic of layer 'a' is left within the workspace limit: fake_linear was the last, and it needs "
        "100 "
        "bytes of scratch memory, and the workspace limit is 99 bytes. Raise --memPoolSize=workspace");
  }
  backend.scratch = {{"fake_fast", -1}};
  EXPECT_TRUE(
      tune(kChain, backend, {.workspace_limit_bytes = 0})
          .log.told("message The workspace limit has no effect: tactics of this device do not say how much "
                    "scratch memory they need."));
}

TEST(Tune, RunnersCanBeSwitchedOff) {
  FakeBackend backend;
  const Tuned tuned = tune(kChain, backend, {.disabled_runners = {"FakeFast"}});
  EXPECT_EQ(layers(tuned)[0], "a: fake_linear");
  EXPECT_TRUE(tuned.log.told("skipped FakeFast fake_fast: switched off by tactic sources"));
  // Last resorts step in when nothing else is left; without them the error lists every reason.
  EXPECT_EQ(tune(kChain, backend, {.disabled_runners = {"FakeFast", "Fake"}}).graph.choices[0].tactic.runner,
            "FakeReference");
  try {
    tune(kChain, backend, {.disabled_runners = {"FakeFast", "Fake", "FakeReference"}});
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("could not find any implementation for layer 'a' (Relu) on a fake device"), what.npos)
        << what;
    EXPECT_NE(what.find("fake_huge: needs more memory than there is"), what.npos) << what;
  }
}

TEST(Tune, ViewsThatCannotBePlacedGetCopies) {
  FakeBackend backend;
  const Tuned tuned = tune(R"(graph "views" {
    input %x: float32[2, 4]
    %a: float32[2, 4] = Pointwise "a" (%x) {code=Relu}
    %y: float32[4, 4] = Concat "y" (%x, %a) {axis=0}
    %r: float32[8, 2] = Reshape "r" (%y) {shape=[8, 2]}
    output %y
    output %r
  })",
                           backend);
  EXPECT_EQ(layers(tuned),
            (std::vector<std::string>{"a: fake_fast", "Copy of Input Tensor 0 to y: fake_copy",
                                      "y: fake_view", "r: fake_view", "Copy of Output Tensor r: fake_copy"}));
  EXPECT_EQ(tuned.graph.graph.value(tuned.graph.graph.outputs()[1]).name, "r");
}

TEST(Tune, OutputsThatAreInputs) {
  FakeBackend backend;
  const Tuned tuned = tune(R"(graph "through" {
    input %x: float32[n, 4]
    %a: float32[n, 4] = Pointwise "a" (%x) {code=Relu}
    output %a
    output %x
  })",
                           backend, {}, nullptr, {{"n", {1, 2, 4}}});
  EXPECT_EQ(layers(tuned).size(), 2u);
  EXPECT_EQ(tuned.graph.graph.inputs().size(), 1u);
}

std::string convs(int count) {
  std::string text =
      "graph \"convs\" {\n  input %x0: float32[1, 1, 2, 2]\n  const %w: float32[1, 1, 1, 1] = [2]\n";
  for (int i = 0; i < count; ++i)
    text += "  %x" + std::to_string(i + 1) + ": float32[1, 1, 2, 2] = Conv \"c" + std::to_string(i) +
            "\" (%x" + std::to_string(i) +
            ", %w) {kernel=[1, 1], strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]}\n";
  return text + "  output %x" + std::to_string(count) + "\n}";
}

TEST(Tune, InexactTacticsStayInsideTheErrorBudget) {
  FakeBackend backend;
  const auto count = [&](int layers, const TuneOptions& options) {
    int inexact = 0;
    for (const Choice& c : tune(convs(layers), backend, options).graph.choices)
      inexact += c.tactic.error_factor > 1;
    return inexact;
  };
  EXPECT_EQ(count(4, {}), 4);
  // (7e-6 / (10 * 1.2e-7))^2 = 34.03
  EXPECT_EQ(count(40, {}), 34);
  EXPECT_EQ(count(4, {.winograd = false}), 0);
}

TEST(Candidates, EveryRunnersBestGuessIsTimedFirst) {
  const auto tactic = [](const char* runner, DType type) {
    return Tactic{
        .runner = runner, .name = runner, .inputs = {}, .outputs = {{type, kLinear}}, .support = {}};
  };
  const std::vector<Tactic> tactics = {tactic("a", DType::Float16), tactic("a", DType::Float16),
                                       tactic("a", DType::Float16), tactic("b", DType::Float16),
                                       tactic("b", DType::Float16), tactic("a", DType::Float32)};
  EXPECT_EQ(timing_order(tactics), (std::vector<size_t>{0, 3, 5, 1, 4, 2}));
}

TEST(Signature, SaysWhatTheTimeDependsOn) {
  const Graph graph = parse_graph(convs(1));
  const SymbolRanges ranges;
  const LayerQuery query{graph, graph.order()[0], ranges};
  EXPECT_EQ(layer_signature(query),
            "Conv{kernel=[1,1],strides=[1,1],dilations=[1,1],pads_begin=[0,0],pads_end=[0,0],groups=1,auto_"
            "pad=NotSet} "
            "(float32[1,1,2,2], const float32[1,1,1,1]) -> (float32[1,1,2,2])");
  FakeBackend backend;
  EXPECT_EQ(types_signature(backend.tactics(query)[1]), "float32:channels_last, - -> float32:channels_last");
}

TEST(Signature, DynamicShapesAreThoseOfTheOptPoint) {
  const Graph graph = parse_graph(R"(graph "dynamic" {
    input %x: float32[n, 4]
    %a: float32[2*n, 2] = Reshape "a" (%x) {shape=[2*n, 2]}
    output %a
  })");
  const SymbolRanges small = {{"n", {1, 2, 8}}}, same = {{"n", {2, 2, 4}}}, large = {{"n", {1, 8, 8}}};
  const NodeId node = graph.order()[0];
  EXPECT_NE(layer_signature({graph, node, small}).find("Reshape{shape=[4,2],"), std::string::npos)
      << layer_signature({graph, node, small});
  EXPECT_EQ(layer_signature({graph, node, small}), layer_signature({graph, node, same}));
  EXPECT_NE(layer_signature({graph, node, small}), layer_signature({graph, node, large}));
}

constexpr const char* kProduct = R"(graph "product" {
  input %x: float32[4, 8]
  const %w: float32[8, 8] = splat 1
  %y: float32[4, 8] = MatMul "fc" (%x, %w) allow [bfloat16] from ["fc" MatMul]
  output %y
})";

LayerTypes demand(DemandedTypes types) {
  return {{{"fc", std::move(types)}}};
}

TEST(DemandedTypes, ATacticWithThemIsTaken) {
  const FakeBackend backend;
  for (const int level : {0, 1}) {
    const auto taken = [&](DemandedTypes types) {
      return tune(kProduct, backend, {.level = level, .layer_types = demand(std::move(types))}).graph.choices;
    };
    const auto tactic = [&](DemandedTypes types, std::string_view name) {
      const std::vector<Choice> choices = taken(std::move(types));
      return std::any_of(choices.begin(), choices.end(),
                         [&](const Choice& c) { return c.tactic.name == name; });
    };
    EXPECT_TRUE(tactic({.compute = DType::BFloat16, .outputs = {DType::BFloat16}}, "fake_low"));
    EXPECT_TRUE(tactic({.compute = DType::BFloat16, .outputs = {DType::Float32}}, "fake_low_sums"));
    EXPECT_FALSE(tactic({.compute = DType::Float32}, "fake_low"));
    EXPECT_FALSE(tactic({.compute = DType::Float32}, "fake_low_sums"));
  }
}

TEST(DemandedTypes, WithoutATacticItIsAnErrorOrAnotherTypeIsTaken) {
  const FakeBackend backend;
  try {
    tune(kProduct, backend,
         {.level = 0, .layer_types = demand({.compute = DType::Float16, .is_required = true})});
    FAIL() << "a type without tactics is no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("layer 'fc' (MatMul) has no tactic that computes in fp16, which is demanded of it:"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("fake_low: it computes in bf16, and fp16 is demanded"), std::string::npos) << text;
  }
  const Tuned tuned =
      tune(kProduct, backend, {.level = 0, .layer_types = demand({.compute = DType::Float16})});
  EXPECT_FALSE(tuned.graph.choices.empty());
  EXPECT_TRUE(
      tuned.log.told("message Precision: layer 'fc' (MatMul) has no tactic that computes in fp16; it has "
                     "another type."));
}

}  // namespace
}  // namespace lathe
