// SPDX-License-Identifier: Apache-2.0
//
// Every class of the public API, used as a program outside of the project uses it: through include/lathe and the shared
// library alone.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <new>
#include <optional>
#include <span>
#include <stop_token>
#include <tuple>

#include "lathe/builder.h"
#include "lathe/c_api.h"
#include "lathe/inspector.h"
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

void bind_both(ExecutionContext& context, const std::vector<float>& x, std::vector<float>& y) {
  context.bind_input("x", DataType::Float, {static_cast<int64_t>(x.size()) / 4, 4}, x.data());
  context.bind_output("y", DataType::Float, y.data(), y.size() * sizeof(float));
}

// A tensor at the end of its pages, followed by one that nobody may touch.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))),
        mapped_((bytes / page_ + 2) * page_) {
    void* memory = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<std::byte*>(memory);
    ::mprotect(start_ + mapped_ - page_, page_, PROT_NONE);
  }
  ~Pages() { ::munmap(start_, mapped_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void forbid_writes() const { ::mprotect(start_, mapped_ - page_, PROT_READ); }
  std::byte* tensor() const { return start_ + mapped_ - page_ - bytes_; }

 private:
  size_t bytes_, page_, mapped_;
  std::byte* start_ = nullptr;
};

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
  EXPECT_EQ(context.infer_shapes(), std::vector<std::string>{"x"});
  context.set_input_shape("x", {2, 4});
  EXPECT_TRUE(context.infer_shapes().empty());
  ASSERT_EQ(context.tensor_bytes("x"), 32u);
  ASSERT_EQ(context.tensor_bytes("y"), 24u);
  EXPECT_EQ(context.tensor_shape("y"), (Dims{2, 3}));
  std::vector<float> x = kTwoRows, y(6);
  EXPECT_EQ(context.tensor_address("x"), nullptr);
  bind_both(context, x, y);
  EXPECT_EQ(context.tensor_address("x"), x.data());
  EXPECT_EQ(context.tensor_address("y"), y.data());
  context.execute();
  EXPECT_EQ(y, kTheirResult);
  EXPECT_GE(context.device_bytes(), 0);
  // What was bound stays bound: the next run reads the same address again.
  x[0] += 1;
  context.execute();
  EXPECT_EQ(y[0], kTheirResult[0] + 1);
  context.set_profile(0);
  EXPECT_EQ(context.profile(), 0);
  EXPECT_EQ(context.tensor_address("x"), nullptr);
  context.set_input_shape("x", {1, 4});
  EXPECT_EQ(context.tensor_bytes("y"), 12u);
}

// Pages that cannot be written, and others that end where the tensor ends: what was bound is used in place and nothing beside it.
TEST_F(Api, ContextTouchesNothingElse) {
  const Pages input(kTwoRows.size() * sizeof(float)), output(kTheirResult.size() * sizeof(float));
  std::memcpy(input.tensor(), kTwoRows.data(), kTwoRows.size() * sizeof(float));
  input.forbid_writes();
  ExecutionContext context = build().create_context();
  context.bind_input("x", DataType::Float, {2, 4}, input.tensor());
  context.bind_output("y", DataType::Float, output.tensor(), kTheirResult.size() * sizeof(float));
  context.execute();
  EXPECT_EQ(std::memcmp(output.tensor(), kTheirResult.data(), kTheirResult.size() * sizeof(float)), 0);
}

// The parts of the error that `call` throws.
ErrorFields fields_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.fields();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_F(Api, ContextRefusesMisuse) {
  ExecutionContext context = build().create_context();
  std::vector<float> x = kTwoRows, y(6);
  const ErrorFields unknown = fields_of([&] { context.bind_input("z", DataType::Float, {2, 4}, x.data()); });
  EXPECT_EQ(unknown.where, "tensor 'z'");
  EXPECT_EQ(unknown.why, "its inputs and outputs are x, y");
  EXPECT_EQ(fields_of([&] {
              context.bind_input("y", DataType::Float, {2, 3}, x.data());
            }).what,
            "it is no input");
  EXPECT_EQ(fields_of([&] { context.bind_output("x", DataType::Float, y.data(), 24); }).what,
            "it is no output");
  const ErrorFields type = fields_of([&] { context.bind_input("x", DataType::Int32, {2, 4}, x.data()); });
  EXPECT_EQ(type.where, "input 'x' (float32 [batch, 4])");
  EXPECT_EQ(type.why, "it was given int32");
  EXPECT_EQ(fields_of([&] {
              context.bind_input("x", DataType::Float, {2, 4}, nullptr);
            }).what,
            "its address is null");
  const auto* odd = reinterpret_cast<const std::byte*>(x.data()) + 1;
  EXPECT_EQ(fields_of([&] {
              context.bind_input("x", DataType::Float, {1, 4}, odd);
            }).what,
            "its address is not aligned");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           context.bind_input("x", DataType::Float, {2, 5}, x.data());
                         }),
              "x");
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           context.bind_input("x", DataType::Float, {-2, 4}, x.data());
                         }),
              "no volume");
  expect_part(message_of(ErrorKind::Input, [&] { context.execute(); }), "no shape was set");
  expect_part(message_of(ErrorKind::Input, [&] { context.set_input_values("x", {1}); }), "shape tensor");
  context.set_input_shape("x", {2, 4});
  EXPECT_EQ(fields_of([&] { context.execute(); }).what, "no memory is bound");
  bind_both(context, x, y);
  context.bind_output("y", DataType::Float, y.data(), 20);
  const ErrorFields small = fields_of([&] { context.execute(); });
  EXPECT_EQ(small.what, "its memory is too small");
  EXPECT_EQ(small.why, "24 bytes are needed at these shapes, 20 bytes were given");
  EXPECT_EQ(small.hint, "tensor_bytes(name) says how many");
  context.bind_output("y", DataType::Float, x.data(), 32);
  EXPECT_EQ(fields_of([&] { context.execute(); }).what, "its memory overlaps that of 'x'");
  context.set_input_shape("x", {9, 4});
  expect_part(message_of(ErrorKind::Input, [&] { context.infer_shapes(); }), "x");
  const ExecutionContext moved = std::move(context);
  EXPECT_EQ(fields_of([&] { context.execute(); }).what, "the context was moved away");
}

class Grower final : public OutputAllocator {
 public:
  void* allocate(std::string_view output, size_t bytes, const Dims& dims) override {
    asked.emplace_back(std::string(output), bytes, dims);
    memory.resize(bytes / sizeof(float));
    return refuses ? nullptr : memory.data();
  }
  std::vector<std::tuple<std::string, size_t, Dims>> asked;
  std::vector<float> memory;
  bool refuses = false;
};

TEST_F(Api, OutputAllocatorsGiveMemory) {
  ExecutionContext context = build().create_context();
  std::vector<float> x = kTwoRows;
  Grower grower;
  context.bind_input("x", DataType::Float, {2, 4}, x.data());
  context.bind_output("y", grower);
  context.execute();
  EXPECT_EQ(grower.memory, kTheirResult);
  ASSERT_EQ(grower.asked.size(), 1u);
  EXPECT_EQ(grower.asked[0], std::tuple("y", 24u, Dims{2, 3}));
  grower.refuses = true;
  expect_part(message_of(ErrorKind::System, [&] { context.execute(); }), "its allocator gave no memory");
}

TEST_F(Api, OutputAllocatorsLearnSizesFromData) {
  const std::string model = api_test::nonzero_onnx();
  ExecutionContext context =
      builder.build(builder.parse_onnx(std::as_bytes(std::span(model))), config()).create_context();
  std::vector<float> x = {0, 1, 0, 0, 0, 0, 0, 2};
  std::vector<int64_t> found;
  struct Indices final : OutputAllocator {
    explicit Indices(std::vector<int64_t>& memory) : memory(memory) {}
    void* allocate(std::string_view, size_t bytes, const Dims& dims) override {
      EXPECT_EQ(dims, (Dims{2, 2}));
      memory.resize(bytes / sizeof(int64_t));
      return memory.data();
    }
    std::vector<int64_t>& memory;
  } indices(found);
  context.bind_input("x", DataType::Float, {2, 4}, x.data());
  context.bind_output("y", indices);
  EXPECT_EQ(context.tensor_shape("y"), (Dims{2, 8}));
  context.execute();
  EXPECT_EQ(found, (std::vector<int64_t>{0, 1, 1, 3}));
  EXPECT_EQ(context.tensor_shape("y"), (Dims{2, 2}));
}

// Nothing bounds the length of a Range: its memory is given when it is known.
TEST_F(Api, OutputsThatNothingBoundsNeedAnAllocatorOrRoom) {
  const std::string model = api_test::range_onnx();
  ExecutionContext context =
      builder.build(builder.parse_onnx(std::as_bytes(std::span(model))), {}).create_context();
  const float start = 1, delta = 2;
  float limit = 8;
  std::vector<float> room(4);
  context.bind_input("start", DataType::Float, {}, &start);
  context.bind_input("limit", DataType::Float, {}, &limit);
  context.bind_input("delta", DataType::Float, {}, &delta);
  expect_part(message_of(ErrorKind::Input, [&] { context.execute(); }), "nobody takes its result");
  context.bind_output("y", DataType::Float, room.data(), room.size() * sizeof(float));
  context.execute();
  EXPECT_EQ(room, (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(context.tensor_shape("y"), (Dims{4}));
  limit = 10;
  expect_part(message_of(ErrorKind::Input, [&] { context.execute(); }),
              "its memory is too small for the result");
  Grower grower;
  limit = 1000;
  context.bind_output("y", grower);
  context.execute();
  ASSERT_EQ(grower.asked.size(), 1u);
  EXPECT_EQ(grower.asked[0], std::tuple("y", 2000u, Dims{500}));
  EXPECT_EQ(grower.memory[499], 999);
}

TEST_F(Api, StreamsRunWhatIsEnqueued) {
  const Engine engine = build();
  ExecutionContext first = engine.create_context(), second = engine.create_context();
  std::vector<float> x = kTwoRows, y(6), z(6);
  bind_both(first, x, y);
  bind_both(second, x, z);
  Stream stream;
  std::promise<void> reached, go_on;
  first.enqueue(stream, [&] {
    reached.set_value();
    go_on.get_future().wait();
  });
  second.enqueue(stream);
  reached.get_future().wait();
  EXPECT_EQ(y, kTheirResult);
  EXPECT_EQ(z, std::vector<float>(6)) << "enqueue waited, or the order is wrong";
  EXPECT_EQ(fields_of([&] { first.execute(); }).what, "the context is in use");
  EXPECT_EQ(fields_of([&] { second.set_input_shape("x", {1, 4}); }).what, "the context is in use");
  go_on.set_value();
  stream.synchronize();
  EXPECT_EQ(z, kTheirResult);
  first.execute();
}

TEST_F(Api, StreamsKeepTheFirstError) {
  ExecutionContext context = build().create_context();
  std::vector<float> x = kTwoRows, y(6);
  Grower grower;
  grower.refuses = true;
  context.bind_input("x", DataType::Float, {2, 4}, x.data());
  context.bind_output("y", grower);
  Stream stream;
  context.enqueue(stream);
  expect_part(message_of(ErrorKind::System, [&] { stream.synchronize(); }), "its allocator gave no memory");
  stream.synchronize();  // once
  bind_both(context, x, y);
  context.enqueue(stream);
  stream.synchronize();
  EXPECT_EQ(y, kTheirResult);
}

TEST_F(Api, ContextsOutliveWhatMadeThem) {
  std::vector<float> x = kTwoRows, y(6);
  Stream stream;
  {
    ExecutionContext context = Builder(logger, {.threads = 1}).build(parse(), config()).create_context();
    bind_both(context, x, y);
    context.enqueue(stream);
  }
  stream.synchronize();
  EXPECT_EQ(y, kTheirResult);
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

// The parts of an error of the C API, which is freed.
ErrorFields parts_of(lathe_error* error) {
  if (error == nullptr) return {};
  const ErrorFields fields{lathe_error_what(error), lathe_error_where(error), lathe_error_why(error),
                           lathe_error_hint(error)};
  EXPECT_EQ(lathe_error_kind(error), LATHE_INPUT_ERROR);
  expect_part(lathe_error_message(error), fields.what);
  lathe_error_free(error);
  return fields;
}

TEST_F(Api, IsCalledFromC) {
  std::ofstream(path("tiny.onnx"), std::ios::binary) << api_test::tiny_onnx();
  EXPECT_EQ(lathe_version(), version());
  lathe_options options;
  lathe_options_init(&options);
  EXPECT_EQ(options.optimization_level, BuilderConfig().optimization_level);
  const lathe_shape_range range{"x", 2, {1, 4}, {2, 4}, {8, 4}};
  int lines = 0;
  options.threads = 1, options.optimization_level = 0, options.shapes = &range, options.shape_count = 1;
  options.log_user = &lines;
  options.log = [](void* user, int, const char*) { ++*static_cast<int*>(user); };
  lathe_engine *built = nullptr, *engine = nullptr;
  ASSERT_EQ(parts_of(lathe_build(path("tiny.onnx").c_str(), &options, &built)).what, "");
  EXPECT_GT(lines, 0);
  ASSERT_EQ(parts_of(lathe_engine_save(built, path("c.engine").c_str())).what, "");
  lathe_engine_free(built);
  ASSERT_EQ(parts_of(lathe_engine_load(path("c.engine").c_str(), &options, &engine)).what, "");
  EXPECT_EQ(lathe_engine_input_count(engine), 1u);
  EXPECT_EQ(lathe_engine_output_count(engine), 1u);
  lathe_tensor_info info{};
  EXPECT_EQ(parts_of(lathe_engine_input(engine, 0, &info)).what, "struct_size is 0");
  info.struct_size = sizeof(info);
  EXPECT_EQ(parts_of(lathe_engine_input(engine, 1, &info)).where, "tensor number 1");
  ASSERT_EQ(parts_of(lathe_engine_output(engine, 0, &info)).what, "");
  EXPECT_EQ(std::tuple(std::string(info.name), info.type, info.rank, info.dims[0], info.dims[1]),
            std::tuple(std::string("y"), 1, size_t{2}, int64_t{-1}, int64_t{3}));
  lathe_context* context = nullptr;
  ASSERT_EQ(parts_of(lathe_context_create(engine, &context)).what, "");
  lathe_engine_free(engine);  // the context lives on
  std::vector<float> x = kTwoRows, y(6);
  const int64_t dims[] = {2, 4};
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, "z", 1, dims, 2, x.data())).where, "tensor 'z'");
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, nullptr, 1, dims, 2, x.data())).where,
            "argument 'input'");
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, "x", 1, dims, 99, x.data())).what, "its rank is 99");
  EXPECT_EQ(parts_of(lathe_context_bind_input(context, "x", 900, dims, 2, x.data())).where,
            "argument 'type'");
  ASSERT_EQ(parts_of(lathe_context_bind_input(context, "x", 1, dims, 2, x.data())).what, "");
  size_t bytes = 0, rank = 0;
  int64_t shape[LATHE_MAX_RANK];
  ASSERT_EQ(parts_of(lathe_context_tensor_bytes(context, "y", &bytes)).what, "");
  EXPECT_EQ(bytes, 24u);
  ASSERT_EQ(parts_of(lathe_context_tensor_shape(context, "y", shape, &rank)).what, "");
  EXPECT_EQ(Dims(shape, shape + rank), (Dims{2, 3}));
  EXPECT_EQ(parts_of(lathe_context_execute(context)).hint, "call bind_output");
  ASSERT_EQ(parts_of(lathe_context_bind_output(context, "y", 1, y.data(), bytes)).what, "");
  ASSERT_EQ(parts_of(lathe_context_execute(context)).what, "");
  EXPECT_EQ(y, kTheirResult);
  lathe_context_free(context);
  EXPECT_EQ(parts_of(lathe_context_execute(nullptr)).where, "argument 'context'");
  options.struct_size = 1;
  expect_part(parts_of(lathe_build(path("tiny.onnx").c_str(), &options, &built)).what, "lathe_options_init");
}

TEST(Devices, AreRefusedByName) {
  Lines logger;
  expect_part(message_of(ErrorKind::Input, [&] { Runtime(logger, {.device = "toaster"}); }), "toaster");
  expect_part(message_of(ErrorKind::Input, [&] { Builder(logger, {.cpu_isa = "mmx"}); }), "mmx");
  EXPECT_FALSE(version().empty());
}

}  // namespace
}  // namespace lathe::v1
