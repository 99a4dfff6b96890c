// SPDX-License-Identifier: Apache-2.0
//
// Where a tensor's elements lie in a format, and copies between a format and linear order, on the host.
#pragma once

#include "ir/format.h"
#include "ir/tensor.h"

namespace lathe {

// A tensor as images x channels x positions.
struct StorageLayout {
  int64_t images = 1, channels = 1, positions = 1;
  Format format;

  StorageLayout(const Extents& extents, const Format& format);
  // Of channels that storage has room for.
  int64_t padded_channels() const { return stored_channels(channels, format); }
  // In elements, from the beginning.
  int64_t at(int64_t image, int64_t channel, int64_t position) const {
    switch (format.kind) {
      case Format::Kind::Linear:
        return (image * channels + channel) * positions + position;
      case Format::Kind::ChannelsLast:
        return (image * positions + position) * padded_channels() + channel;
      case Format::Kind::ChannelBlocked: {
        const int64_t block = format.block, blocks = (channels + block - 1) / block;
        return ((image * blocks + channel / block) * positions + position) * block + channel % block;
      }
    }
    return 0;
  }
};

// The elements lie in the same places, for a tensor of these extents. Types of less than a byte are linear.
bool is_same_layout(const Extents& extents, const Format& a, const Format& b);

// Room for a tensor as it lies in `format`: bytes, where that is not linear.
Tensor allocate_stored(const TensorType& type, const Extents& extents);
// Copies stored elements to a host tensor in linear format, same element type.
Tensor to_linear(const TensorType& type, const Extents& extents, const void* stored);
// The opposite: writes a linear tensor's elements in `format`, with zeros in the padding. `stored` has
// storage_bytes().
void from_linear(const Tensor& tensor, const Format& format, void* stored);
// The bytes of a linear tensor in `format`, as many as its storage has; the tensor itself where they are the
// same.
Tensor in_format(const Tensor& tensor, const Format& format);

}  // namespace lathe
