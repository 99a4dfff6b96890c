// SPDX-License-Identifier: Apache-2.0
//
// One step of LinearAttention for some columns of a state, one table per instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct LinearStep {
  int64_t keys = 0;               // rows of the state
  const float* key = nullptr;     // of each row
  const float* value = nullptr;   // of each column
  const float* decays = nullptr;  // factors of the rows; null: none
  bool corrects =
      false;  // writes what the state gets wrong about the value, times beta, instead of the value
  float beta = 1, scale = 1;
  const float* queries = nullptr;  // [head][row]
  int64_t heads = 1;
  float* results = nullptr;  // [head][column]
};

struct LinearAttentionTable {
  int64_t columns;  // of a state that is [row][columns]
  void (*step)(const LinearStep& step, float* state);
};

const LinearAttentionTable& linear_attention_table_avx2();
const LinearAttentionTable& linear_attention_table_avx512();

}  // namespace lathe::cpu
