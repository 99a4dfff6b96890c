// SPDX-License-Identifier: Apache-2.0
//
// Custom operators of a program, through builds, files and runs; and inputs and outputs of other types and
// formats.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "fixture.h"
#include "lathe/inspector.h"
#include "lathe/plugin.h"

namespace lathe::v1 {
namespace {

constexpr int kFloat = 1;

// y = factor * x, and how often it ran.
class Scale : public Plugin {
 public:
  static constexpr const char *kName = "Scale", *kVersion = "2", *kNamespace = "test";
  static inline std::atomic<int> runs = 0;
  explicit Scale(const PluginFields& fields) : factor_(fields.real("factor", 1)) {}
  void infer(Inference& node) override {
    if (node.input(0).type != kFloat) throw std::invalid_argument("Scale takes floats");
    node.set_output(0, node.input(0));
  }
  int64_t workspace_bytes(int, const Layout&) const override { return 100; }
  void run_cpu(const Run& run) const override {
    ++runs;
    std::memset(run.workspace, 1, 100);
    for (int64_t i = 0; i < Run::elements(run.inputs[0]); ++i)
      run.output<float>(0)[i] = factor_ * run.input<float>(0)[i];
  }

 private:
  float factor_;
};

// The elements of x above 0, followed by nothing.
class Above : public Plugin {
 public:
  static constexpr const char *kName = "Above", *kVersion = "1", *kNamespace = "";
  static inline int64_t claims = -1;  // what it says it found; -1: the truth
  explicit Above(const PluginFields&) {}
  void infer(Inference& node) override {
    const PluginShape x = node.input(0);
    node.set_output(0, {kFloat, {node.data_dependent(x.dims[0] * x.dims[1])}});
  }
  void run_cpu(const Run& run) const override {
    int64_t found = 0;
    for (int64_t i = 0; i < Run::elements(run.inputs[0]); ++i)
      if (run.input<float>(0)[i] > 0) run.output<float>(0)[found++] = run.input<float>(0)[i];
    run.outputs[0].dims[0] = claims >= 0 ? claims : found;
  }
};

// y = x + tactic, and what each use was told.
class Ways : public Plugin {
 public:
  static constexpr const char *kName = "Ways", *kVersion = "1", *kNamespace = "";
  static inline std::atomic<int> uses = 0, timed = 0;
  static inline bool slow_first = true;  // which of the two takes longer
  static inline std::vector<int64_t> list = {3, 8};
  static inline std::optional<std::string> key;
  static inline std::mutex mutex;
  static inline std::vector<std::string> ranges;

  explicit Ways(const PluginFields&) {}
  Ways(const Ways& other) : Plugin(other) { ++uses; }
  ~Ways() override { uses -= is_use_; }
  void infer(Inference& node) override { node.set_output(0, node.input(0)); }
  std::unique_ptr<Plugin> attach() const override {
    auto use = std::make_unique<Ways>(*this);
    use->is_use_ = 1;
    return use;
  }
  void configure(int device, const Ranges& told) override {
    EXPECT_EQ(device, LATHE_PLUGIN_CPU);
    EXPECT_EQ(is_use_, 1);
    const lathe_plugin_range& x = told.inputs[0];
    const std::lock_guard lock(mutex);
    ranges.push_back(std::to_string(x.min.dims[0]) + " " + std::to_string(x.opt.dims[0]) + " " +
                     std::to_string(x.max.dims[0]) + " of " + std::to_string(told.outputs[0].max.type));
  }
  std::vector<int64_t> tactics(int, const Layout& layout) const override {
    EXPECT_EQ(layout.inputs[0].dims[0], 2);  // the opt shape
    return list;
  }
  std::optional<std::string> timing_key() const override { return key; }
  void run_cpu(const Run& run) const override {
    ++timed;
    if ((run.tactic == 3) == slow_first) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int64_t i = 0; i < Run::elements(run.inputs[0]); ++i)
      run.output<float>(0)[i] = run.input<float>(0)[i] + static_cast<float>(run.tactic);
    ++runs_;
    if (run.outputs[0].rank == 2 && counts) run.output<float>(0)[0] = static_cast<float>(runs_);
  }
  static inline bool counts = false;  // the first element is how often this use has run

 private:
  int is_use_ = 0;
  mutable int runs_ = 0;
};

// Breaks one promise at a time.
class Liar : public Plugin {
 public:
  static constexpr const char *kName = "Liar", *kVersion = "1", *kNamespace = "";
  static inline std::string lie;
  explicit Liar(const PluginFields&) {
    if (lie == "create") throw std::runtime_error("no instance today");
  }
  void infer(Inference& node) override {
    if (lie == "nothing") return;
    PluginShape shape = node.input(0);
    if (lie == "type") shape.type = 999;
    if (lie == "negative") shape.dims[1] = node.constant(-3);
    node.set_output(0, shape);
  }
  int64_t workspace_bytes(int, const Layout&) const override { return lie == "workspace" ? -7 : 0; }
  void run_cpu(const Run& run) const override {
    if (lie == "run") throw std::runtime_error("it rains");
    if (lie == "dims") run.outputs[0].dims[0] = 1;
  }
};

std::string attribute(const std::string& name, float value) {
  std::string bits(4, '\0');
  std::memcpy(bits.data(), &value, 4);
  return api_test::field(1, name) + api_test::varint(2 << 3 | 5) + bits + api_test::field(20, uint64_t{1});
}
std::string attribute(const std::string& name, const std::string& text) {
  return api_test::field(1, name) + api_test::field(4, text) + api_test::field(20, uint64_t{3});
}

std::string model(const std::string& op, const std::vector<std::string>& attributes, bool bounded = true) {
  std::string node = api_test::node(op, {"x"}, "y");
  for (const std::string& a : attributes) node += api_test::field(5, a);
  const std::string graph =
      api_test::field(1, node) + api_test::field(2, "custom") +
      api_test::field(11, api_test::value("x", "batch", 4)) +
      api_test::field(12, bounded ? api_test::value("y", "batch", 4) : api_test::field(1, "y"));
  return api_test::field(1, 8) + api_test::field(7, graph) + api_test::field(8, api_test::field(2, 17));
}
const std::string kScale = model("Scale", {attribute("factor", 2.5F), attribute("plugin_version", "2"),
                                           attribute("plugin_namespace", "test")});

class PluginApi : public Api {
 protected:
  void SetUp() override {
    Api::SetUp();
    plugins.add(plugin_operator<Scale>());
    plugins.add(plugin_operator<Above>());
    plugins.add(plugin_operator<Liar>());
  }
  Engine build_with(const std::string& onnx) {
    Builder with(logger, {.threads = 2, .plugins = plugins});
    return with.build(with.parse_onnx(std::as_bytes(std::span(onnx))), config());
  }
  std::string refused(const std::string& lie) {
    Liar::lie = lie;
    const std::string message = message_of(ErrorKind::Input, [&] {
      Engine engine = build_with(model("Liar", {}));
      engine.create_context().run({HostTensor(DataType::Float, {2, 4}, kTwoRows)});
    });
    Liar::lie.clear();
    return message;
  }
  PluginRegistry plugins;
};

TEST_F(PluginApi, RunsAndIsSavedByName) {
  const Engine engine = build_with(kScale);
  Scale::runs = 0;
  const HostTensor x(DataType::Float, {2, 4}, kTwoRows);
  EXPECT_EQ(floats(engine.create_context().run({x})[0]),
            (std::vector<float>{2.5, 5, 7.5, 10, 0, 0, 1250, 2.5}));
  EXPECT_EQ(Scale::runs, 1);
  expect_part(EngineInspector(engine).json(), "PluginV3");

  engine.save(path("scale.engine"));
  const Engine again = Runtime(logger, {.plugins = plugins}).load(path("scale.engine"));
  EXPECT_EQ(floats(again.create_context().run({x})[0])[2], 7.5F);
  const std::string missing =
      message_of(ErrorKind::Input, [&] { Runtime(logger).load(path("scale.engine")); });
  expect_part(missing, "needs the plugin 'Scale' version 2 of namespace 'test', which no loaded library has");
  expect_part(missing, "PluginRegistry::load");
}

TEST_F(PluginApi, IsMatchedByNameVersionAndNamespace) {
  expect_part(message_of(ErrorKind::Input,
                         [&] {
                           build_with(model("Scale", {attribute("plugin_version", "1"),
                                                      attribute("plugin_namespace", "test")}));
                         }),
              "not supported");
  expect_part(message_of(ErrorKind::Input,
                         [&] { build_with(model("Scale", {attribute("plugin_namespace", "other")})); }),
              "not supported");
  EXPECT_NO_THROW(build_with(model("Scale", {attribute("plugin_namespace", "test")})));  // any version
  expect_part(message_of(ErrorKind::Input, [&] { plugins.add(plugin_operator<Scale>()); }), "already");
  EXPECT_EQ(plugins.plugins().size(), 3u);
}

TEST_F(PluginApi, FindsSizesInARun) {
  const Engine engine = build_with(model("Above", {}, false));
  ExecutionContext context = engine.create_context();
  const HostTensor x(DataType::Float, {2, 4}, std::vector<float>{1, -2, 3, -4, -1, -1, 5, -1});
  const std::vector<HostTensor> y = context.run({x});
  EXPECT_EQ(y[0].dims, (Dims{3}));
  EXPECT_EQ(floats(y[0]), (std::vector<float>{1, 3, 5}));
  Above::claims = 9;
  expect_part(message_of(ErrorKind::Input, [&] { context.run({x}); }),
              "came out with 9 in dim 0, for which there is room for 8");
  Above::claims = -1;
}

TEST_F(PluginApi, WhatAPluginReturnsIsChecked) {
  expect_part(refused("create"), "no instance today");
  expect_part(refused("nothing"), "the type 0, which is none");
  expect_part(refused("type"), "the type 999, which is none");
  expect_part(refused("negative"), "dim 1 of output 0 is -3");
  expect_part(refused("workspace"), "-7 bytes of workspace");
  expect_part(refused("run"), "it rains");
  expect_part(refused("dims"), "changed dim 0 of 'y' to 1");
}

class PluginWays : public PluginApi {
 protected:
  PluginWays() { plugins.add(plugin_operator<Ways>()); }
  ~PluginWays() override {
    Ways::list = {3, 8}, Ways::key.reset(), Ways::slow_first = true, Ways::counts = false;
    Ways::ranges.clear();
    EXPECT_EQ(Ways::uses, 0) << "uses that nobody ended";
  }
  Engine tuned(const TimingCache& cache = {}, const std::vector<std::string>& attributes = {}) {
    const std::string onnx = model("Ways", attributes);
    Builder with(logger, {.threads = 1, .plugins = plugins});
    BuilderConfig timed = config();
    timed.optimization_level = 3;
    timed.timing_cache = cache;
    return with.build(with.parse_onnx(std::as_bytes(std::span(onnx))), timed);
  }
  float first(const Engine& engine) {
    return floats(engine.create_context().run({HostTensor(DataType::Float, {2, 4}, kTwoRows)})[0])[0];
  }
};

TEST_F(PluginWays, AreTimedAndTheFasterOneRuns) {
  Engine engine = tuned();
  EXPECT_EQ(first(engine), 1 + 8);
  expect_part(EngineInspector(engine).json(), "plugin_Ways_1_tactic_8");
  Ways::slow_first = false;
  engine = tuned();
  EXPECT_EQ(first(engine), 1 + 3);
  // The file keeps the choice.
  engine = Runtime(logger, {.plugins = plugins}).load(engine.serialize());
  EXPECT_EQ(first(engine), 1 + 3);
  Ways::list.clear();
  EXPECT_EQ(first(tuned()), 1) << "one way: tactic 0";
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{0, 1}, {-1, 1}, {2, 2}}) {
    Ways::list = wrong;
    expect_part(message_of(ErrorKind::Input, [&] { tuned(); }), "not different numbers above 0");
  }
}

TEST_F(PluginWays, TimesAreFoundByTheKeyOfThePlugin) {
  const TimingCache cache;
  const auto known = [&] {
    return std::ranges::count_if(cache.entries(), [](const TimingCacheEntry& entry) {
      return entry.milliseconds > 0 && entry.about.starts_with("plugin_Ways_1_tactic_");
    });
  };
  // How many tactics a build times.
  const auto timed_for = [&](float factor) {
    const auto before = known();
    tuned(cache, {attribute("factor", factor)});
    return known() - before;
  };
  const auto all = timed_for(1);
  EXPECT_GE(all, 2);
  EXPECT_EQ(timed_for(1), 0) << "known";
  EXPECT_EQ(timed_for(2), all) << "another attribute";
  Ways::key = "the factor does not matter";
  EXPECT_EQ(timed_for(3), all);
  EXPECT_EQ(timed_for(4), 0);
  Ways::key = "another key";
  EXPECT_EQ(timed_for(4), all);
}

TEST_F(PluginWays, EachUseHasAnInstanceThatKnowsItsRanges) {
  Ways::list.clear();
  Ways::counts = true;
  const Engine engine = tuned();
  EXPECT_EQ(Ways::uses, 0) << "those of the build have gone";
  ASSERT_FALSE(Ways::ranges.empty());
  for (const std::string& told : Ways::ranges) EXPECT_EQ(told, "1 2 8 of 1");
  {
    ExecutionContext one = engine.create_context(), two = engine.create_context();
    const auto runs = [](ExecutionContext& context) {
      return floats(context.run({HostTensor(DataType::Float, {2, 4}, kTwoRows)})[0])[0];
    };
    EXPECT_EQ(runs(one), 1);
    EXPECT_EQ(runs(one), 2) << "it keeps what it knows";
    EXPECT_EQ(runs(two), 1) << "another context's is another";
    EXPECT_EQ(runs(one), 3);
    EXPECT_EQ(Ways::uses, 2);
  }
}

// What was compiled before there was attach() works as if it were NULL.
TEST_F(PluginWays, LibrariesOfTheFirstHeaderAreTaken) {
  PluginRegistry older;
  lathe_plugin_operator op = plugin_operator<Ways>();
  op.struct_size = offsetof(lathe_plugin_operator, attach);
  older.add(op);
  plugins = older;
  EXPECT_EQ(first(tuned()), 1);
  EXPECT_TRUE(Ways::ranges.empty());
}

TEST_F(PluginApi, LibrariesThatAreNoneAreRefused) {
  expect_part(message_of(ErrorKind::Input, [&] { plugins.load(path("nowhere.so")); }),
              "Unable to open library");
  std::ofstream(path("text.so")) << "no library";
  expect_part(message_of(ErrorKind::Input, [&] { plugins.load(path("text.so")); }), "Unable to open library");
}

TEST_F(PluginApi, InterfacesOfAnotherVersionAreRefused) {
  lathe_plugin_operator op = plugin_operator<Above>();
  op.struct_size -= sizeof(void*);
  expect_part(message_of(ErrorKind::Input, [&] { plugins.add(op); }), "another version");
  EXPECT_EQ(plugins.plugins().size(), 3u);
  EXPECT_EQ(plugin_library<Above>(LATHE_PLUGIN_ABI_VERSION + 1), nullptr);
  ASSERT_NE(plugin_library<Above>(LATHE_PLUGIN_ABI_VERSION), nullptr);
  EXPECT_EQ(plugin_library<Above>(LATHE_PLUGIN_ABI_VERSION)->abi_version, uint32_t{LATHE_PLUGIN_ABI_VERSION});
}

// --- types and formats of inputs and outputs

// y = Relu(x) of x (batch, 2, 2, 2).
std::string image_onnx() {
  const auto image = [](const std::string& name) {
    std::string shape = api_test::field(1, api_test::field(2, "batch"));
    for (int i = 0; i < 3; ++i) shape += api_test::field(1, api_test::field(1, uint64_t{2}));
    return api_test::field(1, name) + api_test::field(2, api_test::field(1, api_test::field(1, uint64_t{1}) +
                                                                                api_test::field(2, shape)));
  };
  const std::string graph = api_test::field(1, api_test::node("Relu", {"x"}, "y")) +
                            api_test::field(2, "image") + api_test::field(11, image("x")) +
                            api_test::field(12, image("y"));
  return api_test::field(1, 8) + api_test::field(7, graph) + api_test::field(8, api_test::field(2, 17));
}

class IoTypes : public Api {
 protected:
  Engine build_with(const std::map<std::string, IoType>& types) {
    const std::string onnx = image_onnx();
    BuilderConfig config;
    config.optimization_level = 0;
    config.profiles.emplace_back().set_dims("x", {1, 2, 2, 2}, {1, 2, 2, 2}, {2, 2, 2, 2});
    config.io_types = types;
    return builder.build(builder.parse_onnx(std::as_bytes(std::span(onnx))), config);
  }
};

TEST_F(IoTypes, AnotherTypeIsACast) {
  const Engine engine = build_with({{"x", {DataType::UInt8}}, {"y", {DataType::Int32}}});
  EXPECT_EQ(engine.inputs()[0].type, DataType::UInt8);
  EXPECT_EQ(engine.outputs()[0].type, DataType::Int32);
  const HostTensor x(DataType::UInt8, {1, 2, 2, 2}, std::vector<uint8_t>{1, 2, 3, 4, 250, 6, 7, 8});
  const HostTensor y = engine.create_context().run({x})[0];
  EXPECT_EQ(y.data<int32_t>()[4], 250);
}

TEST_F(IoTypes, ChannelsLastIsHowMemoryLies) {
  for (const bool save : {false, true}) {
    Engine engine = build_with({{"x", {std::nullopt, "hwc"}}, {"y", {DataType::Half, "hwc"}}});
    if (save) engine = Runtime(logger).load(engine.serialize());
    EXPECT_EQ(engine.inputs()[0].format, MemoryFormat::ChannelsLast);
    EXPECT_EQ(engine.inputs()[0].dims, (Dims{-1, 2, 2, 2}));
    ExecutionContext context = engine.create_context();
    // Channel 0 is 1, 2, 3, 4, channel 1 is -5, 6, -7, 8.
    const std::vector<float> x = {1, -5, 2, 6, 3, -7, 4, 8};
    std::vector<uint16_t> y(8);
    context.bind_input("x", DataType::Float, {1, 2, 2, 2}, x.data());
    context.bind_output("y", DataType::Half, y.data(), 16);
    context.execute();
    EXPECT_EQ(y, (std::vector<uint16_t>{0x3c00, 0, 0x4000, 0x4600, 0x4200, 0, 0x4400, 0x4800}));
    // run() copies host tensors, which are linear.
    const HostTensor linear(DataType::Float, {1, 2, 2, 2}, std::vector<float>{1, 2, 3, 4, -5, 6, -7, 8});
    const HostTensor result = context.run({linear})[0];
    EXPECT_EQ(result.data<uint16_t>()[1], 0x4000);
  }
}

// What lies behind the channels is neither read nor written by run()'s linear tensors.
TEST_F(IoTypes, ChannelsArePadded) {
  for (const bool save : {false, true}) {
    Engine engine = build_with({{"x", {DataType::Half, "hwc8"}}, {"y", {std::nullopt, "hwc16"}}});
    if (save) engine = Runtime(logger).load(engine.serialize());
    EXPECT_EQ(engine.inputs()[0].format, MemoryFormat::ChannelsLast8);
    EXPECT_EQ(engine.outputs()[0].format, MemoryFormat::ChannelsLast16);
    EXPECT_EQ(engine.inputs()[0].dims, (Dims{-1, 2, 2, 2}));
    ExecutionContext context = engine.create_context();
    context.set_input_shape("x", {2, 2, 2, 2});
    EXPECT_EQ(context.tensor_bytes("x"), 2u * 4 * 8 * 2);
    EXPECT_EQ(context.tensor_bytes("y"), 2u * 4 * 16 * 4);
    constexpr uint16_t kNan = 0x7e00, kOne = 0x3c00, kMinusTwo = 0xc000;
    std::vector<uint16_t> x(2 * 4 * 8, kNan);
    for (size_t pixel = 0; pixel < 8; ++pixel) {
      x[pixel * 8] = kOne;
      x[pixel * 8 + 1] = pixel == 5 ? kOne : kMinusTwo;
    }
    std::vector<float> y(2 * 4 * 16, -1);
    context.bind_input("x", DataType::Half, {2, 2, 2, 2}, x.data());
    context.bind_output("y", DataType::Float, y.data(), y.size() * 4);
    context.execute();
    for (size_t pixel = 0; pixel < 8; ++pixel) {
      EXPECT_EQ(y[pixel * 16], 1);
      EXPECT_EQ(y[pixel * 16 + 1], pixel == 5 ? 1 : 0);
    }
    HostTensor linear(DataType::Half, {1, 2, 2, 2});
    for (size_t i = 0; i < 8; ++i) linear.data<uint16_t>()[i] = i == 6 ? kOne : kMinusTwo;
    EXPECT_EQ(context.run({linear})[0].data<float>()[6], 1);
    EXPECT_EQ(context.run({linear})[0].data<float>()[5], 0);
  }
}

TEST_F(IoTypes, WhatCannotBeIsSaid) {
  const auto refused = [&](const std::string& name, const IoType& type) {
    return message_of(ErrorKind::Input, [&] { build_with({{name, type}}); });
  };
  expect_part(refused("z", {DataType::Half}), "no input or output 'z'");
  expect_part(refused("x", {std::nullopt, "chw32"}), "no engine has memory in format chw32");
  expect_part(refused("x", {std::nullopt, "chw16"}), "pads channels to a multiple of 16");
  expect_part(refused("x", {std::nullopt, "dhwc"}), "is for tensors of rank 5");
  expect_part(refused("x", {DataType::Int4}), "less than a byte");
}

}  // namespace
}  // namespace lathe::v1
