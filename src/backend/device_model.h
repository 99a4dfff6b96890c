// SPDX-License-Identifier: Apache-2.0
//
// What a device can do, as data: which instructions it has, how many units work on a layer, what its memories
// hold and deliver, what it computes in a nanosecond. Families and estimates read it; no function knows one
// machine's numbers by heart. Files of tests/devices/ describe devices that nobody here has.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace lathe {

// Instructions of a CPU, each for itself: a CPU may have FP16 and no AMX, or AMX and no FP16.
enum class CpuFeature : uint8_t { Avx2, Avx512, Vnni, Bf16, Fp16, AmxBf16, AmxInt8, AmxFp16, AvxVnni, Vbmi };

class CpuFeatures {
 public:
  constexpr CpuFeatures() = default;
  constexpr CpuFeatures(std::initializer_list<CpuFeature> features) {
    for (const CpuFeature f : features) add(f);
  }
  constexpr bool has(CpuFeature f) const { return (bits_ & bit(f)) != 0; }
  constexpr void add(CpuFeature f, bool present = true) { bits_ |= present ? bit(f) : 0; }
  // What both have.
  constexpr CpuFeatures operator&(const CpuFeatures& other) const {
    CpuFeatures both;
    both.bits_ = bits_ & other.bits_;
    return both;
  }
  constexpr bool operator==(const CpuFeatures&) const = default;

 private:
  static constexpr uint32_t bit(CpuFeature f) { return 1u << static_cast<unsigned>(f); }
  uint32_t bits_ = 0;
};

struct DeviceModel {
  std::string name;
  int units = 1;  // cores that work on a layer, or multiprocessors
  // A memory with what all units together read of it: caches from the nearest on, the last one is the
  // device's main memory.
  struct Memory {
    std::string name;
    int64_t bytes = 0;
    double bytes_per_ns = 1;
  };
  std::vector<Memory> memories;
  // Multiplications and additions of all units in a nanosecond, by the type of the operands.
  struct Rate {
    DType type = DType::Float32;
    double ops_per_ns = 1;
  };
  std::vector<Rate> rates;
  double start_us = 0;  // what a layer costs that has nothing to do: a launch, or a barrier

  // Of the type, or of FP32 where the device has no instructions for it.
  double ops_per_ns(DType type) const;
  // What `bytes` that are read or written once come from: the nearest memory that is larger.
  double bytes_per_ns(double bytes) const;
  // A layer that computes and moves data at the same time: no more than a floor with the cost of a start.
  double expected_us(double ops, DType type, double bytes) const;
};

}  // namespace lathe
