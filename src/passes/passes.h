// SPDX-License-Identifier: Apache-2.0
//
// All passes. Each stands in the file of its name, which says what it does and when it must not fire;
// stages.cpp says in which order they run and why.
#pragma once

#include "passes/pass.h"

namespace lathe {

// Clean up.
bool remove_dead(Graph& graph, PassContext& context);
bool remove_noop(Graph& graph, PassContext& context);
bool merge_common_subexpressions(Graph& graph, PassContext& context);
bool fold_constants(Graph& graph, PassContext& context);
bool fold_sizes(Graph& graph, PassContext& context);
bool erase_pooling(Graph& graph, PassContext& context);

// Operators that the backend has no kernels of.
bool lower_transforms(Graph& graph, PassContext& context);
bool lower_col2im(Graph& graph, PassContext& context);

// Reshape, Transpose, Concat, Split, Slice, Scatter.
bool simplify_shuffles(Graph& graph, PassContext& context);
bool move_shuffles_down(Graph& graph, PassContext& context);
bool simplify_gathers(Graph& graph, PassContext& context);
bool simplify_matmuls(Graph& graph, PassContext& context);
bool simplify_scatters(Graph& graph, PassContext& context);
bool simplify_slice_updates(Graph& graph, PassContext& context);
bool simplify_concats(Graph& graph, PassContext& context);
bool split_matmuls(Graph& graph, PassContext& context);
bool merge_matmuls(Graph& graph, PassContext& context);

// Quantisation.
bool fuse_quantize_dequantize(Graph& graph, PassContext& context);
bool remove_repeated_rounding(Graph& graph, PassContext& context);
bool mark_quantization(Graph& graph, PassContext& context);

// Into the weights.
bool fold_batchnorm(Graph& graph, PassContext& context);
bool fold_channel_division(Graph& graph, PassContext& context);
bool fold_channel_steps(Graph& graph, PassContext& context);
bool fold_conv_bias(Graph& graph, PassContext& context);
bool merge_convolutions(Graph& graph, PassContext& context);
bool fold_pad(Graph& graph, PassContext& context);
bool lower_batchnorm(Graph& graph, PassContext& context);

// Functions that exporters write out in parts.
bool simplify_powers(Graph& graph, PassContext& context);
bool fuse_gelu_erf(Graph& graph, PassContext& context);
bool fuse_gelu_tanh(Graph& graph, PassContext& context);
bool fuse_silu(Graph& graph, PassContext& context);
bool fuse_hard_swish(Graph& graph, PassContext& context);
bool fuse_clip(Graph& graph, PassContext& context);
bool fuse_product_sum(Graph& graph, PassContext& context);
bool fuse_softmax(Graph& graph, PassContext& context);
bool fuse_layer_norm(Graph& graph, PassContext& context);
bool fuse_rms_norm(Graph& graph, PassContext& context);
bool absorb_attention_casts(Graph& graph, PassContext& context);
bool absorb_casts(Graph& graph, PassContext& context);
bool fuse_norm_scale(Graph& graph, PassContext& context);
bool fuse_rotary(Graph& graph, PassContext& context);
bool fuse_attention(Graph& graph, PassContext& context);

// What attention reads.
bool fuse_repeated_heads(Graph& graph, PassContext& context);
bool fuse_constant_mask(Graph& graph, PassContext& context);
bool move_transposes_below_rotary(Graph& graph, PassContext& context);
bool choose_attention_layout(Graph& graph, PassContext& context);
bool merge_rotaries(Graph& graph, PassContext& context);

// Layers with their tails.
bool fuse_conv_activation(Graph& graph, PassContext& context);
bool fuse_conv_residual(Graph& graph, PassContext& context);
bool fuse_depthwise_block(Graph& graph, PassContext& context);
bool fuse_feed_forward(Graph& graph, PassContext& context);
bool fuse_matmul_epilogue(Graph& graph, PassContext& context);
bool fuse_pointwise(Graph& graph, PassContext& context);
bool fuse_rounding(Graph& graph, PassContext& context);
bool fuse_squeeze_excite(Graph& graph, PassContext& context);

// Types.
bool widen_types(Graph& graph, PassContext& context);
// Does a layer do more with values of this type than move them?
bool computes_in(const Graph& graph, DType type);
bool mark_precisions(Graph& graph, PassContext& context);

}  // namespace lathe
