// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/run/cuda_backend.h"

#include <fmt/format.h>

#include "backend/caller_streams.h"
#include "backend/cuda/device/libraries.h"
#include "backend/cuda/device/stream.h"
#include "backend/cuda/kernel.h"
#include "backend/cuda/run/compile_ahead.h"
#include "backend/cuda/run/program.h"
#include "backend/cuda/run/timed_layer.h"
#include "backend/no_elements.h"
#include "base/error.h"
#include "lathe_cuda_kernels.h"

namespace lathe::cuda {
namespace {

std::string version_text(int version) {
  return version == 0 ? "none" : std::to_string(version);
}

Target describe_target(const Device& device) {
  const DeviceProperties& p = device.properties;
  const Libraries& l = *device.libraries;
  const std::string libraries =
      fmt::format("cuDNN {}, cuBLASLt {}", version_text(l.cudnn ? l.cudnn->version : 0),
                  version_text(l.cublaslt ? l.cublaslt->version : 0));
  return {.backend = "cuda",
          .description = fmt::format("{}, compute capability {}.{}, {}", p.name, p.major, p.minor, libraries),
          .key = fmt::format("{} {} multiprocessors, {}, kernels {}", device.architecture(),
                             p.multiprocessors, libraries, kCudaKernels)};
}

std::string uuid_text(const Device& device, int ordinal) {
  if (!device.is_present()) return "none (described by a file)";
  CUuuid uuid{};
  CUdevice handle = 0;
  const Driver& driver = *device.driver;
  driver.require(driver.cuDeviceGet(&handle, ordinal), "opening the GPU");
  driver.require(driver.cuDeviceGetUuid(&uuid, handle), "reading the GPU's UUID");
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// trtexec's list of the GPUs that there are.
std::vector<std::pair<std::string, std::string>> available_devices(const Device& device) {
  if (!device.is_present()) return {};
  const Driver& driver = *device.driver;
  std::vector<std::pair<std::string, std::string>> lines = {{"Available Devices", ""}};
  int count = 0;
  driver.require(driver.cuDeviceGetCount(&count), "counting the GPUs");
  for (int i = 0; i < count; ++i) {
    CUdevice handle = 0;
    char name[256] = "";
    driver.require(driver.cuDeviceGet(&handle, i), "opening a GPU");
    driver.require(driver.cuDeviceGetName(name, sizeof name - 1, handle), "reading a GPU's name");
    lines.emplace_back(fmt::format("  Device {}", i),
                       fmt::format("\"{}\" UUID: {}", name, uuid_text(device, i)));
  }
  return lines;
}

class CudaBackend final : public Backend, public CallerStreams {
 public:
  explicit CudaBackend(std::shared_ptr<const Device> device)
      : device_(std::move(device)), target_(describe_target(*device_)), families_(tactic_families()) {}

  const Target& target() const override { return target_; }

  std::vector<Tactic> tactics(const LayerQuery& query) const override {
    if (device_->is_present()) device_->make_current();
    std::vector<Tactic> leaders, all;
    for (const TacticFamily& family : families_) {
      if (!may_list(family.runner, query)) continue;
      std::vector<Tactic> listed = family.list(query, *device_);
      const bool leads = family.leads != nullptr && family.leads(query, *device_);
      std::move(listed.begin(), listed.end(), std::back_inserter(leads ? leaders : all));
    }
    leaders.insert(leaders.end(), std::make_move_iterator(all.begin()), std::make_move_iterator(all.end()));
    return leaders;
  }

  std::unique_ptr<TimedLayer> prepare_timing(const LayerQuery& query, const Tactic& tactic) const override {
    return prepare_timed_layer(query, tactic, device_, timing_);
  }

  std::unique_ptr<BackgroundWork> prepare_ahead(std::vector<TimingTask> tasks) const override {
    return compile_ahead(std::move(tasks), families_, device_);
  }

  // Rates that small layers reach (on an H200 200 TFLOP/s and 2 TB/s); a reformat of a tensor that stays in
  // the L2 costs its readers little beyond its own launch.
  TuningTraits tuning_traits() const override {
    const DeviceModel model = device_->properties.model();
    return {.flops_per_ms = 0.187 * model.ops_per_ns(DType::Float16) * 1e6,
            .bytes_per_ms = 0.407 * model.memories.back().bytes_per_ns * 1e6,
            .reformat_surcharge_ms = 0.0005,
            .first_use_seconds = 1,
            .shares_operands = true,
            .narrow_types_win = true,
            .tunes_bodies = true,
            .check_whole_engines = true};
  }

  // One kernel where blocks form clusters.
  std::vector<std::string_view> own_operators() const override {
    if (device_->properties.major < 9) return {};
    return {SqueezeExcite::kName};
  }

  // HopperGemm's, and elsewhere ImplicitGemm's.
  bool stacks_grids() const override { return device_->properties.major >= 8; }

  std::unique_ptr<Program> compile(const ProgramSpec& spec) const override {
    return std::make_unique<ProgramHandle>(std::make_shared<CudaProgram>(spec, device_));
  }

  Support supports_compute_type(DType dtype) const override {
    if (dtype == DType::Float32 || dtype == DType::Float16 || dtype == DType::BFloat16) return {};
    return Support::no(fmt::format("the CUDA backend does not compute in {} yet", dtype_name(dtype)));
  }

  std::unique_ptr<Stream> create_stream() const override { return std::make_unique<GpuStream>(device_); }
  std::unique_ptr<Stream> borrow_stream(void* handle) const override {
    return std::make_unique<GpuStream>(device_, static_cast<CUstream>(handle));
  }
  std::unique_ptr<TimeEvent> create_event() const override { return std::make_unique<GpuEvent>(device_); }
  std::unique_ptr<TimeEvent> create_sleeping_event() const override {
    return std::make_unique<GpuEvent>(device_, true);
  }
  void make_wait(Stream& stream, const TimeEvent& event) const override {
    device_->make_current();
    device_->driver->require(device_->driver->cuStreamWaitEvent(
                                 handle_of(stream), static_cast<const GpuEvent&>(event).handle(), 0),
                             "making a stream wait for an event");
  }
  DeviceMemoryFigures device_memory() const override {
    if (!device_->is_present()) return {};
    device_->make_current();
    size_t free = 0, total = 0;
    device_->driver->require(device_->driver->cuMemGetInfo(&free, &total), "asking for the GPU's memory");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }
  void mark_profiled_range(bool begins) const override {
    device_->make_current();
    // A profiler that is not there is no error.
    begins ? device_->driver->cuProfilerStart() : device_->driver->cuProfilerStop();
  }
  // At the largest shapes, from the layer made and prepared as it would run.
  int64_t scratch_bytes(const LayerQuery& query, const Tactic& tactic) const override {
    if (!device_->is_present() || tactic.is_view) return tactic.is_view ? 0 : -1;
    device_->make_current();
    MemoryBlobStore blobs;
    const auto kernel = make_kernel(query, tactic, *device_, PackContext{blobs, tactic.name});
    const SymbolValues symbols = query.max_values();
    return static_cast<int64_t>(kernel->prepare(shape_context(query, symbols))->scratch_bytes());
  }
  std::unique_ptr<Buffer> allocate(size_t bytes) const override {
    return std::make_unique<GpuBuffer>(*device_, bytes);
  }
  std::unique_ptr<Buffer> allocate_host(size_t bytes) const override {
    return std::make_unique<PinnedBuffer>(device_, bytes);
  }
  void copy_to_device(void* device, const void* host, size_t bytes, Stream& stream) const override {
    if (bytes == 0) return;
    device_->make_current();
    device_->driver->require(device_->driver->cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(device), host,
                                                                bytes, handle_of(stream)),
                             "copying to the GPU");
  }
  void copy_to_host(void* host, const void* device, size_t bytes, Stream& stream) const override {
    if (bytes == 0) return;
    device_->make_current();
    device_->driver->require(device_->driver->cuMemcpyDtoHAsync(host, reinterpret_cast<CUdeviceptr>(device),
                                                                bytes, handle_of(stream)),
                             "copying from the GPU");
  }
  bool is_host() const override { return false; }

  std::vector<std::pair<std::string, std::string>> device_information() const override {
    const DeviceProperties& p = device_->properties;
    std::vector<std::pair<std::string, std::string>> lines = available_devices(*device_);
    const std::vector<std::pair<std::string, std::string>> selected = {
        {"Selected Device", p.name},
        {"Selected Device ID", std::to_string(device_->ordinal)},
        {"Selected Device UUID", uuid_text(*device_, device_->ordinal)},
        {"Compute Capability", fmt::format("{}.{}", p.major, p.minor)},
        {"SMs", std::to_string(p.multiprocessors)},
        {"Device Global Memory", fmt::format("{} MiB", p.memory_bytes >> 20)},
        {"Shared Memory per SM", fmt::format("{} KiB", p.shared_bytes_per_multiprocessor >> 10)},
        {"Memory Bus Width", fmt::format("{} bits{}", p.memory_bus_bits, ecc_text())},
        {"Application Compute Clock Rate", fmt::format("{} GHz", p.clock_khz / 1e6)},
        {"Application Memory Clock Rate", fmt::format("{} GHz", p.memory_clock_khz / 1e6)},
        {"Math of FP32 layers", device_->tf32 ? "TF32 (--noTF32 for FP32)" : "FP32 (--noTF32)"},
        {"Libraries", libraries_text()},
    };
    lines.insert(lines.end(), selected.begin(), selected.end());
    for (const std::string& missing : device_->libraries->missing) lines.emplace_back("Missing", missing);
    return lines;
  }

 private:
  // The interface hands programs out as unique_ptr; executions share the program behind it.
  class ProgramHandle final : public Program {
   public:
    explicit ProgramHandle(std::shared_ptr<const CudaProgram> program) : program_(std::move(program)) {}
    std::unique_ptr<Execution> create_execution() const override { return program_->create_execution(); }
    int64_t weight_bytes() const override { return program_->weight_bytes(); }

   private:
    std::shared_ptr<const CudaProgram> program_;
  };

  std::string ecc_text() const {
    if (!device_->is_present()) return {};
    CUdevice handle = 0;
    int on = 0;
    device_->driver->require(device_->driver->cuDeviceGet(&handle, device_->ordinal), "opening the GPU");
    device_->driver->require(
        device_->driver->cuDeviceGetAttribute(&on, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, handle),
        "reading a property of the GPU");
    return on != 0 ? " (ECC enabled)" : " (ECC disabled)";
  }

  std::string libraries_text() const {
    const Libraries& l = *device_->libraries;
    return fmt::format(
        "driver {}, NVRTC {}, cuDNN {}, cuBLASLt {}", version_text(device_->properties.driver_version),
        version_text(l.nvrtc ? l.nvrtc->version : 0), version_text(l.cudnn ? l.cudnn->version : 0),
        version_text(l.cublaslt ? l.cublaslt->version : 0));
  }

  std::shared_ptr<const Device> device_;
  mutable TimingMemory timing_;
  Target target_;
  std::vector<TacticFamily> families_;
};

}  // namespace

std::unique_ptr<Backend> create_cuda_backend(std::shared_ptr<const Device> device) {
  return std::make_unique<CudaBackend>(std::move(device));
}

}  // namespace lathe::cuda
