// SPDX-License-Identifier: Apache-2.0
//
// One function per family file, each in <family>.cpp, which defines it. A new family is a file, a line here
// and a line in ops.cpp.
#pragma once

#include <vector>

#include "ops/op_def.h"

namespace lathe {

std::vector<OpDef> attention_ops();
std::vector<OpDef> bit_cast_ops();
std::vector<OpDef> cast_ops();
std::vector<OpDef> col2im_ops();
std::vector<OpDef> concat_ops();
std::vector<OpDef> control_flow_ops();
std::vector<OpDef> conv_ops();
std::vector<OpDef> cumsum_ops();
std::vector<OpDef> deform_conv_ops();
std::vector<OpDef> depthwise_block_ops();
std::vector<OpDef> det_ops();
std::vector<OpDef> detection_nms_ops();
std::vector<OpDef> tree_ops();
std::vector<OpDef> dft_ops();
std::vector<OpDef> expand_ops();
std::vector<OpDef> feed_forward_ops();
std::vector<OpDef> gather_ops();
std::vector<OpDef> grid_sample_ops();
std::vector<OpDef> linear_attention_ops();
std::vector<OpDef> matmul_ops();
std::vector<OpDef> non_max_suppression_ops();
std::vector<OpDef> nonzero_ops();
std::vector<OpDef> norm_ops();
std::vector<OpDef> pad_ops();
std::vector<OpDef> plugin_ops();
std::vector<OpDef> pointwise_ops();
std::vector<OpDef> pool_ops();
std::vector<OpDef> quantize_ops();
std::vector<OpDef> random_ops();
std::vector<OpDef> recurrent_ops();
std::vector<OpDef> reduce_ops();
std::vector<OpDef> reshape_ops();
std::vector<OpDef> resize_ops();
std::vector<OpDef> reverse_sequence_ops();
std::vector<OpDef> roi_ops();
std::vector<OpDef> rotary_ops();
std::vector<OpDef> scatter_ops();
std::vector<OpDef> shape_of_ops();
std::vector<OpDef> slice_ops();
std::vector<OpDef> softmax_ops();
std::vector<OpDef> squeeze_excite_ops();
std::vector<OpDef> tfidf_ops();
std::vector<OpDef> topk_ops();
std::vector<OpDef> transpose_ops();
std::vector<OpDef> trilu_ops();
std::vector<OpDef> unique_ops();

}  // namespace lathe
