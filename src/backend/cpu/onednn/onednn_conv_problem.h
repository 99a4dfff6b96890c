// SPDX-License-Identifier: Apache-2.0
//
// A convolution, the parts it is split into, and oneDNN's primitive for a part.
//
//   Whole     one part: single thread, or too small to share
//   Channels  output channels (or groups): every part has its own weights and writes its own channels of one
//             image
//   Rows      output rows of one image, for formats where rows are contiguous (channels last)
//   Batch     images
//
// Each part is a dense tensor of its own at an offset, because oneDNN's fast kernels refuse tensors with
// gaps.
//
// Groups of fewer channels than a vector has oneDNN unfold images for a product. Several of them joined are
// one group that its fast kernels take: the weights between channels of different groups are zero. That is
// more arithmetic than is asked for, as many times as groups are joined, and still several times as fast.
#pragma once

#include <dnnl.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/onednn/onednn_post_ops.h"
#include "ops/window.h"

namespace lathe::cpu {

enum class ConvSplit : uint8_t { Whole, Channels, Rows, Batch };

// What a tactic fixes besides the problem.
struct ConvVariant {
  TensorType source, result;
  bool winograd = false;
  ConvSplit split = ConvSplit::Whole;
  int parts = 1;   // Channels only: packed weights depend on it
  int joined = 1;  // groups that are computed as one
  bool operator==(const ConvVariant&) const = default;
};

// The extents of a convolution's input at the optimum, with as many channels as its constant weights have:
// what stands for a size that a run finds need not be that number.
Extents conv_input_extents(const LayerQuery& query);

struct ConvProblem {
  int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;
  std::vector<WindowAxis> axes;

  // `joined`: groups that are one.
  static ConvProblem at(const Conv& conv, const Extents& input, int64_t out_channels, int joined = 1);
  double flops() const;
  int64_t in_spatial() const;
  int64_t out_spatial() const;
};

// One primitive's share.
struct ConvPart {
  int64_t image = 0, images = 1;            // first and how many
  int64_t channel = 0, channels = 0;        // output channels
  int64_t in_channel = 0, in_channels = 0;  // input channels it reads
  int64_t groups = 1;
  int64_t row = 0, rows = 0;                                    // along the first spatial axis
  int64_t in_row = 0, in_rows = 0, pad_begin = 0, pad_end = 0;  // of that axis, for these rows
};

// The split as part of a tactic's name: "_oc2", "_rows", "_batch" or nothing.
std::string split_suffix(const ConvVariant& variant);
// And as its parameters. What an engine file says may be no split at all: then the parameters of what was
// read are others.
TacticParams split_params(const ConvVariant& variant);
void read_split(const TacticParams& params, ConvVariant& variant);

// How many parts of output channels make sense, at most `wanted`.
int channel_parts(const ConvProblem& problem, const ConvVariant& variant, int wanted);
// Part `index` of the channels, all else whole.
ConvPart channel_part(const ConvProblem& problem, const ConvVariant& variant, int index);
// All parts, in groups that one member works on: [member][part].
std::vector<std::vector<ConvPart>> conv_parts(const ConvProblem& problem, const ConvVariant& variant,
                                              int threads);

// Groups to join so that one has whole vectors of `block` channels: 1 where they have, or where joining is no
// way.
int groups_to_join(const Conv& conv, int64_t in_channels, int64_t out_channels, int64_t block);
// Weights of (out channels, channels of a group, taps), as those of `joined` groups as one.
std::vector<float> join_groups(const std::vector<float>& weights, const ConvProblem& joined_problem,
                               int joined);

// Bytes into the source and result storage.
int64_t source_offset(const ConvProblem& problem, const ConvVariant& variant, const ConvPart& part);
int64_t result_offset(const ConvProblem& problem, const ConvVariant& variant, const ConvPart& part);

// Layout of the part's weights as the model has them (FP32).
dnnl::memory::desc plain_weights(const ConvProblem& problem, const ConvPart& part);

struct ConvPlan {
  dnnl::convolution_forward::primitive_desc desc;
  bool fused = false;  // the post-ops are in it
};
// Whether oneDNN unfolds each image for a product, as it does where it has no better kernel. With a fused
// residual that takes a hundred times as long (64-256@56 of 8 images 900 ms), and is wrong for some rows of a
// dilated one (2.6).
bool is_unfolded_product(const ConvPlan& plan);
// oneDNN's implementation for a part; nothing when it has only its reference. `weights`: a layout to keep to,
// or null for any. `chain` null: without post-ops. With post-ops that oneDNN cannot fuse, or for which it has
// an unfolded product only, it tries without; an unfolded product is the plan where all else fails.
// OnednnKernels::All: its reference counts, too.
enum class OnednnKernels { Optimised, All };
std::optional<ConvPlan> plan_conv(const ConvProblem& problem, const ConvVariant& variant,
                                  const ConvPart& part, bool bias, const PostOpChain* chain,
                                  const dnnl::memory::desc* weights = nullptr,
                                  OnednnKernels kernels = OnednnKernels::Optimised);
ResultPart result_part(const ConvProblem& problem, const ConvVariant& variant, const ConvPart& part);

}  // namespace lathe::cpu
