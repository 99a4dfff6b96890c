// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/attention/attention_text.h"

namespace lathe::cuda {

AttentionSizes attention_sizes(const LayerQuery& query, const Attention& op) {
  const Shape &q = input_shape(query, 0), &k = input_shape(query, 1), &v = input_shape(query, 2);
  const bool bhsd = op.layout == AttentionLayout::BHSD;
  return {q[0],
          q[bhsd ? 1 : 2],
          k[bhsd ? 1 : 2],
          q[bhsd ? 2 : 1],
          k[bhsd ? 2 : 1],
          q[3].is_constant() ? q[3].value() : 0,
          v[3].is_constant() ? v[3].value() : 0};
}

void list_attention_operands(const LayerQuery& query, DType type, const AttentionSizes& s, Tactic& base) {
  const Node& node = query.layer();
  for (size_t i = 1; i < 3; ++i) base.inputs[i] = {type, kLinear};
  if (node.has_op_input(3)) {
    const Value& mask = query.graph.value(node.inputs[3]);
    // In its own type: a half has no number for the -3.4e38 that many masks hold.
    base.inputs[3] = {mask.dtype, kLinear};
    if (mask.dtype != DType::Bool && !is_kernel_float(base.inputs[3].dtype))
      base.support = Support::no("a mask must be bool or a 16 or 32 bit float");
  }
  for (size_t i = 0; i < 3; ++i)
    if (query.graph.value(node.inputs[i]).is_constant() && query.graph.value(node.inputs[i]).dtype != type)
      base.support = Support::no("a constant operand is read as it is stored");
  if (!is_kernel_float(type))
    base.support = Support::no("no kernel for " + std::string(dtype_name(type)));
  else if (s.width == 0 || s.value_width == 0)
    base.support = Support::no("the head size is known only at run time");
  else if (s.width > kLargestHead || s.value_width > kLargestHead)
    base.support = Support::no("heads of more than 256 elements");
}

AttentionNames attention_names(KernelBuilder& b, const LayerQuery& query, const Attention& op) {
  const AttentionSizes s = attention_sizes(query, op);
  AttentionNames n;
  n.queries = b.number(s.queries);
  n.keys = b.number(s.keys);
  n.heads = b.number(s.heads);
  n.key_head = s.heads == s.shared_heads ? "h" : "(h / (" + n.heads + " / " + b.number(s.shared_heads) + "))";
  const bool bhsd = op.layout == AttentionLayout::BHSD;
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<Dim> strides =
        storage_strides(i < 3 ? input_shape(query, i) : output_shape(query), kLinear);
    n.batch.push_back(b.number(strides[0]));
    n.head.push_back(b.number(strides[bhsd ? 1 : 2]));
    n.row.push_back(b.number(strides[bhsd ? 2 : 1]));
  }
  return n;
}

void define_masked(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const Attention& op,
                   AttentionNames& n) {
  const Node& node = query.layer();
  b.line("const auto masked = [&](float score, idx row, idx key) {\nif (key >= " + n.keys +
         (op.causal ? " || key > row" : "") + ") return -infinity();");
  n.mask_has_rows = op.causal;
  if (node.has_op_input(3)) {
    const Shape& mask = input_shape(query, 3);
    const std::vector<Dim> strides = storage_strides(mask, kLinear);
    const char* coordinates[] = {"b", "h", "min(row, (idx)ROWS - 1)", "key"};
    std::string offset = "0", keyless;
    const DType type = tactic.inputs[3].dtype;
    n.mask_pairs = is_float(type) && !op.causal && divides(2, attention_sizes(query, op).keys) &&
                   !mask.back().is_constant(1);
    for (size_t d = 0; d < mask.size(); ++d) {
      if (mask[d].is_constant(1)) continue;
      const size_t dim = d + 4 - mask.size();
      if (dim == 3) keyless = offset;
      if (dim < 3) n.mask_pairs = n.mask_pairs && divides(2, strides[d]);
      std::string c = coordinates[dim];
      if (const size_t at = c.find("ROWS"); at != std::string::npos) c.replace(at, 4, n.queries);
      offset += " + " + c + " * " + b.number(strides[d]);
      n.mask_has_rows = n.mask_has_rows || dim == 2;
    }
    b.line("const auto m = widen(" + b.input(3, type) + "[" + offset + "]);");
    b.line(type == DType::Bool ? "if (m == 0) return -infinity();" : "score += mask_exponent(m);");
    n.has_mask = true;
    b.line("return score;\n};");
    if (n.mask_pairs)
      b.line("const auto mask_pair = [&](idx row, idx key, float (&m)[2]) {\nload(" + b.input(3, type) +
             " + (" + keyless + " + min(key, (idx)" + n.keys + " - 2)), m);\n};");
    return;
  }
  b.line("return score;\n};");
}

}  // namespace lathe::cuda
