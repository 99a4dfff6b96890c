// SPDX-License-Identifier: Apache-2.0
#include "tune/choose.h"

#include <algorithm>
#include <cmath>

#include "tune/pbqp.h"

namespace lathe {
namespace {

// Relative L2 error of one FP32 layer summed directly, measured on convolutions with 64 .. 4608 terms.
constexpr double kDirectError = 1.2e-7;
constexpr double kWideHandicap = 1.05;

double layer_error(const Tactic& tactic) {
  const bool fp32 = !tactic.outputs.empty() && tactic.outputs[0].dtype == DType::Float32;
  return fp32 && tactic.error_factor > 1 ? tactic.error_factor * kDirectError : 0;
}

class Problem {
 public:
  Problem(const Graph& graph, const std::vector<std::vector<LayerState>>& states, ReformatCosts& reformats,
          const TuningTraits& traits)
      : graph_(graph),
        states_(states),
        reformats_(reformats),
        traits_(traits),
        position_(graph.node_count(), 0) {
    for (size_t i = 0; i < graph.order().size(); ++i) position_[static_cast<size_t>(graph.order()[i])] = i;
  }

  std::vector<size_t> solve() {
    reformats_.expect(conversions());
    for (size_t i = 0; i < states_.size(); ++i) pbqp_.add_node(own_costs(i));
    for (size_t i = 0; i < states_.size(); ++i) add_edges(i);
    return pbqp_.solve();
  }

 private:
  // A reformat alone is measured without what it does to its neighbours. The surcharge also keeps noise of
  // single layers from paying for a zigzag between formats.
  double reformat_ms(ValueId value, const TensorType& from, const TensorType& to) {
    if (from == to) return 0;
    if (is_inside(from) || is_inside(to)) return kImpossible;
    return reformats_.find(value, from, to).ms * 1.25 + traits_.reformat_surcharge_ms;
  }
  // What stays inside of a fused layer (alternatives.cpp) cannot be turned into anything.
  static bool is_inside(const TensorType& type) { return type.dtype == DType::Undefined; }
  // Where narrow types win as a rule, a wide one has to win by more than the noise: its weights and
  // activations also take more of the caches from its neighbours.
  double layer_ms(size_t i, const LayerState& state) const {
    const std::vector<DType>& allowed = node(i).allowed_types;
    const bool wide =
        traits_.narrow_types_win && !allowed.empty() && !state.tactic.outputs.empty() &&
        std::find(allowed.begin(), allowed.end(), state.tactic.outputs[0].dtype) == allowed.end();
    return wide || widens_bytes(i, state) ? state.ms * kWideHandicap : state.ms;
  }
  // Reads bytes of a grid, and writes numbers although they lie on one, too.
  bool widens_bytes(size_t i, const LayerState& state) const {
    const auto stores_bytes = [&](ValueId v, const TensorType& type) {
      return v != kNoValue && graph_.value(v).quantization &&
             graph_.value(v).quantization->dtype == type.dtype;
    };
    const Node& layer = node(i);
    if (layer.outputs.empty() || layer.outputs[0] == kNoValue || state.tactic.outputs.empty() ||
        !graph_.value(layer.outputs[0]).quantization ||
        stores_bytes(layer.outputs[0], state.tactic.outputs[0]))
      return false;
    for (size_t k = 0; k < layer.inputs.size() && k < state.tactic.inputs.size(); ++k)
      if (stores_bytes(layer.inputs[k], state.tactic.inputs[k])) return true;
    return false;
  }
  const Node& node(size_t i) const { return graph_.node(graph_.order()[i]); }
  // What callers give and take: linear memory, unless they asked for another format.
  TensorType given_type(ValueId id) const { return {graph_.value(id).dtype, graph_.value(id).format}; }

  // A state's time, and reformats at the borders: graph inputs and outputs are in their own type and format.
  std::vector<double> own_costs(size_t i) {
    std::vector<double> costs;
    for (const LayerState& state : states_[i]) {
      double ms = layer_ms(i, state);
      for (size_t k = 0; k < node(i).inputs.size(); ++k) {
        const ValueId v = node(i).inputs[k];
        if (v == kNoValue || graph_.value(v).is_constant() || graph_.value(v).producer != kNoNode) continue;
        ms += reformat_ms(v, given_type(v), state.tactic.inputs[k]);
      }
      for (size_t k = 0; k < node(i).outputs.size(); ++k) {
        const ValueId v = node(i).outputs[k];
        if (v != kNoValue && graph_.is_output(v))
          ms += reformat_ms(v, state.tactic.outputs[k], given_type(v));
      }
      costs.push_back(ms);
    }
    return costs;
  }

  // All that the costs below will ask for.
  std::vector<ReformatCosts::Conversion> conversions() const {
    std::vector<ReformatCosts::Conversion> all;
    for (size_t i = 0; i < states_.size(); ++i) {
      for (size_t k = 0; k < node(i).inputs.size(); ++k) {
        const ValueId v = node(i).inputs[k];
        if (v == kNoValue || graph_.value(v).is_constant()) continue;
        const NodeId producer = graph_.value(v).producer;
        for (const LayerState& r : states_[i]) {
          if (producer == kNoNode) {
            all.push_back({v, given_type(v), r.tactic.inputs[k]});
            continue;
          }
          const size_t writer = position_[static_cast<size_t>(producer)];
          for (const LayerState& w : states_[writer])
            all.push_back({v, w.tactic.outputs[output_number(writer, v)], r.tactic.inputs[k]});
        }
      }
      for (size_t k = 0; k < node(i).outputs.size(); ++k) {
        const ValueId v = node(i).outputs[k];
        if (v == kNoValue || !graph_.is_output(v)) continue;
        for (const LayerState& s : states_[i]) all.push_back({v, s.tactic.outputs[k], given_type(v)});
      }
    }
    std::erase_if(all, [](const auto& c) { return is_inside(c.from) || is_inside(c.to); });
    return all;
  }
  size_t output_number(size_t writer, ValueId v) const {
    const auto& outputs = node(writer).outputs;
    return static_cast<size_t>(std::find(outputs.begin(), outputs.end(), v) - outputs.begin());
  }

  void add_edges(size_t reader) {
    for (size_t k = 0; k < node(reader).inputs.size(); ++k) {
      const ValueId v = node(reader).inputs[k];
      if (v == kNoValue || graph_.value(v).producer == kNoNode) continue;
      const size_t writer = position_[static_cast<size_t>(graph_.value(v).producer)];
      const size_t out = output_number(writer, v);
      std::vector<double> costs;
      bool any = false;
      for (const LayerState& w : states_[writer])
        for (const LayerState& r : states_[reader]) {
          costs.push_back(reformat_ms(v, w.tactic.outputs[out], r.tactic.inputs[k]));
          any |= costs.back() != 0;
        }
      if (any) pbqp_.add_edge(writer, reader, costs);
    }
  }

  const Graph& graph_;
  const std::vector<std::vector<LayerState>>& states_;
  ReformatCosts& reformats_;
  const TuningTraits& traits_;
  std::vector<size_t> position_;
  Pbqp pbqp_;
};

// What the layer would lose with its best exact state of the same types, per squared error that it would
// save.
double price(const std::vector<LayerState>& states, size_t chosen) {
  double loss = kImpossible;
  for (const LayerState& s : states)
    if (layer_error(s.tactic) == 0 && s.tactic.same_types(states[chosen].tactic))
      loss = std::min(loss, s.ms - states[chosen].ms);
  const double error = layer_error(states[chosen].tactic);
  return loss / (error * error);
}

}  // namespace

std::vector<LayerState> undominated(const std::vector<Tactic>& tactics, const std::vector<double>& times) {
  std::vector<LayerState> states;
  for (size_t i = 0; i < tactics.size(); ++i) {
    if (times[i] >= kImpossible) continue;
    const bool beaten = [&] {
      for (size_t k = 0; k < tactics.size(); ++k) {
        if (k == i || !tactics[k].same_types(tactics[i]) || tactics[k].error_factor > tactics[i].error_factor)
          continue;
        if (times[k] < times[i] || (times[k] == times[i] && k < i)) return true;
      }
      return false;
    }();
    if (!beaten) states.push_back({tactics[i], times[i]});
  }
  return states;
}

std::vector<size_t> choose_states(const Graph& graph, std::vector<std::vector<LayerState>>& states,
                                  ReformatCosts& reformats, const TuningTraits& traits) {
  while (true) {
    const std::vector<size_t> choice = Problem(graph, states, reformats, traits).solve();
    double squares = 0, least = HUGE_VAL;
    size_t cheapest = states.size();
    for (size_t i = 0; i < states.size(); ++i) {
      const double error = layer_error(states[i][choice[i]].tactic);
      squares += error * error;
      if (error > 0 && states[i].size() > 1 && price(states[i], choice[i]) < least)
        least = price(states[i], choice[i]), cheapest = i;
    }
    if (std::sqrt(squares) <= kErrorBudget || cheapest == states.size()) return choice;
    // Over the budget: the inexact layer that gains least for its error gives up that state.
    states[cheapest].erase(states[cheapest].begin() + static_cast<std::ptrdiff_t>(choice[cheapest]));
  }
}

}  // namespace lathe
