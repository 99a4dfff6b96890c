// SPDX-License-Identifier: Apache-2.0
#include "ir/format.h"

#include "base/error.h"

namespace lathe {

std::string to_string(const Format& format) {
  switch (format.kind) {
    case Format::Kind::Linear:
      return "linear";
    case Format::Kind::ChannelsLast:
      return format.block == 1 ? "channels_last" : "channels_last" + std::to_string(format.block);
    case Format::Kind::ChannelBlocked:
      return "blocked" + std::to_string(format.block);
  }
  check(false, "to_string: no such format");
  return {};
}

Format format_from_string(std::string_view text) {
  for (const Format& format :
       {kLinear, kChannelsLast, kChannelsLast8, kChannelsLast16, kBlocked8, kBlocked16}) {
    if (text == to_string(format)) return format;
  }
  throw_input_error(
      "unknown tensor format \"" + std::string(text) +
      "\" (known: linear, channels_last, channels_last8, channels_last16, blocked8, blocked16)");
}

int64_t storage_elements(const Extents& extents, const Format& format) {
  if (format.block == 1) return element_count(extents);
  check(extents.size() >= 2, "a tensor with padded channels needs a channel axis: " + to_string(extents));
  Extents padded = extents;
  padded[1] = stored_channels(padded[1], format);
  return element_count(padded);
}

int64_t storage_bytes(DType dtype, const Extents& extents, const Format& format) {
  return dtype_bytes(dtype, storage_elements(extents, format));
}

Extents format_strides(const Extents& extents, const Format& format) {
  if (format.is_linear()) return row_major_strides(extents);
  check(extents.size() >= 2, "a tensor with a channel format needs a channel axis: " + to_string(extents));
  Extents strides(extents.size(), 1);
  int64_t stride = 1;
  if (format.kind == Format::Kind::ChannelsLast) {
    strides[1] = 1;
    stride = stored_channels(extents[1], format);
    for (size_t i = extents.size(); i-- > 2;) {
      strides[i] = stride;
      stride *= extents[i];
    }
    strides[0] = stride;
    return strides;
  }
  // In units of one block of channels, so the innermost spatial stride is 1.
  for (size_t i = extents.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= extents[i];
  }
  strides[1] = stride;
  strides[0] = stride * ((extents[1] + format.block - 1) / format.block);
  return strides;
}

std::string to_string(const TensorType& type) {
  return std::string(dtype_name(type.dtype)) + ":" + to_string(type.format);
}

}  // namespace lathe
