// SPDX-License-Identifier: Apache-2.0
//
// What a kernel does with a value on its way out, in registers.
#pragma once

#include <cstdint>

namespace lathe::cpu {

enum class Activation : uint8_t {
  Clamp /* low..high */,
  Silu /* x sigmoid(alpha x) */,
  SiluByDivision /* the same, for Machine::divides_quickly */,
  GeluErf,
  GeluTanh,
  HardSwish,
  RoundTo /* the nearest multiple of alpha, after the clamp */
};

// What happens to a value on its way out: activation(value + bias) or, operand_last, activation(value + bias)
// + operand; otherwise activation(value + bias + operand).
struct RegisterTail {
  Activation activation = Activation::Clamp;
  float low = -__builtin_inff(), high = __builtin_inff(), alpha = 1;
  bool operand_last = false;
  bool operator==(const RegisterTail&) const = default;
};

}  // namespace lathe::cpu
