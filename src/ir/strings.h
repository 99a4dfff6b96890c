// SPDX-License-Identifier: Apache-2.0
//
// Strings in memory: a tensor of strings (...) is a tensor uint8 (..., bytes) of their UTF-8 bytes, with
// zeros behind each string's end, as NumPy keeps them. So a string has no zero byte at its end.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor.h"

namespace lathe {

// What is read: the last of `extents` is the dim of bytes.
class Strings {
 public:
  Strings(const char* bytes, const Extents& extents);
  explicit Strings(const Tensor& tensor);  // uint8; must live as long
  int64_t count() const { return count_; }
  std::string_view operator[](int64_t i) const;

 private:
  const char* bytes_;
  int64_t count_, width_;
};

// What is written.
struct StringRows {
  char* bytes;
  const Extents& extents;
};
// Writes string i and zeros behind it. It must fit.
void put_string(const StringRows& rows, int64_t i, std::string_view string);

// Strings of these extents as a tensor with one dim more, of the longest's bytes, 1 at least. Throws Input
// where they are not as many, or would take more than 256 MB: one long string widens all.
Tensor strings_tensor(Extents extents, std::span<const std::string_view> strings);

}  // namespace lathe
