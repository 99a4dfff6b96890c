// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/compile_ahead.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "backend/cuda/device/libraries.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace lathe::cuda {
namespace {

// One processor stays with the tuner.
constexpr int kMostThreads = 24;

class CompilingAhead final : public BackgroundWork {
 public:
  CompilingAhead(std::vector<TimingTask> tasks, const std::vector<TacticFamily>& families,
                 std::shared_ptr<const Device> device)
      : tasks_(std::move(tasks)), families_(families), device_(std::move(device)) {
    const int members = std::clamp(static_cast<int>(usable_cpu_count()) - 1, 1, kMostThreads);
    for (int i = 0; i < members; ++i) threads_.emplace_back([this] { work(); });
  }
  ~CompilingAhead() override {
    next_ = tasks_.size();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    for (size_t i = next_.fetch_add(1); i < tasks_.size(); i = next_.fetch_add(1)) try {
        compile(tasks_[i]);
      } catch (const Error&) {
        // The tuner meets the same error when it prepares this tactic, and says so.
      }
  }
  void compile(const TimingTask& task) {
    for (const TacticFamily& family : families_) {
      if (family.runner != task.tactic.runner || family.sources == nullptr) continue;
      for (const KernelSource& kernel : family.sources(task.query, task.tactic, *device_))
        device_->kernels->compile_ahead(*device_, kernel.entry, kernel.source);
    }
  }

  const std::vector<TimingTask> tasks_;
  const std::vector<TacticFamily>& families_;
  const std::shared_ptr<const Device> device_;
  std::atomic<size_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BackgroundWork> compile_ahead(std::vector<TimingTask> tasks,
                                              const std::vector<TacticFamily>& families,
                                              std::shared_ptr<const Device> device) {
  if (device->libraries->nvrtc == nullptr) return nullptr;
  return std::make_unique<CompilingAhead>(std::move(tasks), families, std::move(device));
}

}  // namespace lathe::cuda
