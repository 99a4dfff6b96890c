// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/program.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "backend/cuda/run/execution.h"
#include "backend/layer_symbols.h"
#include "backend/offered.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace lathe::cuda {

void for_each_parallel(size_t count, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t members = std::min<size_t>({count, static_cast<size_t>(usable_cpu_count()), 16});
  for (size_t i = 1; i < members; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

CudaProgram::CudaProgram(ProgramSpec spec, std::shared_ptr<const Device> device)
    : spec_(std::move(spec)), device_(std::move(device)) {
  check(spec_.choices.size() == spec_.graph->order().size(), "one choice per layer expected");
  check(spec_.memory.placements.size() >= spec_.graph->value_count(), "one placement per value expected");
  make_kernels();
  segments_ = find_segments(spec_, Cut::Around);
  upload_constants();
}

void CudaProgram::make_kernels() {
  const std::vector<NodeId>& order = graph().order();
  LockedBlobStore blobs(*spec_.blobs);
  const std::vector<Graph> asked = graphs_to_ask(graph(), spec_.choices);
  layers_.resize(order.size());
  for_each_parallel(order.size(), [&](size_t i) {
    if (device_->is_present()) device_->make_current();
    const Node& node = graph().node(order[i]);
    const Tactic& tactic = spec_.choices[i].tactic;
    layers_[i].node = order[i];
    if (bodies_of(node.op).empty()) layers_[i].symbols = symbols_of(graph(), node);
    check_choice(asked, order[i], spec_.ranges, tactic, *device_);
    if (tactic.is_view) return;
    try {
      // The position makes the key unique and orders the blocks as they are used.
      const PackContext pack{blobs, fmt::format("{:05}/{}/{}", i, node.name, tactic.name)};
      layers_[i].kernel = make_kernel({graph(), order[i], spec_.ranges}, tactic, *device_, pack);
      layers_[i].kernel->make_forms(*device_, blobs);
    } catch (Error& error) {
      error.add_context(fmt::format("making layer '{}' with {}", node.name, tactic.name));
      throw;
    }
  });
  weight_bytes_ = blobs.bytes();
}

void CudaProgram::upload_constants() {
  constants_.resize(graph().value_count());
  for (size_t v = 0; v < graph().value_count(); ++v) {
    const Value& value = graph().value(static_cast<ValueId>(v));
    if (!value.is_constant() || spec_.memory.placements[v].kind != Placement::Kind::Constant) continue;
    constants_[v] = DeviceMemory(*device_, value.constant.bytes());
    weight_bytes_ += static_cast<int64_t>(value.constant.bytes().size());
  }
}

std::unique_ptr<Execution> CudaProgram::create_execution() const {
  return std::make_unique<CudaExecution>(shared_from_this());
}

}  // namespace lathe::cuda
