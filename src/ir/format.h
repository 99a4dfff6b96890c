// SPDX-License-Identifier: Apache-2.0
//
// How a tensor lies in memory. Dims are always logical (N, C, spatial...); the format says in which order
// they are stored:
//   Linear          row-major, as ONNX
//   ChannelsLast    N, spatial..., C; with a block, C rounded up to a multiple of it (what is behind the
//                   channels is nobody's, and only inputs and outputs of engines lie so)
//   ChannelBlocked  N, ceil(C / block), spatial..., block   (the rest of the last block is zero)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/dtype.h"
#include "ir/shape.h"

namespace lathe {

struct Format {
  enum class Kind : uint8_t { Linear, ChannelsLast, ChannelBlocked };
  Kind kind = Kind::Linear;
  int block = 1;  // 8 or 16 for ChannelBlocked; 1, 8 or 16 for ChannelsLast; 1 for Linear

  bool operator==(const Format&) const = default;
  bool is_linear() const { return kind == Kind::Linear; }
};

inline constexpr Format kLinear{};
inline constexpr Format kChannelsLast{Format::Kind::ChannelsLast, 1};
inline constexpr Format kChannelsLast8{Format::Kind::ChannelsLast, 8};
inline constexpr Format kChannelsLast16{Format::Kind::ChannelsLast, 16};
inline constexpr Format kBlocked8{Format::Kind::ChannelBlocked, 8};
inline constexpr Format kBlocked16{Format::Kind::ChannelBlocked, 16};

std::string to_string(const Format& format);  // "linear", "channels_last", "channels_last8", "blocked16"
Format format_from_string(std::string_view text);
// That storage has room for.
inline int64_t stored_channels(int64_t channels, const Format& format) {
  return (channels + format.block - 1) / format.block * format.block;
}
// Elements in storage, padding included.
int64_t storage_elements(const Extents& extents, const Format& format);
int64_t storage_bytes(DType dtype, const Extents& extents, const Format& format);
// Strides of the logical dims in elements (of the channel block for ChannelBlocked: TensorRT prints "1:16").
Extents format_strides(const Extents& extents, const Format& format);

// How one operand is stored: what a tactic asks for and what the tuner chooses.
struct TensorType {
  DType dtype = DType::Undefined;
  Format format;
  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType& type);  // "float32:blocked16"

}  // namespace lathe
