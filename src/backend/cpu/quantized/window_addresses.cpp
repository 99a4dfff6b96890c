// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/quantized/window_addresses.h"

#include "ops/window_range.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kReadBeyond = 64;  // a vector may reach behind the last channel

}  // namespace

WindowAddresses::WindowAddresses(int64_t batch, int64_t channels, std::vector<WindowAxis> axes,
                                 uint8_t beside, int64_t multiple)
    : channels_(channels),
      axes_(std::move(axes)),
      beside_(static_cast<size_t>(channels + kReadBeyond), beside),
      lines_(batch) {
  for (size_t d = 0; d + 1 < axes_.size(); ++d) {
    lines_ *= axes_[d].output;
    line_taps_ *= axes_[d].kernel;
  }
  taps_ = (line_taps_ * axes_.back().kernel + multiple - 1) / multiple * multiple;
}

int64_t WindowAddresses::place(int64_t line, int64_t* at) const {
  for (size_t d = axes_.size() - 1; d-- > 0; line /= axes_[d].output)
    at[d] = line % axes_[d].output * axes_[d].stride - axes_[d].pad_begin;
  return line;
}

void WindowAddresses::find(const uint8_t* x, int64_t line, const uint8_t** addresses) const {
  const size_t last = axes_.size() - 1;
  const WindowAxis& axis = axes_[last];
  int64_t at[3] = {};
  const int64_t image = place(line, at);
  for (int64_t t = 0; t < line_taps_; ++t) {
    int64_t rest = t, offset = 0, stride = axis.input * channels_;
    bool inside = true;
    for (size_t d = last; d-- > 0; rest /= axes_[d].kernel) {
      const int64_t position = at[d] + rest % axes_[d].kernel * axes_[d].dilation;
      inside = inside && position >= 0 && position < axes_[d].input;
      offset += position * stride;
      stride *= axes_[d].input;
    }
    const uint8_t* const from = x + image * stride + offset;
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const OutputRange range = inside ? outputs_inside(axis, k) : OutputRange{};
      const uint8_t** const to = addresses + t * axis.kernel + k;
      const int64_t first = k * axis.dilation - axis.pad_begin;
      for (int64_t p = 0; p < range.begin; ++p) to[p * taps_] = beside_.data();
      for (int64_t p = range.begin; p < range.end; ++p)
        to[p * taps_] = from + (p * axis.stride + first) * channels_;
      for (int64_t p = range.end; p < pixels(); ++p) to[p * taps_] = beside_.data();
    }
  }
  for (int64_t t = line_taps_ * axis.kernel; t < taps_; ++t)
    for (int64_t p = 0; p < pixels(); ++p) addresses[p * taps_ + t] = beside_.data();
}

int64_t WindowAddresses::inside(int64_t line, int64_t pixel, bool padding) const {
  int64_t at[3] = {}, count = 1;
  place(line, at);
  const size_t last = axes_.size() - 1;
  at[last] = pixel * axes_[last].stride - axes_[last].pad_begin;
  for (size_t d = 0; d <= last; ++d) {
    const WindowAxis& axis = axes_[d];
    const int64_t low = padding ? -axis.pad_begin : 0, high = axis.input + (padding ? axis.pad_end : 0);
    int64_t taps = 0;
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t position = at[d] + k * axis.dilation;
      taps += position >= low && position < high;
    }
    count *= taps;
  }
  return count;
}

}  // namespace lathe::cpu
