// SPDX-License-Identifier: Apache-2.0
//
// From CUDA C++ source to a kernel on the GPU, in three steps that are apart because they happen at different
// times: compile (NVRTC, at engine build, needs no GPU), load (when a program is made), launch (when it
// runs).
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/device/device.h"
#include "backend/packing.h"

namespace lathe::cuda {

// CUDA C++ without #include (NVRTC finds no headers); the kernels are extern "C" __global__.
// Throws Internal with the compiler's log and the numbered source when it does not compile.
std::vector<std::byte> compile_source(const Device& device, const std::string& name,
                                      const std::string& source,
                                      const std::vector<std::string>& options = {});

// Modules are loaded once per binary, sources compiled once per process: equal layers, and the timing of a
// layer and the program that uses it, share.
// Modules stay loaded until the process ends, like the context that they belong to.
class KernelCache {
 public:
  // The binary of a source: from `blobs` (an engine from a file), from this process, or compiled now; `blobs`
  // has it afterwards under "cubin/<hash of source and options>".
  std::span<const std::byte> compiled(const Device& device, BlobStore& blobs, const std::string& name,
                                      const std::string& source, const std::vector<std::string>& options);
  // The same of a source that calls CUDA's device runtime, which the driver links to it; the result is kept,
  // so that who has it needs neither. Empty where it has to be linked and the GPU, NVRTC or the runtime
  // (Libraries::device_runtime) is not there.
  std::span<const std::byte> linked(const Device& device, BlobStore& blobs, const std::string& name,
                                    const std::string& source);
  // Compiles into this process's binaries, for a later compiled().
  void compile_ahead(const Device& device, const std::string& name, const std::string& source);
  CUfunction load(const Device& device, std::span<const std::byte> cubin, const std::string& entry);

 private:
  using Binary = std::shared_ptr<const std::vector<std::byte>>;
  Binary binary(const Device& device, uint64_t hash, const std::string& name, const std::string& source,
                const std::vector<std::string>& options);

  std::span<const std::byte> kept(BlobStore& blobs, const std::string& key, const Binary& made);

  std::mutex mutex_;
  std::map<uint64_t, std::shared_future<Binary>> binaries_;  // being compiled, too
  std::map<uint64_t, CUmodule> modules_;
};

struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned cluster[3] = {1, 1, 1};
  unsigned shared_bytes = 0;  // dynamic
  // The kernel may start while the one before it still runs (programmatic dependent launch), where the GPU
  // can. It must execute griddepcontrol.wait in every block before it reads or writes anything but its own
  // constants.
  bool early = false;
};

// A kernel, loaded when the device is present. Copying is cheap.
class GpuKernel {
 public:
  GpuKernel() = default;
  // Compiles (or finds) and loads. Without a GPU it only compiles.
  GpuKernel(const Device& device, BlobStore& blobs, const std::string& entry, const std::string& source,
            const std::vector<std::string>& options = {});
  // One that KernelCache::linked() gave for a GPU that is there.
  GpuKernel(const Device& device, const std::string& entry, std::span<const std::byte> linked);

  // `parameters`: the addresses of the kernel's arguments, in order.
  void launch(const LaunchShape& shape, void** parameters, CUstream stream) const;
  // The same as the work of a node of an executable graph, which launches a kernel already, with clusters of
  // the same size. False when CUDA does not take it.
  bool put_into(CUgraphExec graph, CUgraphNode node, const LaunchShape& shape, void** parameters) const;
  const Driver& driver() const { return *driver_; }

 private:
  // Allows the function what the shape needs.
  void allow(const LaunchShape& shape) const;

  std::string entry_;
  std::shared_ptr<const Driver> driver_;
  CUfunction function_ = nullptr;
  bool overlaps_ = false;
  mutable unsigned shared_limit_ = 48 << 10;
  mutable bool large_cluster_ = false;  // the kernel may have more blocks in a cluster than all GPUs can
};

// Receives launches; the parameters are there during the call alone.
using LaunchVisitor = std::function<void(const GpuKernel&, const LaunchShape&, void** parameters)>;

// Memory on the GPU. Empty when the device is only described.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const Device& device, size_t bytes);
  // A copy of `bytes` on the GPU.
  DeviceMemory(const Device& device, std::span<const std::byte> bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Driver> driver_;
  CUcontext context_ = nullptr;
  std::shared_ptr<v1::Allocator> allocator_;  // null: the driver
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
};

}  // namespace lathe::cuda
