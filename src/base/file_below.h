// SPDX-License-Identifier: Apache-2.0
//
// Files that others name: a path is followed once, by the kernel, and cannot lead out of its folder, not even
// when somebody changes links at the same time. Bytes are read, not mapped: a file that becomes shorter gives
// an error and no signal.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace lathe {

class FileBelow {
 public:
  // Throws Input when there is no such file below the folder; the text is part of a sentence about
  // `relative`.
  FileBelow(const std::filesystem::path& folder, const std::filesystem::path& relative);
  ~FileBelow();
  FileBelow(const FileBelow&) = delete;
  FileBelow& operator=(const FileBelow&) = delete;

  // When it was opened.
  size_t bytes() const { return bytes_; }
  // Fills `out`. Throws System when the file has become too short or cannot be read.
  void read(size_t offset, std::span<std::byte> out) const;

 private:
  std::string name_;
  int fd_ = -1;
  size_t bytes_ = 0;
};

}  // namespace lathe
