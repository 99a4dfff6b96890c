// SPDX-License-Identifier: Apache-2.0
#include "backend/storage_layout.h"

#include <cstring>

namespace lathe {
namespace {

// Calls visit(image, channel, position) in the order of a linear tensor.
template <typename Visit>
void for_each_element(const StorageLayout& layout, const Visit& visit) {
  for (int64_t n = 0; n < layout.images; ++n)
    for (int64_t c = 0; c < layout.channels; ++c)
      for (int64_t p = 0; p < layout.positions; ++p) visit(n, c, p);
}

}  // namespace

StorageLayout::StorageLayout(const Extents& extents, const Format& stored_as) : format(stored_as) {
  if (extents.size() < 2) {  // no channels: one long row, whatever the format
    format = kLinear;
    positions = element_count(extents);
    return;
  }
  images = extents[0];
  channels = extents[1];
  for (size_t i = 2; i < extents.size(); ++i) positions *= extents[i];
}

bool is_same_layout(const Extents& extents, const Format& a, const Format& b) {
  return StorageLayout(extents, a).format == StorageLayout(extents, b).format;
}

Tensor allocate_stored(const TensorType& type, const Extents& extents) {
  if (type.format.is_linear()) return Tensor::allocate(type.dtype, extents);
  return Tensor::allocate(DType::UInt8, {storage_bytes(type.dtype, extents, type.format)});
}

Tensor to_linear(const TensorType& type, const Extents& extents, const void* stored) {
  Tensor tensor = Tensor::allocate(type.dtype, extents);
  if (tensor.bytes().empty()) return tensor;
  std::byte* to = tensor.mutable_bytes().data();
  if (is_same_layout(extents, type.format, kLinear)) {
    std::memcpy(to, stored, tensor.bytes().size());
    return tensor;
  }
  const StorageLayout layout(extents, type.format);
  const auto size = static_cast<size_t>(dtype_bytes(type.dtype, 1));
  const auto* from = static_cast<const std::byte*>(stored);
  for_each_element(layout, [&](int64_t n, int64_t c, int64_t p) {
    std::memcpy(to, from + static_cast<size_t>(layout.at(n, c, p)) * size, size);
    to += size;
  });
  return tensor;
}

void from_linear(const Tensor& tensor, const Format& format, void* stored) {
  if (tensor.bytes().empty()) return;
  const std::byte* from = tensor.bytes().data();
  if (is_same_layout(tensor.extents(), format, kLinear)) {
    std::memcpy(stored, from, tensor.bytes().size());
    return;
  }
  const StorageLayout layout(tensor.extents(), format);
  const auto size = static_cast<size_t>(dtype_bytes(tensor.dtype(), 1));
  auto* to = static_cast<std::byte*>(stored);
  if (layout.padded_channels() != layout.channels)
    std::memset(to, 0, static_cast<size_t>(storage_bytes(tensor.dtype(), tensor.extents(), format)));
  for_each_element(layout, [&](int64_t n, int64_t c, int64_t p) {
    std::memcpy(to + static_cast<size_t>(layout.at(n, c, p)) * size, from, size);
    from += size;
  });
}

Tensor in_format(const Tensor& tensor, const Format& format) {
  if (!tensor || is_same_layout(tensor.extents(), format, kLinear)) return tensor;
  Tensor stored = Tensor::allocate(DType::UInt8, {storage_bytes(tensor.dtype(), tensor.extents(), format)});
  from_linear(tensor, format, stored.mutable_bytes().data());
  return stored;
}

}  // namespace lathe
