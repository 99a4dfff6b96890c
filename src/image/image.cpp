// SPDX-License-Identifier: Apache-2.0
#include "image/image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "image/stb.h"

namespace lathe {
namespace {

struct Names {
  std::string_view name;
  Preprocess preprocess;
};
constexpr Names kNames[] = {{"imagenet", Preprocess::ImageNet},
                            {"unit", Preprocess::Unit},
                            {"signed", Preprocess::Signed},
                            {"pixels", Preprocess::Pixels}};

// Of ImageNet's training pictures, by channel.
constexpr std::array<float, 3> kMean = {0.485f, 0.456f, 0.406f}, kDeviation = {0.229f, 0.224f, 0.225f};
// Classification networks see 224 of 256 pixels.
constexpr double kSeenOfShortSide = 224.0 / 256.0;

// How an input's extents are read.
struct Layout {
  int64_t batch = 1, channels = 0, height = 0, width = 0;
  bool channels_last = false;
};

bool is_channels(int64_t extent) {
  return extent == 1 || extent == 3;
}

Layout layout_of(const Extents& extents) {
  const size_t rank = extents.size();
  if (rank == 3 || rank == 4) {
    const int64_t batch = rank == 4 ? extents[0] : 1;
    const int64_t a = extents[rank - 3], b = extents[rank - 2], c = extents[rank - 1];
    if (is_channels(a)) return {batch, a, b, c, false};
    if (is_channels(c)) return {batch, c, a, b, true};
  }
  throw_input_error(
      "an input of shape " + to_string(extents) +
      " is no picture: channels (1 or 3), height, width or height, width, channels are expected");
}

struct Pixels {
  int width = 0, height = 0, channels = 0;
  std::vector<float> values;  // 0 to 255, channels last
};

Pixels decode(const std::filesystem::path& file, int channels) {
  const auto mapped = MappedFile::open(file);
  const auto bytes = mapped->bytes();
  Pixels pixels{.channels = channels};
  std::string reason;
  const std::vector<unsigned char> data =
      stb_decode(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), channels, pixels.width,
                 pixels.height, reason);
  if (data.empty())
    throw_input_error("'" + file.string() + "' is no picture that can be read (JPEG, PNG, BMP): " + reason);
  pixels.values.assign(data.begin(), data.end());
  return pixels;
}

Pixels scaled(const Pixels& from, int64_t width, int64_t height) {
  if (from.width == width && from.height == height) return from;
  Pixels to{static_cast<int>(width), static_cast<int>(height), from.channels, {}};
  to.values.resize(static_cast<size_t>(width * height * from.channels));
  check(stb_resize(from.values.data(), from.width, from.height, to.values.data(), to.width, to.height,
                   from.channels),
        "a picture could not be scaled");
  return to;
}

Pixels middle(const Pixels& from, int64_t width, int64_t height) {
  Pixels to{static_cast<int>(width), static_cast<int>(height), from.channels, {}};
  const int64_t left = (from.width - width) / 2, top = (from.height - height) / 2;
  for (int64_t y = 0; y < height; ++y) {
    const auto row = from.values.begin() + ((top + y) * from.width + left) * from.channels;
    to.values.insert(to.values.end(), row, row + width * from.channels);
  }
  return to;
}

// So that the crop of the input's size has kSeenOfShortSide of the short side, or as much as there is.
Pixels seen(const Pixels& from, const Layout& layout) {
  const double factor = std::max(static_cast<double>(layout.width) / from.width,
                                 static_cast<double>(layout.height) / from.height) /
                        kSeenOfShortSide;
  const auto size = [&](int extent, int64_t least) {
    return std::max(static_cast<int64_t>(std::llround(extent * factor)), least);
  };
  return middle(scaled(from, size(from.width, layout.width), size(from.height, layout.height)), layout.width,
                layout.height);
}

float normalized(float x, size_t channel, Preprocess preprocess) {
  switch (preprocess) {
    case Preprocess::ImageNet:
      return (x / 255.0f - kMean[channel]) / kDeviation[channel];
    case Preprocess::Unit:
      return x / 255.0f;
    case Preprocess::Signed:
      return x / 127.5f - 1;
    case Preprocess::Pixels:
      return std::clamp(std::round(x), 0.0f, 255.0f);
  }
  return x;
}

std::vector<double> elements(const Pixels& pixels, const Layout& layout, Preprocess preprocess) {
  const auto channels = static_cast<size_t>(layout.channels);
  const auto places = static_cast<size_t>(layout.height * layout.width);
  std::vector<double> result(places * channels);
  for (size_t i = 0; i < places; ++i)
    for (size_t c = 0; c < channels; ++c)
      result[layout.channels_last ? i * channels + c : c * places + i] =
          normalized(pixels.values[i * channels + c], c, preprocess);
  const size_t one = result.size();
  result.resize(one * static_cast<size_t>(layout.batch));
  for (size_t i = one; i < result.size(); ++i) result[i] = result[i - one];
  return result;
}

}  // namespace

Preprocess preprocess_of(std::string_view name) {
  std::string known;
  for (const Names& n : kNames) {
    if (n.name == name) return n.preprocess;
    known += (known.empty() ? "" : ", ") + std::string(n.name);
  }
  throw_input_error("there is no way to prepare pictures called '" + std::string(name) + "': " + known);
}

bool is_image_file(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".bmp";
}

Tensor read_image(const std::filesystem::path& file, DType dtype, const Extents& extents,
                  Preprocess preprocess) {
  const Layout layout = layout_of(extents);
  if (!is_float(dtype) && preprocess != Preprocess::Pixels)
    throw_input_error("an input of " + std::string(dtype_name(dtype)) +
                      " takes a picture's pixels as they are: prepare it as 'pixels'");
  if (element_count(extents) == 0) return Tensor::allocate(dtype, extents);
  const Pixels whole = decode(file, static_cast<int>(layout.channels));
  const Pixels pixels =
      preprocess == Preprocess::ImageNet ? seen(whole, layout) : scaled(whole, layout.width, layout.height);
  return Tensor::from_doubles(dtype, extents, elements(pixels, layout, preprocess));
}

}  // namespace lathe
