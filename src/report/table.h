// SPDX-License-Identifier: Apache-2.0
//
// Tables with aligned columns, and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe {

class Table {
 public:
  enum class Align : uint8_t { Left, Right };
  struct Column {
    std::string title;
    Align align = Align::Left;
    size_t least = 0;  // may be cut to so many characters where the table is too wide; 0: never
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines indented by two blanks, titles first; at most `width` characters each, as far as columns may be cut
  // (0: no limit).
  std::string text(size_t width = 0) const;

 private:
  void shrink(std::vector<size_t>& widths, size_t width) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string bytes_text(int64_t bytes);  // "97.5 MiB"
std::string count_text(int64_t count);  // "25.6 M"

}  // namespace lathe
