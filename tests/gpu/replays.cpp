// SPDX-License-Identifier: Apache-2.0
//
// The same bytes, however busy the GPU is: one context replays its CUDA graph over and over while two others
// load the machine on and off with other shapes. Races between kernels (a launch that starts early and reads
// too soon, a scratch that two kernels share) show as a changed byte, and hardly ever on an idle GPU.
//
// usage: replays ENGINE COUNT [DEVICE]
// Exit code 1 when a replay differs from the first run.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

#include "backend/all.h"
#include "base/error.h"
#include "reference/random_input.h"
#include "runtime/context.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

// A context at fixed shapes with buffers that stay, so that its runs are recorded and replayed.
class Session {
 public:
  Session(const std::shared_ptr<const Engine>& engine, const SymbolValues& values, uint64_t seed)
      : engine_(engine), context_(engine->create_context()), stream_(engine->backend()->create_stream()) {
    const Backend& backend = *engine->backend();
    const auto inputs = random_inputs(engine->graph(), values, seed);
    for (size_t i = 0; i < inputs.size(); ++i) {
      context_->set_input_shape(engine->inputs()[i].name, inputs[i].extents());
      if (engine->inputs()[i].contents)
        context_->set_input_values(engine->inputs()[i].name, inputs[i].to_int64s());
      buffers_.push_back(backend.allocate(std::max<size_t>(64, inputs[i].bytes().size())));
      backend.copy_to_device(buffers_.back()->data(), inputs[i].bytes().data(), inputs[i].bytes().size(),
                             *stream_);
    }
    for (size_t i = 0; i < engine->outputs().size(); ++i) {
      results_.emplace_back(static_cast<size_t>(context_->output_bytes(i)));
      buffers_.push_back(backend.allocate(std::max<size_t>(64, results_.back().size())));
    }
    for (const auto& buffer : buffers_) bindings_.push_back(buffer->data());
    stream_->synchronize();
  }

  const std::vector<std::vector<std::byte>>& run() {
    const Backend& backend = *engine_->backend();
    const size_t first = engine_->inputs().size();
    context_->enqueue(bindings_, *stream_);
    for (size_t i = 0; i < results_.size(); ++i)
      backend.copy_to_host(results_[i].data(), bindings_[first + i], results_[i].size(), *stream_);
    stream_->synchronize();
    return results_;
  }
  std::string note() const { return context_->launch_note(); }

 private:
  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<void*> bindings_;
  std::vector<std::vector<std::byte>> results_;
};

// Runs in bursts of random length with random pauses until told to stop.
void load(Session& session, unsigned seed, const std::atomic<bool>& stop) {
  std::mt19937 random(seed);
  while (!stop) {
    for (auto n = random() % 40; n > 0 && !stop; --n) session.run();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
  }
}

bool same_bytes(const std::string& file, int count, const std::string& device) {
  const auto engine = Engine::load(file, open_backend({.device = device}));
  SymbolValues opt, most, least;
  for (const auto& [name, range] : engine->variant(0).ranges) {
    opt[name] = range.opt;
    most[name] = range.max;
    least[name] = range.min;
  }
  Session judged(engine, opt, 1), heavy(engine, most, 2), light(engine, least, 3);
  const auto expected = judged.run();
  std::atomic<bool> stop{false};
  std::thread first(load, std::ref(heavy), 11, std::cref(stop)),
      second(load, std::ref(light), 12, std::cref(stop));
  int different = 0, first_different = -1;
  for (int i = 0; i < count; ++i) {
    if (judged.run() == expected) continue;
    if (different++ == 0) first_different = i;
  }
  stop = true;
  first.join();
  second.join();
  fmt::print("{}: {} of {} replays differ{} ({})\n", file, different, count,
             different > 0 ? fmt::format(", the first is number {}", first_different) : "", judged.note());
  return different == 0;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fputs("usage: replays ENGINE COUNT [DEVICE]\n", stderr);
    return 2;
  }
  try {
    return lathe::same_bytes(argv[1], std::stoi(argv[2]), argc > 3 ? argv[3] : "0") ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "replays: %s\n", error.what());
    return 2;
  }
}
