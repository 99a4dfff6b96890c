// SPDX-License-Identifier: Apache-2.0
#include "padded_channels.h"

#include <cstring>

namespace lathe::cli {
namespace {

// Bytes of the channels of one pixel, without and with padding.
struct PixelBytes {
  size_t values = 0, stored = 0;

  PixelBytes(DType dtype, const Extents& extents, const Format& format)
      : values(static_cast<size_t>(dtype_bytes(dtype, extents.at(1)))),
        stored(static_cast<size_t>(dtype_bytes(dtype, stored_channels(extents.at(1), format)))) {}
};

}  // namespace

bool pads_channels(const Format& format) {
  return format.kind == Format::Kind::ChannelsLast && format.block > 1;
}

void pad_channels(const Tensor& values, const Format& format, std::byte* memory) {
  const PixelBytes pixel(values.dtype(), values.extents(), format);
  const auto from = values.bytes();
  for (size_t at = 0; at < from.size(); at += pixel.values, memory += pixel.stored) {
    std::memcpy(memory, from.data() + at, pixel.values);
    std::memset(memory + pixel.values, 0, pixel.stored - pixel.values);
  }
}

Tensor without_padding(const std::byte* memory, DType dtype, const Extents& extents, const Format& format) {
  Tensor result = Tensor::allocate(dtype, extents);
  const PixelBytes pixel(dtype, extents, format);
  const auto to = result.mutable_bytes();
  for (size_t at = 0; at < to.size(); at += pixel.values, memory += pixel.stored)
    std::memcpy(to.data() + at, memory, pixel.values);
  return result;
}

}  // namespace lathe::cli
