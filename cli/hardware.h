// SPDX-License-Identifier: Apache-2.0
//
// Clocks, power, temperature and throttling while something runs, as far as the machine tells. Sensors read
// once; a monitor reads them in a thread, ten times a second, and gives what `lathe explore` reads as a
// hardware file. What cannot be read is named in one sentence and is never an error: most machines let nobody
// read everything.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json_value.h"
#include "explorer/core/model.h"

namespace lathe::cli {

using explorer::HardwareSample;

class HardwareSensors {
 public:
  virtual ~HardwareSensors() = default;
  // Power is that since the reading before, where the machine counts energy.
  virtual HardwareSample read() = 0;
  virtual std::string name() const = 0;                  // "the CPU"
  virtual std::vector<std::string> missing() const = 0;  // "power (/sys/... may not be read)"
};

// The CPU's, from Linux: cpufreq, powercap (RAPL), thermal zones, the kernel's count of throttling, and from
// proc beside it what other programs took of the processors. `sys` is /sys but in tests.
std::unique_ptr<HardwareSensors> cpu_sensors(const std::filesystem::path& sys = "/sys");

class HardwareMonitor {
 public:
  // `print`: each reading as a line on stdout, too.
  HardwareMonitor(std::unique_ptr<HardwareSensors> sensors, std::chrono::milliseconds interval, bool print);
  ~HardwareMonitor();
  HardwareMonitor(const HardwareMonitor&) = delete;
  HardwareMonitor& operator=(const HardwareMonitor&) = delete;

  // Ends the readings; {schema, text, samples} of docs/schema.
  Json stop();

 private:
  void watch();
  bool take_reading();

  std::unique_ptr<HardwareSensors> sensors_;
  const std::chrono::milliseconds interval_;
  const bool print_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<HardwareSample> readings_;
  int blank_ = 0;  // readings before the first that told anything
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace lathe::cli
