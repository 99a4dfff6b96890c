// SPDX-License-Identifier: Apache-2.0
#include "runtime/io_memory.h"

#include <cstring>

#include "base/error.h"

namespace lathe {
namespace {

// Where element (n, c, s) lies, with `spatial` elements per channel.
int64_t place(const Format& format, int64_t n, int64_t c, int64_t s, int64_t channels, int64_t spatial) {
  const int64_t item = n * channels * spatial;
  if (format.is_linear()) return item + c * spatial + s;
  if (format.kind == Format::Kind::ChannelsLast) return item + s * channels + c;
  return item + (c / format.block * spatial + s) * format.block + c % format.block;
}

}  // namespace

Tensor reordered(const Tensor& tensor, const Format& from, const Format& to) {
  if (from == to || tensor.size() == 0) return tensor;
  const Extents& extents = tensor.extents();
  const int64_t channels = extents.at(1), size = dtype_bytes(tensor.dtype(), 1);
  const int64_t spatial = tensor.size() / (extents[0] * channels);
  check(storage_elements(extents, from) == tensor.size() && storage_elements(extents, to) == tensor.size(),
        "the memory of inputs and outputs is not padded");
  Tensor result = Tensor::allocate(tensor.dtype(), extents);
  const std::byte* source = tensor.bytes().data();
  std::byte* target = result.mutable_bytes().data();
  for (int64_t n = 0; n < extents[0]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t s = 0; s < spatial; ++s)
        std::memcpy(target + place(to, n, c, s, channels, spatial) * size,
                    source + place(from, n, c, s, channels, spatial) * size, static_cast<size_t>(size));
  return result;
}

}  // namespace lathe
