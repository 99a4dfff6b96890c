// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/conv/hopper_conv.h"

namespace lathe::cuda {

int conv_step(const ImplicitGemm& p) {
  const int64_t half = p.step() / 2;
  return static_cast<int>(dtype_size(p.type) == 1 && p.channels.value() <= half ? half : p.step());
}

int conv_row_bytes(const ImplicitGemm& p) {
  return conv_step(p) * dtype_size(p.type);
}

int64_t conv_pieces(const ImplicitGemm& p) {
  return (p.channels.value() + conv_step(p) - 1) / conv_step(p);
}

Support describe_hopper_conv(const LayerQuery& query, const Tactic& tactic, ImplicitGemm& p) {
  if (const Support s = describe_gemm(query, tactic, p); !s.ok) return s;
  if (p.axes.size() != 2) return Support::no("not a convolution of images");
  if (!p.batches.is_constant(1)) return Support::no("groups");
  if (!divides(16 / dtype_size(p.type), p.channels))
    return Support::no("pixels that do not begin at multiples of 16 bytes");
  return p.on_grid ? multiplies_bytes(query, p) : Support();
}

Tactic hopper_conv_tactic(const LayerQuery& query, const StoredTypes& types, std::string_view runner,
                          std::string_view name, ImplicitGemm& p) {
  Tactic base = typed_tactic(query, runner, std::string(name), {types.input, kChannelsLast},
                             {types.output, kChannelsLast});
  list_weights(query, number_beside(query, types.output), base);
  const Node& node = query.layer();
  if (base.support.ok && query.graph.value(node.inputs[0]).is_constant())
    base.support = Support::no("the image is constant");
  if (base.support.ok && !query.graph.value(node.inputs[1]).is_constant())
    base.support = Support::no("the weights are computed at run time");
  if (base.support.ok && has_data_dependent_dims(query))
    base.support = Support::no("the size of the result depends on data");
  if (base.support.ok) base.support = describe_hopper_conv(query, base, p);
  return base;
}

std::string hopper_conv_weights_map(KernelBuilder& b, const ImplicitGemm& p, int columns) {
  Dim steps(conv_pieces(p));
  for (const ImplicitGemm::Axis& a : p.axes) steps = steps * Dim(a.kernel);
  const Dim k = steps * Dim(conv_step(p));
  return b.packed_map(
      "w", {.type = p.type, .extents = {k, p.n}, .strides = {1, k}, .box = {conv_step(p), columns}});
}

void add_hopper_conv_blocks(const LayerQuery& query, const ImplicitGemm& p, LayerSource& source) {
  if (p.on_grid) return add_grid_blocks(query, conv_step(p), source);
  const Tensor weights = query.graph.value(query.layer().inputs[1]).constant;
  source.blocks["w"] = gemm_weights_block(query.layer().op, weights, p.type, conv_step(p));
}

}  // namespace lathe::cuda
