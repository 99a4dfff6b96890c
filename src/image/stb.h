// SPDX-License-Identifier: Apache-2.0
//
// The two calls of stb that we make, apart from what its headers define.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lathe {

// Rows of pixels with so many channels (1 grey, 3 RGB), whatever the file has; empty with a reason when it
// cannot be read.
std::vector<unsigned char> stb_decode(const unsigned char* bytes, size_t count, int channels, int& width,
                                      int& height, std::string& reason);
// Bilinear, and where a picture shrinks all pixels that fall into one are averaged.
bool stb_resize(const float* from, int from_width, int from_height, float* to, int to_width, int to_height,
                int channels);

}  // namespace lathe
