// SPDX-License-Identifier: Apache-2.0
//
//   RoundTo[1](Clip[low, high](f(Conv(x, w, b)) / s))
//     ->  RoundTo[1](Clip[low, high](f(Conv(x, w / s, b / s))))
//
// with a positive s for each channel, and for f nothing, a Relu, or a Clip from 0 on. A Relu and a division
// may change places. So may a Clip that ends where the grid ends or behind it: Clip[low, high] and the
// rounding then give for its upper bound what they give for everything above, and it is a Relu, or nothing
// where low is 0. (fold_channel_steps leaves such divisions.)
//
// Must not fire where the convolution's result, or f's, is read by anybody else, for a Clip that ends before
// the grid of a channel does, nor for weights that are computed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/edit.h"
#include "passes/channel_scale.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace lathe {
namespace {

bool divides_and_rounds(const PointwiseProgram& program) {
  return program.input_count == 2 && program.steps.size() == 3 &&
         is_step(program, 0, PointwiseCode::Div, {0, 1}) && is_step(program, 1, PointwiseCode::Clip, {2}) &&
         is_step(program, 2, PointwiseCode::RoundTo, {3}) && program.steps[2].alpha == 1;
}

// Where a Relu ends: infinity. nullopt: neither that nor a Clip from 0 on.
std::optional<double> upper_bound(const Pointwise& f) {
  if (f.code == PointwiseCode::Relu) return std::numeric_limits<double>::infinity();
  if (f.code != PointwiseCode::Clip || f.alpha != 0 || !(f.beta > 0)) return std::nullopt;
  return static_cast<double>(f.beta);
}

bool fold_channel_division_at(Graph& graph, PassContext& context, NodeId id) {
  const auto* chain = plain_op<PointwiseChain>(graph, id);
  if (!chain || !divides_and_rounds(chain->program)) return false;
  const float low = chain->program.steps[1].alpha, high = chain->program.steps[1].beta;
  ValueId x = graph.node(id).inputs[0];
  if (sole_user(graph, x) != id) return false;
  NodeId between = kNoNode;
  if (const auto* f = producer_op<Pointwise>(graph, x);
      f && graph.node(graph.value(x).producer).inputs.size() == 1) {
    between = graph.value(x).producer;
    x = graph.node(between).inputs[0];
    if (!upper_bound(*f) || sole_user(graph, x) != between) return false;
  }
  const NodeId conv = graph.value(x).producer;
  const Shape& shape = graph.value(x).shape;
  if (conv == kNoNode || !plain_op<Conv>(graph, conv) || !has_constant_weights(graph, conv)) return false;
  const int64_t channels = output_channels(graph, conv);
  const auto scales = positive_per_channel(graph, graph.node(id).inputs[1], channels, shape.size());
  if (!scales) return false;
  if (between != kNoNode) {
    const double bound = *upper_bound(std::get<Pointwise>(graph.node(between).op));
    const auto reaches = [&](double s) { return std::nearbyint(bound / s) >= static_cast<double>(high); };
    if (!std::all_of(scales->begin(), scales->end(), reaches)) return false;
  }
  if (!context.may_change()) return false;

  ChannelScale by{{}, std::vector<double>(scales->size(), 0.0)};
  for (const double s : *scales) by.scale.push_back(1 / s);
  context.report_fusion(graph, conv, id);
  scale_channels(graph, conv, by);
  GraphEditor editor(graph);
  PointwiseProgram program{.input_count = 1};
  if (between != kNoNode && low < 0) program.steps.push_back({PointwiseCode::Relu, 0, 0, {0}});
  const auto last = [&] { return static_cast<int>(program.steps.size()); };
  program.steps.push_back({PointwiseCode::Clip, low, high, {last()}});
  program.steps.push_back({PointwiseCode::RoundTo, 1, 0, {last()}});
  if (between != kNoNode) {
    replace_nodes(graph, context, {between, id}, PointwiseChain{std::move(program)}, {x});
  } else {
    editor.set_op(id, PointwiseChain{std::move(program)});
    editor.set_inputs(id, {x});
  }
  return true;
}

}  // namespace

bool fold_channel_division(Graph& graph, PassContext& context) {
  bool changed = false;
  for (const NodeId id : std::vector<NodeId>(graph.order()))
    if (!graph.node(id).removed) changed |= fold_channel_division_at(graph, context, id);
  return changed;
}

}  // namespace lathe
