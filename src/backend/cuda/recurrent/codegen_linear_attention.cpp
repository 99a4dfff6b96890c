// SPDX-License-Identifier: Apache-2.0
//
// LinearAttention: the columns of a state (one for each value of a head) do not depend on each other, so a
// block has 128 / LANES columns of one head for all steps, in registers: LANES threads share a column. Keys,
// queries, decays and factors of a few steps lie in shared memory while they are needed. Sums are FP32, in a
// fixed order.
//
// Bytes: q, k, v, decay and beta once for each block of columns, y once, the state once in each direction.
// Operations: 2 K for each column, step and head that reads or writes it; a step waits for its own sums,
// about log2(LANES) shuffles after K / LANES multiply-adds.
#include "backend/cuda/codegen/implicit_gemm.h"
#include "backend/cuda/codegen/own_tactic.h"
#include "lathe_device_text/linear_attention.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kLinearAttentionRunner = "LinearAttention";
enum LinearAttentionInput : size_t { kQ, kK, kV, kPast, kDecay, kBeta };
constexpr int kLinearAttentionThreads = 128, kStepsAhead = 8;
constexpr int64_t kMostKey = 1024;

std::optional<int64_t> width_of(const LayerQuery& query, size_t input, int64_t heads) {
  const Dim& width = input_shape(query, input)[2];
  if (!width.is_constant()) return std::nullopt;
  return width.value() / heads;
}

// Threads for a column: each has at most 32 of its numbers.
int lanes_of(int64_t key) {
  int lanes = 1;
  while (lanes < 32 && (key + lanes - 1) / lanes > 32) lanes *= 2;
  return lanes;
}

int64_t shared_bytes(const LinearAttention& op, int64_t key, int64_t decay, int64_t beta) {
  return 4 * kStepsAhead * (key * (1 + op.q_heads / op.kv_heads) + decay + beta);
}

std::vector<Tactic> list_linear_attention(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const auto* op = std::get_if<LinearAttention>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = linear_tactic(query, kLinearAttentionRunner, "cuda_linear_attention");
    for (const size_t i : {size_t{kQ}, size_t{kK}, size_t{kV}})
      if (!query.graph.value(node.inputs[i]).is_constant()) t.inputs[i].dtype = type;
    t.outputs[0].dtype = type;
    for (const auto* types : {&t.inputs, &t.outputs})
      for (const TensorType& x : *types)
        if (x.dtype != DType::Undefined && !is_kernel_float(x.dtype))
          t.support = Support::no("no kernel for " + std::string(dtype_name(x.dtype)));
    if (!node.epilogue.empty()) t.support = Support::no("no epilogue behind linear attention");
    if (has_data_dependent_dims(query)) t.support = Support::no("the number of steps depends on data");
    const auto key = width_of(query, kQ, op->q_heads), value = width_of(query, kV, op->kv_heads);
    if (!key || !value)
      t.support = Support::no("the width of a head is known only at run time");
    else if (*key > kMostKey)
      t.support = Support::no("more than " + std::to_string(kMostKey) + " numbers in a key");
    else if (shared_bytes(*op, *key, *key, 1) >
             std::min<int64_t>(device.properties.shared_bytes_per_block, 96 << 10))
      t.support = Support::no("too many query heads for each key head");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_linear_attention(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<LinearAttention>(query.layer().op);
  const Shape& q = input_shape(query, kQ);
  const int64_t key = *width_of(query, kQ, op.q_heads), value = *width_of(query, kV, op.kv_heads);
  const auto width = [&](size_t input) {
    return is_given(tactic, input) ? input_shape(query, input)[2].value() : 0;
  };
  const int lanes = lanes_of(key), columns = kLinearAttentionThreads / lanes;
  const int64_t decay = width(kDecay) / op.kv_heads, beta = width(kBeta);
  KernelBuilder b = start_kernel(query, tactic, "linear_attention", tactic.outputs[0].dtype);
  b.set_fast_math(false);  // errors of a state stay in it
  b.kernel().threads = kLinearAttentionThreads;
  b.kernel().grid = {q[0] * Dim(op.kv_heads), (value + columns - 1) / columns, 1};
  b.kernel().shared_bytes = static_cast<int>(shared_bytes(op, key, decay, beta > 0 ? 1 : 0));
  const auto number = [](std::string_view name, int64_t x) {
    return ", " + std::string(name) + " = " + std::to_string(x);
  };
  b.global("typedef " + std::string(storage_name(tactic.outputs[0].dtype)) + " T;\nconstexpr int THREADS = " +
           std::to_string(kLinearAttentionThreads) + number("LANES", lanes) + number("COLUMNS", columns) +
           number("HEADS", op.kv_heads) + number("SHARED", op.q_heads / op.kv_heads) + number("KEY", key) +
           number("VALUE", value) + number("EACH", (key + lanes - 1) / lanes) + number("AHEAD", kStepsAhead) +
           number("DECAY", decay) + number("BETA", beta) + ";\nconstexpr float SCALE = " +
           float_literal(static_cast<double>(op.scale)) + ";\nDEV float over_lanes(float x) {\n" +
           "#pragma unroll\nfor (int m = LANES / 2; m > 0; m /= 2) x += shuffle_xor(x, m);\nreturn x;\n}");
  const auto operand = [&](std::string_view name, size_t input) {
    b.line(
        "#define " + std::string(name) + "(i) " +
        (is_given(tactic, input) ? "widen(" + b.input(input, tactic.inputs[input].dtype) + "[i])" : "0.f"));
  };
  operand("PAST", kPast);
  operand("DECAY_OF", kDecay);
  operand("BETA_OF", kBeta);
  b.line("#define Q_ROWS " + b.input(kQ, tactic.inputs[kQ].dtype) + "\n#define K_ROWS " +
         b.input(kK, tactic.inputs[kK].dtype) + "\n#define V_ROWS " + b.input(kV, tactic.inputs[kV].dtype) +
         "\n#define RESULT " + b.output(0, tactic.outputs[0].dtype) +
         "\nconst idx TIMES = " + b.number(q[1]) + ";");
  std::string store;
  if (tactic.outputs.size() > 1 && tactic.outputs[1].dtype != DType::Undefined)
    store =
        "#pragma unroll\nfor (int i = 0; i < EACH; ++i) {\nconst int k = i * LANES + lane;\nif (live && k < "
        "KEY) " +
        b.output(1, tactic.outputs[1].dtype) +
        "[((item * HEADS + head) * KEY + k) * VALUE + value] = Narrow<" +
        std::string(storage_name(tactic.outputs[1].dtype)) + ">::from(state[i]);\n}";
  b.line(filled_in(device_text::linear_attention::kBody, {{"STORE_STATE", store}}));
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily linear_attention_family() {
  return {kLinearAttentionRunner, list_linear_attention, generate_linear_attention};
}

}  // namespace lathe::cuda
