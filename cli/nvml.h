// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's management library (libnvidia-ml, part of the driver), opened when it is asked for: readings of a
// GPU, and clocks and power limit for a run. The few functions are declared here; their binary interface is
// stable.
#pragma once

#include "hardware.h"

namespace lathe::cli {

// The functions that are used, by NVML's names without "nvml". Each returns 0 or an error's number.
struct NvmlFunctions {
  int (*Init_v2)() = nullptr;
  int (*Shutdown)() = nullptr;
  const char* (*ErrorString)(int) = nullptr;
  int (*DeviceGetHandleByIndex_v2)(unsigned, void**) = nullptr;
  int (*DeviceGetHandleByUUID)(const char*, void**) = nullptr;
  int (*DeviceGetClockInfo)(void*, int, unsigned*) = nullptr;
  int (*DeviceGetMaxClockInfo)(void*, int, unsigned*) = nullptr;
  int (*DeviceGetPowerUsage)(void*, unsigned*) = nullptr;
  int (*DeviceGetTemperature)(void*, int, unsigned*) = nullptr;
  int (*DeviceGetCurrentClocksThrottleReasons)(void*, unsigned long long*) = nullptr;
  int (*DeviceGetPowerManagementLimit)(void*, unsigned*) = nullptr;
  int (*DeviceGetPowerManagementLimitConstraints)(void*, unsigned*, unsigned*) = nullptr;
  int (*DeviceSetPowerManagementLimit)(void*, unsigned) = nullptr;
  int (*DeviceSetGpuLockedClocks)(void*, unsigned, unsigned) = nullptr;
  int (*DeviceResetGpuLockedClocks)(void*) = nullptr;
  int (*DeviceSetMemoryLockedClocks)(void*, unsigned, unsigned) = nullptr;
  int (*DeviceResetMemoryLockedClocks)(void*) = nullptr;
};

// A device; the library is closed when the last of its copies is gone.
struct NvmlDevice {
  std::shared_ptr<NvmlFunctions> nvml;
  void* handle = nullptr;
};

// Nothing where there is no driver or no such device; `why` says which.
std::optional<NvmlDevice> open_nvml(unsigned index, std::string& why);
// The GPU with this UUID ("GPU-..."); `device` itself where NVML finds none. NVML numbers GPUs by their place
// on the bus and sees all; CUDA numbers the fastest first, and CUDA_VISIBLE_DEVICES hides some: a number
// alone may mean another GPU.
NvmlDevice with_uuid(NvmlDevice device, const std::string& uuid);
// Starts NVML through functions that are there already.
std::optional<NvmlDevice> start_nvml(std::shared_ptr<NvmlFunctions> functions, unsigned index,
                                     std::string& why);

std::unique_ptr<HardwareSensors> gpu_sensors(NvmlDevice device);

// MHz, "max" or nothing; watts.
struct GpuSettings {
  std::string compute_clock, memory_clock;
  std::optional<double> power_limit;
  bool any() const { return !compute_clock.empty() || !memory_clock.empty() || power_limit; }
};

// Holds the settings while it lives and puts back what it changed. What is not permitted is one line on
// stderr with the nvidia-smi command that would do it; the run goes on.
class GpuSettingsGuard {
 public:
  GpuSettingsGuard(NvmlDevice device, const GpuSettings& settings);
  ~GpuSettingsGuard();
  GpuSettingsGuard(const GpuSettingsGuard&) = delete;
  GpuSettingsGuard& operator=(const GpuSettingsGuard&) = delete;

 private:
  bool tell(int code, const std::string& what, const std::string& command) const;
  // The clock in MHz of a setting, 0 without one; kind is NVML's number of the clock.
  unsigned clock_of(const std::string& setting, int kind, const char* flag) const;

  NvmlDevice device_;
  std::optional<unsigned> old_limit_;
  bool compute_locked_ = false, memory_locked_ = false;
};

}  // namespace lathe::cli
