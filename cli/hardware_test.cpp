// SPDX-License-Identifier: Apache-2.0
#include "hardware.h"

#include <gtest/gtest.h>

#include <fstream>

#include "archive.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "nvml.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

class HardwareTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  fs::path root_;
};

TEST_F(HardwareTest, ReadsWhatLinuxShows) {
  put("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000");
  put("devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3200000");
  put("devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "7");
  put("class/powercap/intel-rapl:0/name", "package-0");
  put("class/powercap/intel-rapl:0/energy_uj", "1000000");
  put("class/powercap/intel-rapl:0/max_energy_range_uj", "5000000");
  put("class/thermal/thermal_zone0/type", "x86_pkg_temp");
  put("class/thermal/thermal_zone0/temp", "45500");
  const auto sensors = cpu_sensors(root_);
  auto reading = sensors->read();
  EXPECT_EQ(reading.core_mhz, 3100);
  EXPECT_EQ(reading.temperature_c, 45.5);
  EXPECT_EQ(reading.power_w, 0);
  EXPECT_EQ(reading.throttled, false);
  EXPECT_TRUE(sensors->missing().empty());
  // The counter of energy wraps: 5,000,000 and 500,000 are 4.5 J on.
  put("class/powercap/intel-rapl:0/energy_uj", "500000");
  put("devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "8");
  reading = sensors->read();
  EXPECT_GT(reading.power_w.value_or(0), 0);
  EXPECT_EQ(reading.throttled, true);
}

TEST_F(HardwareTest, WhatOthersHadOfTheProcessors) {
  put("proc/stat", "cpu  100 0 0 100 0 0 0 0 0 0");
  put("proc/self/stat", "7 (a (strange) name) S 1 1 1 0 -1 0 0 0 0 0 30 10 0 0 20 0");
  const auto sensors = cpu_sensors(root_ / "sys");
  EXPECT_FALSE(sensors->read().others_percent);       // no time has passed
  put("proc/stat", "cpu  150 0 10 140 0 0 0 0 0 0");  // 60 busy of 100
  put("proc/self/stat", "7 (a (strange) name) S 1 1 1 0 -1 0 0 0 0 0 60 15 0 0 20 0");
  EXPECT_EQ(sensors->read().others_percent, 25);
}

TEST_F(HardwareTest, NamesWhatIsMissing) {
  HardwareMonitor monitor(cpu_sensors(root_), std::chrono::milliseconds(1), false);
  const Json json = monitor.stop();
  EXPECT_EQ(json["schema"], "lathe-hardware");
  EXPECT_TRUE(json["samples"].empty());
  const auto text = json["text"].get<std::string>();
  EXPECT_NE(text.find("cannot be read here: "), std::string::npos) << text;
  for (const char* what : {"clock (", "power (", "temperature (", "throttling ("})
    EXPECT_NE(text.find(what), std::string::npos) << text;
}

TEST_F(HardwareTest, AShortRunHasABeginningAndAnEnd) {
  put("class/thermal/thermal_zone0/type", "x86_pkg_temp");
  put("class/thermal/thermal_zone0/temp", "45500");
  HardwareMonitor monitor(cpu_sensors(root_), std::chrono::hours(1), false);
  const Json json = monitor.stop();
  ASSERT_EQ(json["samples"].size(), 2u);
  EXPECT_EQ(json["samples"][1]["temperature_c"], 45.5);
  EXPECT_TRUE(json["samples"][0]["core_mhz"].is_null());
}

// A GPU in the driver's place. Plain functions are what NVML has, so their state is of the file.
struct FakeGpu {
  unsigned limit = 400000, compute = 0, memory = 0;
  int users = 0;
  bool may_lock = true;
  FakeGpu* other = nullptr;  // the one that has the UUID GPU-2
};
FakeGpu* gpu = nullptr;

std::shared_ptr<NvmlFunctions> fake_functions() {
  auto nvml = std::make_shared<NvmlFunctions>();
  nvml->Init_v2 = [] { return gpu->users++, 0; };
  nvml->Shutdown = [] { return gpu->users--, 0; };
  nvml->ErrorString = [](int code) { return code == 4 ? "Insufficient Permissions" : "Invalid Argument"; };
  nvml->DeviceGetHandleByIndex_v2 = [](unsigned index, void** handle) {
    return *handle = gpu, index == 0 ? 0 : 2;
  };
  nvml->DeviceGetHandleByUUID = [](const char* uuid, void** handle) {
    return *handle = gpu->other, std::string_view(uuid) == "GPU-2" ? 0 : 6;
  };
  nvml->DeviceGetClockInfo = [](void*, int kind, unsigned* mhz) { return *mhz = kind == 1 ? 1410 : 1215, 0; };
  nvml->DeviceGetMaxClockInfo = [](void*, int kind, unsigned* mhz) {
    return *mhz = kind == 1 ? 1980 : 2619, 0;
  };
  nvml->DeviceGetPowerUsage = [](void*, unsigned* milliwatts) { return *milliwatts = 123400, 0; };
  nvml->DeviceGetCurrentClocksThrottleReasons = [](void*, unsigned long long* reasons) {
    return *reasons = 4, 0;
  };
  nvml->DeviceGetPowerManagementLimit = [](void*, unsigned* limit) { return *limit = gpu->limit, 0; };
  nvml->DeviceGetPowerManagementLimitConstraints = [](void*, unsigned* low, unsigned* high) {
    return *low = 100000, *high = 300000, 0;
  };
  nvml->DeviceSetPowerManagementLimit = [](void*, unsigned limit) { return gpu->limit = limit, 0; };
  nvml->DeviceSetGpuLockedClocks = [](void*, unsigned low, unsigned) {
    if (gpu->may_lock) gpu->compute = low;
    return gpu->may_lock ? 0 : 4;
  };
  nvml->DeviceResetGpuLockedClocks = [](void*) { return gpu->compute = 0, 0; };
  nvml->DeviceSetMemoryLockedClocks = [](void*, unsigned low, unsigned) { return gpu->memory = low, 0; };
  nvml->DeviceResetMemoryLockedClocks = [](void*) { return gpu->memory = 0, 0; };
  return nvml;
}

TEST_F(HardwareTest, ReadsAGpu) {
  FakeGpu fake;
  gpu = &fake;
  std::string why;
  EXPECT_FALSE(start_nvml(fake_functions(), 3, why));
  EXPECT_EQ(why, "NVML has no GPU 3: Invalid Argument");
  EXPECT_EQ(fake.users, 0);
  auto device = start_nvml(fake_functions(), 0, why);
  ASSERT_TRUE(device);
  const auto sensors = gpu_sensors(*device);
  const auto reading = sensors->read();
  EXPECT_EQ(reading.core_mhz, 1410);
  EXPECT_EQ(reading.memory_mhz, 1215);
  EXPECT_EQ(reading.power_w, 123.4);
  EXPECT_EQ(reading.throttled, true);
  EXPECT_FALSE(reading.temperature_c);
  EXPECT_EQ(sensors->missing(), std::vector<std::string>{"temperature (NVML does not tell)"});
}

TEST_F(HardwareTest, FindsTheGpuThatCudaMeans) {
  FakeGpu fake, second;
  fake.other = &second;
  gpu = &fake;
  std::string why;
  const auto device = start_nvml(fake_functions(), 0, why);
  ASSERT_TRUE(device);
  EXPECT_EQ(with_uuid(*device, "GPU-2").handle, &second);
  EXPECT_EQ(with_uuid(*device, "GPU-3").handle, &fake);
  EXPECT_EQ(with_uuid(*device, "").handle, &fake);
}

TEST_F(HardwareTest, PutsClocksAndPowerBack) {
  FakeGpu fake;
  gpu = &fake;
  std::string why;
  {
    const GpuSettingsGuard guard(*start_nvml(fake_functions(), 0, why), {"max", "1215", 500.0});
    EXPECT_EQ(fake.limit, 300000u) << "within the board's range";
    EXPECT_EQ(fake.compute, 1980u);
    EXPECT_EQ(fake.memory, 1215u);
  }
  EXPECT_EQ(fake.limit, 400000u);
  EXPECT_EQ(fake.compute + fake.memory, 0u);
  EXPECT_EQ(fake.users, 0) << "NVML was not ended";
}

TEST_F(HardwareTest, SaysWhatIsNotPermitted) {
  FakeGpu fake;
  fake.may_lock = false;
  gpu = &fake;
  std::string why;
  testing::internal::CaptureStderr();
  { const GpuSettingsGuard guard(*start_nvml(fake_functions(), 0, why), {"1410", "", {}}); }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("Insufficient Permissions"), std::string::npos) << said;
  EXPECT_NE(said.find("sudo nvidia-smi --lock-gpu-clocks=1410,1410"), std::string::npos) << said;
  const auto wrong = [&] {
    const GpuSettingsGuard guard(*start_nvml(fake_functions(), 0, why), {"fast", "", {}});
  };
  EXPECT_THROW(wrong(), Error);
}

TEST_F(HardwareTest, TheFilesOfAnArchiveTogetherAreBounded) {
  put("a.graph.json", R"({"Layers": ["a"], "Bindings": ["x"]})");
  put("b.graph.json", R"({"Layers": ["b"], "Bindings": ["x"]})");
  const std::string file = (root_ / "m.tea").string();
  // A link under a name that could be guessed is neither followed nor in the way.
  std::filesystem::create_symlink(root_ / "a.graph.json", file + ".tmp");
  write_archive(file, {(root_ / "a.graph.json").string(), (root_ / "b.graph.json").string()});
  EXPECT_TRUE(read_file(root_ / "a.graph.json").starts_with(R"({"Layers": ["a"])"));
  EXPECT_EQ(read_archive(file, 100).size(), 2u);
  try {
    read_archive(file, 60);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), file + "/b.graph.json: with it, the archive's files have more than 1 GiB");
  }
}

TEST_F(HardwareTest, ArchivesKeepWhatExploreReads) {
  put("m.graph.json", R"({"Layers": ["a"], "Bindings": ["x"]})");
  put("m.svg", "<svg/>");
  put("m.other.json", R"({"something": "else"})");
  const std::string file = (root_ / "m.tea").string();
  write_archive(file, {(root_ / "m.graph.json").string(), (root_ / "m.svg").string(),
                       (root_ / "m.other.json").string()});
  EXPECT_TRUE(is_archive(file));
  EXPECT_FALSE(is_archive((root_ / "m.svg").string()));
  const auto files = read_archive(file);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].name, file + "/m.graph.json");
  // Every cut of it is refused or read, never more.
  const std::string whole = read_file(file);
  for (size_t length = 4; length < whole.size(); length += 7) {
    std::ofstream(root_ / "cut.tea", std::ios::binary) << whole.substr(0, length);
    EXPECT_THROW(read_archive((root_ / "cut.tea").string()), Error) << length;
  }
}

}  // namespace
}  // namespace lathe::cli
