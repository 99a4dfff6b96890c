// SPDX-License-Identifier: Apache-2.0
#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

// Characters, not bytes: UTF-8 continuation bytes take no column.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string scaled(double value, double step, const std::vector<std::string>& units) {
  size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} {}", value, units[0]) : fmt::format("{:.4g} {}", value, units[unit]);
}

}  // namespace

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& column : columns_) widths.push_back(width_of(column.title));
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  const auto line = [&](const auto& cell_of) {
    std::string row = " ";
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string pad(widths[i] - width_of(cell), ' ');
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
