// SPDX-License-Identifier: Apache-2.0
#include "passes/catalogue.h"

#include <algorithm>

#include "base/error.h"
#include "passes/pass.h"

namespace lathe {
namespace {

// By name, sorted.
constexpr PassInfo kPasses[] = {
    {"absorb_attention_casts",
     "attention of one query reads keys and values in the 16 bits they are stored in"},
    {"absorb_casts", "casts around a norm or softmax go where its kernel sums in FP32 anyway"},
    {"choose_attention_layout", "attention reads its heads in the order in which they come"},
    {"erase_pooling", "pooling over one element gives its input back"},
    {"fold_batchnorm", "a BatchNorm behind a convolution goes into its weights and bias"},
    {"fold_channel_division",
     "a division per channel in front of a rounding goes into a convolution's weights"},
    {"fold_channel_steps", "scales per channel of what a depthwise convolution reads go into its weights"},
    {"fold_constants", "what does not depend on inputs is computed once"},
    {"fold_conv_bias", "sums and products per channel behind a convolution go into its weights and bias"},
    {"fold_pad", "zeros around an image become the padding of the convolution"},
    {"fold_sizes", "shapes, pads and bounds whose values are known become attributes"},
    {"fuse_attention", "two products with a softmax between them become one attention layer"},
    {"fuse_clip", "a minimum and a maximum of constants become one clip"},
    {"fuse_constant_mask", "masks of attention that are known become causal attention, or go"},
    {"fuse_conv_activation", "an activation behind a convolution becomes its epilogue"},
    {"fuse_conv_residual", "a sum or product behind a convolution becomes its epilogue"},
    {"fuse_depthwise_block", "a depthwise convolution and its neighbours become one layer"},
    {"fuse_feed_forward", "two products with an activation between them become one layer"},
    {"fuse_gelu_erf", "Gelu with erf that is written in parts becomes one function"},
    {"fuse_gelu_tanh", "Gelu with tanh that is written in parts becomes one function"},
    {"fuse_hard_swish", "HardSwish that is written in parts becomes one function"},
    {"fuse_layer_norm", "a layer norm that is written in parts becomes one layer"},
    {"fuse_matmul_epilogue", "bias, activation and residual behind a product become its epilogue"},
    {"fuse_norm_scale", "scale and bias behind a norm become its operands"},
    {"fuse_pointwise", "pointwise operations in a row become one layer"},
    {"fuse_product_sum", "a sum of products of all pairs of rows becomes a matrix product"},
    {"fuse_quantize_dequantize", "a QuantizeLinear with its DequantizeLinear becomes a rounding"},
    {"fuse_repeated_heads", "attention reads heads that were repeated for groups once"},
    {"fuse_rms_norm", "an RMS norm that is written in parts becomes one layer"},
    {"fuse_rotary", "a rotary embedding that is written in parts becomes one layer"},
    {"fuse_rounding", "a rounding behind a layer norm or attention becomes its epilogue"},
    {"fuse_silu", "x times its sigmoid becomes one function"},
    {"fuse_softmax", "a softmax that is written in parts becomes one layer"},
    {"fuse_squeeze_excite", "squeeze-and-excite becomes one layer"},
    {"lower_batchnorm", "a BatchNorm that is left becomes a product and a sum per channel"},
    {"lower_col2im", "Col2Im becomes a transposed convolution where the device has no kernel of it"},
    {"lower_transforms", "Fourier transforms become products where the device has no kernels of them"},
    {"mark_precisions", "says which layers may compute in narrower types"},
    {"mark_quantization", "says which values may be stored as bytes of a grid"},
    {"merge_common_subexpressions", "equal layers with equal inputs become one"},
    {"merge_convolutions", "convolutions of one image that are added become one convolution"},
    {"merge_matmuls", "products of one operand with several weights become one product"},
    {"merge_rotaries", "rotary embeddings of queries and keys become one layer"},
    {"move_shuffles_down", "transposes and reshapes move below products and pointwise operations"},
    {"move_transposes_below_rotary", "transposes move below rotary embeddings"},
    {"remove_dead", "layers whose results nobody reads go"},
    {"remove_noop", "layers that give their input back go"},
    {"remove_repeated_rounding", "rounding to a grid that values already lie on goes"},
    {"simplify_concats", "concatenations and splits that undo each other go"},
    {"simplify_gathers", "a gather of one known index becomes a slice"},
    {"simplify_matmuls", "products whose left operand is constant stand as kernels take them"},
    {"simplify_powers", "powers with a constant exponent become products, reciprocals and roots"},
    {"simplify_scatters", "a scatter of elements that sends whole rows becomes one of rows"},
    {"simplify_shuffles", "chains of transposes and reshapes become as short as they can be"},
    {"simplify_slice_updates", "a ScatterND to positions in a row is a Concat with what stays"},
    {"split_matmuls", "a product whose columns go separate ways becomes one product for each"},
    {"widen_types", "models in types that the device does not compute in compute in FP32"},
};

PassInfo described(std::string_view name) {
  const auto* found = std::ranges::find(kPasses, name, &PassInfo::name);
  check(found != std::end(kPasses), "pass " + std::string(name) + " is not in the catalogue");
  return *found;
}

}  // namespace

std::vector<PassInfo> pass_catalogue() {
  std::vector<PassInfo> all;
  const auto add = [&](const std::vector<Stage>& stages, bool is_optional) {
    for (const Stage& stage : stages)
      for (const Pass& pass : stage.passes) {
        if (std::ranges::find(all, pass.name, &PassInfo::name) != all.end()) continue;
        all.push_back(described(pass.name));
        all.back().is_optional = is_optional;
      }
  };
  add(default_stages(), false);
  add(optional_stages(), true);
  check(all.size() == std::size(kPasses), "the catalogue has passes that no stage runs");
  return all;
}

}  // namespace lathe
