// SPDX-License-Identifier: Apache-2.0
//
// Owns a file descriptor and closes it on every way out.
#pragma once

#include <unistd.h>

#include <utility>

namespace lathe {

// A negative number stands for no file.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(-1); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Hands the close (and its error) to the caller.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

}  // namespace lathe
