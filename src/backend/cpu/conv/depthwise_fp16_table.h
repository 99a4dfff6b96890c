// SPDX-License-Identifier: Apache-2.0
//
// The inside of a DepthwiseBlock in FP16: 32 channels to a vector.
#pragma once

#include "backend/cpu/conv/depthwise_table.h"
#include "backend/cpu/tile/amx_table.h"

namespace lathe::cpu {

struct DepthwiseFp16Table {
  DepthwiseTable window;  // from FP16 pixels that follow one another to BF16
  // For AmxProduct::finish_rows: sums of one panel through the product's activation to FP16, whole panels of
  // 32. With `tracked` finish_state is the largest result so far of each of 32 columns (FP16); activations
  // without an upper bound are always tracked. Null: not one that FP16 has (GELU).
  AmxProduct::FinishRows (*expansion)(const RegisterTail& tail, bool tracked);
};

const DepthwiseFp16Table& depthwise_fp16_table();

}  // namespace lathe::cpu
