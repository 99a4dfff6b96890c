// SPDX-License-Identifier: Apache-2.0
//
// The float types that kernels read from memory.
#pragma once

#include <cstdint>

namespace lathe::cpu {

enum class Stored : uint8_t { F32, BF16, F16 };

}  // namespace lathe::cpu
