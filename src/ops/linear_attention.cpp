// SPDX-License-Identifier: Apache-2.0
//
// LinearAttention: attention with a state of K x V numbers per head instead of a cache. Each step lets the
// state decay, writes the outer product of key and value (or of what the state gets wrong about the value:
// the delta rules) and reads it with the query.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

enum LinearAttentionInput : size_t { kQ, kK, kV, kPast, kDecay, kBeta };

bool is_gated(LinearAttentionRule rule) {
  return rule == LinearAttentionRule::Gated || rule == LinearAttentionRule::GatedDelta;
}
bool is_delta(LinearAttentionRule rule) {
  return rule == LinearAttentionRule::Delta || rule == LinearAttentionRule::GatedDelta;
}

Dim per_head(const Dim& width, int64_t heads, std::string_view what) {
  const auto each = width.exact_div(heads);
  if (!each)
    throw_input_error("a width of " + width.to_string() + " of " + std::string(what) + " is not made of " +
                      std::to_string(heads) + " heads");
  return *each;
}

// An input that the rule needs has one of two widths; one that it does not need must be absent.
void check_gate(const InferContext& context, size_t input, bool needed, std::string_view name, int64_t narrow,
                const Dim& wide) {
  if (context.has(input) != needed)
    throw_input_error(std::string("the rule ") + (needed ? "needs " : "has no use for ") + std::string(name));
  if (!needed) return;
  expect_rank(context, input, name, 3);
  const Shape& q = context.input(kQ).shape;
  const Dim& width = context.input(input).shape[2];
  expect_shape(context, input, name, {q[0], q[1], width.is_constant(narrow) ? Dim(narrow) : wide});
}

std::vector<ResultInfo> infer_linear_attention(const LinearAttention& op, const InferContext& context) {
  if (op.kv_heads < 1 || op.q_heads < 1 || op.q_heads % op.kv_heads != 0)
    throw_input_error(std::to_string(op.q_heads) + " query heads are no multiple of " +
                      std::to_string(op.kv_heads) + " key heads");
  expect_real(context, kQ, "q");
  for (const size_t input : {kQ, kK, kV}) expect_rank(context, input, "q, k and v", 3);
  const Value& q = context.input(kQ);
  const Dim key = per_head(q.shape[2], op.q_heads, "q"),
            value = per_head(context.input(kV).shape[2], op.kv_heads, "v");
  expect_shape(context, kK, "k", {q.shape[0], q.shape[1], key * op.kv_heads});
  expect_shape(context, kV, "v", {q.shape[0], q.shape[1], value * op.kv_heads});
  const Shape state = {q.shape[0], op.kv_heads, key, value};
  if (context.has(kPast)) expect_shape(context, kPast, "the past state", state);
  check_gate(context, kDecay, is_gated(op.rule), "decay", op.kv_heads, key * op.kv_heads);
  check_gate(context, kBeta, is_delta(op.rule), "beta", 1, op.kv_heads);
  return {{q.dtype, {q.shape[0], q.shape[1], value * op.q_heads}},
          {context.has(kPast) ? context.input(kPast).dtype : q.dtype, state}};
}

struct Sizes {
  int64_t steps, key, value;
};

// One state, K x V.
using KeyValueState = std::vector<double>;

void decay_state(KeyValueState& state, const double* decay, bool per_key, const Sizes& sizes) {
  for (int64_t i = 0; i < sizes.key; ++i) {
    const double factor = std::exp(decay[per_key ? i : 0]);
    for (int64_t j = 0; j < sizes.value; ++j) state[static_cast<size_t>(i * sizes.value + j)] *= factor;
  }
}

// out += state^T v
void read_state(const KeyValueState& state, const double* v, const Sizes& sizes, double scale, double* out) {
  for (int64_t i = 0; i < sizes.key; ++i)
    for (int64_t j = 0; j < sizes.value; ++j)
      out[j] += scale * v[i] * state[static_cast<size_t>(i * sizes.value + j)];
}

struct LinearAttentionOperands {
  std::vector<double> q, k, v, decay, beta;
  int64_t decay_width = 0, beta_width = 0;
};

// All steps of one head of keys and the heads of queries that read it.
void run_head(const LinearAttention& op, const LinearAttentionOperands& data, const Sizes& sizes,
              int64_t batch, int64_t head, KeyValueState& state, double* y) {
  const int64_t shared = op.q_heads / op.kv_heads, kv = op.kv_heads;
  for (int64_t t = 0; t < sizes.steps; ++t) {
    const int64_t row = batch * sizes.steps + t;
    const double* key = data.k.data() + (row * kv + head) * sizes.key;
    const double* value = data.v.data() + (row * kv + head) * sizes.value;
    std::vector<double> write(value, value + sizes.value);
    if (is_gated(op.rule)) {
      const bool per_key = data.decay_width != kv;
      decay_state(state, data.decay.data() + row * data.decay_width + head * (per_key ? sizes.key : 1),
                  per_key, sizes);
    }
    if (is_delta(op.rule)) {
      const double beta =
          data.beta[static_cast<size_t>(row * data.beta_width + (data.beta_width == 1 ? 0 : head))];
      read_state(state, key, sizes, -1, write.data());
      for (double& w : write) w *= beta;
    }
    for (int64_t i = 0; i < sizes.key; ++i)
      for (int64_t j = 0; j < sizes.value; ++j)
        state[static_cast<size_t>(i * sizes.value + j)] += key[i] * write[static_cast<size_t>(j)];
    for (int64_t h = head * shared; h < (head + 1) * shared; ++h)
      read_state(state, data.q.data() + (row * op.q_heads + h) * sizes.key, sizes, op.scale,
                 y + (row * op.q_heads + h) * sizes.value);
  }
}

std::vector<Tensor> evaluate_linear_attention(const LinearAttention& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_linear_attention);
  const auto read = [&](size_t i) {
    return context.has(i) ? context.input(i).to_doubles() : std::vector<double>();
  };
  const auto width = [&](size_t i) { return context.has(i) ? context.input(i).extents()[2] : 0; };
  const LinearAttentionOperands data{read(kQ),    read(kK),      read(kV),    read(kDecay),
                                     read(kBeta), width(kDecay), width(kBeta)};
  const Extents& states = results[1].extents();
  const Sizes sizes{context.input(kQ).extents()[1], states[2], states[3]};
  const int64_t each = sizes.key * sizes.value;
  std::vector<double> all = read(kPast), y(static_cast<size_t>(results[0].size()));
  all.resize(static_cast<size_t>(results[1].size()));
  context.parallel_for(states[0] * states[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      KeyValueState state(all.begin() + i * each, all.begin() + (i + 1) * each);
      run_head(op, data, sizes, i / op.kv_heads, i % op.kv_heads, state, y.data());
      std::copy(state.begin(), state.end(), all.begin() + i * each);
    }
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), y.data());
  ElementWriter(results[1]).store_doubles(0, results[1].size(), all.data());
  return results;
}

double linear_attention_flops(const Op& op, const CostContext& context) {
  const auto& fields = std::get<LinearAttention>(op);
  const Extents &q = context.inputs[kQ], &state = context.outputs[1];
  return 2.0 * static_cast<double>(q[0] * q[1] * state[2] * state[3]) *
         static_cast<double>(fields.q_heads + 2 * fields.kv_heads);
}

}  // namespace

std::vector<OpDef> linear_attention_ops() {
  return {op_def<LinearAttention, infer_linear_attention, evaluate_linear_attention>(linear_attention_flops)};
}

}  // namespace lathe
