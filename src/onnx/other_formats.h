// SPDX-License-Identifier: Apache-2.0
//
// Files that people take for ONNX models: each is told by its first bytes, and gets the way to convert it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace lathe::onnx {

// What the file is and what to do, as a sentence; empty when it may be an ONNX model.
std::string_view how_to_convert(std::span<const std::byte> bytes);

}  // namespace lathe::onnx
