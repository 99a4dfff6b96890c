// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/gpu_kernel.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "backend/cuda/device/libraries.h"
#include "backend/packing.h"
#include "base/error.h"
#include "base/hash.h"

namespace lathe::cuda {
namespace {

std::string numbered(const std::string& source) {
  std::string text;
  size_t line = 1, begin = 0;
  while (begin < source.size()) {
    const size_t end = std::min(source.find('\n', begin), source.size());
    text += fmt::format("{:5} {}\n", line++, std::string_view(source).substr(begin, end - begin));
    begin = end + 1;
  }
  return text;
}

std::vector<std::string> all_options(const Device& device, const std::vector<std::string>& options) {
  std::vector<std::string> all = {"--gpu-architecture=" + device.architecture(), "-default-device",
                                  "--std=c++17"};
  all.insert(all.end(), options.begin(), options.end());
  return all;
}

}  // namespace

std::vector<std::byte> compile_source(const Device& device, const std::string& name,
                                      const std::string& source, const std::vector<std::string>& options) {
  const Nvrtc* nvrtc = device.libraries->nvrtc.get();
  if (nvrtc == nullptr)
    throw_system_error(
        fmt::format("kernel '{}' has to be compiled, and NVRTC (libnvrtc.so.13) is not there", name),
        ErrorCode::FailedInitialization);
  nvrtcProgram program = nullptr;
  if (nvrtc->nvrtcCreateProgram(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr) !=
      NVRTC_SUCCESS)
    throw_system_error(fmt::format("NVRTC takes no program '{}'", name));
  const std::vector<std::string> all = all_options(device, options);
  std::vector<const char*> arguments;
  for (const std::string& option : all) arguments.push_back(option.c_str());
  const nvrtcResult result =
      nvrtc->nvrtcCompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
  std::vector<std::byte> cubin;
  std::string log;
  size_t bytes = 0;
  if (result == NVRTC_SUCCESS && nvrtc->nvrtcGetCUBINSize(program, &bytes) == NVRTC_SUCCESS) {
    cubin.resize(bytes);
    nvrtc->nvrtcGetCUBIN(program, reinterpret_cast<char*>(cubin.data()));
  } else if (nvrtc->nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS) {
    log.resize(bytes);
    nvrtc->nvrtcGetProgramLog(program, log.data());
  }
  nvrtc->nvrtcDestroyProgram(&program);
  check(!cubin.empty(), fmt::format("kernel '{}' does not compile ({}):\n{}\n{}", name,
                                    nvrtc->nvrtcGetErrorString(result), log.c_str(), numbered(source)));
  return cubin;
}

namespace {

uint64_t source_hash(const Device& device, const std::string& source,
                     const std::vector<std::string>& options) {
  std::string identity = source;
  for (const std::string& option : all_options(device, options)) identity += "\n" + option;
  return hash_text(identity);
}

}  // namespace

// The first to ask compiles, outside the lock because it takes 0.05 to 0.5 s; who asks meanwhile waits for
// it.
KernelCache::Binary KernelCache::binary(const Device& device, uint64_t hash, const std::string& name,
                                        const std::string& source, const std::vector<std::string>& options) {
  std::promise<Binary> promise;
  std::unique_lock lock(mutex_);
  const auto [entry, is_first] = binaries_.try_emplace(hash);
  if (!is_first) {
    const std::shared_future<Binary> result = entry->second;
    lock.unlock();
    return result.get();
  }
  entry->second = promise.get_future().share();
  lock.unlock();
  try {
    auto made = std::make_shared<const std::vector<std::byte>>(compile_source(device, name, source, options));
    promise.set_value(made);
    return made;
  } catch (...) {
    promise.set_exception(std::current_exception());
    throw;
  }
}

void KernelCache::compile_ahead(const Device& device, const std::string& name, const std::string& source) {
  binary(device, source_hash(device, source, {}), name, source, {});
}

// A block in the store must not be replaced: another thread may be loading it.
std::span<const std::byte> KernelCache::kept(BlobStore& blobs, const std::string& key, const Binary& made) {
  const std::lock_guard lock(mutex_);
  const auto stored = blobs.find(key);
  return stored.empty() ? blobs.put(key, *made) : stored;
}

std::span<const std::byte> KernelCache::compiled(const Device& device, BlobStore& blobs,
                                                 const std::string& name, const std::string& source,
                                                 const std::vector<std::string>& options) {
  const uint64_t hash = source_hash(device, source, options);
  const std::string key = std::string(kCompiledBlocks) + hash_to_string(hash);
  if (const auto stored = blobs.find(key); !stored.empty()) return stored;
  return kept(blobs, key, binary(device, hash, name, source, options));
}

namespace {

const std::vector<std::string> kToBeLinked = {"--relocatable-device-code=true"};

std::vector<std::byte> link_with_runtime(const Device& device, const std::string& name,
                                         std::span<const std::byte> object) {
  const Driver& driver = *device.driver;
  device.make_current();
  CUlinkState state = nullptr;
  driver.require(driver.cuLinkCreate(0, nullptr, nullptr, &state), "beginning to link a kernel");
  const std::unique_ptr<std::remove_pointer_t<CUlinkState>, decltype(driver.cuLinkDestroy)> owner(
      state, driver.cuLinkDestroy);
  const std::string what = fmt::format("linking kernel '{}' with {}", name, device.libraries->device_runtime);
  driver.require(driver.cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, device.libraries->device_runtime.c_str(),
                                      0, nullptr, nullptr),
                 what);
  driver.require(driver.cuLinkAddData(state, CU_JIT_INPUT_CUBIN, const_cast<std::byte*>(object.data()),
                                      object.size(), name.c_str(), 0, nullptr, nullptr),
                 what);
  void* image = nullptr;
  size_t bytes = 0;
  driver.require(driver.cuLinkComplete(state, &image, &bytes), what);
  const auto* begin = static_cast<const std::byte*>(image);
  return {begin, begin + bytes};
}

}  // namespace

std::span<const std::byte> KernelCache::linked(const Device& device, BlobStore& blobs,
                                               const std::string& name, const std::string& source) {
  const uint64_t hash = source_hash(device, source, kToBeLinked);
  const std::string key = std::string(kCompiledBlocks) + hash_to_string(hash);
  if (const auto stored = blobs.find(key); !stored.empty()) return stored;
  if (!device.is_present() || device.libraries->nvrtc == nullptr || device.libraries->device_runtime.empty())
    return {};
  const Binary object = binary(device, hash, name, source, kToBeLinked);
  return kept(blobs, key,
              std::make_shared<const std::vector<std::byte>>(link_with_runtime(device, name, *object)));
}

CUfunction KernelCache::load(const Device& device, std::span<const std::byte> cubin,
                             const std::string& entry) {
  const std::lock_guard lock(mutex_);
  device.make_current();
  CUmodule& module = modules_[hash_bytes(cubin)];
  if (module == nullptr)
    device.driver->require(device.driver->cuModuleLoadDataEx(&module, cubin.data(), 0, nullptr, nullptr),
                           fmt::format("loading kernel '{}'", entry));
  CUfunction function = nullptr;
  device.driver->require(device.driver->cuModuleGetFunction(&function, module, entry.c_str()),
                         fmt::format("looking for kernel '{}'", entry));
  return function;
}

GpuKernel::GpuKernel(const Device& device, BlobStore& blobs, const std::string& entry,
                     const std::string& source, const std::vector<std::string>& options)
    : entry_(entry), driver_(device.driver), overlaps_(device.properties.overlaps_launches()) {
  const auto cubin = device.kernels->compiled(device, blobs, entry, source, options);
  if (device.is_present()) function_ = device.kernels->load(device, cubin, entry);
}

GpuKernel::GpuKernel(const Device& device, const std::string& entry, std::span<const std::byte> linked)
    : entry_(entry),
      driver_(device.driver),
      function_(device.kernels->load(device, linked, entry)),
      overlaps_(device.properties.overlaps_launches()) {}

// Blocks of a cluster that every GPU with clusters can have.
constexpr unsigned kPortableCluster = 8;

void GpuKernel::allow(const LaunchShape& shape) const {
  check(function_ != nullptr, "a kernel cannot be launched without a GPU");
  if (shape.shared_bytes > shared_limit_) {
    driver_->require(driver_->cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                 static_cast<int>(shape.shared_bytes)),
                     fmt::format("{} bytes of shared memory for kernel '{}'", shape.shared_bytes, entry_));
    shared_limit_ = shape.shared_bytes;
  }
  const unsigned blocks = shape.cluster[0] * shape.cluster[1] * shape.cluster[2];
  if (blocks > kPortableCluster && !large_cluster_) {
    driver_->require(
        driver_->cuFuncSetAttribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
        fmt::format("clusters of {} blocks for kernel '{}'", blocks, entry_));
    large_cluster_ = true;
  }
}

namespace {

// Of a launch, or of a node that launches.
template <class Launch>
void set_sizes(Launch& launch, const LaunchShape& shape) {
  launch.gridDimX = shape.grid[0];
  launch.gridDimY = shape.grid[1];
  launch.gridDimZ = shape.grid[2];
  launch.blockDimX = shape.block[0];
  launch.blockDimY = shape.block[1];
  launch.blockDimZ = shape.block[2];
  launch.sharedMemBytes = shape.shared_bytes;
}

}  // namespace

bool GpuKernel::put_into(CUgraphExec graph, CUgraphNode node, const LaunchShape& shape,
                         void** parameters) const {
  allow(shape);
  CUDA_KERNEL_NODE_PARAMS work{};
  set_sizes(work, shape);
  work.func = function_;
  work.kernelParams = parameters;
  return driver_->cuGraphExecKernelNodeSetParams(graph, node, &work) == CUDA_SUCCESS;
}

void GpuKernel::launch(const LaunchShape& shape, void** parameters, CUstream stream) const {
  allow(shape);
  const unsigned blocks = shape.cluster[0] * shape.cluster[1] * shape.cluster[2];
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config{};
  set_sizes(config, shape);
  config.hStream = stream;
  config.attrs = attributes;
  if (blocks > 1) {
    CUlaunchAttribute& a = attributes[config.numAttrs++];
    std::memset(&a, 0, sizeof a);
    a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a.value.clusterDim = {shape.cluster[0], shape.cluster[1], shape.cluster[2]};
  }
  if (shape.early && overlaps_) {
    CUlaunchAttribute& a = attributes[config.numAttrs++];
    std::memset(&a, 0, sizeof a);
    a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a.value.programmaticStreamSerializationAllowed = 1;
  }
  const CUresult result = driver_->cuLaunchKernelEx(&config, function_, parameters, nullptr);
  if (result == CUDA_SUCCESS) return;  // the text is made for failures alone
  driver_->require(
      result,
      fmt::format("launching kernel '{}' ({}x{}x{} blocks of {}x{}x{} threads, {} bytes of shared memory)",
                  entry_, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
                  shape.block[2], shape.shared_bytes));
}

namespace {

constexpr size_t kMemoryAlignment = 256;  // as the driver's

CUdeviceptr memory_of_caller(const Device& device, size_t bytes) {
  void* const memory = device.allocator->allocate(bytes, kMemoryAlignment, nullptr);
  if (memory == nullptr)
    throw_system_error(fmt::format("the allocator that was given has no memory of {} bytes for GPU {}", bytes,
                                   device.ordinal),
                       ErrorCode::FailedAllocation);
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  if (address % kMemoryAlignment == 0) return address;
  device.allocator->deallocate(memory, nullptr);
  throw_system_error(
      fmt::format("the allocator that was given has memory at {:#x}, and a multiple of {} was asked for",
                  address, kMemoryAlignment),
      ErrorCode::FailedAllocation);
}

}  // namespace

DeviceMemory::DeviceMemory(const Device& device, size_t bytes) {
  if (!device.is_present() || bytes == 0) return;
  device.make_current();
  if (device.allocator != nullptr) {
    address_ = memory_of_caller(device, bytes);
  } else {
    device.driver->require(device.driver->cuMemAlloc(&address_, bytes),
                           fmt::format("allocating {} bytes on GPU {}", bytes, device.ordinal));
  }
  allocator_ = device.allocator;
  driver_ = device.driver;
  context_ = device.context;
  bytes_ = bytes;
}

DeviceMemory::DeviceMemory(const Device& device, std::span<const std::byte> bytes)
    : DeviceMemory(device, bytes.size()) {
  if (address_ == 0) return;
  driver_->require(driver_->cuMemcpyHtoD(address_, bytes.data(), bytes.size()), "copying weights to the GPU");
  // The copy has left the host's memory when the call returns, but not arrived; streams do not wait for it.
  driver_->require(driver_->cuStreamSynchronize(nullptr), "copying weights to the GPU");
}

DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  driver_->cuCtxSetCurrent(context_);
  if (allocator_ == nullptr) {
    driver_->cuMemFree(address_);
    return;
  }
  driver_->cuCtxSynchronize();  // as cuMemFree does: nobody uses it any more
  allocator_->deallocate(data(), nullptr);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept {
  *this = std::move(other);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(context_, other.context_);
  std::swap(allocator_, other.allocator_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace lathe::cuda
