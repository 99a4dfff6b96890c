// SPDX-License-Identifier: Apache-2.0
//
// What the tuner measured, and another decision: edit_timing_cache model.onnx model.cache
//
// The first build times all candidates of each layer. The entry of one that lost gets a shorter time, and the
// next build, which times nothing, takes it.
#include <algorithm>
#include <map>

#include "lathe/inspector.h"
#include "sample.h"

using namespace sample;

std::string tactic_of(const TimingCacheEntry& entry) {
  return entry.about.substr(0, entry.about.find(" | "));
}

int64_t layers_with(const Engine& engine, const std::string& tactic) {
  const auto layers = EngineInspector(engine).layers();
  return std::ranges::count(layers, tactic, &LayerDescription::tactic);
}

// Gives the slowest of a layer's candidates the shortest time. False when the next build does not take it: a
// layer has candidates for each format in which it could have been, and those in which it is count.
bool promote_slowest(Builder& builder, const Network& network, BuilderConfig& config, const Engine& timed,
                     std::vector<TimingCacheEntry>& rivals) {
  std::ranges::sort(rivals, {}, &TimingCacheEntry::milliseconds);
  const TimingCacheEntry& slowest = rivals.back();
  const std::string tactic = tactic_of(slowest);
  config.timing_cache.set_time(slowest, rivals.front().milliseconds / 1000);
  const int64_t before = layers_with(timed, tactic),
                after = layers_with(builder.build(network, config), tactic);
  if (after <= before) {
    config.timing_cache.set_time(slowest, slowest.milliseconds);
    return false;
  }
  for (const TimingCacheEntry& rival : rivals)
    std::cout << rival.milliseconds << " ms  " << tactic_of(rival) << "\n";
  std::cout << "layers with " << tactic << ": " << before << ", then " << after << "\n";
  return true;
}

int main(int argc, char** argv) {
  return run(argc, argv, 2, "edit_timing_cache model.onnx model.cache",
             [](const std::vector<std::string>& words) {
               ConsoleLogger logger;
               Builder builder(logger);
               const Network network = builder.parse_onnx(words[0]);
               BuilderConfig config;
               config.optimization_level = 2;
               config.timing_cache.load(words[1]);
               const Engine timed = builder.build(network, config);
               config.timing_cache.save(words[1]);
               config.error_on_timing_cache_miss = true;  // nothing is timed any more

               std::map<uint64_t, std::vector<TimingCacheEntry>> layers;
               for (const TimingCacheEntry& entry : config.timing_cache.entries())
                 if (entry.milliseconds > 0) layers[entry.signature].push_back(entry);
               for (auto& [signature, rivals] : layers)
                 if (promote_slowest(builder, network, config, timed, rivals)) return;
             });
}
