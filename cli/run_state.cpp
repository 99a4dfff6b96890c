// SPDX-License-Identifier: Apache-2.0
#include "run_state.h"

#include <fmt/format.h>

#include "arguments/arguments.h"
#include "backend/all.h"
#include "base/error.h"
#include "base/json.h"

namespace lathe::cli {
namespace {

constexpr std::chrono::milliseconds kSampleInterval{100};

// Of the GPU that the run will be on, "" when it will be on none.
std::string uuid_of(const std::string& device) {
  try {
    const auto backend = open_backend({.device = device.empty() ? "auto" : device});
    for (const auto& [key, value] : backend->device_information()) {
      if (key == "Selected Device UUID") return value;
    }
  } catch (const Error&) {  // the run itself will say what is wrong
  }
  return "";
}

}  // namespace

Json watch_run(const RunState& state, const std::function<bool()>& run) {
  GpuSettings settings = state.settings;
  if (state.keep_clocks) settings.compute_clock = settings.memory_clock = "";
  std::string why = "the run is on the CPU";
  std::optional<NvmlDevice> gpu;
  if (state.device != "cpu") {
    const bool number = !state.device.empty() && state.device != "auto";
    gpu = open_nvml(number ? static_cast<unsigned>(parse_int("--dev", state.device)) : 0, why);
    if (gpu) gpu = with_uuid(*gpu, uuid_of(state.device));
  }
  if (!gpu && settings.any())
    throw_input_error(
        fmt::format("--compute-clk-freq, --memory-clk-freq and --power-limit are for NVIDIA GPUs: {}", why));
  std::optional<GpuSettingsGuard> guard;
  if (gpu && settings.any()) guard.emplace(*gpu, settings);
  // Where the run goes is known when it has gone: a driver does not make a backend.
  std::optional<HardwareMonitor> gpu_monitor;
  if (gpu) gpu_monitor.emplace(gpu_sensors(*gpu), kSampleInterval, state.print);
  HardwareMonitor cpu_monitor(cpu_sensors(), kSampleInterval, state.print && !gpu);
  return run() && gpu ? gpu_monitor->stop() : cpu_monitor.stop();
}

}  // namespace lathe::cli
