// SPDX-License-Identifier: Apache-2.0
//
// Allocators of the caller: pools, and what builds, engines and contexts take from them.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "fixture.h"
#include "lathe/network.h"

namespace lathe::v1 {
namespace {

// Memory of the host, counted. Fails where an address comes back that was not given, or is still out at the
// end.
class Counted final : public Allocator {
 public:
  ~Counted() override { EXPECT_TRUE(live.empty()) << live.size() << " pieces never came back"; }
  void* allocate(size_t bytes, size_t alignment, void* stream) override {
    const std::lock_guard lock(mutex);
    EXPECT_GT(bytes, 0u);
    EXPECT_EQ(stream, nullptr);
    if (total + bytes > limit) return nullptr;
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    live[memory] = bytes;
    total += bytes, ++calls;
    return memory;
  }
  void deallocate(void* memory, void*) noexcept override {
    const std::lock_guard lock(mutex);
    const auto found = live.find(memory);
    ASSERT_NE(found, live.end());
    total -= found->second;
    live.erase(found);
    std::free(memory);
  }
  size_t live_bytes() const {
    const std::lock_guard lock(mutex);
    return total;
  }

  mutable std::mutex mutex;
  std::map<void*, size_t> live;
  size_t total = 0, calls = 0, limit = SIZE_MAX;
};

TEST(MemoryPool, GivesWhatCameBackToTheNext) {
  const auto source = std::make_shared<Counted>();
  MemoryPool pool(source);
  void* const first = pool.allocate(1000, 64, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(pool.used_bytes(), 1000u);
  pool.deallocate(first, nullptr);
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.kept_bytes(), 1000u);
  EXPECT_EQ(pool.allocate(600, 64, nullptr), first);
  void* const second = pool.allocate(600, 64, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(source->calls, 2u);
  EXPECT_EQ(pool.peak_bytes(), 1600u);
  pool.deallocate(first, nullptr);
  pool.deallocate(second, nullptr);
  EXPECT_EQ(pool.allocate(500, 64, nullptr), second) << "the smaller of two that fit";
  // Neither far larger ones nor ones that are aligned to less.
  void* const small = pool.allocate(10, 64, nullptr);
  EXPECT_NE(small, first);
  void* const aligned = pool.allocate(1000, 4096, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % 4096, 0u);
  for (void* memory : {second, small, aligned}) pool.deallocate(memory, nullptr);
  EXPECT_EQ(pool.trim(), 1000u + 600 + 10 + 1000);
  EXPECT_EQ(source->live_bytes(), 0u);
  EXPECT_EQ(pool.kept_bytes(), 0u);
}

TEST(MemoryPool, RefusesWhatIsBeyondItsLimit) {
  const auto source = std::make_shared<Counted>();
  MemoryPool pool(source, 1000);
  void* const first = pool.allocate(800, 64, nullptr);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(pool.allocate(300, 64, nullptr), nullptr);
  EXPECT_EQ(pool.allocate(SIZE_MAX, 64, nullptr), nullptr);
  pool.deallocate(first, nullptr);
  void* const other = pool.allocate(300, 64, nullptr);  // what was kept went back for it
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(source->live_bytes(), 300u);
  pool.deallocate(other, nullptr);
  source->limit = 500;
  EXPECT_NE(pool.allocate(450, 64, nullptr), nullptr) << "a source that has no more gets back what is kept";
  pool.deallocate(&pool, nullptr);  // not of the pool
}

TEST(MemoryPool, WhatAStreamMayUseIsItsOwn) {
  int one = 0, two = 0;
  const auto source = std::make_shared<MemoryPool>();
  MemoryPool pool(source);
  void* const memory = pool.allocate(512, 64, &one);
  pool.deallocate(memory, &one);
  void* const other = pool.allocate(512, 64, &two);
  EXPECT_NE(other, memory);
  void* const unordered = pool.allocate(512, 64, nullptr);
  EXPECT_NE(unordered, memory);
  EXPECT_EQ(pool.allocate(512, 64, &one), memory);
  pool.deallocate(memory, nullptr);  // done with
  EXPECT_EQ(pool.allocate(512, 64, &two), memory);
}

TEST(MemoryPool, ServesThreadsAtATime) {
  MemoryPool pool;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 200; ++i) {
        auto* bytes = static_cast<std::byte*>(pool.allocate(64 + static_cast<size_t>(i), 64, nullptr));
        std::fill_n(bytes, 64 + i, static_cast<std::byte>(t));
        EXPECT_EQ(bytes[63], static_cast<std::byte>(t));
        pool.deallocate(bytes, nullptr);
      }
    });
  threads.clear();
  EXPECT_EQ(pool.used_bytes(), 0u);
}

// A network with packed weights and activations: y of x [rows, 64].
class Memory : public Api {
 protected:
  Network network() const {
    NetworkBuilder net;
    const auto x = net.input("x", DataType::Float, {-1, 64}, {"rows"});
    const auto a = net.softmax(net.transpose(net.softmax(x), {1, 0}));
    HostTensor weights(DataType::Float, {64, 64});
    for (int i = 0; i < 64 * 64; ++i) weights.data<float>()[i] = static_cast<float>(i % 7) - 3;
    net.output(net.softmax(net.matrix_multiply(net.reshape(a, Dims{-1, 64}), net.constant(weights))), "y");
    return net.finish();
  }
  static BuilderConfig settings(int level) {
    BuilderConfig config;
    config.optimization_level = level;
    config.profiles.emplace_back().set_dims("x", {1, 64}, {2, 64}, {8, 64});
    return config;
  }
  Engine plain() { return builder.build(network(), settings(0)); }
  std::vector<float> run(ExecutionContext& context) const { return floats(context.run({x})[0]); }
  std::vector<float> expected() {
    ExecutionContext context = plain().create_context();
    return run(context);
  }
  const HostTensor x{DataType::Float, {2, 64}, std::vector<float>(128, 0.25F)};
};

TEST_F(Memory, BuildsTakeItFromTheAllocator) {
  const auto memory = std::make_shared<Counted>();
  {
    Builder other(logger, {.threads = 1, .allocator = memory});
    const Engine engine = other.build(network(), settings(1));
    const size_t of_build = memory->calls;
    EXPECT_GT(of_build, 0u) << "what is timed lies in it";
    ExecutionContext context = engine.create_context();
    run(context);
    EXPECT_GT(memory->calls, of_build) << "activations lie in it";
  }
  EXPECT_EQ(memory->live_bytes(), 0u);
}

// Tactics that do not fit are refused; where none does, the build fails and says why.
TEST_F(Memory, OfBuildsMayBeLimited) {
  const auto pool = std::make_shared<MemoryPool>(nullptr, 1 << 10);
  Builder poor(logger, {.threads = 1, .allocator = pool});
  expect_part(message_of(ErrorKind::Input, [&] { poor.build(network(), settings(1)); }),
              "no tactic of layer 'Softmax_0' could be prepared");
  EXPECT_EQ(pool->used_bytes(), 0u);
  const auto enough = std::make_shared<MemoryPool>(nullptr, 1 << 28);
  Builder rich(logger, {.threads = 1, .allocator = enough});
  rich.build(network(), settings(1));
  EXPECT_GT(enough->peak_bytes(), size_t{1} << 10);
}

TEST_F(Memory, EnginesTakeItFromTheAllocator) {
  plain().save(path("plain.engine"));
  const auto memory = std::make_shared<Counted>();
  Runtime runtime(logger, {.threads = 1, .allocator = memory});
  const Engine engine = runtime.load(path("plain.engine"));
  const size_t weights = memory->live_bytes();
  EXPECT_GT(weights, 0u) << "packed weights";
  ExecutionContext context = engine.create_context();
  EXPECT_EQ(memory->live_bytes(), weights);
  EXPECT_EQ(run(context), expected());
  ASSERT_GT(context.memory_bytes(), 0u);
  EXPECT_GE(memory->live_bytes(), weights + context.memory_bytes());
  // An allocator that has none is an error of the system, which says so; the context goes on behind it.
  memory->limit = 0;
  ExecutionContext poor = engine.create_context();
  expect_part(message_of(ErrorKind::System, [&] { run(poor); }),
              "the allocator that was given has no memory");
  memory->limit = SIZE_MAX;
  EXPECT_EQ(run(poor), expected());
}

TEST_F(Memory, ContextsTakeItForTheTimeOfARun) {
  const auto memory = std::make_shared<Counted>();
  ExecutionContext context = plain().create_context();
  const size_t own = static_cast<size_t>(context.device_bytes());
  context.set_allocator(memory);
  EXPECT_EQ(static_cast<size_t>(context.device_bytes()), own - context.memory_bytes());
  std::vector<float> y(128);
  context.bind_input("x", DataType::Float, {2, 64}, x.bytes.data());
  context.bind_output("y", DataType::Float, y.data(), y.size() * sizeof(float));
  EXPECT_EQ(context.tensor_bytes("y"), 512u);
  EXPECT_EQ(memory->calls, 0u) << "none before a run";
  context.execute();
  EXPECT_EQ(y, expected());
  EXPECT_EQ(memory->calls, 1u);
  EXPECT_EQ(memory->live_bytes(), 0u) << "none behind it";
  Stream stream;
  y.assign(128, 0);
  context.enqueue(stream);
  stream.synchronize();
  EXPECT_EQ(y, expected());
  Profiler profiler;
  context.execute(profiler);
  EXPECT_EQ(memory->calls, 3u);
  memory->limit = 0;
  expect_part(message_of(ErrorKind::System, [&] { context.execute(); }), "for the activations of a run");
  memory->limit = SIZE_MAX;
  context.execute();
  EXPECT_EQ(memory->calls, 4u);
  // The context's own again.
  context.set_allocator(nullptr);
  y.assign(128, 0);
  context.execute();
  EXPECT_EQ(y, expected());
  EXPECT_EQ(memory->calls, 4u);
}

TEST_F(Memory, ForAllProfilesIsTakenAtOnce) {
  BuilderConfig two = settings(0);
  two.profiles.emplace_back().set_dims("x", {1, 64}, {2, 64}, {64, 64});
  const std::vector<std::byte> file = builder.build(network(), two).serialize();
  const auto memory = std::make_shared<Counted>();
  const Engine engine = Runtime(logger, {.threads = 1, .allocator = memory}).load(file);
  const size_t weights = memory->live_bytes();
  const size_t most = engine.create_context(1).memory_bytes();
  ExecutionContext context = engine.create_context(0, ContextMemory::AllProfiles);
  constexpr size_t kScratch = 12288;  // more than layers take besides (9 KB where oneDNN has AVX2 alone)
  ASSERT_GT(most, context.memory_bytes() + kScratch);
  EXPECT_EQ(memory->live_bytes(), weights + most);
  EXPECT_EQ(static_cast<size_t>(context.device_bytes()), most);
  for (const int profile : {0, 1, 0}) {
    if (profile != context.profile()) context.set_profile(profile);
    EXPECT_EQ(run(context), expected());
    EXPECT_LT(memory->live_bytes(), weights + most + kScratch) << "profile " << profile;
  }
  context.set_memory(nullptr, 0);  // as much as is needed
  EXPECT_LT(memory->live_bytes(), weights + kScratch);
  EXPECT_EQ(run(context), expected());
  EXPECT_GE(memory->live_bytes(), weights + context.memory_bytes());
  EXPECT_LT(memory->live_bytes(), weights + context.memory_bytes() + kScratch);
}

TEST_F(Memory, OfAPoolIsShared) {
  const auto pool = std::make_shared<MemoryPool>(device_allocator());
  const Engine engine = plain();
  std::vector<ExecutionContext> contexts;
  for (int i = 0; i < 3; ++i) {
    contexts.push_back(engine.create_context());
    contexts.back().set_allocator(pool);
    EXPECT_EQ(run(contexts.back()), expected());
  }
  EXPECT_EQ(pool->peak_bytes(), contexts[0].memory_bytes()) << "one memory for three that run in turn";
  EXPECT_EQ(pool->used_bytes(), 0u);
}

// --- weights in memory of the caller

TEST_F(Api, WeightsInMemoryAreReadInPlace) {
  const std::string model = api_test::tiny_onnx();
  auto weights = std::make_shared<std::vector<float>>(12, 0.0F);
  const std::weak_ptr<std::vector<float>> alive = weights;
  const auto bytes = weights->size() * sizeof(float);
  const HostTensor x(DataType::Float, {2, 4}, kTwoRows);
  auto parsed = std::make_unique<Network>(
      builder.parse_onnx(std::as_bytes(std::span(model)), {{"weights", {weights->data(), bytes, weights}}}));
  weights->assign(12, 1.0F);  // nothing was copied yet
  auto engine = std::make_unique<Engine>(builder.build(*parsed, config()));
  EXPECT_EQ(floats(engine->create_context().run({x})[0]), (std::vector<float>{10, 20, 0, 501, 511, 401}));
  const auto refused = [&](const std::string& name, size_t size) {
    return message_of(ErrorKind::Input, [&] {
      builder.parse_onnx(std::as_bytes(std::span(model)), {{name, {weights->data(), size, weights}}});
    });
  };
  expect_part(refused("nobody", bytes), "the model has no initializer of that name");
  expect_part(refused("weights", bytes - 4), "tensor 'weights'");
  weights.reset();
  EXPECT_FALSE(alive.expired()) << "the network and the engine need it";
  parsed.reset();
  engine.reset();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace lathe::v1
