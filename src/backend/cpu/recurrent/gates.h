// SPDX-License-Identifier: Apache-2.0
//
// The gates of a recurrent layer: what a step does with one sequence after its products, in vectors over the
// hidden values.
#pragma once

#include <array>

#include "backend/cpu/vector/pointwise_eval.h"
#include "ir/op.h"

namespace lathe::cpu {

void load_floats(Isa isa, DType type, const void* from, int64_t n, float* to);
void store_floats(Isa isa, DType type, const float* from, int64_t n, void* to);

struct RecurrentGates;

// A thread's own copies of small operands, as FP32; gates are `padded` floats apart.
struct MemberOperands {
  float* bias;        // added to what x gives
  float* state_bias;  // added to what the state gives; only the last gate's counts, where it is separate
  float* peepholes;
  float* scratch;  // one gate
  bool has_peepholes = false;

  const float* last_start(const RecurrentGates& gates) const;
};

struct RecurrentGates {
  enum class Kind : uint8_t { Rnn, Gru, Lstm };
  struct Function {
    lathe::Activation kind = lathe::Activation::Tanh;
    float alpha = 0, beta = 0;
  };

  Kind kind = Kind::Rnn;
  int64_t count = 1, hidden = 0, padded = 0;  // gates; values of one; the same, filled up to whole panels
  std::array<Function, 3> functions{};
  float clip = 0;
  bool linear_before_reset = false, input_forget = false;
  Isa isa = Isa::Avx2;

  static RecurrentGates of(const Op& op, int64_t hidden, int64_t panel, Isa isa);
  bool is_gru() const { return kind == Kind::Gru; }
  // The last gate's product with the state is scaled by another gate before it is added.
  bool separates_last() const { return is_gru() && linear_before_reset; }

  // GRU: makes the update and the reset gate of `in`, and `scaled` = h times the reset gate.
  void reset(float* in, const float* h, float* scaled) const;
  // `next` (the new h, which may replace h) and the new c of one sequence. `in`: its gates; `product`: of a
  // GRU, what the state gives to the last gate.
  void finish(float* in, const float* product, const MemberOperands& own, const float* h, float* next,
              float* c) const;

 private:
  void apply(size_t function, float* x) const;
  void finish_gru(float* in, const float* product, const MemberOperands& own, const float* h,
                  float* next) const;
  void finish_lstm(float* in, const MemberOperands& own, float* h, float* c) const;
};

inline const float* MemberOperands::last_start(const RecurrentGates& gates) const {
  // Without linear_before_reset this bias is in `bias` already.
  return gates.separates_last() ? state_bias + 2 * gates.padded : nullptr;
}

}  // namespace lathe::cpu
