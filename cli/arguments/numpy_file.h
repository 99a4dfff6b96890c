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

// The array of a .npy file. `source` names it in messages. Throws Input.
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view source);

// The entry `name` (or the only one) of a .npz file; `limit_bytes` bounds its unpacked size. Throws Input,
// System.
Tensor read_npz(const std::filesystem::path& path, std::string_view name, size_t limit_bytes);

}  // namespace lathe::cli
