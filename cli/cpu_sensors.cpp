// SPDX-License-Identifier: Apache-2.0
//
// The CPU's sensors as Linux shows them. RAPL counts energy in microjoules per package and wraps; since 2020
// only root may read it on most machines, and virtual machines have none of these files. What others had of
// the processors is the machine's busy time (/proc/stat, stolen time included) less our own
// (/proc/self/stat).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "hardware.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_line(const fs::path& path) {
  try {
    std::string text = read_file(path.string());
    text.resize(std::min(text.find('\n'), text.size()));
    return text;
  } catch (const std::exception&) {
    return {};
  }
}

std::optional<double> read_number(const fs::path& path) {
  const auto text = read_line(path);
  double value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc()) return {};
  return value;
}

// Entries of a folder in a fixed order; none when it is not there.
std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

struct Ticks {
  double busy = 0, total = 0, own = 0;
};

// The second field of /proc/self/stat is the program's name in brackets and may hold blanks; utime and stime
// are the 14th and 15th.
std::optional<Ticks> read_ticks(const fs::path& proc) {
  const auto all = read_line(proc / "stat"), self = read_line(proc / "self/stat");
  if (!all || !self || !all->starts_with("cpu ")) return {};
  std::istringstream machine(all->substr(4)), own(self->substr(std::min(self->size(), self->rfind(')') + 1)));
  std::array<double, 8> v{};  // user nice system idle iowait irq softirq steal
  for (double& value : v) machine >> value;
  std::string skipped;
  for (int field = 3; field < 14; ++field) own >> skipped;
  double user = 0, system = 0;
  if (!machine || !(own >> user >> system)) return {};
  const double busy = v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
  return Ticks{busy, busy + v[3] + v[4], user + system};
}

class CpuSensors : public HardwareSensors {
 public:
  explicit CpuSensors(const fs::path& sys) : proc_(sys.parent_path() / "proc"), ticks_(read_ticks(proc_)) {
    for (const auto& cpu : entries(sys / "devices/system/cpu", "cpu")) {
      keep_readable(cpu / "cpufreq/scaling_cur_freq", clocks_);
      keep_readable(cpu / "thermal_throttle/package_throttle_count", throttles_);
    }
    for (const auto& zone : entries(sys / "class/powercap", "intel-rapl:")) {
      const auto name = read_line(zone / "name");
      if (name && name->starts_with("package") && read_number(zone / "energy_uj"))
        energies_.push_back({zone, read_number(zone / "max_energy_range_uj").value_or(0), 0});
    }
    find_temperature(sys);
    read_energy();
  }

  HardwareSample read() override {
    HardwareSample reading;
    reading.core_mhz = mean(clocks_, 1e-3);
    if (temperature_) reading.temperature_c = scaled(read_number(*temperature_), 1e-3);
    reading.power_w = read_energy();
    reading.others_percent = read_others();
    if (!throttles_.empty()) {
      const double count = mean(throttles_, 1).value_or(0);
      reading.throttled = throttle_count_ && count > *throttle_count_;
      throttle_count_ = count;
    }
    return reading;
  }

  std::string name() const override { return "the CPU"; }

  std::vector<std::string> missing() const override {
    std::vector<std::string> texts;
    if (clocks_.empty()) texts.emplace_back("clock (no /sys/devices/system/cpu/cpu*/cpufreq)");
    if (energies_.empty())
      texts.emplace_back("power (no /sys/class/powercap/intel-rapl:*/energy_uj that we may read)");
    if (!temperature_) texts.emplace_back("temperature (no sensor of the package in /sys/class)");
    if (throttles_.empty()) texts.emplace_back("throttling (no thermal_throttle)");
    return texts;
  }

 private:
  struct Energy {
    fs::path zone;
    double range, last;  // microjoules
  };

  static void keep_readable(const fs::path& path, std::vector<fs::path>& paths) {
    if (read_number(path)) paths.push_back(path);
  }
  static std::optional<double> scaled(std::optional<double> value, double factor) {
    return value ? std::optional(*value * factor) : std::nullopt;
  }
  static std::optional<double> mean(const std::vector<fs::path>& paths, double factor) {
    double sum = 0, count = 0;
    for (const auto& path : paths) {
      if (const auto value = read_number(path)) sum += *value, ++count;
    }
    return count > 0 ? std::optional(sum / count * factor) : std::nullopt;
  }

  std::optional<double> read_others() {
    const auto before = std::exchange(ticks_, read_ticks(proc_));
    if (!before || !ticks_ || ticks_->total <= before->total) return {};
    const double others = (ticks_->busy - before->busy) - (ticks_->own - before->own);
    return std::clamp(100 * others / (ticks_->total - before->total), 0.0, 100.0);
  }

  void find_temperature(const fs::path& sys) {
    for (const auto& zone : entries(sys / "class/thermal", "thermal_zone")) {
      if (read_line(zone / "type").value_or("") == "x86_pkg_temp" && read_number(zone / "temp"))
        temperature_ = zone / "temp";
    }
    for (const auto& monitor : entries(sys / "class/hwmon", "hwmon")) {
      const auto name = read_line(monitor / "name").value_or("");
      if (!temperature_ && (name == "coretemp" || name == "k10temp" || name == "zenpower") &&
          read_number(monitor / "temp1_input"))
        temperature_ = monitor / "temp1_input";
    }
  }

  // Watts since the reading before.
  std::optional<double> read_energy() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - energy_time_).count();
    energy_time_ = now;
    double used = 0;
    for (auto& energy : energies_) {
      const double value = read_number(energy.zone / "energy_uj").value_or(energy.last);
      used += value >= energy.last ? value - energy.last : value + energy.range - energy.last;
      energy.last = value;
    }
    // The first call finds the counters' start.
    const bool first = !has_energy_;
    has_energy_ = true;
    if (energies_.empty() || first || seconds <= 0) return {};
    return used / 1e6 / seconds;
  }

  fs::path proc_;
  std::optional<Ticks> ticks_;
  std::vector<fs::path> clocks_, throttles_;
  std::vector<Energy> energies_;
  std::optional<fs::path> temperature_;
  std::optional<double> throttle_count_;
  std::chrono::steady_clock::time_point energy_time_;
  bool has_energy_ = false;
};

}  // namespace

std::unique_ptr<HardwareSensors> cpu_sensors(const fs::path& sys) {
  return std::make_unique<CpuSensors>(sys);
}

}  // namespace lathe::cli
