// SPDX-License-Identifier: Apache-2.0
//
// What exists on a GPU: every tactic family, in the order of expectation. The tuner times all of them;
// without timing (level 0) the first supported tactic wins, so a family stands before those that it usually
// beats. The reference comes last: it runs everything, on the host, slowly.
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/offered.h"
#include "base/error.h"

namespace lathe::cuda {

TacticFamily view_tactics();
TacticFamily cudnn_conv_tactics();
TacticFamily cublaslt_tactics();
TacticFamily wgmma_tactics();
TacticFamily halo_tactics();
TacticFamily few_rows_tactics();
TacticFamily plugin_tactics();
TacticFamily control_flow_tactics();
TacticFamily reference_tactics();
// Kernels of ours, generated:
GeneratedFamily attention_family();
GeneratedFamily split_attention_family();
GeneratedFamily copy_family();
GeneratedFamily pointwise_family();
GeneratedFamily layer_norm_family();
GeneratedFamily softmax_family();
GeneratedFamily reduce_family();
GeneratedFamily arg_reduce_family();
GeneratedFamily group_norm_family();
GeneratedFamily pool_family();
GeneratedFamily depthwise_family();
GeneratedFamily gather_family();
GeneratedFamily pad_family();
GeneratedFamily resize_family();
GeneratedFamily trilu_family();
GeneratedFamily value_moves_family();
GeneratedFamily scatter_family();
GeneratedFamily gather_nd_family();
GeneratedFamily one_hot_family();
GeneratedFamily reverse_sequence_family();
GeneratedFamily scan_family();
GeneratedFamily fill_family();
GeneratedFamily bit_cast_family();
GeneratedFamily lrn_family();
GeneratedFamily topk_family();
GeneratedFamily nonzero_family();
GeneratedFamily nms_family();
GeneratedFamily detection_nms_family();
GeneratedFamily unique_family();
GeneratedFamily rotary_family();
GeneratedFamily gemm_family();
GeneratedFamily squeeze_excite_family();
GeneratedFamily stem_family();
GeneratedFamily wgmma_conv_family();
GeneratedFamily recurrent_family();
GeneratedFamily linear_attention_family();
GeneratedFamily transform_family();
GeneratedFamily mel_family();
GeneratedFamily tfidf_family();
GeneratedFamily grid_sample_family();
GeneratedFamily roi_align_family();
GeneratedFamily max_roi_pool_family();
GeneratedFamily deform_conv_family();
GeneratedFamily sampled_conv_family();
GeneratedFamily sampled_conv_transpose_family();
GeneratedFamily random_family();
GeneratedFamily matrices_family();
GeneratedFamily trees_family();
GeneratedFamily exact_reduce_family();
GeneratedFamily no_elements_family();
GeneratedFamily exact_product_family();
GeneratedFamily exact_softmax_family();
GeneratedFamily exact_attention_family();
GeneratedFamily block_grids_family();
GeneratedFamily packed_cast_family();
GeneratedFamily col2im_family();

std::vector<TacticFamily> tactic_families() {
  return {
      view_tactics(),
      generated_tactics<depthwise_family>(),
      generated_tactics<stem_family>(),
      cublaslt_tactics(),
      wgmma_tactics(),
      few_rows_tactics(),
      generated_tactics<wgmma_conv_family>(),
      halo_tactics(),
      generated_tactics<squeeze_excite_family>(),
      cudnn_conv_tactics(),
      generated_tactics<gemm_family>(),
      generated_tactics<copy_family>(),
      generated_tactics<pointwise_family>(),
      generated_tactics<layer_norm_family>(),
      generated_tactics<softmax_family>(),
      generated_tactics<reduce_family>(),
      generated_tactics<arg_reduce_family>(),
      generated_tactics<group_norm_family>(),
      generated_tactics<pool_family>(),
      generated_tactics<gather_family>(),
      generated_tactics<pad_family>(),
      generated_tactics<resize_family>(),
      generated_tactics<trilu_family>(),
      generated_tactics<value_moves_family>(),
      generated_tactics<scatter_family>(),
      generated_tactics<gather_nd_family>(),
      generated_tactics<one_hot_family>(),
      generated_tactics<reverse_sequence_family>(),
      generated_tactics<scan_family>(),
      generated_tactics<fill_family>(),
      generated_tactics<bit_cast_family>(),
      generated_tactics<lrn_family>(),
      generated_tactics<topk_family>(),
      generated_tactics<nonzero_family>(),
      generated_tactics<nms_family>(),
      generated_tactics<detection_nms_family>(),
      generated_tactics<unique_family>(),
      generated_tactics<split_attention_family>(),
      generated_tactics<attention_family>(),
      generated_tactics<rotary_family>(),
      generated_tactics<recurrent_family>(),
      generated_tactics<linear_attention_family>(),
      generated_tactics<transform_family>(),
      generated_tactics<mel_family>(),
      generated_tactics<tfidf_family>(),
      generated_tactics<grid_sample_family>(),
      generated_tactics<roi_align_family>(),
      generated_tactics<max_roi_pool_family>(),
      generated_tactics<deform_conv_family>(),
      generated_tactics<sampled_conv_family>(),
      generated_tactics<sampled_conv_transpose_family>(),
      generated_tactics<random_family>(),
      generated_tactics<matrices_family>(),
      generated_tactics<trees_family>(),
      generated_tactics<exact_reduce_family>(),
      generated_tactics<no_elements_family>(),
      generated_tactics<exact_product_family>(),
      generated_tactics<exact_softmax_family>(),
      generated_tactics<exact_attention_family>(),
      generated_tactics<block_grids_family>(),
      generated_tactics<packed_cast_family>(),
      generated_tactics<col2im_family>(),
      plugin_tactics(),
      control_flow_tactics(),
      reference_tactics(),
  };
}

const std::vector<TacticFamily>& all_families() {
  static const std::vector<TacticFamily> all = tactic_families();
  return all;
}

void check_choice(const std::vector<Graph>& graphs, NodeId layer, const SymbolRanges& ranges,
                  const Tactic& tactic, const Device& device) {
  lathe::check_choice(all_families(), graphs, layer, ranges, tactic, device);
}

std::string packing_key(const Tactic& tactic) {
  std::string key = tactic.name;
  for (const TacticFamily& family : all_families())
    if (family.runner == tactic.runner && family.packing_key != nullptr)
      key = tactic.runner + " " + family.packing_key(tactic);
  return key + to_string(tactic.outputs[0]) +
         to_string(tactic.inputs.empty() ? TensorType{} : tactic.inputs[0]);
}

std::unique_ptr<LayerKernel> make_kernel(const LayerQuery& query, const Tactic& tactic, const Device& device,
                                         const PackContext& pack) {
  for (const TacticFamily& family : all_families())
    if (family.runner == tactic.runner) return family.make(query, tactic, device, pack);
  throw_unknown_family(query.layer(), tactic);
}

}  // namespace lathe::cuda
