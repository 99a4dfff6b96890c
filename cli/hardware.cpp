// SPDX-License-Identifier: Apache-2.0
#include "hardware.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "base/json.h"
#include "explorer/core/analysis_json.h"
#include "say.h"

namespace lathe::cli {
namespace {

bool tells_anything(const HardwareSample& reading) {
  return reading.core_mhz || reading.memory_mhz || reading.temperature_c || reading.power_w ||
         reading.throttled || reading.others_percent;
}

std::string reading_line(const HardwareSample& reading) {
  std::string line = fmt::format("{:8.0f} ms", reading.at_ms);
  const auto add = [&](const std::optional<double>& value, const char* name, const char* unit) {
    if (value) line += fmt::format("  {} {:.1f} {}", name, *value, unit);
  };
  add(reading.core_mhz, "core", "MHz");
  add(reading.memory_mhz, "memory", "MHz");
  add(reading.power_w, "power", "W");
  add(reading.temperature_c, "temperature", "C");
  add(reading.others_percent, "others", "%");
  if (reading.throttled.value_or(false)) line += "  throttled";
  return line;
}

}  // namespace

HardwareMonitor::HardwareMonitor(std::unique_ptr<HardwareSensors> sensors, std::chrono::milliseconds interval,
                                 bool print)
    : sensors_(std::move(sensors)), interval_(interval), print_(print), thread_([this] { watch(); }) {}

HardwareMonitor::~HardwareMonitor() {
  if (thread_.joinable()) stop();
}

bool HardwareMonitor::take_reading() {
  HardwareSample reading = sensors_->read();
  // What is a difference is known from the second reading on.
  if (!tells_anything(reading) && readings_.empty()) return ++blank_ < 2;
  reading.at_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  if (print_) say("{}\n", reading_line(reading));
  readings_.push_back(reading);
  return true;
}

void HardwareMonitor::watch() {
  std::unique_lock lock(mutex_);
  if (!take_reading()) return;  // nothing can be read here, and that will not change
  while (!wake_.wait_for(lock, interval_, [this] { return done_; })) take_reading();
  take_reading();  // a short run has a beginning and an end, too
}

Json HardwareMonitor::stop() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  const auto missing = sensors_->missing();
  std::string text = fmt::format("Clocks, power and temperature of {} cannot be read here", sensors_->name());
  if (!readings_.empty())
    text = fmt::format("{} readings of {} in {:.1f} s", readings_.size(), sensors_->name(),
                       readings_.back().at_ms / 1e3);
  if (!missing.empty())
    text += fmt::format("{}: {}", readings_.empty() ? "" : "; not known", fmt::join(missing, ", "));
  Json samples = Json::array();
  for (const auto& reading : readings_) samples.push_back(explorer::sample_json(reading));
  return {{"schema", "lathe-hardware"}, {"text", text + "."}, {"samples", std::move(samples)}};
}

}  // namespace lathe::cli
