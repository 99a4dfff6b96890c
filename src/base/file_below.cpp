// SPDX-License-Identifier: Apache-2.0
//
// openat2 (Linux 5.6) with RESOLVE_BENEATH does it all, links inside of the folder included. Older kernels
// and some sandboxes do not have it: there each part of the path is opened below the one before it, and links
// are refused.
#include "base/file_below.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/descriptor.h"
#include "base/error.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

// O_NONBLOCK: a pipe without a writer must give an error, not wait for ever.
constexpr int kRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

[[noreturn]] void refuse(const fs::path& folder, const fs::path& relative, int error) {
  const std::string name = relative.string();
  if (error == EXDEV) throw_input_error(fmt::format("location '{}' leads out of the model's folder", name));
  if (error == ELOOP)
    throw_input_error(
        fmt::format("location '{}' goes through a link, which cannot be followed safely here", name));
  throw_input_error(fmt::format("cannot find '{}' in '{}' ({}); copy it beside the model", name,
                                folder.string(), std::generic_category().message(error)));
}

int open_part_by_part(int folder, const fs::path& relative) {
  Descriptor at(::dup(folder));
  for (auto part = relative.begin(); part != relative.end() && at.is_open();) {
    if (*part == "..") return errno = EXDEV, -1;
    const fs::path name = *part;
    const bool last = ++part == relative.end();
    Descriptor next(::openat(at.get(), name.c_str(), kRead | O_NOFOLLOW | (last ? 0 : O_DIRECTORY)));
    at.reset(next.release());
  }
  return at.release();
}

}  // namespace

FileBelow::FileBelow(const fs::path& folder, const fs::path& relative) : name_(relative.string()) {
  const Descriptor base(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base.is_open()) refuse(folder, relative, errno);
  open_how how{};
  how.flags = kRead;
  how.resolve = RESOLVE_BENEATH;
  Descriptor file(static_cast<int>(::syscall(SYS_openat2, base.get(), relative.c_str(), &how, sizeof how)));
  if (!file.is_open() && (errno == ENOSYS || errno == EPERM || errno == EINVAL))
    file.reset(open_part_by_part(base.get(), relative));
  if (!file.is_open()) refuse(folder, relative, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse(folder, relative, errno);
  if (!S_ISREG(status.st_mode)) throw_input_error(fmt::format("'{}' is not a file", name_));
  bytes_ = static_cast<size_t>(status.st_size);
  fd_ = file.release();
}

FileBelow::~FileBelow() {
  ::close(fd_);
}

void FileBelow::read(size_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw_system_error(fmt::format("cannot read '{}': {}", name_, std::generic_category().message(errno)));
    if (count == 0)
      throw_system_error(
          fmt::format("'{}' became shorter while it was read: it ends at byte {} now", name_, offset));
    out = out.subspan(static_cast<size_t>(count));
    offset += static_cast<size_t>(count);
  }
}

}  // namespace lathe
