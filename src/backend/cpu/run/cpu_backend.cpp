// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/device/host_memory.h"
#include "backend/cpu/device/machine.h"
#include "backend/cpu/device/onednn.h"
#include "backend/cpu/run/program.h"
#include "backend/cpu/run/timed_layer.h"
#include "backend/offered.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuOptions& options, std::shared_ptr<ThreadPool> pool)
      : pool_(std::move(pool)),
        allocator_(options.allocator),
        info_(read_cpu_info()),
        families_(tactic_families()) {
    std::optional<Isa> cap;
    if (!options.isa_cap.empty()) cap = isa_from_name(options.isa_cap);
    const int threads = options.threads > 0 ? std::min(options.threads, pool_->size()) : pool_->size();
    machine_ = make_machine(info_, cap, threads);
    cap_onednn_isa(machine_.isa());
    target_ = describe_target(info_, machine_);
  }

  const Target& target() const override { return target_; }

  std::vector<Tactic> tactics(const LayerQuery& query) const override {
    const SingleThreadedOneDnn single;
    return list_all(families_, query, machine_);
  }

  std::unique_ptr<TimedLayer> prepare_timing(const LayerQuery& query, const Tactic& tactic) const override {
    return prepare_timed_layer(query, tactic, machine_, pool_, *residency_, allocator_);
  }

  int64_t scratch_bytes(const LayerQuery& query, const Tactic& tactic) const override {
    return layer_scratch_bytes(query, tactic, machine_);
  }

  std::unique_ptr<Program> compile(const ProgramSpec& spec) const override {
    return std::make_unique<ProgramHandle>(std::make_shared<CpuProgram>(spec, machine_, pool_, allocator_));
  }

  TuningTraits tuning_traits() const override { return {.has_slow_phases = true, .tunes_bodies = true}; }

  std::vector<std::string_view> own_operators() const override {
    return {SqueezeExcite::kName, DFT::kName, STFT::kName, Col2Im::kName};
  }

  std::shared_ptr<const Backend> one_thread() const override {
    auto backend = std::make_shared<CpuBackend>(*this);
    backend->machine_.threads = 1;
    backend->target_ = describe_target(info_, backend->machine_);
    return backend;
  }

  Support supports_compute_type(DType dtype) const override {
    switch (dtype) {
      case DType::Float32:
        return {};
      case DType::BFloat16:
        if (machine_.has(CpuFeature::Bf16)) return {};
        return Support::no(fmt::format("{} has no BF16 instructions (AVX512-BF16 or AMX){}", info_.brand,
                                       info_.features.has(CpuFeature::Bf16) ? " within --cpuIsa" : ""));
      case DType::Float16:
        return Support::no(info_.features.has(CpuFeature::Fp16)
                               ? "there are no FP16 kernels for this CPU yet; --bf16 is faster on it"
                               : fmt::format("{} has no fast FP16 arithmetic (AVX512-FP16)", info_.brand));
      default:
        return Support::no(fmt::format("the CPU backend does not compute in {}", dtype_name(dtype)));
    }
  }

  // Norms, softmax, pooling and others have no bfloat16 form.
  bool computes_everything_in(DType dtype) const override { return dtype == DType::Float32; }

  std::unique_ptr<Stream> create_stream() const override { return std::make_unique<HostStream>(); }
  std::unique_ptr<TimeEvent> create_event() const override { return std::make_unique<HostEvent>(); }
  std::unique_ptr<Buffer> allocate(size_t bytes) const override {
    return std::make_unique<HostBuffer>(bytes, "an input or output", allocator_);
  }
  std::unique_ptr<Buffer> allocate_host(size_t bytes) const override { return allocate(bytes); }
  void copy_to_device(void* device, const void* host, size_t bytes, Stream&) const override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, size_t bytes, Stream&) const override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  bool is_host() const override { return true; }
  std::vector<std::pair<std::string, std::string>> device_information() const override {
    return describe_device(info_, machine_);
  }

 private:
  // The interface hands programs out as unique_ptr; executions share the program behind it.
  class ProgramHandle final : public Program {
   public:
    explicit ProgramHandle(std::shared_ptr<const CpuProgram> program) : program_(std::move(program)) {}
    std::unique_ptr<Execution> create_execution() const override { return program_->create_execution(); }
    int64_t weight_bytes() const override { return program_->weight_bytes(); }

   private:
    std::shared_ptr<const CpuProgram> program_;
  };

  std::shared_ptr<ThreadPool> pool_;
  std::shared_ptr<v1::Allocator> allocator_;
  std::shared_ptr<CacheResidency> residency_ = std::make_shared<CacheResidency>(pool_);
  CpuInfo info_;
  Machine machine_;
  Target target_;
  std::vector<TacticFamily> families_;
};

}  // namespace

std::unique_ptr<Backend> create_cpu_backend(const CpuOptions& options, std::shared_ptr<ThreadPool> pool) {
  check(pool != nullptr, "create_cpu_backend: a thread pool is needed");
  return std::make_unique<CpuBackend>(options, std::move(pool));
}

}  // namespace lathe::cpu
