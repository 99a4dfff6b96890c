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
  bool avx2 = false;    // AVX2, FMA and F16C, state saved by the OS
  bool avx512 = false;  // F, BW, DQ, VL, CD, state saved by the OS
  bool avx512_vnni = false, avx512_bf16 = false, avx512_fp16 = false;
  bool amx = false;                                  // tile, BF16 and INT8, granted by the OS
  int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // data or unified; 0: not reported
};
CpuInfo read_cpu_info();

// "avx2", "avx512", "avx512_bf16", "amx"
std::string_view isa_name(Isa isa);
// Throws Input with the list of names.
Isa isa_from_name(std::string_view name);

// The machine with the highest level that the CPU has and `cap` allows. Throws Input when the CPU has no
// AVX2.
Machine make_machine(const CpuInfo& info, std::optional<Isa> cap, int threads);
Target describe_target(const CpuInfo& info, const Machine& machine);
// Rows of trtexec's "Device Information".
std::vector<std::pair<std::string, std::string>> describe_device(const CpuInfo& info, const Machine& machine);

}  // namespace lathe::cpu
