// SPDX-License-Identifier: Apache-2.0
//
// Threads that share an engine and the memory of its runs: shared_memory model.onnx
//
// Contexts take their activations from a pool for the time of a run, so as much is in use as runs at a time,
// however many contexts there are.
#include <atomic>
#include <cstring>
#include <thread>

#include "sample.h"

using namespace sample;

int main(int argc, char** argv) {
  return run(argc, argv, 1, "shared_memory model.onnx", [](const std::vector<std::string>& words) {
    ConsoleLogger logger;
    Builder builder(logger, {.threads = 1});
    BuilderConfig config;
    config.optimization_level = 1;
    const Engine engine = builder.build(builder.parse_onnx(words[0]), config);
    const auto pool = std::make_shared<MemoryPool>(device_allocator());
    const HostTensor x = filled(engine.opt_dims(engine.inputs().at(0).name), 1);
    const HostTensor expected = engine.create_context().run({x})[0];

    constexpr int kThreads = 2, kContexts = 8, kRuns = 20;
    std::atomic<int> right = 0;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&] {
          std::vector<ExecutionContext> contexts;
          for (int i = 0; i < kContexts; ++i) {
            contexts.push_back(engine.create_context());
            contexts.back().set_allocator(pool);
          }
          for (int i = 0; i < kRuns; ++i)
            right += contexts[static_cast<size_t>(i % kContexts)].run({x})[0].bytes == expected.bytes;
        });
    }
    const ExecutionContext one = engine.create_context();
    std::cout << right << " of " << kThreads * kRuns << " runs are right\n";
    std::cout << kThreads * kContexts << " contexts of " << one.memory_bytes() << " bytes: "
              << (pool->peak_bytes() <= kThreads * one.memory_bytes() ? "no more than two of them at a time"
                                                                      : "more than two at a time")
              << ", " << pool->trim() << " bytes given back\n";
  });
}
