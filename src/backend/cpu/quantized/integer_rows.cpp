// SPDX-License-Identifier: Apache-2.0
//
// What lies beside an image is the number zero: with pairs the integer 0, from which the zero point is
// already subtracted, else the zero point.
#include "backend/cpu/quantized/integer_rows.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

int64_t padded_bytes(const IntegerTable& table, int64_t depth) {
  return round_up(depth, table.per_group * table.group_multiple) / table.per_group * 4;
}

// Rows a power of two apart would share the sets of a cache.
int64_t apart(int64_t bytes) {
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

}  // namespace

IntegerRows::IntegerRows(const IntegerTable& table, int64_t count, int64_t depth, uint8_t zero)
    : table_(table),
      zero_(zero),
      count_(count),
      depth_(depth),
      row_bytes_(apart(padded_bytes(table, depth))),
      element_bytes_(4 / table.per_group) {
  in_place_ = table.per_group == 4 && padded_bytes(table, depth) == depth;
  if (in_place_) row_bytes_ = depth;
}

IntegerRows::IntegerRows(const IntegerTable& table, int64_t batch, std::vector<WindowAxis> axes,
                         int64_t channels, int64_t groups, uint8_t zero)
    : table_(table),
      zero_(zero),
      count_(batch),
      element_bytes_(4 / table.per_group),
      axes_(std::move(axes)),
      channels_(channels),
      group_channels_(channels / groups) {
  int64_t taps = 1;
  for (const WindowAxis& axis : axes_) {
    count_ *= axis.output;
    taps *= axis.kernel;
  }
  lines_ = taps / axes_.back().kernel;
  depth_ = taps * group_channels_;
  row_bytes_ = apart(padded_bytes(table, depth_));
}

void IntegerRows::collect(const uint8_t* x, int64_t first, int64_t count, int64_t group,
                          std::byte* to) const {
  const int64_t used = depth_ * element_bytes_;
  for (int64_t r = 0; r < count; ++r, to += row_bytes_) {
    if (axes_.empty())
      copy(x + (first + r) * depth_, depth_, to);
    else
      collect_window(x, place_of(first + r), group, to);
    std::memset(to + used, 0, static_cast<size_t>(row_bytes_ - used));
  }
}

IntegerRows::Place IntegerRows::place_of(int64_t row) const {
  Place place;
  for (size_t d = axes_.size(); d-- > 0; row /= axes_[d].output)
    place.at[d] = row % axes_[d].output * axes_[d].stride - axes_[d].pad_begin;
  place.image = row;
  return place;
}

// Line by line of the window: a line is what it has along the last axis.
void IntegerRows::collect_window(const uint8_t* x, const Place& place, int64_t group, std::byte* to) const {
  const size_t outer = axes_.size() - 1;
  for (int64_t line = 0; line < lines_; ++line) {
    int64_t rest = line, offset = 0, stride = axes_.back().input * channels_;
    bool inside = true;
    for (size_t d = outer; d-- > 0; rest /= axes_[d].kernel) {
      const int64_t at = place.at[d] + rest % axes_[d].kernel * axes_[d].dilation;
      inside = inside && at >= 0 && at < axes_[d].input;
      offset += at * stride;
      stride *= axes_[d].input;
    }
    to = inside ? collect_line(x + place.image * stride + offset, place.at[outer], group, to)
                : pad(axes_.back().kernel * group_channels_, to);
  }
}

std::byte* IntegerRows::collect_line(const uint8_t* line, int64_t left, int64_t group, std::byte* to) const {
  const WindowAxis& axis = axes_.back();
  if (axis.dilation == 1 && group_channels_ == channels_) {
    const int64_t before = std::clamp<int64_t>(-left, 0, axis.kernel),
                  end = std::clamp<int64_t>(axis.input - left, before, axis.kernel);
    if (before > 0) to = pad(before * channels_, to);
    if (end > before) to = copy(line + (left + before) * channels_, (end - before) * channels_, to);
    return end < axis.kernel ? pad((axis.kernel - end) * channels_, to) : to;
  }
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const int64_t at = left + tap * axis.dilation;
    to = at >= 0 && at < axis.input
             ? copy(line + at * channels_ + group * group_channels_, group_channels_, to)
             : pad(group_channels_, to);
  }
  return to;
}

std::byte* IntegerRows::copy(const uint8_t* from, int64_t count, std::byte* to) const {
  if (table_.per_group == 2)
    table_.widen(from, count, zero_, reinterpret_cast<int16_t*>(to));
  else
    std::memcpy(to, from, static_cast<size_t>(count));
  return to + count * element_bytes_;
}

std::byte* IntegerRows::pad(int64_t count, std::byte* to) const {
  const auto bytes = static_cast<size_t>(count * element_bytes_);
  std::memset(to, table_.per_group == 2 ? 0 : zero_, bytes);
  return to + bytes;
}

}  // namespace lathe::cpu
