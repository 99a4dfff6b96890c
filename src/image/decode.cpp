// SPDX-License-Identifier: Apache-2.0
#include "image/decode.h"

#include <turbojpeg.h>
#include <webp/decode.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "image/stb.h"

namespace lathe {

namespace {

using Bytes = std::span<const unsigned char>;

constexpr int kMostPixels = 1 << 14;  // a side

bool has_at(Bytes file, size_t at, std::string_view text) {
  if (file.size() < at + text.size()) return false;
  for (size_t i = 0; i < text.size(); ++i)
    if (file[at + i] != static_cast<unsigned char>(text[i])) return false;
  return true;
}

// Memory for RGB; none where the sizes cannot be.
bool take_size(int width, int height, Picture& picture) {
  if (width < 1 || height < 1 || width > kMostPixels || height > kMostPixels) return false;
  picture.height = height, picture.width = width;
  picture.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  return true;
}

bool decode_jpeg(Bytes file, Picture& picture) {
  const std::unique_ptr<void, int (*)(tjhandle)> reader(tjInitDecompress(), tjDestroy);
  int width = 0, height = 0, subsampling = 0, space = 0;
  const auto count = static_cast<unsigned long>(file.size());
  if (!reader ||
      tjDecompressHeader3(reader.get(), file.data(), count, &width, &height, &subsampling, &space) ||
      !take_size(width, height, picture))
    return false;
  // A file that ends early is a warning of the library's, and decoded as far as it goes.
  return tjDecompress2(reader.get(), file.data(), count, picture.pixels.data(), width, 0, height, TJPF_RGB,
                       TJFLAG_ACCURATEDCT) == 0 ||
         tjGetErrorCode(reader.get()) == TJERR_WARNING;
}

bool decode_webp(Bytes file, Picture& picture) {
  int width = 0, height = 0;
  return WebPGetInfo(file.data(), file.size(), &width, &height) != 0 && take_size(width, height, picture) &&
         WebPDecodeRGBInto(file.data(), file.size(), picture.pixels.data(), picture.pixels.size(),
                           width * 3) != nullptr;
}

// The header of a binary PGM (P5) or PPM (P6): numbers between white space and comments.
class PnmHeader {
 public:
  explicit PnmHeader(Bytes file) : file_(file) {}
  // The next number; -1 where there is none, or one that is larger than any that can be meant.
  int number() {
    while (at_ < file_.size() && (is_space(file_[at_]) || file_[at_] == '#')) {
      if (file_[at_] == '#')
        while (at_ + 1 < file_.size() && file_[at_ + 1] != '\n') ++at_;
      ++at_;
    }
    int value = -1;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9'; ++at_) {
      value = std::max(value, 0) * 10 + (file_[at_] - '0');
      if (value > (1 << 20)) return -1;
    }
    return value;
  }
  // What stands behind the one white space that ends it.
  Bytes rest() const { return at_ < file_.size() ? file_.subspan(at_ + 1) : Bytes(); }

 private:
  static bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  Bytes file_;
  size_t at_ = 2;
};

// One byte for each sample, which stands for as much of 255 as it is of the largest.
bool decode_pnm(Bytes file, size_t channels, Picture& picture) {
  PnmHeader header(file);
  const int width = header.number(), height = header.number(), largest = header.number();
  const Bytes samples = header.rest();
  if (largest < 1 || largest > 255 || !take_size(width, height, picture)) return false;
  const size_t pixels = picture.pixels.size() / 3;
  if (samples.size() < pixels * channels) return false;
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    const unsigned sample =
        std::min<unsigned>(samples[channels == 3 ? i : i / 3], static_cast<unsigned>(largest));
    picture.pixels[i] = static_cast<unsigned char>((sample * 255 + static_cast<unsigned>(largest) / 2) /
                                                   static_cast<unsigned>(largest));
  }
  return true;
}

bool decode_others(Bytes file, Picture& picture) {
  int width = 0, height = 0;
  std::string reason;
  picture.pixels = stb_decode(file.data(), file.size(), 3, width, height, reason);
  picture.height = height, picture.width = width;
  return !picture.pixels.empty();
}

// ITU-R 601 in 16 bits.
unsigned char grey(const unsigned char* rgb) {
  return static_cast<unsigned char>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16U);
}

void convert(Picture& picture, PixelFormat format) {
  std::vector<unsigned char>& pixels = picture.pixels;
  const size_t count = pixels.size() / 3;
  for (size_t i = 0; format == PixelFormat::Bgr && i < count; ++i)
    std::swap(pixels[3 * i], pixels[3 * i + 2]);
  if (format != PixelFormat::Grey) return;
  for (size_t i = 0; i < count; ++i) pixels[i] = grey(&pixels[3 * i]);
  pixels.resize(count);
}

}  // namespace

Picture decode_picture(Bytes file, PixelFormat format) {
  if (has_at(file, 0, std::string_view("II*\0", 4)) || has_at(file, 0, std::string_view("MM\0*", 4)))
    throw_input_error("the picture is TIFF, which is not read; JPEG, PNG, BMP, WebP and PNM are");
  if (has_at(file, 4, "jP  ") || has_at(file, 0, "\xFF\x4F\xFF\x51"))
    throw_input_error("the picture is JPEG 2000, which is not read; JPEG, PNG, BMP, WebP and PNM are");
  Picture picture;
  bool read = false;
  if (has_at(file, 0, "\xFF\xD8"))
    read = decode_jpeg(file, picture);
  else if (has_at(file, 0, "RIFF") && has_at(file, 8, "WEBP"))
    read = decode_webp(file, picture);
  else if (has_at(file, 0, "P5") || has_at(file, 0, "P6"))
    read = decode_pnm(file, file[1] == '6' ? 3 : 1, picture);
  else
    read = decode_others(file, picture);
  if (!read) return {};
  convert(picture, format);
  return picture;
}

}  // namespace lathe
