// SPDX-License-Identifier: Apache-2.0
//
// What this CPU is and which instructions may be used on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// What CPUID and the operating system say, before any cap.
struct CpuInfo {
  std::string vendor, brand;
  int family = 0, model = 0, stepping = 0;
  // Avx2: with FMA and F16C. Avx512: F, BW, DQ, VL and CD. Only what the operating system saves the state of,
  // or grants (AMX).
  CpuFeatures features;
  int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // data or unified; 0: not reported
};
CpuInfo read_cpu_info();

// From a description as in tests/devices/. Throws Input naming `source` when something is missing or of
// another type.
CpuInfo cpu_info_from_json(std::string_view text, std::string_view source);

// The features that --cpuIsa=`cap` leaves.
CpuFeatures features_within(Isa cap);
// "avx2", "avx512", "avx512_bf16", "amx"
std::string_view isa_name(Isa isa);
// Throws Input with the list of names.
Isa isa_from_name(std::string_view name);

// The machine with what the CPU has and `cap` allows. Throws Input when the CPU has no
// AVX2.
Machine make_machine(const CpuInfo& info, std::optional<Isa> cap, int threads);
Target describe_target(const CpuInfo& info, const Machine& machine);
// Rows of trtexec's "Device Information".
std::vector<std::pair<std::string, std::string>> describe_device(const CpuInfo& info, const Machine& machine);

}  // namespace lathe::cpu
