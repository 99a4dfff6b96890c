// SPDX-License-Identifier: Apache-2.0
//
// What the tuner measured, and another decision: edit_timing_cache model.onnx model.cache
//
// The first build times all candidates of each layer. The entry of one that lost gets a shorter time, and the
// next build, which times nothing, takes it. A layer has entries for each format in which it could have been;
// those in which it is count.
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

int main(int argc, char** argv) {
  return run(argc, argv, 2, "edit_timing_cache model.onnx model.cache",
             [](const std::vector<std::string>& words) {
               ConsoleLogger logger;
               Builder builder(logger);
               const Network network = builder.parse_onnx(words[0]);
               BuilderConfig config;
               config.optimization_level = 2;
               config.timing_cache.load(words[1]);
               builder.build(network, config);
               config.timing_cache.save(words[1]);

               std::map<uint64_t, std::vector<TimingCacheEntry>> layers;
               for (const TimingCacheEntry& entry : config.timing_cache.entries())
                 if (entry.milliseconds > 0) layers[entry.signature].push_back(entry);
               config.error_on_timing_cache_miss = true;  // nothing is timed any more
               for (auto& [signature, rivals] : layers) {
                 std::ranges::sort(rivals, {}, &TimingCacheEntry::milliseconds);
                 const std::string loser = tactic_of(rivals.back());
                 const int64_t before = layers_with(builder.build(network, config), loser);
                 config.timing_cache.set_time(rivals.back(), rivals.front().milliseconds / 1000);
                 const int64_t after = layers_with(builder.build(network, config), loser);
                 if (after > before) {
                   for (const TimingCacheEntry& rival : rivals)
                     std::cout << rival.milliseconds << " ms  " << tactic_of(rival) << "\n";
                   std::cout << "layers with " << loser << ": " << before << ", then " << after << "\n";
                   return;
                 }
                 config.timing_cache.set_time(rivals.back(),
                                              rivals.back().milliseconds);  // formats that no layer has
               }
             });
}
