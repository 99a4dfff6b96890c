// SPDX-License-Identifier: Apache-2.0
//
// The whole way on the CPU: graph, passes, tuner, memory, program, file and back.
#include "builder/builder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <random>
#include <thread>

#include "backend/fake_backend.h"
#include "base/error.h"
#include "base/file.h"
#include "ir/text.h"
#include "ops/interpreter.h"
#include "reference/random_input.h"

namespace lathe {
namespace {

class Recorder final : public Observer {
 public:
  void on(const Event& event) override {
    if (const auto* m = std::get_if<Message>(&event)) text += m->text + "\n";
    // Views take no time and are never measured.
    if (const auto* t = std::get_if<TacticTimed>(&event); t && t->time_ms > 0)
      (t->from_cache ? cached : timed) += 1;
  }
  bool said(const std::string& part) const { return text.find(part) != text.npos; }
  std::string text;
  int timed = 0, cached = 0;
};

// conv + relu, pooling, a residual, flatten, matmul, softmax: dynamic in the batch.
constexpr const char* kSmallModel = R"(graph "small" {
  input %x: float32[n, 3, 16, 16]
  const %w1: float32[16, 3, 3, 3] = ref 0
  const %b1: float32[16] = ref 1
  const %w2: float32[16, 16, 3, 3] = ref 2
  const %w3: float32[1024, 10] = ref 3
  %c1: float32[n, 16, 16, 16] = Conv "conv1" (%x, %w1, %b1) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} from ["conv1" Conv]
  %r1: float32[n, 16, 16, 16] = Pointwise "relu1" (%c1) {code=Relu} from ["relu1" Relu]
  %c2: float32[n, 16, 16, 16] = Conv "conv2" (%r1, %w2) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} from ["conv2" Conv]
  %s: float32[n, 16, 16, 16] = Pointwise "add" (%c2, %r1) {code=Add} from ["add" Add]
  %p: float32[n, 16, 8, 8] = Pool "pool" (%s) {kernel=[2, 2], strides=[2, 2], dilations=[1, 1], pads_begin=[0, 0], pads_end=[0, 0]} from ["pool" MaxPool]
  %f: float32[n, 1024] = Reshape "flatten" (%p) {shape=[n, 1024]} from ["flatten" Flatten]
  %m: float32[n, 10] = MatMul "fc" (%f, %w3) from ["fc" MatMul]
  %y: float32[n, 10] = Softmax "softmax" (%m) {axis=1} from ["softmax" Softmax]
  output %y
})";

Network small_network() {
  const std::vector<Extents> extents = {{16, 3, 3, 3}, {16}, {16, 16, 3, 3}, {1024, 10}};
  const auto constant = [&](int64_t index) {
    const Extents& e = extents[static_cast<size_t>(index)];
    std::vector<double> values(static_cast<size_t>(element_count(e)));
    RandomStream random(static_cast<uint64_t>(index) + 1);
    for (double& v : values) v = random.normal() * 0.05;
    return Tensor::from_doubles(DType::Float32, e, values);
  };
  return {.graph = std::make_shared<Graph>(parse_graph(kSmallModel, constant)), .model = {.name = "small"}};
}

BuildOptions quick(std::shared_ptr<TimingCache> cache = nullptr) {
  BuildOptions options{.optimization_level = 1};
  options.profiles = {{.shapes = {{"x", {{1, 3, 16, 16}, {2, 3, 16, 16}, {4, 3, 16, 16}}}}, .values = {}}};
  options.timing_cache = std::move(cache);
  return options;
}

double relative_error(const Tensor& got, const Tensor& expected) {
  double difference = 0, norm = 0;
  const auto a = got.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < b.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  return std::sqrt(difference / norm);
}

class BuilderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { backend = open_backend({.threads = 2}); }
  static void TearDownTestSuite() { backend.reset(); }

  void expect_right(Context& context, const Network& network, int64_t n) {
    const auto inputs = random_inputs(*network.graph, {{"n", n}}, static_cast<uint64_t>(n));
    const auto outputs = context.run(inputs);
    const auto expected = interpret(*network.graph, inputs);
    ASSERT_EQ(outputs[0].extents(), (Extents{n, 10}));
    EXPECT_LE(relative_error(outputs[0], expected[0]), 1e-5);
  }

  inline static std::shared_ptr<const Backend> backend;
  Recorder log;
};

TEST_F(BuilderTest, BuildSaveLoadRun) {
  const Network network = small_network();
  const auto engine = Builder(backend, log).build(network, quick());
  EXPECT_GT(log.timed, 0);
  const auto loaded = Engine::load(Plan::from_bytes(engine->plan()->to_bytes(), "small.engine"), backend);
  for (const auto& e : {engine, loaded}) {
    const auto context = e->create_context();
    for (const int64_t n : {2, 4, 1}) expect_right(*context, network, n);
  }
}

// Parts of one and of two items, fewer and more of them than threads, with a smaller last one.
TEST_F(BuilderTest, BatchInParts) {
  const Network network = small_network();
  for (const int64_t part : {1, 2, 9}) {
    BuildOptions options = quick();
    options.batch_part = part;
    const auto engine = Builder(backend, log).build(network, options);
    const auto loaded = Engine::load(Plan::from_bytes(engine->plan()->to_bytes(), "small.engine"), backend);
    for (const auto& e : {engine, loaded}) {
      EXPECT_EQ(e->variant(0).split, (BatchSplit{"n", std::min<int64_t>(part, 4)}));
      const auto context = e->create_context();
      for (const int64_t n : {2, 3, 4, 1}) expect_right(*context, network, n);
    }
  }
}

TEST_F(BuilderTest, BatchInPartsIsObservedWhole) {
  const Network network = small_network();
  BuildOptions options = quick();
  options.batch_part = 2;
  const auto engine = Builder(backend, log).build(network, options);
  const auto context = engine->create_context();
  const auto inputs = random_inputs(*network.graph, {{"n", 3}}, 5);
  context->set_input_shape("x", {3, 3, 16, 16});
  std::vector<float> output(30);
  void* const bindings[] = {const_cast<std::byte*>(inputs[0].bytes().data()), output.data()};
  const auto stream = backend->create_stream();
  size_t layers = 0;
  Tensor seen;
  const ValueId result = engine->graph(0).outputs()[0];
  context->enqueue_observed(bindings, *stream, {.before = {}, .after = [&](size_t) {
                                                  if (++layers == engine->graph(0).order().size())
                                                    seen = context->execution().read(result);
                                                }});
  EXPECT_EQ(seen.extents(), (Extents{3, 10}));
  EXPECT_LE(relative_error(seen, interpret(*network.graph, inputs)[0]), 1e-5);
  EXPECT_EQ(std::vector<double>(output.begin(), output.end()), seen.to_doubles());
  LayerProfiler profiler(engine->layer_names(0));
  context->enqueue_profiled(bindings, *stream, profiler);
  EXPECT_EQ(std::vector<double>(output.begin(), output.end()), seen.to_doubles());
}

TEST_F(BuilderTest, FastestOfWholeBatchItemsAndShares) {
  const Network network = small_network();
  BuildOptions options = quick();
  options.profiles[0].shapes["x"] = {{1, 3, 16, 16}, {4, 3, 16, 16}, {4, 3, 16, 16}};
  const auto engine = Builder(backend, log).build(network, options);
  for (const char* rival : {" the whole batch at once ", " an item at a time on each thread ",
                            " 2 items at a time on each thread "})
    EXPECT_TRUE(log.said(rival)) << rival;
  const auto context = engine->create_context();
  for (const int64_t n : {1, 4}) expect_right(*context, network, n);
}

TEST_F(BuilderTest, SameCacheSameBytes) {
  const Network network = small_network();
  const auto cache = std::make_shared<TimingCache>();
  const auto first = Builder(backend, log).build(network, quick(cache))->plan()->to_bytes();
  const auto copy = std::make_shared<TimingCache>();
  copy->merge_text(cache->to_text());
  Recorder second_log;
  const auto second = Builder(backend, second_log).build(network, quick(copy))->plan()->to_bytes();
  EXPECT_EQ(second_log.timed, 0);
  EXPECT_TRUE(first == second);
  EXPECT_EQ(*cache, *copy);
}

TEST_F(BuilderTest, RetargetIsUntimedAndRetuneKeepsOtherSections) {
  const Network network = small_network();
  const auto built = Builder(backend, log).build(network, quick());
  const auto plan = Plan::from_bytes(built->plan()->to_bytes(), "small.engine");
  Recorder retarget_log;
  const auto engine = Builder(backend, retarget_log).retarget(*plan);
  EXPECT_EQ(retarget_log.timed + retarget_log.cached, 0);
  EXPECT_EQ(engine->plan()->section_count(), 1u);  // the same target: replaced
  EXPECT_EQ(engine->plan()->settings(0), "level 0, fp32");
  expect_right(*engine->create_context(), network, 3);
  Recorder retune_log;
  const auto retuned = Builder(backend, retune_log).retune(*engine->plan(), quick());
  EXPECT_GT(retune_log.timed, 0);
  EXPECT_EQ(retuned->plan()->settings(0), "level 1, fp32");
  expect_right(*retuned->create_context(), network, 3);
}

TEST_F(BuilderTest, FixedShapesAndSeveralProfiles) {
  const Network network = small_network();
  BuildOptions options = quick();
  options.optimization_level = 0;
  options.profiles.push_back(
      {.shapes = {{"x", {{8, 3, 16, 16}, {8, 3, 16, 16}, {8, 3, 16, 16}}}}, .values = {}});
  const auto engine = Builder(backend, log).build(network, options);
  EXPECT_EQ(engine->profile_count(), 2);
  expect_right(*engine->create_context(0), network, 2);
  expect_right(*engine->create_context(1), network, 8);
  EXPECT_TRUE(is_static(engine->graph(1).value(engine->graph(1).outputs()[0]).shape));
  EXPECT_THROW(engine->create_context(1)->run(random_inputs(*network.graph, {{"n", 4}}, 1)), Error);
  // No profile at all: unknown dims are 1.
  options.profiles.clear();
  expect_right(*Builder(backend, log).build(network, options)->create_context(), network, 1);
}

TEST_F(BuilderTest, PrecisionFlagsSayWhatTheyDid) {
  const Network network = small_network();
  BuildOptions options = quick();
  options.fp16 = true;
  const auto engine = Builder(backend, log).build(network, options);
  expect_right(*engine->create_context(), network, 2);
  if (!backend->supports_compute_type(DType::Float16).ok) {
    EXPECT_TRUE(log.said("--fp16 has no effect: ")) << log.text;
  }
  options = quick();
  options.bf16 = options.strongly_typed = true;
  Builder(backend, log).build(network, options);
  EXPECT_TRUE(log.said("--bf16 has no effect: the network is strongly typed")) << log.text;
}

// A model stored in a type that the CPU does not compute in runs in FP32 between casts, and one line says so.
TEST_F(BuilderTest, Float16ModelsComputeInFp32) {
  constexpr const char* kHalf = R"(graph "half" {
  input %x: float16[2, 16]
  const %w: float16[16, 8] = splat 0.25
  %m: float16[2, 8] = MatMul "fc" (%x, %w) from ["fc" MatMul]
  %y: float16[2, 8] = Softmax "softmax" (%m) {axis=1} from ["softmax" Softmax]
  output %y
})";
  const Network network{.graph = std::make_shared<Graph>(parse_graph(kHalf)), .model = {.name = "half"}};
  const auto engine =
      Builder(backend, log).build(network, {.optimization_level = 0, .fail_on_fallback = true});
  EXPECT_TRUE(log.said("The model is stored in float16: layers compute in FP32 between casts")) << log.text;
  EXPECT_EQ(engine->inputs()[0].dtype, DType::Float16);
  EXPECT_EQ(engine->outputs()[0].dtype, DType::Float16);
  const std::vector<Tensor> inputs = random_inputs(*network.graph, {}, 5);
  const auto expected = interpret(*network.graph, inputs, {});
  EXPECT_LT(relative_error(engine->create_context()->run(inputs)[0], expected[0]), 1e-3);
}

// A body's constants are read by the interpreter: an engine file has them, however large they are.
TEST_F(BuilderTest, LoadedEngineHasTheConstantsOfBodies) {
  std::string ones = "1";
  for (int i = 1; i < 20000; ++i) ones += ", 1";
  const std::string text = R"(graph "choice" {
  input %c: bool[]
  input %x: float32[20000]
  %y: float32[20000] = If "choose" (%c, %x) {
    then_branch=graph "then" {
      input %x: float32[20000]
      const %w: float32[20000] = [)" +
                           ones + R"(]
      %z: float32[20000] = Pointwise "add" (%x, %w) {code=Add}
      output %z
    },
    else_branch=graph "else" {
      input %x: float32[20000]
      %z: float32[20000] = Pointwise "same" (%x) {code=Identity}
      output %z
    }} from ["choose" If]
  output %y
})";
  const Network network{.graph = std::make_shared<Graph>(parse_graph(text)), .model = {.name = "choice"}};
  const auto engine = Builder(backend, log).build(network, {.optimization_level = 0});
  const auto loaded = Engine::load(Plan::from_bytes(engine->plan()->to_bytes(), "choice.engine"), backend);
  const std::vector<Tensor> inputs = {Tensor::from_doubles(DType::Bool, {}, std::vector<double>{1}),
                                      random_inputs(*network.graph, {}, 5)[1]};
  EXPECT_EQ(loaded->create_context()->run(inputs)[0].to_doubles(),
            interpret(*network.graph, inputs, {})[0].to_doubles());
}

// The Fill reads nothing of the NonZero but its count, and nobody reads the NonZero.
TEST_F(BuilderTest, SizesThatAreDataFillATensor) {
  const Network network{.graph = std::make_shared<Graph>(parse_graph(R"(graph "filled" {
  input %x: bool[100]
  %i: int64[1, i.count<=100] = NonZero "i" (%x)
  %t: int64[i.count<=100, 1] = Transpose "t" (%i) {perm=[1, 0]}
  %y: int64[i.count<=100] = Fill "y" () {shape=[i.count<=100], dtype=int64, value=3}
  output %y
})"))};
  for (const int level : {0, 2}) {
    const auto engine = Builder(backend, log).build(network, {.optimization_level = level});
    const auto context = engine->create_context();
    for (const double one : {1, 0}) {
      const std::vector<Tensor> inputs = {
          Tensor::from_doubles(DType::Bool, {100}, std::vector<double>(100, one))};
      const auto results = context->run(inputs), expected = interpret(*network.graph, inputs, {});
      ASSERT_EQ(results[0].extents(), expected[0].extents());
      EXPECT_EQ(results[0].to_doubles(), expected[0].to_doubles());
    }
  }
}

// Sizes that are data and that nothing bounds: memory follows them, up and down, in a loaded engine too.
TEST_F(BuilderTest, SizesThatAreDataTakeMemoryAsTheyAre) {
  const Network network{.graph = std::make_shared<Graph>(parse_graph(R"(graph "grown" {
  input %x: float32[2, 3]
  input %r: int64[2]
  %t: float32[t.dim0<=2147483647, t.dim1<=2147483647] = Tile "t" (%x, %r)
  %a: float32[t.dim0<=2147483647, t.dim1<=2147483647] = Pointwise "a" (%t, %t) {code=Add}
  %y: float32[t.dim0<=2147483647, t.dim1<=2147483647] = Softmax "y" (%a) {axis=1}
  %i: int64[2, i.count<=(t.dim0<=2147483647)*(t.dim1<=2147483647)] = NonZero "i" (%a)
  output %y
  output %i
})"))};
  for (const int level : {0, 2}) {
    const auto engine = Builder(backend, log).build(network, {.optimization_level = level});
    const auto loaded = Engine::load(Plan::from_bytes(engine->plan()->to_bytes(), "a.engine"), backend);
    const auto context = loaded->create_context();
    EXPECT_TRUE(context->output_is_held(0));
    EXPECT_EQ(context->output_bytes(0), 0);
    for (const std::vector<double>& repeats :
         {std::vector<double>{1, 2}, {300, 50}, {0, 4}, {2, 1}, {301, 50}, {1, 2}}) {
      const std::vector<Tensor> inputs = {random_inputs(*network.graph, {}, 5)[0],
                                          Tensor::from_doubles(DType::Int64, {2}, repeats)};
      const auto results = context->run(inputs), expected = interpret(*network.graph, inputs, {});
      ASSERT_EQ(results[0].extents(), expected[0].extents());
      EXPECT_EQ(results[1].to_doubles(), expected[1].to_doubles());
      if (results[0].size() == 0) continue;
      EXPECT_LE(relative_error(results[0], expected[0]), 1e-5);
    }
    const std::vector<Tensor> wrong = {random_inputs(*network.graph, {}, 5)[0],
                                       Tensor::from_doubles(DType::Int64, {2}, std::vector<double>{-1, 2})};
    try {
      context->run(wrong);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      EXPECT_NE(std::string(error.what()).find("a repeat of -1 is negative"), std::string::npos)
          << error.what();
    }
  }
}

TEST_F(BuilderTest, LayersOnTheReferenceAreNamed) {
  constexpr const char* kMels = R"(graph "mels" {
  input %rate: int64[]
  input %high: float32[]
  const %bins: int64[] = [3]
  const %more: int64[] = [4]
  const %length: int64[] = [8]
  const %low: float32[] = [0]
  %a: float32[5, 3] = MelWeightMatrix "first" (%bins, %length, %rate, %low, %high) {dtype=float32} from ["first" MelWeightMatrix]
  %b: float32[5, 4] = MelWeightMatrix "second" (%more, %length, %rate, %low, %high) {dtype=float32} from ["second" MelWeightMatrix]
  output %a
  output %b
})";
  const Network network{.graph = std::make_shared<Graph>(parse_graph(kMels)), .model = {.name = "mels"}};
  const auto engine = Builder(backend, log).build(network, {.optimization_level = 0});
  EXPECT_TRUE(
      log.said("2 MelWeightMatrix layers run on the reference, right but slow (one thread, no vectors): no "
               "kernel for MelWeightMatrix on this device"))
      << log.text;
  EXPECT_TRUE(log.said(
      "'second' (MelWeightMatrix) runs on the reference: no kernel for MelWeightMatrix on this device"));
  EXPECT_EQ(engine->choices(0)[0].fallback, "no kernel for MelWeightMatrix on this device");
  try {
    Builder(backend, log).build(network, {.optimization_level = 0, .fail_on_fallback = true});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    const std::string text = error.what();
    EXPECT_NE(
        text.find(
            "2 of 2 layers have no kernel but the reference, and --failOnFallback makes that an error:\n"
            "  'first' (MelWeightMatrix)"),
        std::string::npos)
        << text;
  }
}

TEST_F(BuilderTest, TimingCacheFile) {
  const auto path =
      std::filesystem::temp_directory_path() / ("lathe_builder_test_" + std::to_string(::getpid()));
  BuildOptions options = quick();
  options.timing_cache_mode = TimingCacheMode::Global;
  options.timing_cache_file = path;
  Builder(backend, log).build(small_network(), options);
  EXPECT_TRUE(log.said("Could not read timing cache from: " + path.string())) << log.text;
  Recorder second;
  Builder(backend, second).build(small_network(), options);
  EXPECT_TRUE(second.said("bytes of timing cache from " + path.string())) << second.text;
  EXPECT_EQ(second.timed, 0);
  std::filesystem::remove(path);
  std::filesystem::remove(path.string() + ".lock");
}

TEST_F(BuilderTest, FourContextsOnFourThreads) {
  const Network network = small_network();
  const auto engine = Builder(backend, log).build(network, quick());
  std::vector<std::vector<Tensor>> expected;
  std::vector<std::vector<Tensor>> inputs;
  for (int64_t n = 1; n <= 4; ++n) {
    inputs.push_back(random_inputs(*network.graph, {{"n", n}}, static_cast<uint64_t>(n)));
    expected.push_back(interpret(*network.graph, inputs.back()));
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto context = engine->create_context();
      for (size_t i = 0; i < 20; ++i) {
        const size_t n = (t + i) % 4;
        EXPECT_LE(relative_error(context->run(inputs[n])[0], expected[n][0]), 1e-5);
      }
    });
  for (std::thread& t : threads) t.join();
}

int64_t resident_pages() {
  int64_t size = 0, resident = 0;
  std::sscanf(read_file("/proc/self/statm").c_str(), "%ld %ld", &size, &resident);
  return resident;
}

TEST_F(BuilderTest, RandomShapesKeepMemoryFlat) {
  const Network network = small_network();
  BuildOptions options = quick();
  options.optimization_level = 0;
  options.profiles = {{.shapes = {{"x", {{1, 3, 16, 16}, {8, 3, 16, 16}, {64, 3, 16, 16}}}}, .values = {}}};
  const auto engine = Builder(backend, log).build(network, options);
  const auto context = engine->create_context();
  std::mt19937 random(1);
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const auto n = static_cast<int64_t>(1 + random() % 64);
      context->run(std::vector{Tensor::allocate(DType::Float32, {n, 3, 16, 16})});
    }
  };
  run(300);
  const int64_t before = resident_pages(), device_bytes = context->device_bytes();
  run(700);
  EXPECT_LE(resident_pages() - before, 1024);  // 4 MiB
  EXPECT_LE(context->device_bytes(), device_bytes * 11 / 10);
}

TEST_F(BuilderTest, LimitOnFileSizeKeepsTheOldFile) {
  const auto path =
      std::filesystem::temp_directory_path() / ("lathe_limit_test_" + std::to_string(::getpid()));
  write_file_atomically(path, "old");
  BuildOptions options = quick();
  options.optimization_level = 0;
  const auto engine = Builder(backend, log).build(small_network(), options);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    try {
      engine->save(path);
    } catch (const Error& error) {
      ::_exit(error.kind() == ErrorKind::System ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(read_file(path), "old");
  std::filesystem::remove(path);
}

TEST(Builder, RacesTheUntimedEngineWhereTimesOfLayersMislead) {
  const auto backend = std::make_shared<FakeBackend>();
  Network network;
  network.graph = std::make_shared<Graph>(parse_graph(R"(graph "g" {
  input %x: float32[1, 8, 4, 4]
  %y: float32[1, 8, 4, 4] = Pointwise "relu" (%x) {code=Relu}
  output %y
})"));
  const auto said = [&](int level, bool check) {
    backend->traits.check_whole_engines = check;
    Recorder log;
    Builder(backend, log).build(network, {.optimization_level = level});
    return log.said("Whole engines: tuned ") && log.said(" ms, untimed ") && log.said("; kept: ");
  };
  EXPECT_TRUE(said(3, true));
  EXPECT_FALSE(said(0, true));
  EXPECT_FALSE(said(3, false));
}

}  // namespace
}  // namespace lathe
