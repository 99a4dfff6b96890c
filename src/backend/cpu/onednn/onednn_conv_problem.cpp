// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/onednn/onednn_conv_problem.h"

#include <algorithm>

#include "backend/cpu/device/onednn.h"
#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

using Dims = dnnl::memory::dims;

int64_t block_of(const ConvVariant& variant) {
  return std::max(variant.source.format.block, variant.result.format.block);
}

// Output channels (or groups) that may not be torn apart.
int64_t channel_grain(const ConvProblem& problem, const ConvVariant& variant) {
  const int64_t block = block_of(variant);
  if (problem.groups == 1) return std::max<int64_t>(block, 16);
  const int64_t in = problem.in_channels / problem.groups, out = problem.out_channels / problem.groups;
  int64_t groups = 1;
  while (groups < problem.groups &&
         ((groups * in) % block != 0 || (groups * out) % block != 0 || groups * out < 16))
    groups *= 2;
  return groups * out;
}

ConvPart whole_part(const ConvProblem& problem) {
  const WindowAxis& first = problem.axes[0];
  const int64_t reach = (first.output - 1) * first.stride + (first.kernel - 1) * first.dilation + 1;
  return {.images = problem.batch,
          .channels = problem.out_channels,
          .in_channels = problem.in_channels,
          .groups = problem.groups,
          .rows = first.output,
          .in_rows = first.input,
          .pad_begin = first.pad_begin,
          .pad_end = std::max<int64_t>(0, reach - first.input - first.pad_begin)};
}

void set_rows(const ConvProblem& problem, ConvPart& part, int64_t begin, int64_t end) {
  const WindowAxis& axis = problem.axes[0];
  const int64_t first = begin * axis.stride - axis.pad_begin;
  const int64_t last = (end - 1) * axis.stride - axis.pad_begin + (axis.kernel - 1) * axis.dilation + 1;
  part.row = begin;
  part.rows = end - begin;
  part.in_row = std::clamp<int64_t>(first, 0, axis.input - 1);
  const int64_t in_end = std::clamp<int64_t>(last, part.in_row + 1, axis.input);
  part.in_rows = in_end - part.in_row;
  part.pad_begin = part.in_row - first;
  part.pad_end = std::max<int64_t>(0, last - in_end);
}

int64_t inner_spatial(const std::vector<WindowAxis>& axes, int64_t WindowAxis::*extent) {
  int64_t product = 1;
  for (size_t i = 1; i < axes.size(); ++i) product *= axes[i].*extent;
  return product;
}

int64_t padded(int64_t channels, const Format& format) {
  return (channels + format.block - 1) / format.block * format.block;
}

// Where (image, channel, row) begins, in elements; `channel` at a block, `row` 0 unless rows are outermost.
int64_t element_offset(const TensorType& type, int64_t channels, int64_t rows, int64_t inner, int64_t image,
                       int64_t channel, int64_t row) {
  const int64_t image_size = padded(channels, type.format) * rows * inner;
  if (type.format.kind == Format::Kind::ChannelsLast)
    return image * image_size + row * inner * channels + channel;
  return image * image_size + channel * rows * inner;
}

Dims spatial_dims(const ConvProblem& problem, int64_t first, int64_t WindowAxis::*extent) {
  Dims dims = {first};
  for (size_t i = 1; i < problem.axes.size(); ++i) dims.push_back(problem.axes[i].*extent);
  return dims;
}

Dims tensor_dims(int64_t images, int64_t channels, const Dims& spatial) {
  Dims dims = {images, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return dims;
}

Dims weight_dims(const ConvProblem& problem, const ConvPart& part) {
  Dims dims;
  if (problem.groups > 1) dims.push_back(part.groups);
  dims.push_back(part.channels / part.groups);
  dims.push_back(part.in_channels / part.groups);
  for (const WindowAxis& axis : problem.axes) dims.push_back(axis.kernel);
  return dims;
}

dnnl::memory::desc desc_of(const TensorType& type, const Dims& dims) {
  return onednn_desc(type, Extents(dims.begin(), dims.end()));
}

// oneDNN 2.x makes an operation descriptor first, 3.x takes all at once.
template <class Convolution>
typename Convolution::primitive_desc make_desc(dnnl::algorithm algorithm, const dnnl::memory::desc& source,
                                               const dnnl::memory::desc& weights,
                                               const dnnl::memory::desc& bias,
                                               const dnnl::memory::desc& result, const Dims& strides,
                                               const Dims& dilations, const Dims& pads_begin,
                                               const Dims& pads_end, const dnnl::primitive_attr& attributes) {
  const auto kind = dnnl::prop_kind::forward_inference;
  if constexpr (requires { typename Convolution::desc; })
    return {typename Convolution::desc(kind, algorithm, source, weights, bias, result, strides, dilations,
                                       pads_begin, pads_end),
            attributes, onednn_engine()};
  else
    return {onednn_engine(), kind,    algorithm, source,     weights,  bias,
            result,          strides, dilations, pads_begin, pads_end, attributes};
}

}  // namespace

Extents conv_input_extents(const LayerQuery& query) {
  const Node& node = query.layer();
  Extents input = upper_extents(query.graph.value(node.inputs[0]).shape, query.opt_values());
  const lathe::Shape& weights = query.graph.value(node.inputs[1]).shape;
  const auto* conv = std::get_if<Conv>(&node.op);
  input[1] = conv ? weights[1].value() * conv->groups : weights[0].value();
  return input;
}

ConvProblem ConvProblem::at(const Conv& conv, const Extents& input, int64_t out_channels, int joined) {
  ConvProblem problem{.batch = input[0],
                      .groups = conv.groups / joined,
                      .in_channels = input[1],
                      .out_channels = out_channels};
  const WindowSpec spec{conv.kernel,     conv.strides,  conv.dilations,
                        conv.pads_begin, conv.pads_end, conv.auto_pad};
  problem.axes = resolve_window(spec, Extents(input.begin() + 2, input.end()));
  return problem;
}

int64_t ConvProblem::in_spatial() const {
  return axes[0].input * inner_spatial(axes, &WindowAxis::input);
}
int64_t ConvProblem::out_spatial() const {
  return axes[0].output * inner_spatial(axes, &WindowAxis::output);
}

double ConvProblem::flops() const {
  double taps = static_cast<double>(in_channels) / static_cast<double>(groups);
  for (const WindowAxis& axis : axes) taps *= static_cast<double>(axis.kernel);
  return 2.0 * taps * static_cast<double>(batch * out_channels * out_spatial());
}

int groups_to_join(const Conv& conv, int64_t in_channels, int64_t out_channels, int64_t block) {
  constexpr int kMost = 8;
  const int64_t in = in_channels / conv.groups, out = out_channels / conv.groups;
  if (in == 1 || out == 1 || (in % block == 0 && out % block == 0)) return 1;
  for (int joined = 2; joined <= kMost; ++joined)
    if (conv.groups % joined == 0 && in * joined % block == 0 && out * joined % block == 0) return joined;
  return 1;
}

std::vector<float> join_groups(const std::vector<float>& weights, const ConvProblem& joined_problem,
                               int joined) {
  const int64_t out =
      joined_problem.out_channels / joined_problem.groups / joined;  // of one of the old groups
  const int64_t row = static_cast<int64_t>(weights.size()) / joined_problem.out_channels;
  std::vector<float> wide(weights.size() * static_cast<size_t>(joined));
  for (int64_t channel = 0; channel < joined_problem.out_channels; ++channel) {
    const int64_t place = channel / out % joined;
    std::copy_n(weights.data() + channel * row, row, wide.data() + channel * row * joined + place * row);
  }
  return wide;
}

std::string split_suffix(const ConvVariant& variant) {
  switch (variant.split) {
    case ConvSplit::Whole:
      return "";
    case ConvSplit::Channels:
      return "_oc" + std::to_string(variant.parts);
    case ConvSplit::Rows:
      return "_rows";
    case ConvSplit::Batch:
      return "_batch";
  }
  return "";
}

TacticParams split_params(const ConvVariant& variant) {
  return {{"split", static_cast<int64_t>(variant.split)}, {"parts", variant.parts}};
}

void read_split(const TacticParams& params, ConvVariant& variant) {
  variant.split = static_cast<ConvSplit>(params.get("split", 0));
  variant.parts = std::max(1, params.get_int("parts", 1));
}

int channel_parts(const ConvProblem& problem, const ConvVariant& variant, int wanted) {
  if (variant.source.format.kind == Format::Kind::ChannelsLast ||
      variant.result.format.kind == Format::Kind::ChannelsLast)
    return 1;  // a part's channels would have gaps
  const int64_t grain = channel_grain(problem, variant);
  return static_cast<int>(std::clamp<int64_t>((problem.out_channels + grain - 1) / grain, 1, wanted));
}

ConvPart channel_part(const ConvProblem& problem, const ConvVariant& variant, int index) {
  ConvPart part = whole_part(problem);
  if (variant.split != ConvSplit::Channels) return part;
  const Worker worker{index, variant.parts};
  const auto range = worker.slice(problem.out_channels, channel_grain(problem, variant));
  part.channel = range.begin;
  part.channels = range.end - range.begin;
  if (problem.groups > 1) {
    const int64_t out = problem.out_channels / problem.groups, in = problem.in_channels / problem.groups;
    part.groups = part.channels / out;
    part.in_channel = part.channel / out * in;
    part.in_channels = part.groups * in;
  }
  return part;
}

// As many parts for each thread as the portions of its piece can make use of, if each is worth a call: with
// parts of 10 us or of less than four rows, convolutions of EfficientNet-B0 took 7 to 25 % longer.
int64_t row_parts(const ConvProblem& problem, const ConvVariant& variant, int threads) {
  constexpr double kLeastNs = 20'000;
  constexpr int64_t kEach = 4, kLeastRows = 4;
  const int64_t rows = problem.axes[0].output;
  if (threads == 1 || rows <= threads) return std::min<int64_t>(threads, rows);
  const double elements = static_cast<double>(problem.batch * (problem.in_channels * problem.in_spatial() +
                                                               problem.out_channels * problem.out_spatial()));
  const double ns = problem.flops() / 100 + elements * dtype_bytes(variant.source.dtype, 1) / 20;
  const auto worth = static_cast<int64_t>(ns / kLeastNs / threads);
  return threads * std::clamp<int64_t>(std::min(worth, rows / threads / kLeastRows), 1, kEach);
}

std::vector<std::vector<ConvPart>> conv_parts(const ConvProblem& problem, const ConvVariant& variant,
                                              int threads) {
  std::vector<std::vector<ConvPart>> members;
  // Winograd goes image by image too: which of its two kernels oneDNN takes depends on the batch, and their
  // weights cannot be turned into one another.
  const auto each_image = [](const ConvPart& part) {
    std::vector<ConvPart> parts(static_cast<size_t>(part.images), part);
    for (size_t n = 0; n < parts.size(); ++n) {
      parts[n].image = part.image + static_cast<int64_t>(n);
      parts[n].images = 1;
    }
    return parts;
  };
  switch (variant.split) {
    case ConvSplit::Whole:
      if (variant.winograd) return {each_image(whole_part(problem))};
      return {{whole_part(problem)}};
    case ConvSplit::Channels:
      for (int i = 0; i < variant.parts; ++i)
        members.push_back(each_image(channel_part(problem, variant, i)));
      return members;
    case ConvSplit::Rows: {
      const int64_t rows = problem.axes[0].output, count = row_parts(problem, variant, threads);
      for (int64_t i = 0; i < count; ++i) {
        ConvPart part = whole_part(problem);
        set_rows(problem, part, rows * i / count, rows * (i + 1) / count);
        if (part.pad_begin < 0) return {each_image(whole_part(problem))};  // behind the input, in the padding
        members.push_back(each_image(part));
      }
      return members;
    }
    case ConvSplit::Batch: {
      const int64_t count = std::min<int64_t>(threads, problem.batch);
      for (int64_t i = 0; i < count; ++i) {
        ConvPart part = whole_part(problem);
        part.image = problem.batch * i / count;
        part.images = problem.batch * (i + 1) / count - part.image;
        if (variant.winograd)
          members.push_back(each_image(part));
        else
          members.push_back({part});
      }
      return members;
    }
  }
  return members;
}

int64_t source_offset(const ConvProblem& problem, const ConvVariant& variant, const ConvPart& part) {
  return dtype_bytes(variant.source.dtype,
                     element_offset(variant.source, problem.in_channels, problem.axes[0].input,
                                    inner_spatial(problem.axes, &WindowAxis::input), part.image,
                                    part.in_channel, part.in_row));
}

int64_t result_offset(const ConvProblem& problem, const ConvVariant& variant, const ConvPart& part) {
  return dtype_bytes(
      variant.result.dtype,
      element_offset(variant.result, problem.out_channels, problem.axes[0].output,
                     inner_spatial(problem.axes, &WindowAxis::output), part.image, part.channel, part.row));
}

dnnl::memory::desc plain_weights(const ConvProblem& problem, const ConvPart& part) {
  return desc_of({DType::Float32, kLinear}, weight_dims(problem, part));
}

ResultPart result_part(const ConvProblem& problem, const ConvVariant& variant, const ConvPart& part) {
  const Dims spatial = spatial_dims(problem, part.rows, &WindowAxis::output);
  return {desc_of(variant.result, tensor_dims(part.images, part.channels, spatial)),
          result_offset(problem, variant, part), part.channel};
}

bool is_unfolded_product(const ConvPlan& plan) {
  const std::string name = onednn_impl_name(plan.desc.impl_info_str());
  return ("_" + name + "_").find("_gemm_") != std::string::npos;
}

std::optional<ConvPlan> plan_conv(const ConvProblem& problem, const ConvVariant& variant,
                                  const ConvPart& part, bool bias, const PostOpChain* chain,
                                  const dnnl::memory::desc* weights, OnednnKernels kernels) {
  const auto source = desc_of(
      variant.source,
      tensor_dims(part.images, part.in_channels, spatial_dims(problem, part.in_rows, &WindowAxis::input)));
  const ResultPart result = result_part(problem, variant, part);
  const dnnl::memory::desc any(weight_dims(problem, part), onednn_type(variant.source.dtype),
                               dnnl::memory::format_tag::any);
  const dnnl::memory::desc bias_desc =
      bias ? onednn_desc({DType::Float32, kLinear}, {part.channels}) : dnnl::memory::desc();
  Dims strides, dilations, pads_begin, pads_end;
  for (size_t i = 0; i < problem.axes.size(); ++i) {
    const WindowAxis& axis = problem.axes[i];
    const int64_t reach = (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation - 1);
    pads_begin.push_back(i == 0 ? part.pad_begin : axis.pad_begin);
    pads_end.push_back(i == 0 ? part.pad_end : std::max<int64_t>(0, reach - axis.input - axis.pad_begin));
  }
  const auto algorithm =
      variant.winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
  std::optional<ConvPlan> product;
  for (const bool fused : {true, false}) {
    if (fused && chain == nullptr) continue;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (fused) attributes.set_post_ops(chain->post_ops(result));
    try {
      auto desc = with_onednn_memory([&] {
        return make_desc<dnnl::convolution_forward>(algorithm, source, weights ? *weights : any, bias_desc,
                                                    result.desc, strides, dilations, pads_begin, pads_end,
                                                    attributes);
      });
      if (kernels == OnednnKernels::Optimised && is_onednn_reference(desc.impl_info_str())) continue;
      ConvPlan plan{std::move(desc), fused};
      if (!is_unfolded_product(plan)) return plan;
      // With a residual of channels last oneDNN's unfolded product gives wrong results.
      if (!fused) product = std::move(plan);
    } catch (const dnnl::error&) {
      // oneDNN's way to say that no implementation takes this
    }
  }
  return product;
}

}  // namespace lathe::cpu
