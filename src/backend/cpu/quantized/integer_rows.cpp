// SPDX-License-Identifier: Apache-2.0
//
// What lies beside an image is the number zero: with pairs the integer 0, from which the zero point is
// already subtracted, else the zero point. What a segment reads beyond its integers meets weights of 0, but
// has to be memory of the tensor or of the copy.
#include "backend/cpu/quantized/integer_rows.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "backend/cpu/vector/own_tactic.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kSlack = 64;  // bytes that a segment reads beyond its integers, at most

int64_t product(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<int64_t> segment_lengths(const std::vector<int64_t>& kernel,
                                     const std::vector<int64_t>& dilations, int64_t group_channels,
                                     int64_t groups) {
  const bool whole_lines = groups == 1 && (dilations.empty() || dilations.back() == 1);
  const int64_t taps = product(kernel), in_one = whole_lines ? kernel.back() : 1;
  return std::vector<int64_t>(static_cast<size_t>(taps / in_one), in_one * group_channels);
}

int64_t padded_groups(const IntegerTable& table, int64_t length) {
  return round_up(length, table.per_group * table.group_multiple) / table.per_group;
}

// --- matrices

IntegerRows::IntegerRows(const IntegerTable& table, int64_t count, int64_t depth, uint8_t zero)
    : table_(table),
      zero_(zero),
      element_bytes_(4 / table.per_group),
      // Rows 4 KB apart share one set of L1.
      in_place_(table.per_group == 4 && (depth % 4096 != 0 || table.group_multiple > 1)),
      count_(count),
      depth_(depth),
      units_per_image_((count + table.tile_rows - 1) / table.tile_rows),
      unit_rows_(table.tile_rows),
      unit_runs_((table.tile_rows + table.run_rows - 1) / table.run_rows),
      unit_input_bytes_(unit_rows_ * depth),
      stride_(depth * element_bytes_),
      segments_{{0, padded_groups(table, depth)}} {
  if (count == 0) images_ = 0, units_per_image_ = 1;
  if (!in_place_ && stride_ % 1024 == 0) stride_ += 64;
}

// In place where nothing beyond the tensor is read: the last rows may have to be copied.
int64_t IntegerRows::collect_matrix(const uint8_t* x, int64_t first, int64_t count, std::byte* copy_to,
                                    RowRun* runs) const {
  const int64_t begin = first_row(first), end = first_row(first + count), read = segments_[0].groups * 4;
  const int64_t safe = in_place_ ? std::min(end, count_ - (read - 1) / depth_) : begin;
  int64_t done = 0;
  if (safe > begin)
    done = add_runs(reinterpret_cast<const std::byte*>(x + begin * depth_), 0, safe - begin, runs);
  const int64_t rest = std::max(safe, begin);
  std::byte* to = copy_to;
  for (int64_t r = rest; r < end; ++r, to += stride_) copy(x + r * depth_, depth_, to);
  return done + add_runs(copy_to, rest - begin, end - rest, runs + done);
}

// --- windows

IntegerRows::IntegerRows(const IntegerTable& table, int64_t batch, std::vector<WindowAxis> axes,
                         int64_t channels, int64_t groups, uint8_t zero)
    : table_(table),
      zero_(zero),
      element_bytes_(4 / table.per_group),
      images_(batch),
      axes_(std::move(axes)),
      channels_(channels),
      group_channels_(channels / groups) {
  std::vector<int64_t> kernel, dilations;
  bool borders = false;
  int64_t inner = 1;  // results of a place of the outermost axis
  for (size_t d = 0; d < axes_.size(); ++d) {
    kernel.push_back(axes_[d].kernel);
    dilations.push_back(axes_[d].dilation);
    borders = borders || axes_[d].pad_begin > 0 || needed(d) > axes_[d].input;
    if (d > 0) inner *= axes_[d].output;
  }
  const std::vector<int64_t> lengths = segment_lengths(kernel, dilations, group_channels_, groups);
  in_place_ = table.per_group == 4 && !borders && padded_groups(table, lengths[0]) * 4 == lengths[0];

  steps_.assign(axes_.size(), channels_ * element_bytes_);
  for (size_t d = axes_.size() - 1; d > 0; --d)
    steps_[d - 1] = steps_[d] * (in_place_ ? axes_[d].input : needed(d));
  stride_ = steps_.back() * axes_.back().stride;
  const int64_t line = axes_.back().output;
  const bool one_axis = axes_.size() == 1;
  unit_rows_ = one_axis ? 4 * table.tile_rows : inner;
  units_per_image_ = std::max<int64_t>(1, one_axis ? (line + unit_rows_ - 1) / unit_rows_ : axes_[0].output);
  const int64_t in_line = one_axis ? unit_rows_ : line;
  unit_runs_ = unit_rows_ / std::max<int64_t>(1, in_line) * ((in_line + table.run_rows - 1) / table.run_rows);
  unit_input_bytes_ = steps_[0] / element_bytes_ * axes_[0].stride * (one_axis ? unit_rows_ : 1);
  count_ = batch * axes_[0].output * inner;
  if (count_ == 0) images_ = 0;

  for (size_t i = 0; i < lengths.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i) * (lengths[0] / group_channels_), offset = 0;
    for (size_t d = axes_.size(); d-- > 0; rest /= axes_[d].kernel)
      offset += rest % axes_[d].kernel * axes_[d].dilation * steps_[d];
    segments_.push_back({offset, padded_groups(table, lengths[i])});
  }
}

int64_t IntegerRows::needed(size_t axis) const {
  const WindowAxis& a = axes_[axis];
  return std::max<int64_t>(0, (a.output - 1) * a.stride + (a.kernel - 1) * a.dilation + 1);
}

int64_t IntegerRows::first_row(int64_t unit) const {
  const int64_t of_image = images_ > 0 ? count_ / images_ : 0;
  return unit / units_per_image_ * of_image + std::min(of_image, unit % units_per_image_ * unit_rows_);
}

int64_t IntegerRows::copied_bytes(int64_t units) const {
  if (axes_.empty()) return units * unit_rows_ * stride_ + kSlack;
  if (in_place_) return 0;
  const WindowAxis& a = axes_[0];
  const int64_t places = units * a.stride * (axes_.size() == 1 ? unit_rows_ : 1);
  return (places + images(units) * ((a.kernel - 1) * a.dilation + 1)) * steps_[0] + kSlack;
}

int64_t IntegerRows::collect(const uint8_t* x, int64_t first, int64_t count, std::byte* copy_to,
                             RowRun* runs) const {
  if (axes_.empty()) return collect_matrix(x, first, count, copy_to, runs);
  int64_t image_bytes = channels_, done = 0;
  for (const WindowAxis& a : axes_) image_bytes *= a.input;
  const int64_t start = first_row(first), per_unit = axes_.size() == 1 ? unit_rows_ : 1;
  const int64_t lines = axes_.size() == 3 ? axes_[1].output : 1;  // of a place, each a run or several
  for (int64_t unit = first; unit < first + count;) {
    const int64_t image = unit / units_per_image_, in_image = unit % units_per_image_,
                  units = std::min(first + count - unit, units_per_image_ - in_image);
    const int64_t begin = in_image * per_unit, end = std::min(axes_[0].output, (in_image + units) * per_unit);
    const uint8_t* const from = x + image * image_bytes;
    const std::byte* at = copy_to;
    if (in_place_)
      at = reinterpret_cast<const std::byte*>(from) + begin * axes_[0].stride * steps_[0];
    else
      copy_to = copy_places(from, begin, end, copy_to);
    int64_t row = first_row(unit) - start;
    if (axes_.size() == 1) done += add_runs(at, row, end - begin, runs + done);
    for (int64_t place = begin; axes_.size() > 1 && place < end; ++place)
      for (int64_t line = 0; line < lines; ++line, row += axes_.back().output) {
        const int64_t offset = (place - begin) * axes_[0].stride * steps_[0] +
                               (lines > 1 ? line * axes_[1].stride * steps_[1] : 0);
        done += add_runs(at + offset, row, axes_.back().output, runs + done);
      }
    unit += units;
  }
  return done;
}

// As few runs as can be, of nearly the same length.
int64_t IntegerRows::add_runs(const std::byte* at, int64_t row, int64_t rows, RowRun* runs) const {
  const int64_t count = (rows + table_.run_rows - 1) / table_.run_rows;
  for (int64_t i = 0, begin = 0; i < count; ++i) {
    const int64_t end = rows * (i + 1) / count;
    runs[i] = {at + begin * stride_, end - begin, row + begin};
    begin = end;
  }
  return count;
}

std::byte* IntegerRows::copy_places(const uint8_t* image, int64_t begin, int64_t end, std::byte* to) const {
  const WindowAxis& a = axes_[0];
  const int64_t first = begin * a.stride - a.pad_begin,
                last = (end - 1) * a.stride - a.pad_begin + (a.kernel - 1) * a.dilation + 1;
  int64_t place_bytes = channels_;
  for (size_t d = 1; d < axes_.size(); ++d) place_bytes *= axes_[d].input;
  if (axes_.size() > 1) {
    for (int64_t i = first; i < last; ++i)
      to = i >= 0 && i < a.input ? copy_lines(image + i * place_bytes, 1, to)
                                 : pad(steps_[0] / element_bytes_, to);
    return to;
  }
  const int64_t from = std::clamp<int64_t>(first, 0, a.input),
                upto = std::clamp<int64_t>(last, from, a.input);
  to = pad(std::max<int64_t>(0, std::min(last, from) - first) * channels_, to);
  to = copy(image + from * channels_, (upto - from) * channels_, to);
  return pad(std::max<int64_t>(0, last - std::max(first, upto)) * channels_, to);
}

// A place of the axis before `axis`.
std::byte* IntegerRows::copy_lines(const uint8_t* from, size_t axis, std::byte* to) const {
  const WindowAxis& a = axes_[axis];
  int64_t place_bytes = channels_;
  for (size_t d = axis + 1; d < axes_.size(); ++d) place_bytes *= axes_[d].input;
  const int64_t before = std::min(a.pad_begin, needed(axis)),
                inside = std::clamp<int64_t>(needed(axis) - before, 0, a.input),
                after = needed(axis) - before - inside, each = steps_[axis] / element_bytes_;
  to = pad(before * each, to);
  if (axis + 1 == axes_.size())
    to = copy(from, inside * channels_, to);
  else
    for (int64_t i = 0; i < inside; ++i) to = copy_lines(from + i * place_bytes, axis + 1, to);
  return pad(after * each, to);
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
