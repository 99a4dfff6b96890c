// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/recurrent/gates.h"

#include <algorithm>
#include <cstring>

namespace lathe::cpu {

void load_floats(Isa isa, DType type, const void* from, int64_t n, float* to) {
  const PointwiseTable& table = pointwise_table(isa);
  if (type == DType::Float32)
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  else
    (type == DType::BFloat16 ? table.load_bf16 : table.load_f16)(static_cast<const uint16_t*>(from), to, n);
}

void store_floats(Isa isa, DType type, const float* from, int64_t n, void* to) {
  const PointwiseTable& table = pointwise_table(isa);
  if (type == DType::Float32)
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  else
    (type == DType::BFloat16 ? table.store_bf16 : table.store_f16)(from, static_cast<uint16_t*>(to), n);
}

RecurrentGates RecurrentGates::of(const Op& op, int64_t hidden, int64_t panel, Isa isa) {
  RecurrentGates gates;
  std::array<lathe::Activation, 3> kinds{};
  const auto read = [&](const auto& fields, Kind kind, int64_t count) {
    gates.kind = kind;
    gates.count = count;
    gates.clip = fields.clip;
    for (size_t i = 0; i < kinds.size(); ++i) {
      const auto parameter = [&](const std::vector<float>& v) { return i < v.size() ? v[i] : 0.0f; };
      gates.functions[i] = {kinds[i], parameter(fields.alpha), parameter(fields.beta)};
    }
  };
  if (const auto* rnn = std::get_if<RNN>(&op)) {
    kinds = {rnn->f};
    read(*rnn, Kind::Rnn, 1);
  } else if (const auto* gru = std::get_if<GRU>(&op)) {
    kinds = {gru->f, gru->g};
    read(*gru, Kind::Gru, 3);
    gates.linear_before_reset = gru->linear_before_reset;
  } else {
    const auto& lstm = std::get<LSTM>(op);
    kinds = {lstm.f, lstm.g, lstm.h};
    read(lstm, Kind::Lstm, 4);
    gates.input_forget = lstm.input_forget;
  }
  gates.hidden = hidden;
  gates.padded = (hidden + panel - 1) / panel * panel;
  gates.isa = isa;
  return gates;
}

void RecurrentGates::apply(size_t function, float* x) const {
  const PointwiseTable& t = pointwise_table(isa);
  const auto& [kind, alpha, beta] = functions[function];
  if (clip > 0) t.clip(x, x, hidden, -clip, clip);
  const auto run = [&](UnaryLoop loop) { loop(x, x, hidden, alpha, beta); };
  switch (kind) {
    case lathe::Activation::Relu:
      return run(t.relu);
    case lathe::Activation::Tanh:
      return run(t.tanh);
    case lathe::Activation::Sigmoid:
      return run(t.sigmoid);
    case lathe::Activation::Affine:
      return run(t.linear);
    case lathe::Activation::LeakyRelu:
      return run(t.leaky_relu);
    case lathe::Activation::ThresholdedRelu:
      return run(t.thresholded_relu);
    case lathe::Activation::ScaledTanh:
      t.linear(x, x, hidden, beta, 0);
      run(t.tanh);
      return t.linear(x, x, hidden, alpha, 0);
    case lathe::Activation::HardSigmoid:
      return run(t.hard_sigmoid);
    case lathe::Activation::Elu:
      return run(t.elu);
    case lathe::Activation::Softsign:
      return run(t.softsign);
    case lathe::Activation::Softplus:
      return run(t.softplus);
  }
}

void RecurrentGates::reset(float* in, const float* h, float* scaled) const {
  apply(0, in);
  apply(0, in + padded);
  if (!linear_before_reset) pointwise_table(isa).mul.vector_vector(h, in + padded, scaled, hidden);
}

void RecurrentGates::finish(float* in, const float* product, const MemberOperands& own, const float* h,
                            float* next, float* c) const {
  switch (kind) {
    case Kind::Rnn:
      apply(0, in);
      std::copy_n(in, hidden, next);
      return;
    case Kind::Gru:
      return finish_gru(in, product, own, h, next);
    case Kind::Lstm:
      return finish_lstm(in, own, next, c);
  }
}

// next = (1 - update) * fresh + update * h, as fresh + update * (h - fresh).
void RecurrentGates::finish_gru(float* in, const float* product, const MemberOperands& own, const float* h,
                                float* next) const {
  const PointwiseTable& t = pointwise_table(isa);
  float* fresh = in + 2 * padded;
  const float* given = product;
  if (linear_before_reset) {
    t.mul.vector_vector(product, in + padded, own.scratch, hidden);
    given = own.scratch;
  }
  t.add.vector_vector(fresh, given, fresh, hidden);
  apply(1, fresh);
  t.sub.vector_vector(h, fresh, next, hidden);
  t.mul.vector_vector(next, in, next, hidden);
  t.add.vector_vector(next, fresh, next, hidden);
}

// Gates: input, output, forget, cell; peepholes: input, output, forget.
void RecurrentGates::finish_lstm(float* in, const MemberOperands& own, float* h, float* c) const {
  const PointwiseTable& t = pointwise_table(isa);
  float *input = in, *output = in + padded, *forget = in + 2 * padded, *cell = in + 3 * padded;
  const auto look = [&](float* gate, int64_t peephole) {
    if (!own.has_peepholes) return;
    t.mul.vector_vector(own.peepholes + peephole * hidden, c, own.scratch, hidden);
    t.add.vector_vector(gate, own.scratch, gate, hidden);
  };
  look(input, 0);
  apply(0, input);
  if (input_forget) {
    t.linear(input, forget, hidden, -1, 1);
  } else {
    look(forget, 2);
    apply(0, forget);
  }
  apply(1, cell);
  t.mul.vector_vector(c, forget, c, hidden);
  t.mul.vector_vector(input, cell, input, hidden);
  t.add.vector_vector(c, input, c, hidden);
  look(output, 1);
  apply(0, output);
  std::copy_n(c, hidden, h);
  apply(2, h);
  t.mul.vector_vector(h, output, h, hidden);
}

}  // namespace lathe::cpu
