// SPDX-License-Identifier: Apache-2.0
//
// A write goes to a new file in the same folder (so that the rename cannot cross file systems), is synced,
// and then renamed over the old one: a reader sees either the old contents or the new, even when the machine
// stops in between. Every system call is checked, because a full disk shows at write, sync or close. When a
// file size limit is set (RLIMIT_FSIZE), write() gives EFBIG only if the program ignores SIGXFSZ; the command
// line does. What exists and is not a regular file (/dev/null, a pipe) is written in place: renaming over it
// would destroy it.
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

std::string reason_of(int error) {
  if (error == ENOENT) return "no such file or folder";
  if (error == EFBIG) return "the file size limit was reached (ulimit -f)";
  if (error == ENOSPC) return "no space left on the disk";
  return std::generic_category().message(error);
}

[[noreturn]] void fail(std::string_view verb, const fs::path& path, int error) {
  throw_system_error(fmt::format("cannot {} '{}': {}", verb, path.string(), reason_of(error)));
}

int open_for_reading(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("open", path, errno);
  return fd;
}

struct stat status_of(int fd, const fs::path& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail("read", path, errno);
  if (S_ISDIR(status.st_mode)) fail("read", path, EISDIR);
  return status;
}

// Gathers small writes; big ones go straight through.
class DescriptorWriter final : public FileWriter {
 public:
  DescriptorWriter(int fd, const fs::path& path) : fd_(fd), path_(path) { buffer_.reserve(kBufferBytes); }

  using FileWriter::write;
  void write(std::span<const std::byte> bytes) override {
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) {
      write_all(bytes);
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
  }

  void flush() {
    write_all(buffer_);
    buffer_.clear();
  }

 private:
  static constexpr size_t kBufferBytes = 256 * 1024;

  void write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      if (written == 0) fail("write", path_, ENOSPC);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }

  int fd_;
  const fs::path& path_;
  std::vector<std::byte> buffer_;
};

void write_existing(const fs::path& path, const std::function<void(FileWriter&)>& body) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (file.get() < 0) fail("write", path, errno);
  DescriptorWriter writer(file.get(), path);
  body(writer);
  writer.flush();
  if (::close(file.release()) != 0) fail("write", path, errno);
}

// A new file beside `target`; the name is short, so that a long target name cannot make it too long.
std::pair<fs::path, int> create_beside(const fs::path& target, const fs::path& shown) {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const fs::path name = fmt::format(".{:08x}{:08x}.tmp", random(), random());
    fs::path path = target.parent_path() / name;
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return {std::move(path), fd};
    if (errno != EEXIST) fail("write", shown, errno);
  }
  fail("write", shown, EEXIST);
}

// Removes the temporary file unless it was renamed.
struct TemporaryFile {
  fs::path path;
  bool renamed = false;
  ~TemporaryFile() {
    if (!renamed) ::unlink(path.c_str());
  }
};

// The rename itself must reach the disk too. Not every file system can sync a folder; the data is safe in any
// case.
void sync_folder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  // O_NONBLOCK: a pipe without a writer must give an error, not wait for ever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail("open", path, errno);
  const struct stat status = status_of(file.get(), path);
  if (!S_ISREG(status.st_mode)) {
    throw_system_error(fmt::format("cannot open '{}': not a regular file", path.string()));
  }
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return mapped;  // mmap refuses empty files
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED)
    throw_system_error(
        fmt::format("cannot map the {} bytes of '{}': {}", size, path.string(), reason_of(errno)));
  mapped->bytes_ = {static_cast<const std::byte*>(data), size};
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void create_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && !fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) fail("create", path, error.value());
}

std::string read_file(const fs::path& path) {
  const Descriptor file(open_for_reading(path));
  const struct stat status = status_of(file.get(), path);
  std::string text;
  text.reserve(static_cast<size_t>(std::max<off_t>(status.st_size, 0)));
  std::vector<char> piece(256 * 1024);
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path, errno);
    if (count == 0) return text;
    text.append(piece.data(), static_cast<size_t>(count));
  }
}

void write_file_atomically(const fs::path& path, const std::function<void(FileWriter&)>& body) {
  std::error_code ignored;
  const fs::file_status old = fs::status(path, ignored);
  if (old.type() == fs::file_type::directory) fail("write", path, EISDIR);
  if (fs::exists(old) && !fs::is_regular_file(old)) return write_existing(path, body);

  // A link keeps pointing where it points: the file behind it is replaced.
  fs::path target = path;
  if (fs::is_symlink(path, ignored)) {
    if (fs::path real = fs::weakly_canonical(path, ignored); !ignored) target = std::move(real);
  }
  auto [name, fd] = create_beside(target, path);
  TemporaryFile temporary{std::move(name)};
  Descriptor file(fd);
  if (fs::exists(old)) ::fchmod(fd, static_cast<mode_t>(old.permissions()) & 07777);
  DescriptorWriter writer(fd, path);
  body(writer);
  writer.flush();
  if (::fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) fail("write", path, errno);
  if (::close(file.release()) != 0) fail("write", path, errno);
  if (::rename(temporary.path.c_str(), target.c_str()) != 0) fail("write", path, errno);
  temporary.renamed = true;
  sync_folder(target);
}

void write_file_in_place(const fs::path& path, const std::function<void(FileWriter&)>& body) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return write_existing(path, body);
  write_file_atomically(path, body);
}

void write_file_atomically(const fs::path& path, std::string_view contents) {
  write_file_atomically(path, [&](FileWriter& writer) { writer.write(contents); });
}

}  // namespace lathe
