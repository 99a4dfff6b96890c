// SPDX-License-Identifier: Apache-2.0
//
// Attention of float64, in double: what models that compute in doubles have of it, on plain multiply-adds,
// without the matrix of scores.
#include "backend/cuda/attention/attention_text.h"
#include "lathe_device_text/exact_attention.h"
#include "lathe_device_text/wide_lanes.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kExactAttentionRunner = "ExactAttention";
constexpr int kRows = 4;  // of a block

bool has_mask(const LayerQuery& query) {
  const Node& node = query.layer();
  return node.has_op_input(3);
}

std::vector<Tactic> list_exact_attention(const LayerQuery& query, const Device&) {
  const auto* op = std::get_if<Attention>(&query.layer().op);
  const DType type = layer_types(query)[0];
  if (op == nullptr || type != DType::Float64) return {};
  Tactic t =
      typed_tactic(query, kExactAttentionRunner, "cuda_attention_exact", {type, kLinear}, {type, kLinear});
  const AttentionSizes s = attention_sizes(query, *op);
  for (size_t i = 1; i < 3; ++i)
    if (t.inputs[i].dtype != type) t.support = Support::no("keys or values of another type than queries");
  if (has_mask(query))
    if (const Support stored = computed(t.inputs[3].dtype); !stored.ok) t.support = stored;
  if (s.width == 0 || s.value_width == 0)
    t.support = Support::no("the head size is known only at run time");
  else if (s.width > kLargestHead || s.value_width > kLargestHead)
    t.support = Support::no("heads of more than 256 elements");
  return {t};
}

// Defines masked(): the mask is broadcast to (batch, head, row, key).
void define_masked_doubles(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic,
                           const Attention& op) {
  b.line("const auto masked = [&](double score, idx at) {");
  if (op.causal) b.line("if (at > row) return -(double)infinity();");
  if (has_mask(query)) {
    const Shape& mask = input_shape(query, 3);
    const std::vector<Dim> strides = storage_strides(mask, kLinear);
    const char* coordinates[] = {"b", "h", "row", "at"};
    std::string offset = "0";
    for (size_t d = 0; d < mask.size(); ++d)
      if (!mask[d].is_constant(1))
        offset += std::string(" + ") + coordinates[d + 4 - mask.size()] + " * " + b.number(strides[d]);
    const DType type = tactic.inputs[3].dtype;
    b.line("const auto m = widen(" + b.input(3, type) + "[" + offset + "]);");
    b.line(type == DType::Bool ? "if (m == 0) return -(double)infinity();" : "score += (double)m;");
  }
  b.line("return score;\n};");
}

LayerSource generate_exact_attention(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Attention>(query.layer().op);
  const AttentionSizes s = attention_sizes(query, op);
  KernelBuilder b = start_kernel(query, tactic, "attention_exact", DType::Float64);
  b.set_fast_math(false);
  Tail(query, tactic).emit(b, 1);
  b.constants({{"D", s.width}, {"DV", s.value_width}});
  b.global("constexpr double SCALE = " + double_literal(op.scale) + ";");
  b.global(device_text::wide_lanes::kWideLanes);
  const AttentionNames n = attention_names(b, query, op);
  const Dim rows = s.batch * s.heads * s.queries;
  b.kernel().threads = 32 * kRows;
  b.kernel().shared_bytes = 32 * kRows * 8;
  b.kernel().grid[0] = ceil_div(rows, Dim(kRows));
  b.line("const int lane = threadIdx.x % 32;\nconst idx all = (idx)blockIdx.x * " + std::to_string(kRows) +
         " + threadIdx.x / 32;\nif (all >= " + b.number(rows) + ") return;\nconst idx row = all % " +
         n.queries + ", bh = all / " + n.queries + ", h = bh % " + n.heads + ", b = bh / " + n.heads +
         ";\nconst idx KEYS = " + n.keys + ", KEY_ROW = " + n.row[1] + ", VALUE_ROW = " + n.row[2] + ";");
  const char* names[] = {"query", "key", "value"};
  for (size_t i = 0; i < 3; ++i)
    b.line("const auto* " + std::string(names[i]) + " = " + b.input(i, tactic.inputs[i].dtype) + " + b * " +
           n.batch[i] + " + " + (i == 0 ? "h" : n.key_head) + " * " + n.head[i] +
           (i == 0 ? " + row * " + n.row[0] : "") + ";");
  define_masked_doubles(b, query, tactic, op);
  b.line("const auto finish = [&](int column, double (&v)[1]) { finish1(b * " + n.batch[3] + " + h * " +
         n.head[3] + " + row * " + n.row[3] + " + column, v); };");
  b.line(device_text::exact_attention::kExactAttention);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily exact_attention_family() {
  return {kExactAttentionRunner, list_exact_attention, generate_exact_attention};
}

}  // namespace lathe::cuda
