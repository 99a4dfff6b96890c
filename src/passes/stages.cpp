// SPDX-License-Identifier: Apache-2.0
//
// The order of the passes, and why. A stage repeats until none of its passes changes anything, so order
// within a stage only says who looks first.
#include "passes/passes.h"

namespace lathe {

std::vector<Stage> default_stages() {
  return {
      // What nobody reads should not be looked at by anybody.
      {"dead-layer removal", {{"remove_dead", "DeadLayerRemoval", remove_dead}}},

      // The types in which layers will compute, before anything looks at types: casts inside of the model may
      // vanish.
      {"type widening", {{"widen_types", "TypeWidening", widen_types}}},

      // Constants first: patterns ask for numbers, and exporters write them as little computations. Equal
      // nodes are merged here too, because a pattern must see "read once" where an exporter wrote the same
      // thing twice.
      {"constant folding",
       {{"fold_constants", "ConstantFolding", fold_constants},
        {"fold_sizes", "ConstantFolding", fold_sizes},
        {"remove_noop", "NoopRemoval", remove_noop},
        {"merge_common_subexpressions", "DupeLayerRemoval", merge_common_subexpressions},
        {"erase_pooling", "PoolingErasure", erase_pooling}}},

      // Operators that the backend lacks become products, which later passes take like any other. Their
      // windows and sizes are constants by now.
      {"operator lowering",
       {{"lower_transforms", "TransformLowering", lower_transforms},
        {"lower_col2im", "Col2ImLowering", lower_col2im}}},

      // Rounding to a grid is pointwise: tails take it like any other function. Repeated ones go before a
      // tail hides them.
      {"quantization fusion",
       {{"fuse_quantize_dequantize", "QuantizeDequantizeFusion", fuse_quantize_dequantize},
        {"remove_repeated_rounding", "RepeatedRoundingRemoval", remove_repeated_rounding}}},

      // Into the weights, before activations and sums can stand between a convolution and its scale.
      {"scale fusion",
       {{"fold_pad", "ConvPadFusion", fold_pad},
        {"fold_batchnorm", "ConvScaleFusion", fold_batchnorm},
        {"fold_conv_bias", "ConvScaleFusion", fold_conv_bias},
        {"fold_channel_steps", "ConvScaleFusion", fold_channel_steps},
        {"merge_convolutions", "ConvSumFusion", merge_convolutions}}},

      // Shuffles out of the way of everything that looks for neighbours: down behind products until they
      // cancel. Slices of a product become products (split_matmuls) only after the shuffles between them are
      // gone.
      {"shuffle fusion",
       {{"simplify_shuffles", "ShuffleShuffleFusion", simplify_shuffles},
        {"move_shuffles_down", "ShuffleMatMulSwap", move_shuffles_down},
        {"simplify_gathers", "GatherToSlice", simplify_gathers},
        {"simplify_scatters", "ScatterRows", simplify_scatters},
        {"simplify_slice_updates", "ScatterToConcat", simplify_slice_updates},
        {"simplify_concats", "ConcatSplitErasure", simplify_concats},
        {"split_matmuls", "MatMulSplit", split_matmuls},
        {"simplify_matmuls", "ConstantMatMul", simplify_matmuls},
        {"fold_constants", "ConstantFolding", fold_constants},
        {"remove_noop", "NoopRemoval", remove_noop},
        {"merge_common_subexpressions", "DupeLayerRemoval", merge_common_subexpressions}}},

      // Functions that exporters write out in parts. Before the epilogues, which would take the parts one by
      // one. A Gelu knows x^3 as a power; the others know squares and roots.
      {"function fusion",
       {{"fuse_gelu_tanh", "GeluTanhFusion", fuse_gelu_tanh},
        {"simplify_powers", "PowerSimplification", simplify_powers},
        {"fuse_gelu_erf", "GeluErfFusion", fuse_gelu_erf},
        {"fuse_silu", "SwishFusion", fuse_silu},
        {"fuse_hard_swish", "HardSwishFusion", fuse_hard_swish},
        {"fuse_clip", "ClipFusion", fuse_clip},
        {"fold_channel_division", "ConvScaleFusion", fold_channel_division},
        {"fuse_product_sum", "ProductSumFusion", fuse_product_sum},
        {"fuse_softmax", "SoftmaxFusion", fuse_softmax},
        {"fuse_layer_norm", "LayerNormFusion", fuse_layer_norm},
        {"fuse_rms_norm", "RmsNormFusion", fuse_rms_norm},
        {"absorb_casts", "CastAbsorption", absorb_casts},
        {"fuse_norm_scale", "NormScaleFusion", fuse_norm_scale},
        {"fuse_rotary", "RotaryFusion", fuse_rotary}}},

      // Attention needs its softmax whole. Then what it reads: masks that are known and repeated heads go,
      // and the Transposes that split heads come down to it, where they cancel against those that it puts
      // around itself. The log has the label of TensorRT's Myelin, which compiles such functions.
      {"Myelin optimization",
       {{"fuse_attention", "AttentionFusion", fuse_attention},
        {"fold_constants", "ConstantFolding", fold_constants},
        {"fuse_constant_mask", "AttentionMaskFusion", fuse_constant_mask},
        {"move_transposes_below_rotary", "ShuffleRotarySwap", move_transposes_below_rotary},
        {"simplify_shuffles", "ShuffleShuffleFusion", simplify_shuffles},
        {"fuse_repeated_heads", "RepeatedHeadsFusion", fuse_repeated_heads},
        {"absorb_attention_casts", "CastAbsorption", absorb_attention_casts},
        {"choose_attention_layout", "AttentionLayout", choose_attention_layout},
        {"move_shuffles_down", "ShuffleMatMulSwap", move_shuffles_down},
        {"remove_noop", "NoopRemoval", remove_noop}}},

      // A BatchNorm that is still there has no convolution in front.
      {"batchnorm lowering", {{"lower_batchnorm", "ScaleLowering", lower_batchnorm}}},

      // Tails into their layers. Activations before sums: of conv, relu, add the relu belongs to the
      // convolution.
      {"vertical fusions",
       {{"fuse_conv_activation", "ConvReluFusion", fuse_conv_activation},
        {"fuse_conv_residual", "ConvEltwiseSumFusion", fuse_conv_residual},
        {"fuse_matmul_epilogue", "MatMulEpilogueFusion", fuse_matmul_epilogue},
        {"fuse_rounding", "RoundingFusion", fuse_rounding}}},

      // What no layer took.
      {"pointwise fusion", {{"fuse_pointwise", "PointWiseFusion", fuse_pointwise}}},

      // Whole blocks as one layer, made of layers that have their tails.
      {"block fusion", {{"fuse_squeeze_excite", "SqueezeExciteFusion", fuse_squeeze_excite}}},

      {"dupe layer removal",
       {{"merge_common_subexpressions", "DupeLayerRemoval", merge_common_subexpressions}}},
      {"final dead-layer removal", {{"remove_dead", "DeadLayerRemoval", remove_dead}}},

      // q, k and v as one product: when they have their biases, which are stacked like the weights. Their
      // Reshapes then meet those that split heads. Weights on a grid are stacked where what they meet is
      // bytes, which is marked for that.
      {"tensor merging",
       {{"mark_quantization", "QuantizationMarking", mark_quantization},
        {"merge_matmuls", "MatMulMerging", merge_matmuls},
        {"merge_rotaries", "RotaryMerging", merge_rotaries},
        {"simplify_shuffles", "ShuffleShuffleFusion", simplify_shuffles},
        {"remove_noop", "NoopRemoval", remove_noop}}},

      // Last: they mark the values and layers that there are.
      {"quantization marking", {{"mark_quantization", "QuantizationMarking", mark_quantization}}},
      {"precision marking", {{"mark_precisions", "PrecisionMarking", mark_precisions}}},
  };
}

std::vector<Stage> optional_stages() {
  return {{"depthwise blocks", {{"fuse_depthwise_block", "DepthwiseBlockFusion", fuse_depthwise_block}}},
          {"feed-forward blocks", {{"fuse_feed_forward", "FeedForwardFusion", fuse_feed_forward}}}};
}

}  // namespace lathe
