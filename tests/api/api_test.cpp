// SPDX-License-Identifier: Apache-2.0
//
// The classes of the public API besides contexts, used as a program outside of the project uses them: through
// include/lathe and the shared library alone.
#include <cstring>
#include <optional>
#include <stop_token>
#include <tuple>

#include "fixture.h"
#include "lathe/inspector.h"
#include "lathe/network.h"
#include "lathe/types.h"

namespace lathe::v1 {
namespace {

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

TEST_F(Api, RefitterGivesOtherWeights) {
  const Engine engine = build();
  const HostTensor x(DataType::Float, {2, 4}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  const auto result = [&](const Engine& e) { return e.create_context().run({x})[0]; };
  Refitter refitter(logger, engine);
  ASSERT_FALSE(refitter.weights().empty());
  const WeightsInfo w = refitter.weights()[0];
  EXPECT_FALSE(w.missing);
  refitter.set(w.name, HostTensor(w.type, w.dims));  // zeros
  const Engine other = refitter.refit();
  EXPECT_NE(result(other).bytes, result(engine).bytes);
  expect_part(
      message_of(ErrorKind::Input, [&] { refitter.set("nothing", HostTensor(DataType::Float, {1})); }),
      "'nothing'");

  const std::string model = api_test::tiny_onnx();
  engine.save_stripped(path("stripped.engine"));
  EXPECT_EQ(fs::file_size(path("stripped.engine")), engine.serialize_stripped().size());
  for (const bool from_file : {true, false}) {
    std::optional<Refitter> again;
    from_file ? again.emplace(logger, path("stripped.engine"), DeviceConfig{.threads = 1})
              : again.emplace(logger, other.serialize(), DeviceConfig{.threads = 1});
    again->set_from_onnx(std::as_bytes(std::span(model)));
    EXPECT_EQ(result(again->refit()).bytes, result(engine).bytes);
  }
}

class Follower final : public ProgressMonitor {
 public:
  bool on_progress(const Progress& progress) override {
    steps.push_back(progress);
    return !cancels;
  }
  std::vector<Progress> steps;
  bool cancels = false;
};

TEST_F(Api, ProgressIsToldAndCancels) {
  BuilderConfig timed = config();
  timed.optimization_level = 1;
  Follower follower;
  timed.progress = &follower;
  builder.build(parse(), timed);
  ASSERT_FALSE(follower.steps.empty());
  EXPECT_EQ(follower.steps[0].stage, "Tuning");
  EXPECT_GT(follower.steps[0].total, 0);
  const size_t heard = follower.steps.size();
  build();  // another build is not followed
  EXPECT_EQ(follower.steps.size(), heard);
  follower.cancels = true;
  timed.timing_cache = TimingCache();
  expect_part(message_of(ErrorKind::Cancelled, [&] { builder.build(parse(), timed); }), "cancelled");
}

TEST_F(Api, BuildsStopFromOutside) {
  std::stop_source stop;
  BuilderConfig stopped = config();
  stopped.stop = stop.get_token();
  builder.build(parse(), stopped);
  stop.request_stop();
  expect_part(message_of(ErrorKind::Cancelled, [&] { builder.build(parse(), stopped); }), "cancelled");
}

TEST_F(Api, ProfilerTimesLayers) {
  const Engine engine = build();
  ExecutionContext context = engine.create_context();
  std::vector<float> x = kTwoRows, y(6);
  bind_both(context, x, y);
  Profiler profiler;
  EXPECT_EQ(profiler.runs(), 0);
  EXPECT_TRUE(profiler.layers().empty());
  for (int i = 0; i < 3; ++i) context.execute(profiler);
  EXPECT_EQ(profiler.runs(), 3);
  ASSERT_EQ(profiler.layers().size(), engine.layer_names().size());
  const Profiler::Layer layer = profiler.layers()[0];
  EXPECT_EQ(layer.name, engine.layer_names()[0]);
  EXPECT_NEAR(layer.average_ms * 3, layer.total_ms, 1e-9);
  EXPECT_EQ(y, kTheirResult);
}

TEST_F(Api, InspectorTellsWhatRuns) {
  const Engine engine = build();
  const EngineInspector inspector(engine);
  const std::vector<LayerDescription> layers = inspector.layers();
  ASSERT_EQ(layers.size(), engine.layer_names().size());
  std::vector<std::string> nodes;
  for (const LayerDescription& layer : layers) {
    EXPECT_FALSE(layer.type.empty());
    EXPECT_EQ(layer.fallback, "");
    nodes.insert(nodes.end(), layer.onnx_nodes.begin(), layer.onnx_nodes.end());
    expect_part(inspector.json(), inspector.layer_json(layer.name));
    expect_part(inspector.layer_json(layer.name), "\"Name\": \"" + layer.name + "\"");
    expect_part(inspector.text(), layer.name);
    expect_part(inspector.layer_text(layer.name), layer.name);
  }
  EXPECT_EQ(nodes, (std::vector<std::string>{"MatMul_product", "Add_sum", "Relu_y"}));
  EXPECT_EQ(layers.front().inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(layers.back().outputs, std::vector<std::string>{"y"});
  EXPECT_FALSE(layers.back().tactic.empty());
  expect_part(inspector.json(), "\"Bindings\"");
  EXPECT_EQ(fields_of([&] { inspector.layer_json("z"); }).where, "layer 'z'");
}

TEST_F(Api, SupportIsKnownBeforeABuild) {
  const auto check = [&](const std::string& model) {
    std::ofstream(path("model.onnx"), std::ios::binary) << model;
    return builder.check_onnx(path("model.onnx"));
  };
  EXPECT_TRUE(check(api_test::tiny_onnx()).supported);
  EXPECT_EQ(check(api_test::tiny_onnx()).reason, "");
  const ModelSupport unknown = check(api_test::unknown_onnx());
  EXPECT_FALSE(unknown.supported);
  ASSERT_EQ(unknown.unsupported_nodes.size(), 2u);
  EXPECT_EQ(unknown.unsupported_nodes[0].name, "Frobnicate_a");
  EXPECT_EQ(unknown.unsupported_nodes[0].op_type, "Frobnicate");
  expect_part(unknown.unsupported_nodes[0].reason, "not supported");
  EXPECT_EQ(unknown.unsupported_nodes[1].op_type, "Defrobnicate");
  expect_part(unknown.reason, "2 nodes of the model are not supported");
  expect_part(unknown.to_json(), "\"op_type\": \"Frobnicate\"");
  const std::string bytes = api_test::unknown_onnx();
  const ModelSupport in_memory = builder.check_onnx(std::as_bytes(std::span(bytes)));
  EXPECT_FALSE(in_memory.supported);
  ASSERT_EQ(in_memory.unsupported_nodes.size(), 2u);
  EXPECT_EQ(in_memory.unsupported_nodes[1].op_type, "Defrobnicate");
  expect_part(unknown.reason, in_memory.reason);  // behind the file's name
  const ModelSupport damaged = check("no model");
  EXPECT_FALSE(damaged.supported);
  EXPECT_FALSE(damaged.reason.empty());
  EXPECT_TRUE(damaged.unsupported_nodes.empty());
  expect_part(message_of(ErrorKind::System, [&] { builder.check_onnx(path("missing.onnx")); }),
              "missing.onnx");
}

TEST_F(Api, EnginesAreSavedAndLoaded) {
  const Engine engine = build();
  engine.save(path("tiny.engine"));
  Runtime runtime(logger, {.threads = 1});
  EXPECT_FALSE(runtime.device_description().empty());
  ASSERT_FALSE(runtime.device_properties().empty());
  EXPECT_FALSE(runtime.device_properties()[0].first.empty());
  for (const Engine& loaded : {runtime.load(path("tiny.engine")), runtime.load(engine.serialize())}) {
    const auto outputs = loaded.create_context().run({HostTensor(DataType::Float, {2, 4}, kTwoRows)});
    EXPECT_EQ(floats(outputs[0]), kTheirResult);
  }
  std::vector<std::byte> cut_off = engine.serialize();
  cut_off.resize(cut_off.size() / 2);
  EXPECT_FALSE(message_of(ErrorKind::Input, [&] { runtime.load(cut_off); }).empty());
  expect_part(message_of(ErrorKind::System, [&] { runtime.load(path("missing.engine")); }), "missing.engine");
}

TEST_F(Api, EngineFilesAreWrittenInPiecesAndChecked) {
  const Engine engine = build();
  std::vector<std::byte> written;
  int pieces = 0;
  engine.write([&](std::span<const std::byte> piece) {
    written.insert(written.end(), piece.begin(), piece.end());
    ++pieces;
  });
  EXPECT_EQ(written, engine.serialize());
  EXPECT_GT(pieces, 1);
  EXPECT_THROW(engine.write([](std::span<const std::byte>) { throw std::runtime_error("the disk is full"); }),
               std::runtime_error);

  const Runtime runtime(logger, {.threads = 1});
  engine.save(path("a.engine"));
  EXPECT_TRUE(runtime.check(path("a.engine")).loads);
  EXPECT_EQ(runtime.check(path("a.engine")).reason, "");
  engine.save_stripped(path("stripped.engine"));
  expect_part(runtime.check(path("stripped.engine")).reason, "stripped of its weights");
  std::ofstream(path("text.engine")) << "no engine";
  EXPECT_FALSE(runtime.check(path("text.engine")).loads);
  expect_part(runtime.check(path("text.engine")).reason, "text.engine");
  EXPECT_THROW(runtime.check(path("nowhere.engine")), Error);
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
