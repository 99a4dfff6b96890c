// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/device/gpu_kernel.h"
#include "backend/cuda/device/libraries.h"
#include "base/error.h"
#include "base/json.h"

namespace lathe::cuda {
namespace {

// Every property with its name in the file.
template <class Properties, class Visitor>
void visit(Properties& p, Visitor&& visitor) {
  visitor("name", p.name);
  visitor("major", p.major);
  visitor("minor", p.minor);
  visitor("multiprocessors", p.multiprocessors);
  visitor("shared_bytes_per_block", p.shared_bytes_per_block);
  visitor("shared_bytes_per_multiprocessor", p.shared_bytes_per_multiprocessor);
  visitor("registers_per_multiprocessor", p.registers_per_multiprocessor);
  visitor("threads_per_multiprocessor", p.threads_per_multiprocessor);
  visitor("l2_bytes", p.l2_bytes);
  visitor("memory_bytes", p.memory_bytes);
  visitor("clock_khz", p.clock_khz);
  visitor("memory_clock_khz", p.memory_clock_khz);
  visitor("memory_bus_bits", p.memory_bus_bits);
  visitor("driver_version", p.driver_version);
}

DeviceProperties read_properties(const Driver& driver, CUdevice device) {
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    driver.require(driver.cuDeviceGetAttribute(&value, which, device), "reading a property of the GPU");
    return value;
  };
  DeviceProperties p;
  char name[256] = "";
  driver.require(driver.cuDeviceGetName(name, sizeof name, device), "reading the name of the GPU");
  size_t memory = 0;
  driver.require(driver.cuDeviceTotalMem(&memory, device), "reading the memory of the GPU");
  p.name = name;
  p.memory_bytes = static_cast<int64_t>(memory);
  p.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p.shared_bytes_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p.shared_bytes_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p.registers_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  p.threads_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  p.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p.clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  p.memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  p.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  driver.require(driver.cuDriverGetVersion(&p.driver_version), "reading the driver's version");
  return p;
}

void open_handles(const Device& device) {
  const Libraries& libraries = *device.libraries;
  if (libraries.cublaslt != nullptr)
    if (const auto status = libraries.cublaslt->cublasLtCreate(&device.handles->cublaslt);
        status != CUBLAS_STATUS_SUCCESS)
      throw_system_error(
          fmt::format("cuBLASLt does not start: {}", libraries.cublaslt->cublasLtGetStatusString(status)),
          ErrorCode::FailedInitialization);
  if (libraries.cudnn != nullptr)
    if (const auto status = libraries.cudnn->cudnnCreate(&device.handles->cudnn);
        status != CUDNN_STATUS_SUCCESS)
      throw_system_error(
          fmt::format("cuDNN does not start: {}", libraries.cudnn->cudnnGetErrorString(status)),
          ErrorCode::FailedInitialization);
}

}  // namespace

int64_t DeviceProperties::shared_bytes_each(int resident) const {
  return std::min(shared_bytes_per_block, shared_bytes_per_multiprocessor / resident - 1024);
}

namespace {

// Multiplications and additions of a multiprocessor in a cycle. Tensor cores: 16-bit operands, sums in FP32
// (NVIDIA's architecture whitepapers; consumer GPUs sum in FP32 at half the rate that they are sold with).
// The others: FP32.
struct OpsPerCycle {
  double tensor = 1024, plain = 256;
};
OpsPerCycle ops_per_cycle(int major, int minor) {
  if (major == 8) return minor == 0 ? OpsPerCycle{2048, 128} : OpsPerCycle{512, 256};
  if (major == 9) return {4096, 256};
  if (major == 10) return {8192, 256};
  return {512, 256};
}

}  // namespace

double DeviceProperties::tensor_ops_per_us() const {
  return ops_per_cycle(major, minor).tensor * clock_khz / 1e3;
}

DeviceModel DeviceProperties::model() const {
  const double cycles_per_ns = clock_khz / 1e6, all = multiprocessors * cycles_per_ns;
  const OpsPerCycle ops = ops_per_cycle(major, minor);
  // A multiprocessor takes 64 bytes a cycle from L2, of which half arrives where all do; memory moves data on
  // both edges of its clock.
  return {.name = name,
          .units = multiprocessors,
          .memories = {{"L2", l2_bytes, 32 * all},
                       {"memory", memory_bytes, memory_clock_khz / 1e6 * 2 * memory_bus_bits / 8}},
          .rates = {{DType::Float32, ops.plain * all},
                    {DType::Float16, ops.tensor * all},
                    {DType::BFloat16, ops.tensor * all}},
          .start_us = 1.6};
}

std::string DeviceProperties::to_json() const {
  Json json = Json::object();
  visit(*this, [&](const char* name, const auto& value) { json[name] = value; });
  return dump_json(json) + "\n";
}

DeviceProperties DeviceProperties::from_json(std::string_view text, std::string_view source) {
  const Json json = parse_json(text, source);
  DeviceProperties properties;
  visit(properties, [&](const char* name, auto& value) {
    try {
      value = json.at(name).get<std::remove_reference_t<decltype(value)>>();
    } catch (const Json::exception&) {
      throw_input_error(
          fmt::format("{}: property '{}' of the GPU is missing or of another type", source, name));
    }
  });
  return properties;
}

void Device::make_current() const {
  check(driver != nullptr, "a device that is only described cannot run anything");
  driver->require(driver->cuCtxSetCurrent(context), "selecting the GPU");
}

std::string Device::architecture() const {
  const bool specific = properties.major >= 9;
  return fmt::format("sm_{}{}{}", properties.major, properties.minor, specific ? "a" : "");
}

std::shared_ptr<const Device> open_device(int ordinal, bool tf32, std::shared_ptr<v1::Allocator> allocator) {
  std::string reason;
  auto driver = Driver::open(reason);
  if (driver == nullptr)
    throw_input_error(fmt::format("GPU {} cannot be used: {}", ordinal, reason),
                      ErrorCode::FailedInitialization);
  int count = 0;
  driver->require(driver->cuDeviceGetCount(&count), "counting the GPUs");
  if (ordinal >= count)
    throw_input_error(count == 0
                          ? fmt::format("GPU {} cannot be used: the driver sees no GPU", ordinal)
                          : fmt::format("GPU {} cannot be used: the driver sees {} GPU(s), numbered from 0",
                                        ordinal, count),
                      ErrorCode::FailedInitialization);
  CUdevice handle = 0;
  driver->require(driver->cuDeviceGet(&handle, ordinal), "opening the GPU");
  auto device = std::make_shared<Device>();
  device->properties = read_properties(*driver, handle);
  if (device->properties.major < 8)
    throw_input_error(
        fmt::format("GPU {} ({}) has compute capability {}.{}; Lathe needs 8.0 or later", ordinal,
                    device->properties.name, device->properties.major, device->properties.minor),
        ErrorCode::NotOnThisHardware);
  device->tf32 = tf32;
  device->driver = driver;
  device->ordinal = ordinal;
  device->allocator = std::move(allocator);
  // The primary context, which cuDNN and cuBLASLt use too. Kept until the process ends: libraries hold on to
  // it.
  driver->require(driver->cuDevicePrimaryCtxRetain(&device->context, handle), "opening a context on the GPU");
  device->make_current();
  device->libraries = Libraries::open();
  device->kernels = std::make_shared<KernelCache>();
  device->handles = std::make_shared<LibraryHandles>();
  open_handles(*device);
  return device;
}

std::shared_ptr<const Device> describe_device(const DeviceProperties& properties, bool tf32) {
  auto device = std::make_shared<Device>();
  device->properties = properties;
  device->tf32 = tf32;
  device->libraries = Libraries::open();
  device->kernels = std::make_shared<KernelCache>();
  device->handles = std::make_shared<LibraryHandles>();
  return device;
}

}  // namespace lathe::cuda
