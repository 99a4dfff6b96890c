// SPDX-License-Identifier: Apache-2.0
//
// Pictures as inputs: JPEG, PNG and BMP files.
//
//   context.run({load_image("cat.jpg", {.dims = {1, 3, 224, 224}})});
#pragma once

#include <string>

#include "lathe/types.h"

namespace lathe::v1 {

struct ImageOptions {
  // "imagenet": the middle of the picture, scaled so that 7/8 of its short side are seen, (x / 255 - mean) /
  // deviation. "unit", "signed", "pixels": stretched to the input, as 0..1, -1..1 or 0..255. All as RGB, or
  // grey where there is one channel.
  std::string preprocess = "imagenet";
  DataType type = DataType::Float;
  // [batch,] channels, height, width or [batch,] height, width, channels, with 1 or 3 channels; all items of
  // a batch are the same.
  Dims dims = {1, 3, 224, 224};
};

// Throws for a file that is no picture, and for options that fit none.
HostTensor load_image(const std::string& path, const ImageOptions& options = {});

}  // namespace lathe::v1
