// SPDX-License-Identifier: Apache-2.0
//
// Every class of the public API, used as a program outside of the project uses it: through include/lathe and the shared
// library alone.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <span>

#include "lathe/builder.h"
#include "lathe/network.h"
#include "lathe/runtime.h"
#include "lathe/types.h"
#include "tiny_onnx.h"

namespace lathe::v1 {
namespace {

namespace fs = std::filesystem;

class Lines final : public Logger {
 public:
  void log(Severity severity, std::string_view text) override { lines.emplace_back(severity, text); }
  std::vector<std::pair<Severity, std::string>> lines;
};

// A folder of this test, gone with it.
class Api : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const std::string& name) const { return (folder / name).string(); }

  Network parse() {
    const std::string model = api_test::tiny_onnx();
    return builder.parse_onnx(std::as_bytes(std::span(model)));
  }
  BuilderConfig config() const {
    BuilderConfig result;
    result.optimization_level = 0;
    result.profiles.emplace_back().set_dims("x", {1, 4}, {2, 4}, {8, 4});
    return result;
  }
  Engine build() { return builder.build(parse(), config()); }

  const fs::path folder = fs::temp_directory_path() / ("lathe_api_test_" + std::to_string(::getpid()));
  Lines logger;
  Builder builder{logger, {.threads = 1}};
};

// The message of the error that `call` throws, which must be of that kind.
std::string message_of(ErrorKind kind, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

const std::vector<float> kTwoRows = {1, 2, 3, 4, 0, 0, 500, 1};
const std::vector<float> kTheirResult = {5, 16, 0, 1, 11, 401};

std::vector<float> floats(const HostTensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + volume(tensor.dims)};
}

TEST(HostTensor, HoldsItsElements) {
  const HostTensor tensor(DataType::Int32, {2, 2}, std::vector<int32_t>{1, 2, 3, 4});
  EXPECT_EQ(tensor.bytes.size(), 16u);
  EXPECT_EQ(tensor.data<int32_t>()[3], 4);
  EXPECT_EQ(volume({}), 1);
  EXPECT_EQ(data_bytes(DataType::Int4, 3), 2u);
  EXPECT_EQ(data_type_name(DataType::BFloat16), "bfloat16");
  expect_part(message_of(ErrorKind::Input, [] { volume({-1, 2}); }), "no volume");
}

TEST(HostTensor, RefusesValuesThatDoNotFit) {
  const auto make = [](DataType type, Dims dims) {
    return message_of(ErrorKind::Input, [&] { HostTensor(type, dims, std::vector<float>{1, 2, 3}); });
  };
  expect_part(make(DataType::Float, {4}), "3 values of 4 bytes");
  expect_part(make(DataType::Float, {2}), "needs 8 bytes");
  expect_part(make(DataType::Double, {3}), "float64");
}

TEST_F(Api, NetworkDescribesTheModel) {
  const Network network = parse();
  EXPECT_EQ(network.name(), "tiny");
  EXPECT_GE(network.layer_count(), 2);
  ASSERT_EQ(network.inputs().size(), 1u);
  const TensorInfo x = network.inputs()[0];
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.type, DataType::Float);
  EXPECT_EQ(x.dims, (Dims{-1, 4}));
  EXPECT_EQ(x.dim_names, (std::vector<std::string>{"batch", "4"}));
  EXPECT_FALSE(x.is_shape_tensor);
  EXPECT_EQ(network.outputs()[0].name, "y");
}

TEST_F(Api, BuilderReadsFiles) {
  std::ofstream(path("tiny.onnx"), std::ios::binary) << api_test::tiny_onnx();
  EXPECT_EQ(builder.parse_onnx(path("tiny.onnx")).inputs()[0].name, "x");
  expect_part(message_of(ErrorKind::System, [&] { builder.parse_onnx(path("missing.onnx")); }),
              "missing.onnx");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           BuilderConfig wrong = config();
                           wrong.profiles[0].set_dims("z", {1}, {1}, {1});
                           builder.build(parse(), wrong);
                         }),
              "'z'");
}

TEST_F(Api, EngineDescribesItself) {
  const Engine engine = build();
  EXPECT_EQ(engine.profile_count(), 1);
  EXPECT_EQ(engine.min_dims("x"), (Dims{1, 4}));
  EXPECT_EQ(engine.opt_dims("x"), (Dims{2, 4}));
  EXPECT_EQ(engine.max_dims("x"), (Dims{8, 4}));
  EXPECT_EQ(engine.inputs()[0].name, "x");
  EXPECT_EQ(engine.outputs()[0].name, "y");
  EXPECT_FALSE(engine.layer_names().empty());
  EXPECT_GT(engine.weight_bytes(), 0);
  EXPECT_GE(engine.activation_bytes(), 0);
  expect_part(message_of(ErrorKind::Input, [&] { engine.min_dims("z"); }), "'z'");
  expect_part(message_of(ErrorKind::Input, [&] { engine.layer_names(1); }), "profile");
}

TEST_F(Api, ContextRunsAndCopies) {
  ExecutionContext context = build().create_context();
  const auto outputs = context.run({HostTensor(DataType::Float, {2, 4}, kTwoRows)});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].dims, (Dims{2, 3}));
  EXPECT_EQ(floats(outputs[0]), kTheirResult);
  expect_part(message_of(ErrorKind::Input, [&] { context.run({HostTensor(DataType::Float, {9, 4})}); }), "x");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           context.run({HostTensor(DataType::Int32, {2, 4})});
                         }),
              "int32");
  expect_part(message_of(ErrorKind::Input, [&] { context.run({}); }), "input");
}

TEST_F(Api, ContextRunsInMemoryOfTheCaller) {
  ExecutionContext context = build().create_context();
  context.set_input_dims("x", {2, 4});
  ASSERT_EQ(context.input_bytes(0), 32u);
  ASSERT_EQ(context.output_bytes(0), 24u);
  EXPECT_EQ(context.output_dims(0), (Dims{2, 3}));
  std::vector<float> x = kTwoRows, y(6);
  context.enqueue(std::vector<void*>{x.data(), y.data()});
  EXPECT_EQ(y, kTheirResult);
  EXPECT_GE(context.device_bytes(), 0);
  context.set_profile(0);
  context.set_input_dims("x", {1, 4});
  EXPECT_EQ(context.output_bytes(0), 12u);
  expect_part(message_of(ErrorKind::Input, [&] { context.output_bytes(1); }), "1 outputs");
  expect_part(message_of(ErrorKind::Input, [&] { context.set_input_dims("z", {1}); }), "z");
  expect_part(message_of(ErrorKind::Input, [&] { context.set_input_values("x", {1}); }), "x");
}

TEST_F(Api, ProfilerTimesLayers) {
  const Engine engine = build();
  ExecutionContext context = engine.create_context();
  context.set_input_dims("x", {2, 4});
  std::vector<float> x = kTwoRows, y(6);
  Profiler profiler;
  EXPECT_EQ(profiler.runs(), 0);
  EXPECT_TRUE(profiler.layers().empty());
  for (int i = 0; i < 3; ++i) context.enqueue_profiled(std::vector<void*>{x.data(), y.data()}, profiler);
  EXPECT_EQ(profiler.runs(), 3);
  ASSERT_EQ(profiler.layers().size(), engine.layer_names().size());
  const Profiler::Layer layer = profiler.layers()[0];
  EXPECT_EQ(layer.name, engine.layer_names()[0]);
  EXPECT_NEAR(layer.average_ms * 3, layer.total_ms, 1e-9);
  EXPECT_EQ(y, kTheirResult);
}

TEST_F(Api, EnginesAreSavedAndLoaded) {
  const Engine engine = build();
  engine.save(path("tiny.engine"));
  Runtime runtime(logger, {.threads = 1});
  EXPECT_FALSE(runtime.device_description().empty());
  for (const Engine& loaded : {runtime.load(path("tiny.engine")), runtime.load(engine.serialize())}) {
    const auto outputs = loaded.create_context().run({HostTensor(DataType::Float, {2, 4}, kTwoRows)});
    EXPECT_EQ(floats(outputs[0]), kTheirResult);
  }
  std::vector<std::byte> cut_off = engine.serialize();
  cut_off.resize(cut_off.size() / 2);
  EXPECT_FALSE(message_of(ErrorKind::Input, [&] { runtime.load(cut_off); }).empty());
  expect_part(message_of(ErrorKind::System, [&] { runtime.load(path("missing.engine")); }), "missing.engine");
}

TEST_F(Api, EnginesAreMadeForThisDeviceAgain) {
  build().save(path("tiny.engine"));
  BuilderConfig level = config();
  for (const Engine& engine :
       {builder.retarget(path("tiny.engine")), builder.retune(path("tiny.engine"), level)}) {
    const auto outputs = engine.create_context().run({HostTensor(DataType::Float, {2, 4}, kTwoRows)});
    EXPECT_EQ(floats(outputs[0]), kTheirResult);
  }
}

TEST_F(Api, TimingCacheMakesBuildsTheSame) {
  BuilderConfig timed = config();
  timed.optimization_level = 1;
  const std::vector<std::byte> first = builder.build(parse(), timed).serialize();
  EXPECT_GT(timed.timing_cache.size(), 0u);
  timed.timing_cache.save(path("timing.cache"));

  BuilderConfig cached = config();
  cached.optimization_level = 1;
  EXPECT_FALSE(cached.timing_cache.load(path("missing.cache")));
  EXPECT_TRUE(cached.timing_cache.load(path("timing.cache")));
  EXPECT_EQ(cached.timing_cache.size(), timed.timing_cache.size());
  cached.error_on_timing_cache_miss = true;
  EXPECT_EQ(builder.build(parse(), cached).serialize(), first);

  TimingCache both;
  both.merge(timed.timing_cache);
  EXPECT_EQ(both.size(), timed.timing_cache.size());
  BuilderConfig empty = config();
  empty.optimization_level = 1;
  empty.error_on_timing_cache_miss = true;
  EXPECT_FALSE(message_of(ErrorKind::Input, [&] { builder.build(parse(), empty); }).empty());
}

TEST_F(Api, LoggerHearsTheBuild) {
  build();
  EXPECT_FALSE(logger.lines.empty());
  for (const auto& [severity, text] : logger.lines) EXPECT_NE(severity, Severity::Error) << text;
}

TEST(Devices, AreRefusedByName) {
  Lines logger;
  expect_part(message_of(ErrorKind::Input, [&] { Runtime(logger, {.device = "toaster"}); }), "toaster");
  expect_part(message_of(ErrorKind::Input, [&] { Builder(logger, {.cpu_isa = "mmx"}); }), "mmx");
  EXPECT_FALSE(version().empty());
}

}  // namespace
}  // namespace lathe::v1
