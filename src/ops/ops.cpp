// SPDX-License-Identifier: Apache-2.0
//
// The list that answers "which operators exist?": the families, one line each.

#include "ops/families.h"
#include "ops/op_def.h"

namespace lathe {

namespace {

std::vector<OpDef> join(std::vector<std::vector<OpDef>> families) {
  std::vector<OpDef> all;
  for (std::vector<OpDef>& family : families) all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace

const std::vector<OpDef>& all_op_defs() {
  static const std::vector<OpDef> defs = join({
      pointwise_ops(),
      cast_ops(),
      conv_ops(),
      depthwise_block_ops(),
      feed_forward_ops(),
      matmul_ops(),
      attention_ops(),
      rotary_ops(),
      pool_ops(),
      reduce_ops(),
      squeeze_excite_ops(),
      softmax_ops(),
      norm_ops(),
      quantize_ops(),
      reshape_ops(),
      transpose_ops(),
      expand_ops(),
      concat_ops(),
      slice_ops(),
      pad_ops(),
      gather_ops(),
      resize_ops(),
      scatter_ops(),
      trilu_ops(),
      shape_of_ops(),
      cumsum_ops(),
      topk_ops(),
      nonzero_ops(),
      non_max_suppression_ops(),
      detection_nms_ops(),
      plugin_ops(),
      control_flow_ops(),
      reverse_sequence_ops(),
      recurrent_ops(),
      linear_attention_ops(),
      grid_sample_ops(),
      roi_ops(),
      deform_conv_ops(),
      col2im_ops(),
      dft_ops(),
      random_ops(),
      det_ops(),
      tree_ops(),
      bit_cast_ops(),
      unique_ops(),
      tfidf_ops(),
  });
  return defs;
}

}  // namespace lathe
