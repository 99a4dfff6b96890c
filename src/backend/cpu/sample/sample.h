// SPDX-License-Identifier: Apache-2.0
//
// How an image lies for kernels that read pixels anywhere: planes of pixels, each of as many elements as lie
// together.
#pragma once

#include "backend/cpu/kernel.h"
#include "backend/cpu/sample/sample_table.h"
#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {

struct PixelLayout {
  int64_t planes = 1;  // of an image: channels, blocks of them, or one
  int64_t inner = 1;   // elements of a pixel of a plane that lie together

  // The channels of a plane that are no padding.
  int64_t channels_in(int64_t plane, int64_t channels) const {
    return std::min(inner, channels - plane * inner);
  }
};

inline PixelLayout pixel_layout(const Format& format, int64_t channels) {
  if (format.is_linear()) return {channels, 1};
  if (format.kind == Format::Kind::ChannelsLast) return {1, channels};
  return {(channels + format.block - 1) / format.block, format.block};
}

inline const SampleTable& sample_table(Isa isa) {
  return isa == Isa::Avx2 ? sample_table_avx2() : sample_table_avx512();
}

}  // namespace lathe::cpu
