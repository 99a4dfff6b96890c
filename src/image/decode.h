// SPDX-License-Identifier: Apache-2.0
//
// Pictures in memory to pixels: JPEG by libjpeg-turbo (whose rounding ONNX's text asks for), WebP by libwebp,
// PNG and BMP by stb, and binary PGM and PPM, which are numbers and bytes. No result has bytes that are not
// the file's: what a file lacks is an error of it, or a colour that its format's library puts there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lathe {

enum class PixelFormat : uint8_t { Rgb, Bgr, Grey };

struct Picture {
  int64_t height = 0, width = 0;
  std::vector<unsigned char> pixels;  // rows of pixels of 3 bytes, or 1 of grey; empty: it cannot be decoded
};

// At most 2^14 pixels a side. Throws Input for a picture of a format that is known and not read (TIFF,
// JPEG 2000).
Picture decode_picture(std::span<const unsigned char> file, PixelFormat format);

}  // namespace lathe
