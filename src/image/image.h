// SPDX-License-Identifier: Apache-2.0
//
// Pictures as inputs of networks: JPEG, PNG and BMP files, decoded and scaled by stb.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ir/tensor.h"

namespace lathe {

// What becomes of a picture's bytes. All give RGB, or grey where the input has one channel.
enum class Preprocess {
  ImageNet,  // the middle of the picture, scaled so that 7/8 of its short side are seen; (x / 255 - mean) / deviation
  Unit,    // stretched to the input; x / 255
  Signed,  // stretched; x / 127.5 - 1
  Pixels,  // stretched; x, 0 to 255
};
// "imagenet", "unit", "signed", "pixels". Throws Input for another word.
Preprocess preprocess_of(std::string_view name);

// Judged by the name: .jpg, .jpeg, .png, .bmp.
bool is_image_file(const std::filesystem::path& file);

// The picture as an input of this type: [batch,] channels, height, width or [batch,] height, width, channels, with 1 or 3 channels.
// All items of a batch are the same. Throws Input for an input that is no picture and for a file that is none.
Tensor read_image(const std::filesystem::path& file, DType dtype, const Extents& extents,
                  Preprocess preprocess);

}  // namespace lathe
