// SPDX-License-Identifier: Apache-2.0
//
// What exists on the CPU: every tactic family, in the order of expectation. The tuner times all of them;
// without timing (level 0) the first supported tactic wins, so a family stands before those that it usually
// beats. The reference comes last: it runs everything, slowly.
#include "backend/cpu/kernel.h"

namespace lathe::cpu {

// clang-format off
TacticFamily view_tactics();
TacticFamily onednn_conv_tactics();
TacticFamily onednn_matmul_tactics();
TacticFamily onednn_pool_tactics();
TacticFamily onednn_deconv_tactics();
TacticFamily reformat_tactics();
TacticFamily pointwise_tactics();
TacticFamily layer_norm_tactics();
TacticFamily softmax_tactics();
TacticFamily movement_tactics();
TacticFamily gather_tactics();
TacticFamily gather_elements_tactics();
TacticFamily scatter_tactics();
TacticFamily group_norm_tactics();
TacticFamily resize_tactics();
TacticFamily interpolate_tactics();
TacticFamily pool_tactics();
TacticFamily row_pool_tactics();
TacticFamily reduce_tactics();
TacticFamily rotary_tactics();
TacticFamily squeeze_excite_tactics();
TacticFamily attention_tactics();
TacticFamily recurrent_tactics();
TacticFamily exact_pointwise_tactics();
TacticFamily exact_quantize_tactics();
TacticFamily pad_tactics();
TacticFamily run_time_slice_tactics();
TacticFamily exact_reduce_tactics();
TacticFamily by_position_tactics();
TacticFamily topk_tactics();
TacticFamily lines_tactics();
TacticFamily nonzero_tactics();
TacticFamily non_max_suppression_tactics();
TacticFamily tree_tactics();
TacticFamily plugin_tactics();
TacticFamily shape_values_tactics();
TacticFamily range_tactics();
TacticFamily roi_align_tactics();
TacticFamily grid_sample_tactics();
TacticFamily lrn_tactics();
TacticFamily detection_nms_tactics();
TacticFamily deform_conv_tactics();
TacticFamily col2im_tactics();
TacticFamily max_roi_pool_tactics();
TacticFamily linear_attention_tactics();
TacticFamily conv_transpose_tactics();
TacticFamily dft_tactics();
TacticFamily stft_tactics();
TacticFamily unique_tactics();
TacticFamily lu_tactics();
TacticFamily tfidf_tactics();
TacticFamily bit_cast_tactics();
TacticFamily control_flow_tactics();
TacticFamily depthwise_tactics();
TacticFamily integer_product_tactics();
TacticFamily integer_depthwise_tactics();
TacticFamily weight_only_tactics();
TacticFamily byte_pool_tactics();
TacticFamily byte_function_tactics();
TacticFamily depthwise_block_tactics();
TacticFamily feed_forward_tactics();
TacticFamily tile_matmul_tactics();
TacticFamily tile_conv_tactics();
TacticFamily tile_window_conv_tactics();
TacticFamily tile_transposed_conv_tactics();
TacticFamily amx_conv_tactics();
TacticFamily matmul_tactics();
TacticFamily strassen_tactics();
TacticFamily strassen_conv_tactics();
TacticFamily winograd_tactics();
TacticFamily pixel_conv_tactics();
TacticFamily patch_conv_tactics();
TacticFamily reference_tactics();
// clang-format on

std::vector<TacticFamily> tactic_families() {
  return {
      view_tactics(),
      integer_product_tactics(),
      integer_depthwise_tactics(),
      weight_only_tactics(),
      depthwise_tactics(),
      depthwise_block_tactics(),
      onednn_conv_tactics(),
      winograd_tactics(),
      tile_conv_tactics(),
      tile_window_conv_tactics(),
      amx_conv_tactics(),
      pixel_conv_tactics(),
      strassen_conv_tactics(),
      patch_conv_tactics(),
      onednn_matmul_tactics(),
      tile_matmul_tactics(),
      matmul_tactics(),
      strassen_tactics(),
      onednn_pool_tactics(),
      tile_transposed_conv_tactics(),
      onednn_deconv_tactics(),
      pool_tactics(),
      row_pool_tactics(),
      byte_pool_tactics(),
      byte_function_tactics(),
      reformat_tactics(),
      pointwise_tactics(),
      layer_norm_tactics(),
      softmax_tactics(),
      movement_tactics(),
      run_time_slice_tactics(),
      gather_tactics(),
      resize_tactics(),
      reduce_tactics(),
      rotary_tactics(),
      squeeze_excite_tactics(),
      attention_tactics(),
      feed_forward_tactics(),
      group_norm_tactics(),
      gather_elements_tactics(),
      scatter_tactics(),
      interpolate_tactics(),
      recurrent_tactics(),
      exact_pointwise_tactics(),
      exact_quantize_tactics(),
      exact_reduce_tactics(),
      pad_tactics(),
      by_position_tactics(),
      topk_tactics(),
      lines_tactics(),
      nonzero_tactics(),
      non_max_suppression_tactics(),
      tree_tactics(),
      plugin_tactics(),
      shape_values_tactics(),
      range_tactics(),
      roi_align_tactics(),
      grid_sample_tactics(),
      lrn_tactics(),
      detection_nms_tactics(),
      deform_conv_tactics(),
      col2im_tactics(),
      max_roi_pool_tactics(),
      linear_attention_tactics(),
      conv_transpose_tactics(),
      dft_tactics(),
      stft_tactics(),
      unique_tactics(),
      lu_tactics(),
      tfidf_tactics(),
      bit_cast_tactics(),
      control_flow_tactics(),
      reference_tactics(),
  };
}

}  // namespace lathe::cpu
