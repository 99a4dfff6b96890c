// SPDX-License-Identifier: Apache-2.0
#include "passes/channel_scale.h"

#include <algorithm>
#include <cmath>

#include "ir/recipe.h"
#include "passes/match.h"

namespace lathe {
namespace {

bool is_readable_constant(const Graph& graph, ValueId value) {
  return value != kNoValue && graph.value(value).is_constant() && graph.value(value).constant.has_bytes() &&
         is_float(graph.value(value).dtype);
}

int64_t groups_of(const Node& node) {
  if (const auto* conv = std::get_if<Conv>(&node.op)) return conv->groups;
  return std::get<ConvTranspose>(node.op).groups;
}

// Which output channel an element of the weights belongs to. Conv: (M, C/groups, ...). ConvTranspose: (C,
// M/groups, ...), where the group of an input channel says which block of output channels it feeds.
struct ChannelOf {
  bool transposed;
  int64_t rows, columns, groups, inner;
  int64_t operator()(int64_t element) const {
    const int64_t row = element / (columns * inner), column = element / inner % columns;
    if (!transposed) return row;
    return row / (rows / groups) * columns + column;
  }
};

// How an engine file says it: a product in FP64, rounded once. Where a group decides which channel an element
// belongs to, the scale has no shape of its own, and the weights are stored as they are.
Tensor with_recipe(Tensor scaled, const Tensor& weights, const ChannelOf& channel_of,
                   const std::vector<double>& scale) {
  if (channel_of.transposed && channel_of.groups > 1) return scaled;
  Extents extents(weights.extents().size(), 1);
  extents[channel_of.transposed ? 1 : 0] = static_cast<int64_t>(scale.size());
  const auto in_fp64 = [&](Op op, std::vector<Tensor> inputs) {
    return made_by(Tensor::without_bytes(DType::Float64, weights.extents()), std::move(op),
                   std::move(inputs));
  };
  const Tensor wide = in_fp64(Cast{DType::Float64}, {weights});
  const Tensor product = in_fp64(Pointwise{.code = PointwiseCode::Mul},
                                 {wide, Tensor::from_doubles(DType::Float64, extents, scale)});
  return made_by(std::move(scaled), Cast{weights.dtype()}, {product});
}

Tensor scaled_weights(const Tensor& weights, const ChannelOf& channel_of, const std::vector<double>& scale) {
  if (weights.dtype() == DType::Float32) {
    Tensor result = Tensor::allocate(DType::Float32, weights.extents());
    const auto in = weights.data<float>();
    auto out = result.mutable_data<float>();
    // Runs of `inner` elements share a channel.
    for (size_t i = 0; i < in.size(); i += static_cast<size_t>(channel_of.inner)) {
      const double s = scale[static_cast<size_t>(channel_of(static_cast<int64_t>(i)))];
      for (size_t k = i; k < i + static_cast<size_t>(channel_of.inner); ++k)
        out[k] = static_cast<float>(in[k] * s);
    }
    return result;
  }
  std::vector<double> values = weights.to_doubles();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] *= scale[static_cast<size_t>(channel_of(static_cast<int64_t>(i)))];
  return Tensor::from_doubles(weights.dtype(), weights.extents(), values);
}

// That of the scaled weights of a Conv; nullopt where they lie on none that kernels know.
std::optional<Quantization> scaled_grid(const Value& weights, const std::vector<double>& scale) {
  if (!weights.quantization || weights.quantization->axis > 0) return std::nullopt;
  Quantization grid = *weights.quantization;
  if (grid.scales.size() != 1 && grid.scales.size() != scale.size()) return std::nullopt;  // of blocks
  grid.axis = 0;
  grid.scales.clear();
  grid.zeros.clear();
  for (size_t c = 0; c < scale.size(); ++c) {
    grid.scales.push_back(static_cast<float>(static_cast<double>(weights.quantization->scale(c)) * scale[c]));
    grid.zeros.push_back(weights.quantization->zero(c));
  }
  return quantization_error(grid, weights.shape).empty() ? std::optional(grid) : std::nullopt;
}

}  // namespace

bool has_constant_weights(const Graph& graph, NodeId id) {
  if (!plain_op<Conv>(graph, id) && !plain_op<ConvTranspose>(graph, id)) return false;
  const Node& node = graph.node(id);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != kNoValue;
  if (!is_readable_constant(graph, node.inputs[1]) ||
      (has_bias && !is_readable_constant(graph, node.inputs[2])))
    return false;
  const Tensor& weights = graph.value(node.inputs[1]).constant;
  return weights.size() > 0 && weights.rank() >= 2 && groups_of(node) > 0 &&
         weights.extents()[0] % groups_of(node) == 0;
}

int64_t output_channels(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const Extents& extents = graph.value(node.inputs[1]).constant.extents();
  return std::holds_alternative<Conv>(node.op) ? extents[0] : extents[1] * groups_of(node);
}

void scale_weights(Graph& graph, NodeId id, const std::vector<double>& scale) {
  if (std::all_of(scale.begin(), scale.end(), [](double s) { return s == 1; })) return;
  GraphEditor editor(graph);
  const Node& node = graph.node(id);
  const bool transposed = std::holds_alternative<ConvTranspose>(node.op);
  const Value weights = graph.value(node.inputs[1]);
  const Extents& extents = weights.constant.extents();
  const ChannelOf channel_of{transposed, extents[0], extents[1], groups_of(node),
                             weights.constant.size() / (extents[0] * extents[1])};
  const ValueId scaled = editor.add_constant(
      weights.name + "_scaled",
      with_recipe(scaled_weights(weights.constant, channel_of, scale), weights.constant, channel_of, scale));
  if (!transposed) editor.set_quantization(scaled, scaled_grid(weights, scale));
  editor.replace_input(id, 1, scaled);
}

void scale_channels(Graph& graph, NodeId id, const ChannelScale& by) {
  GraphEditor editor(graph);
  const int64_t channels = output_channels(graph, id);
  const DType type = graph.value(graph.node(id).inputs[1]).dtype;
  std::vector<double> bias(static_cast<size_t>(channels), 0.0);
  const std::vector<ValueId> given = graph.node(id).inputs;
  if (given.size() > 2 && given[2] != kNoValue) bias = graph.value(given[2]).constant.to_doubles();
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = bias[i] * by.scale[i] + by.shift[i];

  scale_weights(graph, id, by.scale);
  const ValueId shifted =
      editor.add_constant(graph.node(id).name + "_bias", Tensor::from_doubles(type, {channels}, bias));
  editor.set_inputs(id, {given[0], graph.node(id).inputs[1], shifted});
}

std::optional<ChannelScale> batchnorm_scale(const Graph& graph, NodeId id, int64_t channels) {
  const auto* norm = plain_op<BatchNorm>(graph, id);
  if (!norm) return std::nullopt;
  std::vector<std::vector<double>> p;
  for (size_t i = 1; i < 5; ++i) {
    const ValueId given = graph.node(id).inputs[i];
    if (!is_readable_constant(graph, given) || graph.value(given).constant.size() != channels)
      return std::nullopt;
    p.push_back(graph.value(given).constant.to_doubles());
  }
  ChannelScale scale;
  for (size_t c = 0; c < p[0].size(); ++c) {
    const double k = p[0][c] / std::sqrt(p[3][c] + static_cast<double>(norm->epsilon));
    scale.scale.push_back(k);
    scale.shift.push_back(p[1][c] - p[2][c] * k);
  }
  return scale;
}

std::optional<std::vector<double>> per_channel(const Graph& graph, ValueId id, int64_t channels,
                                               size_t rank) {
  if (!is_readable_constant(graph, id)) return std::nullopt;
  const Tensor& tensor = graph.value(id).constant;
  if (static_cast<size_t>(tensor.rank()) > rank) return std::nullopt;
  const std::vector<double> values = tensor.size() <= channels ? tensor.to_doubles() : std::vector<double>();
  if (tensor.size() == 1) return std::vector<double>(static_cast<size_t>(channels), values[0]);
  // Aligned at the right, the channel axis is the one in front of rank - 2 spatial axes.
  Extents padded(rank - static_cast<size_t>(tensor.rank()), 1);
  padded.insert(padded.end(), tensor.extents().begin(), tensor.extents().end());
  for (size_t axis = 0; axis < rank; ++axis) {
    if (padded[axis] != (axis == 1 ? channels : 1)) return std::nullopt;
  }
  return values;
}

std::optional<std::vector<double>> positive_per_channel(const Graph& graph, ValueId id, int64_t channels,
                                                        size_t rank) {
  auto values = per_channel(graph, id, channels, rank);
  const auto is_positive = [](double x) { return x > 0 && std::isfinite(x); };
  if (!values || !std::all_of(values->begin(), values->end(), is_positive)) return std::nullopt;
  return values;
}

}  // namespace lathe
