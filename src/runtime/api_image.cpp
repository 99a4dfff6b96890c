// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "image/image.h"
#include "lathe/image.h"
#include "runtime/api_bridge.h"

namespace lathe::v1 {

HostTensor load_image(const std::string& path, const ImageOptions& options) {
  return translate_errors([&] {
    for (const int64_t dim : options.dims)
      if (dim < 0 || dim > 1 << 14)
        throw_input_error("no picture has " + std::to_string(dim) + " rows, columns or items");
    const Tensor tensor =
        read_image(path, to_dtype(options.type), options.dims, preprocess_of(options.preprocess));
    HostTensor result(options.type, options.dims);
    std::memcpy(result.bytes.data(), tensor.bytes().data(), result.bytes.size());
    return result;
  });
}

}  // namespace lathe::v1
