// SPDX-License-Identifier: Apache-2.0
//
// Memory of a run is taken and given back in the order of the stream of that run.
#include "runtime/run_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/caller_memory.h"
#include "backend/caller_streams.h"
#include "base/error.h"

namespace lathe {
namespace {

struct OneStream final : Stream, NativeStream {
  void synchronize() override {}
  void* native_handle() const override { return const_cast<OneStream*>(this); }
};

struct Runs final : Execution, CallerMemory {
  void set_shapes(const SymbolValues&) override {}
  void run(std::span<void* const>, Stream&) override {}
  void run_profiled(std::span<void* const>, Stream&, std::span<double>) override {}
  void run_observed(std::span<void* const>, Stream&, const LayerHook&) override {}
  Tensor read(ValueId) override { return {}; }
  Extents extents(ValueId) const override { return {}; }
  int64_t device_bytes() const override { return 0; }
  int64_t arena_bytes() const override { return bytes; }
  void use_arena(void* memory) override { arena = memory; }
  void expect_arena() override {}
  int64_t bytes = 512;
  void* arena = nullptr;
};

struct Told final : v1::Allocator {
  void* allocate(size_t bytes, size_t alignment, void* stream) override {
    calls.push_back("take " + std::to_string(bytes) + " " + std::to_string(alignment));
    streams.push_back(stream);
    return answer;
  }
  void deallocate(void* memory, void* stream) noexcept override {
    calls.push_back(memory == answer ? "give back" : "give back another");
    streams.push_back(stream);
  }
  alignas(256) std::byte memory[512];
  void* answer = memory;
  std::vector<std::string> calls;
  std::vector<void*> streams;
};

TEST(RunMemory, FollowsTheStream) {
  Runs runs;
  OneStream stream;
  Told told;
  {
    const RunMemory memory(&told, runs, &stream);
    EXPECT_EQ(runs.arena, told.memory);
    EXPECT_EQ(told.calls, std::vector<std::string>{"take 512 256"});
  }
  EXPECT_EQ(told.calls, (std::vector<std::string>{"take 512 256", "give back"}));
  EXPECT_EQ(told.streams, (std::vector<void*>{&stream, &stream}));
}

TEST(RunMemory, IsTakenWhereARunNeedsIt) {
  Runs runs;
  OneStream stream;
  Told told;
  runs.bytes = 0;
  { const RunMemory memory(&told, runs, &stream); }
  { const RunMemory memory(nullptr, runs, &stream); }
  EXPECT_TRUE(told.calls.empty());
  runs.bytes = 8;
  told.answer = told.memory + 8;  // not aligned: goes back
  EXPECT_THROW(RunMemory(&told, runs, &stream), Error);
  EXPECT_EQ(told.calls, (std::vector<std::string>{"take 8 256", "give back"}));
  told.answer = nullptr;
  EXPECT_THROW(RunMemory(&told, runs, &stream), Error);
  EXPECT_EQ(runs.arena, nullptr);
}

}  // namespace
}  // namespace lathe
