// SPDX-License-Identifier: Apache-2.0
#include "nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "say.h"

namespace lathe::cli {
namespace {

// NVML's numbers.
constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
constexpr unsigned long long kIdle = 1, kChosenClocks = 2;  // reasons that are no throttling

template <class Function>
void take(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, fmt::format("nvml{}", name).c_str()));
}

class GpuSensors : public HardwareSensors {
 public:
  explicit GpuSensors(NvmlDevice device) : device_(std::move(device)) {}

  HardwareSample read() override {
    const auto& nvml = *device_.nvml;
    HardwareSample reading;
    unsigned value = 0;
    unsigned long long reasons = 0;
    if (nvml.DeviceGetClockInfo && nvml.DeviceGetClockInfo(device_.handle, kSmClock, &value) == 0)
      reading.core_mhz = value;
    if (nvml.DeviceGetClockInfo && nvml.DeviceGetClockInfo(device_.handle, kMemoryClock, &value) == 0)
      reading.memory_mhz = value;
    if (nvml.DeviceGetPowerUsage && nvml.DeviceGetPowerUsage(device_.handle, &value) == 0)
      reading.power_w = value / 1e3;
    if (nvml.DeviceGetTemperature && nvml.DeviceGetTemperature(device_.handle, kGpuTemperature, &value) == 0)
      reading.temperature_c = value;
    if (nvml.DeviceGetCurrentClocksThrottleReasons &&
        nvml.DeviceGetCurrentClocksThrottleReasons(device_.handle, &reasons) == 0)
      reading.throttled = (reasons & ~(kIdle | kChosenClocks)) != 0;
    last_ = reading;
    return reading;
  }

  std::string name() const override { return "the GPU"; }

  std::vector<std::string> missing() const override {
    std::vector<std::string> texts;
    if (!last_.core_mhz) texts.emplace_back("clock (NVML does not tell)");
    if (!last_.power_w) texts.emplace_back("power (NVML does not tell)");
    if (!last_.temperature_c) texts.emplace_back("temperature (NVML does not tell)");
    return texts;
  }

 private:
  NvmlDevice device_;
  HardwareSample last_;
};

}  // namespace

std::optional<NvmlDevice> start_nvml(std::shared_ptr<NvmlFunctions> functions, unsigned index,
                                     std::string& why) {
  const auto text = [&](int code) {
    return functions->ErrorString ? std::string(functions->ErrorString(code)) : fmt::format("error {}", code);
  };
  if (!functions->Init_v2 || !functions->DeviceGetHandleByIndex_v2) {
    why = "libnvidia-ml.so.1 has not the functions of NVML";
    return {};
  }
  if (const int code = functions->Init_v2(); code != 0) {
    why = "NVML does not start: " + text(code);
    return {};
  }
  // From here on it ends with the last user.
  NvmlDevice device{{functions.get(), [functions](NvmlFunctions* nvml) { nvml->Shutdown(); }}, nullptr};
  if (const int code = functions->DeviceGetHandleByIndex_v2(index, &device.handle); code != 0) {
    why = fmt::format("NVML has no GPU {}: {}", index, text(code));
    return {};
  }
  return device;
}

std::optional<NvmlDevice> open_nvml(unsigned index, std::string& why) {
  const std::shared_ptr<void> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), [](void* handle) {
    if (handle != nullptr) dlclose(handle);
  });
  if (library == nullptr) {
    why = "no libnvidia-ml.so.1: there is no NVIDIA driver";
    return {};
  }
  std::shared_ptr<NvmlFunctions> nvml(new NvmlFunctions,
                                      [library](NvmlFunctions* functions) { delete functions; });
  take(library.get(), "Init_v2", nvml->Init_v2);
  take(library.get(), "Shutdown", nvml->Shutdown);
  take(library.get(), "ErrorString", nvml->ErrorString);
  take(library.get(), "DeviceGetHandleByIndex_v2", nvml->DeviceGetHandleByIndex_v2);
  take(library.get(), "DeviceGetHandleByUUID", nvml->DeviceGetHandleByUUID);
  take(library.get(), "DeviceGetClockInfo", nvml->DeviceGetClockInfo);
  take(library.get(), "DeviceGetMaxClockInfo", nvml->DeviceGetMaxClockInfo);
  take(library.get(), "DeviceGetPowerUsage", nvml->DeviceGetPowerUsage);
  take(library.get(), "DeviceGetTemperature", nvml->DeviceGetTemperature);
  take(library.get(), "DeviceGetCurrentClocksThrottleReasons", nvml->DeviceGetCurrentClocksThrottleReasons);
  if (nvml->DeviceGetCurrentClocksThrottleReasons == nullptr)  // its name in newer drivers
    take(library.get(), "DeviceGetCurrentClocksEventReasons", nvml->DeviceGetCurrentClocksThrottleReasons);
  take(library.get(), "DeviceGetPowerManagementLimit", nvml->DeviceGetPowerManagementLimit);
  take(library.get(), "DeviceGetPowerManagementLimitConstraints",
       nvml->DeviceGetPowerManagementLimitConstraints);
  take(library.get(), "DeviceSetPowerManagementLimit", nvml->DeviceSetPowerManagementLimit);
  take(library.get(), "DeviceSetGpuLockedClocks", nvml->DeviceSetGpuLockedClocks);
  take(library.get(), "DeviceResetGpuLockedClocks", nvml->DeviceResetGpuLockedClocks);
  take(library.get(), "DeviceSetMemoryLockedClocks", nvml->DeviceSetMemoryLockedClocks);
  take(library.get(), "DeviceResetMemoryLockedClocks", nvml->DeviceResetMemoryLockedClocks);
  return start_nvml(std::move(nvml), index, why);
}

NvmlDevice with_uuid(NvmlDevice device, const std::string& uuid) {
  void* handle = nullptr;
  const auto find = device.nvml->DeviceGetHandleByUUID;
  if (!uuid.empty() && find != nullptr && find(uuid.c_str(), &handle) == 0) device.handle = handle;
  return device;
}

std::unique_ptr<HardwareSensors> gpu_sensors(NvmlDevice device) {
  return std::make_unique<GpuSensors>(std::move(device));
}

bool GpuSettingsGuard::tell(int code, const std::string& what, const std::string& command) const {
  if (code == 0) {
    say("{}\n", what);
    return true;
  }
  const auto& nvml = *device_.nvml;
  say_to(stderr, "lathe: {}: not done ({}); try: sudo nvidia-smi {}\n", what,
         nvml.ErrorString ? nvml.ErrorString(code) : "no such function in this driver", command);
  return false;
}

unsigned GpuSettingsGuard::clock_of(const std::string& setting, int kind, const char* flag) const {
  unsigned value = 0;
  if (setting.empty()) return 0;
  if (setting == "max") {
    const auto get = device_.nvml->DeviceGetMaxClockInfo;
    if (get == nullptr || get(device_.handle, kind, &value) != 0)
      throw_input_error(fmt::format("{}=max: NVML does not tell the highest clock; give it in MHz", flag));
    return value;
  }
  const auto parsed = std::from_chars(setting.data(), setting.data() + setting.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != setting.data() + setting.size() || value == 0)
    throw_input_error(fmt::format("{} is MHz or max, not \"{}\"", flag, setting));
  return value;
}

GpuSettingsGuard::GpuSettingsGuard(NvmlDevice device, const GpuSettings& settings)
    : device_(std::move(device)) {
  constexpr int kNoFunction = 13;  // NVML's "function not found"
  const auto& nvml = *device_.nvml;
  void* handle = device_.handle;
  // What cannot be understood throws before anything is changed.
  const unsigned compute = clock_of(settings.compute_clock, kSmClock, "--compute-clk-freq");
  const unsigned memory = clock_of(settings.memory_clock, kMemoryClock, "--memory-clk-freq");
  if (settings.power_limit) {
    unsigned low = 0, high = 0, before = 0;
    unsigned limit = static_cast<unsigned>(std::clamp(*settings.power_limit, 1.0, 1e5) * 1e3);
    if (nvml.DeviceGetPowerManagementLimitConstraints &&
        nvml.DeviceGetPowerManagementLimitConstraints(handle, &low, &high) == 0 && low <= high)
      limit = std::clamp(limit, low, high);
    const bool known =
        nvml.DeviceGetPowerManagementLimit && nvml.DeviceGetPowerManagementLimit(handle, &before) == 0;
    const int code =
        nvml.DeviceSetPowerManagementLimit ? nvml.DeviceSetPowerManagementLimit(handle, limit) : kNoFunction;
    if (tell(code, fmt::format("power limit: {:g} W", limit / 1e3),
             fmt::format("--power-limit={}", limit / 1000)) &&
        known)
      old_limit_ = before;
  }
  if (compute != 0) {
    const int code =
        nvml.DeviceSetGpuLockedClocks ? nvml.DeviceSetGpuLockedClocks(handle, compute, compute) : kNoFunction;
    compute_locked_ = tell(code, fmt::format("compute clock: {} MHz", compute),
                           fmt::format("--lock-gpu-clocks={},{}", compute, compute));
  }
  if (memory != 0) {
    const int code = nvml.DeviceSetMemoryLockedClocks
                         ? nvml.DeviceSetMemoryLockedClocks(handle, memory, memory)
                         : kNoFunction;
    memory_locked_ = tell(code, fmt::format("memory clock: {} MHz", memory),
                          fmt::format("--lock-memory-clocks={},{}", memory, memory));
  }
}

GpuSettingsGuard::~GpuSettingsGuard() {
  const auto& nvml = *device_.nvml;
  if (old_limit_)
    tell(nvml.DeviceSetPowerManagementLimit(device_.handle, *old_limit_), "power limit put back",
         fmt::format("--power-limit={}", *old_limit_ / 1000));
  if (compute_locked_ && nvml.DeviceResetGpuLockedClocks)
    tell(nvml.DeviceResetGpuLockedClocks(device_.handle), "compute clock put back", "--reset-gpu-clocks");
  if (memory_locked_ && nvml.DeviceResetMemoryLockedClocks)
    tell(nvml.DeviceResetMemoryLockedClocks(device_.handle), "memory clock put back",
         "--reset-memory-clocks");
}

}  // namespace lathe::cli
