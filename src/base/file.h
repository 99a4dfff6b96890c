// SPDX-License-Identifier: Apache-2.0
//
// Files: read-only memory maps, whole reads, writes that either finish or leave the old file as it was, and
// writes in place.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

// A file mapped read-only. Shared, because tensors keep pointing into it.
class MappedFile {
 public:
  // Throws a System error that names the file and the reason.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
};

// Throws a System error that names the file.
std::string read_file(const std::filesystem::path& path);

// The folder and those above it, as far as they do not exist. Throws a System error that names it and the
// reason.
void create_folders(const std::filesystem::path& path);

// Receives the pieces of a file in order.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
};

// Calls `body` with a writer to a temporary file beside `path`, syncs it and renames it over `path`. On any
// failure (a full disk, a file size limit, an exception from `body`) the temporary file is removed, the old
// file stays, and an error that names `path` is thrown.
void write_file_atomically(const std::filesystem::path& path, const std::function<void(FileWriter&)>& body);
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

// The same, but a file that exists is emptied and written where it is, for files that somebody may hold open:
// who opened it before reads the new contents, and its links stay. A failure then leaves what was written so
// far.
void write_file_in_place(const std::filesystem::path& path, const std::function<void(FileWriter&)>& body);

}  // namespace lathe
