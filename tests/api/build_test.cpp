// SPDX-License-Identifier: Apache-2.0
//
// What decides builds and what is known of them: passes, timing caches, build information; and refits on
// streams.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "fixture.h"
#include "lathe/inspector.h"
#include "lathe/network.h"

namespace lathe::v1 {
namespace {

HostTensor two_rows() {
  return HostTensor(DataType::Float, {2, 4}, kTwoRows);
}

TEST_F(Api, PassesCanBeSwitchedOff) {
  const std::vector<OptimizerPass> passes = optimizer_passes();
  EXPECT_TRUE(std::ranges::any_of(passes, [](const OptimizerPass& p) {
    return p.name == "fuse_matmul_epilogue" && p.does.find("epilogue") != std::string::npos;
  }));
  EXPECT_EQ(build().layer_names().size(), 1u);
  BuilderConfig apart = config();
  for (const OptimizerPass& pass : passes)
    if (pass.name.starts_with("fuse_")) apart.disabled_passes.push_back(pass.name);
  const Engine engine = builder.build(parse(), apart);
  EXPECT_EQ(engine.layer_names().size(), 3u) << "product, sum and activation";
  EXPECT_EQ(floats(engine.create_context().run({two_rows()})[0]), kTheirResult);
  // A refit leaves out what the build left out.
  Refitter refitter(logger, engine);
  refitter.set_disabled_passes(apart.disabled_passes);
  EXPECT_EQ(refitter.refit().layer_names().size(), 3u);
  apart.disabled_passes = {"fuse_everything"};
  expect_part(message_of(ErrorKind::Input, [&] { builder.build(parse(), apart); }),
              "there is no pass \"fuse_everything\"");
}

TEST_F(Api, TimingCachesAreEdited) {
  BuilderConfig timed;  // of one item, so that no batch is split
  timed.profiles.emplace_back().set_dims("x", {1, 4}, {1, 4}, {1, 4});
  timed.optimization_level = 3;
  builder.build(parse(), timed);
  std::map<uint64_t, std::vector<TimingCacheEntry>> layers;
  for (const TimingCacheEntry& entry : timed.timing_cache.entries())
    if (entry.milliseconds > 0) layers[entry.signature].push_back(entry);
  const auto most = std::ranges::max_element(layers, {}, [](const auto& l) { return l.second.size(); });
  ASSERT_NE(most, layers.end());
  std::vector<TimingCacheEntry>& rivals = most->second;
  ASSERT_GT(rivals.size(), 1u) << "nothing to choose from";
  std::ranges::sort(rivals, {}, &TimingCacheEntry::milliseconds);
  const auto runs_with = [&](const TimingCacheEntry& entry) {
    const std::string tactic = entry.about.substr(0, entry.about.find(" | "));
    const auto built = EngineInspector(builder.build(parse(), timed)).layers();
    return std::ranges::any_of(built, [&](const auto& layer) { return layer.tactic == tactic; });
  };
  timed.error_on_timing_cache_miss = true;
  for (const TimingCacheEntry& rival : rivals) {
    timed.timing_cache.set_time(rival, rivals.front().milliseconds / 1000);
    EXPECT_TRUE(runs_with(rival)) << rival.about;
    timed.timing_cache.set_time(rival, 1000);
    EXPECT_FALSE(runs_with(rival)) << rival.about;
    timed.timing_cache.set_time(rival, rival.milliseconds);
  }
  const auto refused = [&](TimingCacheEntry entry, double ms) {
    return message_of(ErrorKind::Input, [&] { timed.timing_cache.set_time(entry, ms); });
  };
  expect_part(refused(rivals[0], 0), "give a number above 0");
  expect_part(refused(rivals[0], std::numeric_limits<double>::infinity()), "no layer takes such a time");
  TimingCacheEntry unknown = rivals[0];
  unknown.tactic ^= 1;
  expect_part(refused(unknown, 1), "no such entry");
}

TEST_F(Api, EnginesTellHowTheyWereBuilt) {
  const BuildInfo usual = build().build_info();
  EXPECT_EQ(usual.lathe_version, version());
  EXPECT_EQ(usual.settings, "level 0, fp32");
  EXPECT_FALSE(usual.timed);
  EXPECT_FALSE(usual.detailed_layer_information);
  EXPECT_EQ(usual.model, "tiny");
  EXPECT_EQ(usual.opset_version, 17);
  EXPECT_EQ(usual.device, Runtime(logger, {.threads = 1}).device_description());

  BuilderConfig other = config();
  other.optimization_level = 1;
  other.detailed_layer_information = true;
  other.disabled_runners = {"OnednnMatMul"};
  other.disabled_passes = {"fuse_pointwise"};
  other.workspace_limit_bytes = 12345;
  other.winograd = false;
  const std::vector<std::byte> file = builder.build(parse(), other).serialize();
  const BuildInfo told = Runtime(logger, {.threads = 1}).load(file).build_info();
  EXPECT_EQ(
      told.settings,
      "level 1, fp32, no Winograd, workspace 12345 bytes, without OnednnMatMul, without pass fuse_pointwise");
  EXPECT_TRUE(told.detailed_layer_information);
}

TEST_F(Api, RefitsOnAStream) {
  const Engine old = build();
  Stream stream;
  std::shared_future<Engine> pending;
  {
    Refitter refitter(logger, old);
    refitter.set("bias", HostTensor(DataType::Float, {3}, std::vector<float>{1, 1, 1}));
    pending = refitter.refit(stream);
    // What is set now belongs to the next one; and the refitter may go.
    refitter.set("bias", HostTensor(DataType::Float, {3}, std::vector<float>{0, 0, 0}));
  }
  ExecutionContext context = old.create_context();
  EXPECT_EQ(floats(context.run({two_rows()})[0]), kTheirResult) << "the old engine stays as it is";
  stream.synchronize();
  EXPECT_EQ(floats(pending.get().create_context().run({two_rows()})[0]),
            (std::vector<float>{6, 7, 8, 2, 2, 502}));

  // What goes wrong is in the future and in the stream.
  NetworkBuilder net;
  const NetworkTensor x = net.input("x", DataType::Float, {1, 64});
  net.output(net.matrix_multiply(x, net.constant(HostTensor(DataType::Float, {64, 64}))), "y");
  builder.build(net.finish(), {.optimization_level = 0}).save_stripped(path("stripped.engine"));
  Refitter empty(logger, path("stripped.engine"));
  pending = empty.refit(stream);
  expect_part(message_of(ErrorKind::Input, [&] { pending.get(); }), "weights");
  expect_part(message_of(ErrorKind::Input, [&] { stream.synchronize(); }), "weights");
}

}  // namespace
}  // namespace lathe::v1
