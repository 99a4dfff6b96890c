// SPDX-License-Identifier: Apache-2.0
//
// LinearAttention step by step, with FP32 states; operands are FP32, BF16 or FP16.
//
// The columns of a state have nothing to do with one another, whatever the rule: a member takes 4 vectors of
// columns of one state through all steps. Their part of the state stays in L1, and a step costs K * V
// operations a few times, however many came before it. Bytes: the operands once for each part of columns
// (they are small beside the state), the state read and written once per run: a decoder's step of 32 heads of
// 128 x 128 reads and writes 2 MB each, which bounds it.
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/attention/linear_attention_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kLinearAttentionRunner = "LinearAttention";
enum LinearAttentionInput : size_t { kQ, kK, kV, kPast, kDecay, kBeta, kLinearAttentionInputs };

class PreparedLinearAttention final : public PreparedLayer {
 public:
  LinearAttention op;
  std::array<DType, kLinearAttentionInputs> types{};
  std::array<bool, kLinearAttentionInputs> given{};
  DType result_type = DType::Float32, state_type = DType::Float32;
  int64_t batch = 0, steps = 0, keys = 0, values = 0, decay_width = 0, beta_width = 0;
  Isa isa = Isa::Avx2;
  int threads = 1;

  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats() * threads) * 4; }
  int members(int available) const override {
    const double state = static_cast<double>(batch * op.kv_heads * keys) * static_cast<double>(values);
    const auto passes = static_cast<double>(2 + shared());
    return members_for(state * (0.3 + 0.05 * passes * static_cast<double>(steps)),
                       std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    const Worker::Range part = worker.slice(batch * op.kv_heads * parts());
    for (int64_t i = part.begin; i < part.end; ++i) run_part(args, i / parts(), i % parts() * columns(), own);
  }

 private:
  const LinearAttentionTable& table() const {
    return isa == Isa::Avx2 ? linear_attention_table_avx2() : linear_attention_table_avx512();
  }
  int64_t shared() const { return op.q_heads / op.kv_heads; }  // heads of queries that read a state
  int64_t columns() const { return table().columns; }
  int64_t parts() const { return (values + columns() - 1) / columns(); }
  // State; key, decays and queries of a step; value and results.
  int64_t member_floats() const {
    return round_up(keys * columns() + keys * (2 + shared()) + columns() * (1 + shared()), 16);
  }
  bool is_gated() const { return given[kDecay]; }
  bool is_delta() const { return given[kBeta]; }

  void load(const LayerArgs& args, LinearAttentionInput input, int64_t at, int64_t n, float* to) const {
    const auto* from = static_cast<const std::byte*>(args.inputs[input]) + dtype_bytes(types[input], at);
    if (types[input] == DType::Float32) {
      std::copy_n(reinterpret_cast<const float*>(from), n, to);
      return;
    }
    const PointwiseTable& convert = pointwise_table(isa);
    (types[input] == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(
        reinterpret_cast<const uint16_t*>(from), to, n);
  }
  void store(void* base, DType type, int64_t at, int64_t n, const float* from) const {
    if (base == nullptr) return;
    std::byte* to = static_cast<std::byte*>(base) + dtype_bytes(type, at);
    if (type == DType::Float32) {
      std::copy_n(from, n, reinterpret_cast<float*>(to));
      return;
    }
    const PointwiseTable& convert = pointwise_table(isa);
    (type == DType::BFloat16 ? convert.store_bf16 : convert.store_f16)(from, reinterpret_cast<uint16_t*>(to),
                                                                       n);
  }

  // All steps of `n` columns of state `head` (counted over the batch).
  void run_part(const LayerArgs& args, int64_t head, int64_t first, float* own) const {
    const int64_t width = columns(), n = std::min(width, values - first), local = head % op.kv_heads;
    float *state = own, *key = state + keys * width, *decays = key + keys, *queries = decays + keys;
    float *value = queries + keys * shared(), *results = value + width;
    std::fill_n(state, keys * width, 0.0f);
    std::fill_n(value, width, 0.0f);
    for (int64_t i = 0; given[kPast] && i < keys; ++i)
      load(args, kPast, (head * keys + i) * values + first, n, state + i * width);
    LinearStep step{.keys = keys,
                    .key = key,
                    .value = value,
                    .decays = is_gated() ? decays : nullptr,
                    .corrects = is_delta(),
                    .scale = op.scale,
                    .queries = queries,
                    .heads = shared(),
                    .results = results};
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t row = head / op.kv_heads * steps + t;
      load(args, kK, (row * op.kv_heads + local) * keys, keys, key);
      load(args, kV, (row * op.kv_heads + local) * values + first, n, value);
      load(args, kQ, (row * op.q_heads + local * shared()) * keys, keys * shared(), queries);
      if (is_gated()) find_decays(args, row, local, decays);
      if (is_delta()) load(args, kBeta, row * beta_width + (beta_width == 1 ? 0 : local), 1, &step.beta);
      table().step(step, state);
      for (int64_t h = 0; h < shared(); ++h)
        store(args.outputs[0], result_type, (row * op.q_heads + local * shared() + h) * values + first, n,
              results + h * width);
    }
    if (args.outputs.size() < 2) return;
    for (int64_t i = 0; i < keys; ++i)
      store(args.outputs[1], state_type, (head * keys + i) * values + first, n, state + i * width);
  }
  void find_decays(const LayerArgs& args, int64_t row, int64_t head, float* decays) const {
    if (decay_width == op.kv_heads) {
      load(args, kDecay, row * decay_width + head, 1, decays);
      std::fill_n(decays, keys, std::exp(decays[0]));
      return;
    }
    load(args, kDecay, row * decay_width + head * keys, keys, decays);
    pointwise_table(isa).exp(decays, decays, keys, 0, 0);
  }
};

class LinearAttentionKernel final : public LayerKernel {
 public:
  LinearAttentionKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<LinearAttention>(query.layer().op)), tactic_(tactic), isa_(machine.isa()) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedLinearAttention>();
    p->op = op_;
    for (size_t i = 0; i < std::min<size_t>(kLinearAttentionInputs, tactic_.inputs.size()); ++i) {
      p->types[i] = tactic_.inputs[i].dtype;
      p->given[i] = p->types[i] != DType::Undefined;
    }
    p->result_type = tactic_.outputs[0].dtype;
    if (tactic_.outputs.size() > 1) p->state_type = tactic_.outputs[1].dtype;
    const Extents &q = context.inputs[kQ], &v = context.inputs[kV];
    p->batch = q[0];
    p->steps = q[1];
    p->keys = q[2] / op_.q_heads;
    p->values = v[2] / op_.kv_heads;
    if (p->given[kDecay]) p->decay_width = context.inputs[kDecay][2];
    if (p->given[kBeta]) p->beta_width = context.inputs[kBeta][2];
    p->isa = isa_;
    p->threads = context.threads;
    return p;
  }

 private:
  LinearAttention op_;
  Tactic tactic_;
  Isa isa_;
};

std::vector<Tactic> list_linear_attention(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<LinearAttention>(node.op)) return {};
  Tactic t =
      linear_tactic(query, kLinearAttentionRunner, "linear_attention_" + std::string(isa_suffix(machine)));
  if (!node.epilogue.empty()) t.support = Support::no("a layer with a state applies no epilogue");
  for (const std::vector<TensorType>& operands : {t.inputs, t.outputs})
    for (const TensorType& type : operands)
      if (type.dtype != DType::Undefined && !is_vector_float(type.dtype))
        t.support = no_vector_kernel(type.dtype);
  return {t};
}

std::unique_ptr<LayerKernel> make_linear_attention(const LayerQuery& query, const Tactic& tactic,
                                                   const Machine& machine, const PackContext&) {
  return std::make_unique<LinearAttentionKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily linear_attention_tactics() {
  return {kLinearAttentionRunner, list_linear_attention, make_linear_attention};
}

}  // namespace lathe::cpu
