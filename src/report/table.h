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
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Lines indented by two blanks, titles first.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string bytes_text(int64_t bytes);  // "97.5 MiB"
std::string count_text(int64_t count);  // "25.6 M"

}  // namespace lathe
