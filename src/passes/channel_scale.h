// SPDX-License-Identifier: Apache-2.0
//
// y * scale + shift per output channel, worked into the weights and the bias of a convolution.
#pragma once

#include <optional>
#include <vector>

#include "passes/rewrite.h"

namespace lathe {

struct ChannelScale {
  std::vector<double> scale, shift;  // one entry per output channel
};

// Is the node a Conv or ConvTranspose without epilogue whose weights and bias are constants that nothing else
// needs changed?
bool has_constant_weights(const Graph& graph, NodeId conv);
int64_t output_channels(const Graph& graph, NodeId conv);
// New weights and bias constants; the old ones stay for other readers. Weights on a grid with one scale, or
// one for each output channel, stay on one: their integers are what they were.
void scale_channels(Graph& graph, NodeId conv, const ChannelScale& scale);
// The weights alone, by a factor for each output channel.
void scale_weights(Graph& graph, NodeId conv, const std::vector<double>& scale);

// What a BatchNorm without epilogue does to `channels` channels; nullopt where a statistic is no constant.
std::optional<ChannelScale> batchnorm_scale(const Graph& graph, NodeId norm, int64_t channels);

// The numbers of a constant that has one element per channel of `rank`-dimensional data (N, C, ...): shape
// [C], [C, 1, 1], [1, C, 1, 1], or one element for all channels.
std::optional<std::vector<double>> per_channel(const Graph& graph, ValueId constant, int64_t channels,
                                               size_t rank);

// The same, where all are positive and finite.
std::optional<std::vector<double>> positive_per_channel(const Graph& graph, ValueId constant,
                                                        int64_t channels, size_t rank);

}  // namespace lathe
