// SPDX-License-Identifier: Apache-2.0
#include "image/image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "image/stb.h"

namespace lathe {

const Preprocess Preprocess::ImageNet = {
    .short_side = 0, .mean = {0.485f, 0.456f, 0.406f}, .deviation = {0.229f, 0.224f, 0.225f}};
const Preprocess Preprocess::Unit = {};
const Preprocess Preprocess::Signed = {.mean = {0.5f, 0.5f, 0.5f}, .deviation = {0.5f, 0.5f, 0.5f}};
const Preprocess Preprocess::Pixels = {.is_whole = true, .scale = 1};

namespace {

struct Recipe {
  std::string_view name;
  const Preprocess& preprocess;
};
const Recipe kRecipes[] = {{"imagenet", Preprocess::ImageNet},
                           {"unit", Preprocess::Unit},
                           {"signed", Preprocess::Signed},
                           {"pixels", Preprocess::Pixels}};

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

// The input's size out of the middle. Without a short side the crop has kSeenOfShortSide of it, or as much as
// there is; a short side below the input's is the input's.
Pixels seen(const Pixels& from, const Layout& layout, int64_t short_side) {
  const double least = std::max(static_cast<double>(layout.width) / from.width,
                                static_cast<double>(layout.height) / from.height);
  const double factor =
      short_side > 0 ? std::max(static_cast<double>(short_side) / std::min(from.width, from.height), least)
                     : least / kSeenOfShortSide;
  const auto size = [&](int extent, int64_t least) {
    return std::max(static_cast<int64_t>(std::llround(extent * factor)), least);
  };
  return middle(scaled(from, size(from.width, layout.width), size(from.height, layout.height)), layout.width,
                layout.height);
}

float normalized(float x, size_t channel, const Preprocess& preprocess) {
  if (preprocess.is_whole) return std::clamp(std::round(x), 0.0f, 255.0f);
  return (x * preprocess.scale - preprocess.mean[channel]) / preprocess.deviation[channel];
}

std::vector<double> elements(const Pixels& pixels, const Layout& layout, const Preprocess& preprocess) {
  const auto channels = static_cast<size_t>(layout.channels);
  const auto places = static_cast<size_t>(layout.height * layout.width);
  std::vector<double> result(places * channels);
  for (size_t i = 0; i < places; ++i)
    for (size_t c = 0; c < channels; ++c)
      result[layout.channels_last ? i * channels + c : c * places + i] =
          normalized(pixels.values[i * channels + (preprocess.is_bgr ? channels - 1 - c : c)], c, preprocess);
  const size_t one = result.size();
  result.resize(one * static_cast<size_t>(layout.batch));
  for (size_t i = one; i < result.size(); ++i) result[i] = result[i - one];
  return result;
}

const Preprocess& recipe(std::string_view name) {
  std::string known;
  for (const Recipe& r : kRecipes) {
    if (r.name == name) return r.preprocess;
    known += (known.empty() ? "" : ", ") + std::string(r.name);
  }
  throw_input_error("there is no way to prepare pictures called '" + std::string(name) + "': " + known);
}

[[noreturn]] void throw_bad_step(std::string_view step) {
  throw_input_error("'" + std::string(step) +
                    "' is no step that prepares pictures: resize=<pixels>|stretch, scale=<x>, mean=<r/g/b>, "
                    "std=<r/g/b>, order=rgb|bgr");
}

float number_of(std::string_view text, std::string_view step) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) throw_bad_step(step);
  return value;
}

// "0.5/0.4/0.3", or one number for all channels.
std::array<float, 3> channels_of(std::string_view text, std::string_view step) {
  std::array<float, 3> values = {};
  size_t count = 0;
  for (bool more = true; more; ++count) {
    const size_t slash = text.find('/');
    more = slash != std::string_view::npos;
    if (count == 3) throw_bad_step(step);
    values[count] = number_of(text.substr(0, slash), step);
    text.remove_prefix(more ? slash + 1 : text.size());
  }
  if (count == 1) values.fill(values[0]);
  if (count == 2) throw_bad_step(step);
  return values;
}

void apply_step(std::string_view step, Preprocess& preprocess) {
  const size_t equals = std::min(step.find('='), step.size());
  const std::string_view key = step.substr(0, equals), value = step.substr(std::min(equals + 1, step.size()));
  constexpr float kMostPixels = 1 << 14;
  if (key == "resize" && value == "stretch") {
    preprocess.short_side = -1;
  } else if (key == "resize") {
    const float pixels = number_of(value, step);
    if (!(pixels >= 1 && pixels <= kMostPixels)) throw_bad_step(step);
    preprocess.short_side = std::llround(pixels);
  } else if (key == "scale") {
    preprocess.scale = number_of(value, step);
  } else if (key == "mean") {
    preprocess.mean = channels_of(value, step);
  } else if (key == "std") {
    preprocess.deviation = channels_of(value, step);
    if (std::count(preprocess.deviation.begin(), preprocess.deviation.end(), 0.0f) > 0) throw_bad_step(step);
  } else if (key == "order" && (value == "rgb" || value == "bgr")) {
    preprocess.is_bgr = value == "bgr";
  } else {
    throw_bad_step(step);
  }
  if (key == "scale" || key == "mean" || key == "std") preprocess.is_whole = false;
}

}  // namespace

Preprocess preprocess_of(std::string_view text) {
  Preprocess preprocess;
  bool is_first = true;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view step = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (is_first && step.find('=') == std::string_view::npos)
      preprocess = recipe(step);
    else
      apply_step(step, preprocess);
    is_first = false;
  }
  return preprocess;
}

bool is_image_file(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".bmp";
}

Tensor read_image(const std::filesystem::path& file, DType dtype, const Extents& extents,
                  const Preprocess& preprocess) {
  const Layout layout = layout_of(extents);
  if (!is_float(dtype) && !preprocess.is_whole)
    throw_input_error("an input of " + std::string(dtype_name(dtype)) +
                      " takes a picture's pixels as they are: prepare it as 'pixels'");
  if (element_count(extents) == 0) return Tensor::allocate(dtype, extents);
  const Pixels whole = decode(file, static_cast<int>(layout.channels));
  const Pixels pixels = preprocess.short_side >= 0 ? seen(whole, layout, preprocess.short_side)
                                                   : scaled(whole, layout.width, layout.height);
  return Tensor::from_doubles(dtype, extents, elements(pixels, layout, preprocess));
}

}  // namespace lathe
