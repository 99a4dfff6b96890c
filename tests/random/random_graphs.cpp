// SPDX-License-Identifier: Apache-2.0
//
// Engines of random graphs against the oracle. A backend lists several tactics for a layer; a build without
// timing takes the first, so this program puts another one first for every layer, drawn from the seed: with
// enough seeds every tactic meets every neighbour, in every format.
//
// usage: random_graphs [--seeds A..B] [--steps N] [--cpuIsa NAME] [--threads N]
// Prints one line per failure with the command that reproduces it; exit code 1 when there was one.
#include <algorithm>
#include <iostream>
#include <set>

#include "backend/all.h"
#include "base/error.h"
#include "builder/builder.h"
#include "ops/interpreter.h"
#include "reference/compare.h"
#include "reference/random_graph.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

struct Arguments {
  uint64_t first = 0, last = 49;
  int steps = 14, threads = 2;
  std::string isa;
};

Arguments parse_arguments(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--seeds") {
      const size_t dots = value.find("..");
      a.first = std::stoull(value);
      a.last = dots == std::string::npos ? a.first : std::stoull(value.substr(dots + 2));
    } else if (flag == "--steps") {
      a.steps = std::stoi(value);
    } else if (flag == "--cpuIsa") {
      a.isa = value;
    } else if (flag == "--threads") {
      a.threads = std::stoi(value);
    } else {
      throw_input_error("unknown flag " + flag + "; there are --seeds, --steps, --cpuIsa, --threads");
    }
  }
  return a;
}

// A backend whose list of tactics begins with one that the seed chose.
class ShuffledBackend final : public Backend {
 public:
  ShuffledBackend(std::shared_ptr<const Backend> backend, uint64_t seed)
      : backend_(std::move(backend)), seed_(seed) {}

  std::vector<Tactic> tactics(const LayerQuery& query) const override {
    std::vector<Tactic> list = backend_->tactics(query);
    // Any supported tactic may come first; the last resort too, but rarely, because it judges nothing.
    std::vector<size_t> candidates;
    RandomStream stream(seed_ ^ (static_cast<uint64_t>(query.node) * 0x9e3779b97f4a7c15u));
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].support.ok && (!list[i].last_resort || stream.integer(0, 9) == 0)) candidates.push_back(i);
    }
    if (candidates.empty()) return list;
    const auto pick = static_cast<size_t>(stream.integer(0, static_cast<int64_t>(candidates.size()) - 1));
    std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(candidates[pick]),
                list.begin() + static_cast<std::ptrdiff_t>(candidates[pick]) + 1);
    return list;
  }

  const Target& target() const override { return backend_->target(); }
  std::unique_ptr<TimedLayer> prepare_timing(const LayerQuery& query, const Tactic& tactic) const override {
    return backend_->prepare_timing(query, tactic);
  }
  std::unique_ptr<Program> compile(const ProgramSpec& spec) const override { return backend_->compile(spec); }
  Support supports_compute_type(DType dtype) const override { return backend_->supports_compute_type(dtype); }
  std::unique_ptr<Stream> create_stream() const override { return backend_->create_stream(); }
  std::unique_ptr<TimeEvent> create_event() const override { return backend_->create_event(); }
  std::unique_ptr<Buffer> allocate(size_t bytes) const override { return backend_->allocate(bytes); }
  std::unique_ptr<Buffer> allocate_host(size_t bytes) const override {
    return backend_->allocate_host(bytes);
  }
  void copy_to_device(void* device, const void* host, size_t bytes, Stream& stream) const override {
    backend_->copy_to_device(device, host, bytes, stream);
  }
  void copy_to_host(void* host, const void* device, size_t bytes, Stream& stream) const override {
    backend_->copy_to_host(host, device, bytes, stream);
  }
  bool is_host() const override { return backend_->is_host(); }
  std::vector<std::pair<std::string, std::string>> device_information() const override {
    return backend_->device_information();
  }

 private:
  std::shared_ptr<const Backend> backend_;
  uint64_t seed_;
};

OptimizationProfile profile_for(const Graph& graph) {
  OptimizationProfile profile;
  for (ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    const auto at = [&](int64_t batch) { return evaluate(value.shape, {{"batch", batch}}); };
    profile.shapes[value.name] = {at(1), at(2), at(4)};
  }
  return profile;
}

// The tactics of an engine, for the report of a failure.
std::string tactics_of(const Engine& engine) {
  std::string text;
  const Graph& graph = engine.graph();
  for (size_t i = 0; i < graph.order().size(); ++i) {
    text += "\n    " + graph.node(graph.order()[i]).name + ": " + engine.choices()[i].tactic.name;
  }
  return text;
}

// Empty when every output at every batch agrees.
std::string check_seed(uint64_t seed, const Arguments& arguments,
                       const std::shared_ptr<const Backend>& backend, ThreadPool& pool,
                       std::set<std::string>& tactics) {
  auto graph = std::make_shared<const Graph>(random_graph(seed, {.steps = arguments.steps}));
  NullObserver observer;
  Builder builder(std::make_shared<ShuffledBackend>(backend, seed), observer);
  Network network{.graph = graph};
  BuildOptions options;
  options.profiles = {profile_for(*graph)};
  options.optimization_level = 0;
  options.timing_cache_mode = TimingCacheMode::Disabled;
  const auto engine = builder.build(network, options);
  for (const Choice& choice : engine->choices()) tactics.insert(choice.tactic.name);
  const auto context = engine->create_context();
  for (int64_t batch : {2, 1, 4}) {
    const std::vector<Tensor> inputs = random_inputs(*graph, {{"batch", batch}}, seed);
    const std::vector<Tensor> expected = interpret(*graph, inputs, {.pool = &pool});
    const std::vector<Tensor> actual = context->run(inputs);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (agrees(actual[i], expected[i])) continue;
      return "batch " + std::to_string(batch) + ", output '" + graph->value(graph->outputs()[i]).name +
             "': " + compare(actual[i], expected[i]).to_string() + tactics_of(*engine);
    }
  }
  return {};
}

int run(const Arguments& arguments) {
  auto pool = std::make_shared<ThreadPool>(arguments.threads);
  const auto backend = open_backend({.cpu_isa = arguments.isa, .threads = arguments.threads, .pool = pool});
  int failures = 0;
  std::set<std::string> tactics;  // that took part
  for (uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
    std::string problem;
    try {
      problem = check_seed(seed, arguments, backend, *pool, tactics);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) continue;
    ++failures;
    std::cout << "seed " << seed << ": " << problem << "\n  reproduce: build/bin/random_graphs --seeds "
              << seed << " --steps " << arguments.steps << " --threads " << arguments.threads
              << (arguments.isa.empty() ? "" : " --cpuIsa " + arguments.isa) << std::endl;
  }
  std::cout << arguments.last - arguments.first + 1 << " random graphs, " << failures << " wrong, "
            << tactics.size() << " tactics took part\n";
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  try {
    return lathe::run(lathe::parse_arguments(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
