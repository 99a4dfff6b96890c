// SPDX-License-Identifier: Apache-2.0
//
// The GPU that tactics are listed and compiled for: its properties as data, and, when it is really there, the
// way to it.
//
// Properties can be read from a file, so tactics are enumerated and kernels compiled for a GPU on a machine
// without one: list(), make() and prepare() of a family work there, only enqueue() needs the GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backend/cuda/device/driver.h"
#include "backend/device_model.h"
#include "lathe/allocator.h"

namespace lathe::cuda {

struct Libraries;
struct LibraryHandles;
class KernelCache;

struct DeviceProperties {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t shared_bytes_per_block = 0;  // the most a block can opt in to
  int64_t shared_bytes_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
  int threads_per_multiprocessor = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  int driver_version = 0;

  // What each of `resident` blocks on a multiprocessor may have of its shared memory; the system takes 1 KiB
  // for each.
  int64_t shared_bytes_each(int resident) const;
  bool is_hopper() const { return major == 9 && minor == 0; }  // with wgmma, which no other has
  bool multiplies_fp8() const { return major >= 9 || (major == 8 && minor >= 9); }
  bool has_clusters() const { return major >= 9; }
  bool overlaps_launches() const { return major >= 9; }  // programmatic dependent launch
  // Products of 16-bit operands that the tensor cores of one multiprocessor do at the highest clock, in
  // operations a microsecond.
  double tensor_ops_per_us() const;
  // All of it, in the terms that all devices have.
  DeviceModel model() const;

  bool operator==(const DeviceProperties&) const = default;
  std::string to_json() const;
  // Of a file of tests/devices/. Throws Input naming `source` when a property is missing or no number.
  static DeviceProperties from_json(std::string_view text, std::string_view source);
};

struct Device {
  DeviceProperties properties;
  bool tf32 = true;  // FP32 convolutions and products may round their operands to TF32 (--noTF32: false)
  std::shared_ptr<const Libraries> libraries;  // what NVRTC, cuDNN and cuBLASLt offer here; never null
  std::shared_ptr<KernelCache> kernels;        // compiled sources and loaded modules; never null
  std::shared_ptr<LibraryHandles> handles;     // never null; the handles in it are when there is no GPU
  // The GPU itself; null when the properties came from a file.
  std::shared_ptr<const Driver> driver;
  int ordinal = 0;
  CUcontext context = nullptr;
  std::shared_ptr<v1::Allocator> allocator;  // of its memory; null: the driver

  bool is_present() const { return driver != nullptr; }
  // Makes the device's context the calling thread's. Every entry from outside the backend begins with it.
  void make_current() const;
  // sm_90a for 9.0: with the instructions that exist on that architecture alone.
  std::string architecture() const;
};

// Opens GPU number `ordinal`. Throws Input saying what is missing: driver, GPU, or a compute capability of
// 8.0.
std::shared_ptr<const Device> open_device(int ordinal, bool tf32,
                                          std::shared_ptr<v1::Allocator> allocator = nullptr);
// A device that is only described, with whatever libraries there are: for tests and inspection.
std::shared_ptr<const Device> describe_device(const DeviceProperties& properties, bool tf32 = true);

}  // namespace lathe::cuda
