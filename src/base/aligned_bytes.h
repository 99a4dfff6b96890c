// SPDX-License-Identifier: Apache-2.0
//
// Bytes at an address that is a multiple of 64, as vector kernels want their weights.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace lathe {

class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Copies piece by piece and gives the memory of `bytes` back on the way, so that a large block exists once.
  explicit AlignedBytes(std::vector<std::byte> bytes);

  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Release {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Release> data_;
  size_t size_ = 0;
};

}  // namespace lathe
