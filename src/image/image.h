// SPDX-License-Identifier: Apache-2.0
//
// Pictures as inputs of networks: JPEG, PNG and BMP files, decoded and scaled by stb.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "ir/tensor.h"

namespace lathe {

// What becomes of a picture's pixels. All give RGB, or grey where the input has one channel; its shape says
// where the channels lie. An element is (x * scale - mean) / deviation.
struct Preprocess {
  // The middle of the picture is cut out, scaled so that its short side has so many pixels; 0: so that 7/8 of
  // that side are seen; negative: nothing is cut, the picture is stretched to the input.
  int64_t short_side = -1;
  bool is_whole = false;  // rounded to whole numbers from 0 to 255, and nothing else
  float scale = 1.0f / 255;
  std::array<float, 3> mean = {0, 0, 0}, deviation = {1, 1, 1};  // in the order of the channels
  bool is_bgr = false;

  static const Preprocess ImageNet;  // cut out; (x / 255 - mean) / deviation of ImageNet's training pictures
  static const Preprocess Unit;      // stretched; x / 255
  static const Preprocess Signed;    // stretched; x / 127.5 - 1
  static const Preprocess Pixels;    // stretched; x, 0 to 255
};
// A recipe ("imagenet", "unit", "signed", "pixels"), single steps
// ("resize=256,mean=0.5/0.5/0.5,std=0.2/0.2/0.2,scale=1, order=bgr"; resize=stretch cuts nothing), or steps
// that change a recipe ("imagenet,resize=256"). Throws Input for others.
Preprocess preprocess_of(std::string_view text);

// Judged by the name: .jpg, .jpeg, .png, .bmp.
bool is_image_file(const std::filesystem::path& file);

// The picture as an input of this type: [batch,] channels, height, width or [batch,] height, width, channels,
// with 1 or 3 channels. All items of a batch are the same. Throws Input for an input that is no picture and
// for a file that is none.
Tensor read_image(const std::filesystem::path& file, DType dtype, const Extents& extents,
                  const Preprocess& preprocess);

}  // namespace lathe
