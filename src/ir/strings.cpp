// SPDX-License-Identifier: Apache-2.0
#include "ir/strings.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lathe {

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 28;

int64_t count_of(const Extents& extents) {
  check(!extents.empty(), "strings are bytes with a dim of their own");
  return element_count(Extents(extents.begin(), extents.end() - 1));
}

}  // namespace

Strings::Strings(const char* bytes, const Extents& extents)
    : bytes_(bytes), count_(count_of(extents)), width_(extents.back()) {}

Strings::Strings(const Tensor& tensor)
    : Strings(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.extents()) {
  check(tensor.dtype() == DType::UInt8, "strings are bytes");
}

std::string_view Strings::operator[](int64_t i) const {
  check(i >= 0 && i < count_, "a string outside of its tensor");
  const std::string_view all(bytes_ + i * width_, static_cast<size_t>(width_));
  return all.substr(0, all.find_last_not_of('\0') + 1);  // where all are zero, npos + 1 is 0
}

void put_string(const StringRows& rows, int64_t i, std::string_view string) {
  const int64_t width = rows.extents.back();
  check(i >= 0 && i < count_of(rows.extents) && static_cast<int64_t>(string.size()) <= width,
        "a string outside of its tensor");
  char* to = rows.bytes + i * width;
  std::fill(std::ranges::copy(string, to).out, to + width, '\0');
}

Tensor strings_tensor(Extents extents, std::span<const std::string_view> strings) {
  const int64_t count = element_count(extents);
  if (count != static_cast<int64_t>(strings.size()))
    throw_input_error("there are " + std::to_string(strings.size()) + " strings for " + to_string(extents));
  int64_t width = 1;
  for (const std::string_view string : strings) width = std::max(width, static_cast<int64_t>(string.size()));
  if (count > 0 && width > kMostBytes / count)
    throw_input_error(std::to_string(count) + " strings of up to " + std::to_string(width) +
                      " bytes are more than " + std::to_string(kMostBytes) +
                      " bytes: each takes as many as the longest");
  extents.push_back(width);
  Tensor tensor = Tensor::allocate(DType::UInt8, extents);
  const StringRows rows{reinterpret_cast<char*>(tensor.mutable_bytes().data()), tensor.extents()};
  for (int64_t i = 0; i < count; ++i) put_string(rows, i, strings[static_cast<size_t>(i)]);
  return tensor;
}

}  // namespace lathe
