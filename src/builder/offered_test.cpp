// SPDX-License-Identifier: Apache-2.0
//
// What a build may choose, a loaded engine must be allowed to have (backend/offered.h), on every machine:
// tactics are only listed here, so a CPU with AMX is a description.
#include "backend/offered.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "backend/cpu/device/machine.h"
#include "backend/cpu/run/program.h"
#include "backend/cpu/tile/amx_table.h"
#include "base/error.h"
#include "builder/pipeline.h"
#include "ir/text.h"
#include "passes/passes.h"
#include "reference/random_graph.h"
#include "tune/tune.h"

namespace lathe {
namespace {

cpu::Machine described(cpu::Isa isa, int threads) {
  cpu::Machine machine{.features = cpu::features_within(isa), .threads = threads};
  if (isa == cpu::Isa::Amx) machine.amx = &cpu::amx_table();
  return machine;
}

// Lists the tactics of a described machine in a random order, so that a build without timing takes any of
// them.
class ListingBackend final : public Backend {
 public:
  ListingBackend(const cpu::Machine& machine, uint32_t seed) : machine_(machine), random_(seed) {
    target_.backend = "cpu";
  }
  const Target& target() const override { return target_; }
  std::vector<Tactic> tactics(const LayerQuery& query) const override {
    std::vector<Tactic> all;
    for (const cpu::TacticFamily& family : cpu::tactic_families())
      for (Tactic& tactic : family.list(query, machine_)) all.push_back(std::move(tactic));
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }
  std::vector<std::string_view> own_operators() const override {
    return {SqueezeExcite::kName, DFT::kName, STFT::kName, Col2Im::kName};
  }
  Support supports_compute_type(DType) const override { return {}; }
  bool is_host() const override { return true; }
  std::vector<std::pair<std::string, std::string>> device_information() const override { return {}; }
  std::unique_ptr<TimedLayer> prepare_timing(const LayerQuery&, const Tactic&) const override {
    return none();
  }
  std::unique_ptr<Program> compile(const ProgramSpec&) const override { return none(); }
  std::unique_ptr<Stream> create_stream() const override { return none(); }
  std::unique_ptr<TimeEvent> create_event() const override { return none(); }
  std::unique_ptr<Buffer> allocate(size_t) const override { return none(); }
  std::unique_ptr<Buffer> allocate_host(size_t) const override { return none(); }
  void copy_to_device(void*, const void*, size_t, Stream&) const override { none(); }
  void copy_to_host(void*, const void*, size_t, Stream&) const override { none(); }

 private:
  static std::nullptr_t none() { throw_input_error("only lists"); }
  const cpu::Machine machine_;
  mutable std::mt19937 random_;
  Target target_;
};

const char* const kMobile = R"(graph "mobile" {
  input %x: float32[n, 32, 14, 14]
  const %w0: float32[96, 32, 1, 1] = random 1
  const %b0: float32[96] = random 2
  const %w1: float32[96, 1, 3, 3] = random 3
  const %b1: float32[96] = random 4
  const %w2: float32[32, 96, 1, 1] = random 5
  const %b2: float32[32] = random 6
  const %f: float32[6272, 512] = random 7
  const %g: float32[512, 64] = random 8
  %a: float32[n, 96, 14, 14] = Conv "a" (%x, %w0, %b0) {kernel=[1, 1], strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]}
  %ra: float32[n, 96, 14, 14] = Pointwise "ra" (%a) {code=Relu}
  %b: float32[n, 96, 14, 14] = Conv "b" (%ra, %w1, %b1) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], groups=96}
  %rb: float32[n, 96, 14, 14] = Pointwise "rb" (%b) {code=Relu}
  %c: float32[n, 32, 14, 14] = Conv "c" (%rb, %w2, %b2) {kernel=[1, 1], strides=[1, 1], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]}
  %s: float32[n, 32, 14, 14] = Pointwise "s" (%c, %x) {code=Add}
  %r: float32[n, 6272] = Reshape "r" (%s) {shape=[n, 6272]}
  %m: float32[n, 512] = MatMul "m" (%r, %f)
  %h: float32[n, 512] = Pointwise "h" (%m) {code=Relu}
  %y: float32[n, 64] = MatMul "y" (%h, %g)
  output %y
})";

// Builds without timing, and asks of every choice, on machines with other numbers of threads, too.
void check_graph(const Graph& portable, cpu::Isa isa, uint32_t seed, std::set<std::string>& seen) {
  std::mt19937 random(seed);
  const int threads = std::vector{1, 2, 8}[random() % 3];
  const ListingBackend backend(described(isa, threads), seed);
  ThreadPool pool(1);
  TimingCache cache;
  NullObserver quiet;
  const Pipeline pipeline{backend, pool, cache, quiet};
  SymbolRanges ranges;
  for (const std::string& symbol : portable.symbols()) ranges[symbol] = {1, 4, 16};
  std::vector<DType> types;
  if (isa >= cpu::Isa::Avx512Bf16 && random() % 3 > 0) types = {DType::BFloat16};
  Graph graph = optimize(portable, ranges, types, {}, pipeline, {});
  if (random() % 2 == 0) {
    PassContext context(quiet, pool);
    run_passes(graph, optional_stages(), {}, context);
  }
  const TunedGraph tuned = tune_graph(graph, ranges, backend, {.level = 0}, cache, quiet);
  const std::vector<Graph> asked = graphs_to_ask(tuned.graph, tuned.choices);
  for (size_t i = 0; i < tuned.choices.size(); ++i) {
    const Tactic& tactic = tuned.choices[i].tactic;
    seen.insert(tactic.runner);
    for (const int other : {1, 2, 8, 64})
      EXPECT_NO_THROW(check_choice(asked, tuned.graph.order()[i], ranges, tactic, described(isa, other)))
          << "seed " << seed << ", built with " << threads << " threads, loaded with " << other << "\n"
          << to_text(tuned.graph);
  }
}

TEST(Offered, WhateverABuildChose) {
  std::set<std::string> seen;
  for (const cpu::Isa isa : {cpu::Isa::Avx2, cpu::Isa::Avx512, cpu::Isa::Avx512Bf16, cpu::Isa::Amx})
    for (uint32_t seed = 0; seed < 12; ++seed) {
      check_graph(random_graph(seed), isa, seed, seen);
      check_graph(parse_graph(kMobile), isa, seed, seen);
    }
  EXPECT_GT(seen.size(), 15u);
}

}  // namespace
}  // namespace lathe
