// SPDX-License-Identifier: Apache-2.0
//
// stb's macros choose what its headers contain: the readers of three formats, and pictures of 2^14 pixels a
// side at most, so that a file of a few bytes does not ask for gigabytes.
#include "image/stb.h"

#include <limits>
#include <memory>

#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS (1 << 14)
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace lathe {

std::vector<unsigned char> stb_decode(const unsigned char* bytes, size_t count, int channels, int& width,
                                      int& height, std::string& reason) {
  if (count > static_cast<size_t>(std::numeric_limits<int>::max())) {
    reason = "it has more than 2 GiB";
    return {};
  }
  int in_file = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes, static_cast<int>(count), &width, &height, &in_file, channels),
      stbi_image_free);
  if (!pixels) {
    reason = stbi_failure_reason();
    return {};
  }
  return {pixels.get(), pixels.get() + static_cast<size_t>(width) * static_cast<size_t>(height) *
                                           static_cast<size_t>(channels)};
}

bool stb_resize(const float* from, int from_width, int from_height, float* to, int to_width, int to_height,
                int channels) {
  return stbir_resize_float_generic(from, from_width, from_height, 0, to, to_width, to_height, 0, channels,
                                    STBIR_ALPHA_CHANNEL_NONE, 0, STBIR_EDGE_CLAMP, STBIR_FILTER_TRIANGLE,
                                    STBIR_COLORSPACE_LINEAR, nullptr) != 0;
}

}  // namespace lathe
