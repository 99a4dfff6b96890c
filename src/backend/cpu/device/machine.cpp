// SPDX-License-Identifier: Apache-2.0
//
// CPU detection through CPUID and XGETBV. A feature counts only when the operating system saves its
// registers: a hypervisor or an emulator may show an instruction set that would fault. AMX needs permission
// for its tile state besides (once per process), so asking for it is part of detecting it.
#include "backend/cpu/device/machine.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "backend/cpu/device/onednn.h"
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/tile/integer_table.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "lathe_cpu_kernels.h"

namespace lathe::cpu {
namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool bit(uint32_t word, int index) {
  return ((word >> index) & 1u) != 0;
}

// Which register states the operating system saves (XCR0).
uint64_t saved_states() {
  if (!bit(cpuid(1).ecx, 27)) return 0;  // OSXSAVE
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Linux grants the 8 KB of tile state on request only.
bool request_amx() {
  constexpr long kArchReqXcompPerm = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

std::string brand_string() {
  std::array<uint32_t, 13> words{};
  if (cpuid(0x80000000).eax < 0x80000004) return "unknown CPU";
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002 + i);
    const uint32_t quad[4] = {r.eax, r.ebx, r.ecx, r.edx};
    std::memcpy(&words[i * 4], quad, sizeof quad);
  }
  std::string text = reinterpret_cast<const char*>(words.data());
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown CPU";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

void read_identity(CpuInfo& info) {
  const Registers zero = cpuid(0);
  const uint32_t name[3] = {zero.ebx, zero.edx, zero.ecx};
  info.vendor.assign(reinterpret_cast<const char*>(name), sizeof name);
  const uint32_t signature = cpuid(1).eax;
  const uint32_t family = (signature >> 8) & 15, model = (signature >> 4) & 15;
  info.family = static_cast<int>(family == 15 ? family + ((signature >> 20) & 255) : family);
  info.model =
      static_cast<int>(family == 15 || family == 6 ? model + (((signature >> 16) & 15) << 4) : model);
  info.stepping = static_cast<int>(signature & 15);
  info.brand = brand_string();
}

void read_caches(CpuInfo& info) {
  // AMD reports caches under its own leaf, in Intel's form.
  const uint32_t leaf = info.vendor == "AuthenticAMD" || info.vendor == "HygonGenuine" ? 0x8000001D : 4;
  for (uint32_t i = 0; i < 8; ++i) {
    const Registers r = cpuid(leaf, i);
    const uint32_t type = r.eax & 31, level = (r.eax >> 5) & 7;
    if (type == 0) break;
    if (type == 2) continue;  // instructions
    const int64_t bytes = static_cast<int64_t>((r.ebx >> 22) + 1) * ((r.ebx >> 12 & 1023) + 1) *
                          ((r.ebx & 4095) + 1) * (static_cast<int64_t>(r.ecx) + 1);
    if (level == 1) info.l1_bytes = bytes;
    if (level == 2) info.l2_bytes = bytes;
    if (level == 3) info.l3_bytes = bytes;
  }
}

// cpufreq knows the highest clock, where a virtual machine lets it be read; /proc/cpuinfo that of now.
double read_clock_ghz() {
  double khz = 0;
  if (std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") >> khz && khz > 0)
    return khz / 1e6;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    double mhz = 0;
    if (std::sscanf(line.c_str(), "cpu MHz : %lf", &mhz) == 1) return mhz / 1e3;
  }
  return 0;
}

void read_features(CpuInfo& info) {
  const Registers one = cpuid(1), seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const uint64_t saved = saved_states();
  const bool ymm = (saved & 0x6) == 0x6, zmm = (saved & 0xe6) == 0xe6, tiles = ((saved >> 17) & 3) == 3;
  const bool avx2 = ymm && bit(seven.ebx, 5) && bit(one.ecx, 12) && bit(one.ecx, 29);  // AVX2, FMA, F16C
  const bool avx512 = avx2 && zmm && bit(seven.ebx, 16) && bit(seven.ebx, 17) && bit(seven.ebx, 28) &&
                      bit(seven.ebx, 30) && bit(seven.ebx, 31);  // F, DQ, CD, BW, VL
  // Tiles need AMX-TILE and the permission; which products they have is a feature each.
  const bool amx = avx512 && tiles && bit(seven.edx, 24) && request_amx();
  info.features.add(CpuFeature::Avx2, avx2);
  info.features.add(CpuFeature::Avx512, avx512);
  info.features.add(CpuFeature::Vnni, avx512 && bit(seven.ecx, 11));
  info.features.add(CpuFeature::Bf16, avx512 && bit(seven_one.eax, 5));
  info.features.add(CpuFeature::Fp16, avx512 && bit(seven.edx, 23));
  info.features.add(CpuFeature::AmxBf16, amx && bit(seven.edx, 22));
  info.features.add(CpuFeature::AmxInt8, amx && bit(seven.edx, 25));
  info.features.add(CpuFeature::AmxFp16, amx && bit(seven_one.eax, 21));
  info.features.add(CpuFeature::Vbmi, avx512 && bit(seven.ecx, 1));
  info.features.add(CpuFeature::AvxVnni, avx2 && bit(seven_one.eax, 4));
}

constexpr std::array<std::pair<Isa, std::string_view>, 4> kIsaNames = {
    {{Isa::Avx2, "avx2"}, {Isa::Avx512, "avx512"}, {Isa::Avx512Bf16, "avx512_bf16"}, {Isa::Amx, "amx"}}};

constexpr std::array<std::pair<CpuFeature, std::string_view>, 10> kFeatureNames = {
    {{CpuFeature::Avx2, "avx2"},
     {CpuFeature::Avx512, "avx512"},
     {CpuFeature::Vnni, "avx512_vnni"},
     {CpuFeature::Bf16, "avx512_bf16"},
     {CpuFeature::Fp16, "avx512_fp16"},
     {CpuFeature::AmxBf16, "amx_bf16"},
     {CpuFeature::AmxInt8, "amx_int8"},
     {CpuFeature::AmxFp16, "amx_fp16"},
     {CpuFeature::AvxVnni, "avx_vnni"},
     {CpuFeature::Vbmi, "avx512_vbmi"}}};

CpuFeature feature_from_name(std::string_view name, std::string_view source) {
  for (const auto& [feature, known] : kFeatureNames)
    if (known == name) return feature;
  throw_input_error(fmt::format("{}: unknown feature '{}' of a CPU", source, name));
}

std::string isa_label(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return "AVX2";
    case Isa::Avx512:
      return "AVX-512";
    case Isa::Avx512Bf16:
      return "AVX-512 with BF16";
    case Isa::Amx:
      return "AMX";
  }
  return {};
}

}  // namespace

CpuInfo read_cpu_info() {
  CpuInfo info;
  read_identity(info);
  read_caches(info);
  read_features(info);
  return info;
}

// A number, because scripts read one: the level of x86-64 (v3 has AVX2, v4 AVX-512), .1 with BF16, .2 with
// AMX.
std::string_view isa_number(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return "3.0";
    case Isa::Avx512:
      return "4.0";
    case Isa::Avx512Bf16:
      return "4.1";
    case Isa::Amx:
      return "4.2";
  }
  return {};
}

std::string_view isa_name(Isa isa) {
  for (const auto& [value, name] : kIsaNames)
    if (value == isa) return name;
  return {};
}

Isa isa_from_name(std::string_view name) {
  for (const auto& [value, known] : kIsaNames)
    if (known == name) return value;
  throw_input_error(fmt::format("unknown instruction set '{}': use avx2, avx512, avx512_bf16 or amx", name));
}

CpuInfo cpu_info_from_json(std::string_view text, std::string_view source) {
  const Json json = parse_json(text, source);
  CpuInfo info;
  try {
    info.vendor = json.at("vendor");
    info.brand = json.at("name");
    info.family = json.at("family");
    info.model = json.at("model");
    info.stepping = json.at("stepping");
    info.l1_bytes = json.at("l1_bytes");
    info.l2_bytes = json.at("l2_bytes");
    info.l3_bytes = json.at("l3_bytes");
    for (const auto& name : json.at("features").get<std::vector<std::string>>())
      info.features.add(feature_from_name(name, source));
  } catch (const Json::exception& error) {
    throw_input_error(fmt::format("{}: not the description of a CPU: {}", source, error.what()));
  }
  return info;
}

CpuFeatures features_within(Isa cap) {
  using enum CpuFeature;
  // VNNI came with the AVX-512 servers that follow Skylake; oneDNN's cap counts it to the same level.
  switch (cap) {
    case Isa::Avx2:
      return {Avx2};
    case Isa::Avx512:
      return {Avx2, Avx512, Vnni};
    case Isa::Avx512Bf16:
      return {Avx2, Avx512, Vnni, Vbmi, Bf16};
    case Isa::Amx:
      break;
  }
  return {Avx2, Avx512, Vnni, Vbmi, Bf16, Fp16, AmxBf16, AmxInt8, AmxFp16, AvxVnni};
}

namespace {

const IntegerTable& vector_integers(const Machine& machine) {
  if (machine.has(CpuFeature::Avx512))
    return machine.has(CpuFeature::Vnni) ? integer_table_avx512_vnni() : integer_table_avx512();
  return machine.has(CpuFeature::AvxVnni) ? integer_table_avxvnni() : integer_table_avx2();
}

}  // namespace

Machine make_machine(const CpuInfo& info, std::optional<Isa> cap, int threads) {
  if (!info.features.has(CpuFeature::Avx2))
    throw_input_error(
        fmt::format(
            "this CPU ({}, family {} model {}) has no AVX2 with FMA and F16C, or the operating system "
            "does not enable it; Lathe's CPU backend needs it",
            info.brand, info.family, info.model),
        ErrorCode::NotOnThisHardware);
  Machine machine;
  machine.features = cap ? info.features & features_within(*cap) : info.features;
  if (machine.isa() == Isa::Amx) machine.amx = &amx_table();
  machine.integers = &vector_integers(machine);
  if (machine.has(CpuFeature::AmxInt8)) machine.integer_tiles = &integer_table_amx();
  // Zen 5: 2.4 cycles for 512 bits; SiLU 5.7 instead of 7.7. Not measured elsewhere: there it stays as it
  // was.
  machine.divides_quickly = info.vendor == "AuthenticAMD" && info.family >= 26;
  machine.threads = std::max(1, threads);
  if (info.l1_bytes > 0) machine.l1_bytes = info.l1_bytes;
  if (info.l2_bytes > 0) machine.l2_bytes = info.l2_bytes;
  if (info.l3_bytes > 0) machine.l3_bytes = info.l3_bytes;
  return machine;
}

Target describe_target(const CpuInfo& info, const Machine& machine) {
  Target target;
  target.backend = "cpu";
  target.description = fmt::format("{}, {}, {} thread{}", info.brand, isa_label(machine.isa()),
                                   machine.threads, machine.threads == 1 ? "" : "s");
  target.key = fmt::format("cpu:{}:{}.{}.{}:{}{}{}:l1={}k:l2={}k:l3={}k:onednn-{}:kernels-{}", info.vendor,
                           info.family, info.model, info.stepping, isa_name(machine.isa()),
                           machine.has(CpuFeature::Vnni)      ? "+vnni"
                           : machine.has(CpuFeature::AvxVnni) ? "+avxvnni"
                                                              : "",
                           machine.has(CpuFeature::Fp16) ? "+fp16" : "", machine.l1_bytes >> 10,
                           machine.l2_bytes >> 10, machine.l3_bytes >> 10, onednn_version(), kCpuKernels);
  target.threads = machine.threads;
  return target;
}

std::vector<std::pair<std::string, std::string>> describe_device(const CpuInfo& info,
                                                                 const Machine& machine) {
  struct sysinfo memory {};
  sysinfo(&memory);
  const auto mebibytes = [](double bytes) { return fmt::format("{:.0f} MiB", bytes / (1 << 20)); };
  const std::string uuid = hash_to_string(hash_text(describe_target(info, machine).key));
  // The rows of a GPU first, under its names. 0 stands for what the system does not tell: scripts look for a
  // number.
  return {
      {"Available Devices", ""},
      {"  Device cpu", fmt::format("\"{}\" UUID: {}", info.brand, uuid)},
      {"Selected Device", info.brand},
      {"Selected Device ID", "cpu"},
      {"Selected Device UUID", uuid},
      {"Compute Capability", std::string(isa_number(machine.isa()))},
      {"SMs", std::to_string(machine.threads)},
      {"Device Global Memory", mebibytes(static_cast<double>(memory.totalram) * memory.mem_unit)},
      {"Shared Memory per SM", fmt::format("{} KiB", machine.l2_bytes >> 10)},
      {"Memory Bus Width", "0 bits (not known)"},
      {"Application Compute Clock Rate", fmt::format("{:.3f} GHz", read_clock_ghz())},
      {"Application Memory Clock Rate", "0 GHz (not known)"},
      {"Instruction Set", std::string(isa_name(machine.isa()))},
      {"Cores", std::to_string(machine.threads)},
      {"L1 Data Cache per Core", fmt::format("{} KiB", machine.l1_bytes >> 10)},
      {"L2 Cache per Core", fmt::format("{} KiB", machine.l2_bytes >> 10)},
      {"L3 Cache", fmt::format("{} KiB", machine.l3_bytes >> 10)},
      {"Library", fmt::format("oneDNN {}", onednn_version())},
  };
}

}  // namespace lathe::cpu
