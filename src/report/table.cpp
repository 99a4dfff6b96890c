// SPDX-License-Identifier: Apache-2.0
#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/short_text.h"

namespace lathe {
namespace {

std::string scaled(double value, double step, const std::vector<std::string>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} {}", value, units[0]) : fmt::format("{:.4g} {}", value, units[unit]);
}

}  // namespace

// The column with most to spare gives way, character by character.
void Table::shrink(std::vector<size_t>& widths, size_t width) const {
  size_t total = 2 * widths.size();
  for (const size_t w : widths) total += w;
  const auto spare = [&](size_t i) {
    return columns_[i].least > 0 && widths[i] > columns_[i].least ? widths[i] - columns_[i].least : 0;
  };
  while (width > 0 && total > width) {
    size_t most = 0;
    for (size_t i = 1; i < widths.size(); ++i)
      if (spare(i) > spare(most)) most = i;
    if (spare(most) == 0) return;
    --widths[most];
    --total;
  }
}

std::string Table::text(size_t width) const {
  std::vector<size_t> widths;
  for (const auto& column : columns_) widths.push_back(text_width(column.title));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], text_width(row[i]));
  }
  shrink(widths, width);
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string row = " ";
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = shorten(cell_of(i), widths[i]);
      const std::string pad(widths[i] - text_width(cell), ' ');
      row += i == 0 ? " " : "  ";
      row += columns_[i].align == Align::Right ? pad + cell : cell + pad;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  };
  line([&](size_t i) -> const std::string& { return columns_[i].title; });
  const std::string none;
  for (const auto& row : rows_) {
    line([&](size_t i) -> const std::string& { return i < row.size() ? row[i] : none; });
  }
  return text;
}

std::string bytes_text(int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {"bytes", "KiB", "MiB", "GiB", "TiB"});
}

std::string count_text(int64_t count) {
  std::string text = scaled(static_cast<double>(count), 1000, {"", "K", "M", "G"});
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace lathe
