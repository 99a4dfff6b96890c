// SPDX-License-Identifier: Apache-2.0
//
// Where the taps of windows over a channels-last image of bytes lie, for kernels that take a pointer for each
// tap. A line of results is what lies along the last axis.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/window.h"

namespace lathe::cpu {

class WindowAddresses {
 public:
  // One to three axes. Taps beside the image read a line of the byte `beside`; so do taps that fill a window
  // up to a multiple of `multiple` taps.
  WindowAddresses(int64_t batch, int64_t channels, std::vector<WindowAxis> axes, uint8_t beside,
                  int64_t multiple = 1);

  int64_t lines() const { return lines_; }
  int64_t pixels() const { return axes_.back().output; }  // of a line
  int64_t taps() const { return taps_; }                  // of a window, filled up
  int64_t channels() const { return channels_; }
  int64_t bytes() const { return pixels() * taps_ * static_cast<int64_t>(sizeof(void*)); }
  // Of the taps of each pixel of a line, [pixel][tap]; the taps in the order of the axes.
  void find(const uint8_t* x, int64_t line, const uint8_t** addresses) const;
  // How many taps of a pixel's window lie inside of the image; with `padding`, inside of the padded image.
  int64_t inside(int64_t line, int64_t pixel, bool padding) const;

 private:
  // The positions of the first taps of a line along all axes but the last; returns the image's number.
  int64_t place(int64_t line, int64_t* at) const;

  int64_t channels_;
  std::vector<WindowAxis> axes_;
  std::vector<uint8_t> beside_;
  int64_t lines_, line_taps_ = 1, taps_ = 1;
};

}  // namespace lathe::cpu
