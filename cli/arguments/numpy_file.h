// SPDX-License-Identifier: Apache-2.0
//
// Arrays from .npy and .npz files. Nothing in a file is trusted: every size is checked against what is there
// before it is used. The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "ir/tensor.h"

namespace lathe::cli {

struct NumpyArray {
  Tensor tensor;
  // It was strings (S or U): the tensor is uint8 with a dim more, their bytes in UTF-8 and zeros behind each
  // end, as long as the longest.
  bool has_strings = false;
};

// The array of a .npy file. `source` names it in messages. Throws Input.
NumpyArray parse_npy(std::span<const std::byte> bytes, std::string_view source);

// The entry `name` (or the only one) of a .npz file; `limit_bytes` bounds its unpacked size. Throws Input,
// System.
NumpyArray read_npz(const std::filesystem::path& path, std::string_view name, size_t limit_bytes);

}  // namespace lathe::cli
