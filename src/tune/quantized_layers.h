// SPDX-License-Identifier: Apache-2.0
//
// What became of quantisation in an engine, for the log: which layers multiply the bytes of their grids
// (integers or FP8) and which had a reason not to, and which QuantizeLinear and DequantizeLinear nodes are
// still there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/tactic.h"
#include "base/observer.h"
#include "tune/choose.h"
#include "tune/tuning_record.h"

namespace lathe {

// One layer: its tactics with their times (kImpossible where there is none), what was refused, what was
// chosen.
struct TunedLayer {
  LayerQuery query;
  const std::vector<Tactic>& tactics;
  const std::vector<double>& times;
  const std::vector<UnusableTactic>& refused;
  const Tactic& chosen;
};

// The tactic reads or writes bytes of a grid.
bool stores_integers(const LayerQuery& query, const Tactic& tactic);

// Why a layer is there, or slower than it might be, and the change that would help ("": none does).
struct LayerNote {
  std::string reason, hint;
};

// Why a QuantizeLinear or DequantizeLinear is still a layer; nothing for other nodes.
std::optional<LayerNote> reason_to_stay(const Graph& graph, const Node& node);

// A product or convolution: the kinds of layers that multiply bytes when their input is quantised.
bool is_product(const Node& node);
bool is_on_grid(const Graph& graph, ValueId id);
// "integers" or "FP8": what the bytes of the grid are, for people.
std::string_view bytes_of_grid(const Quantization& grid);

// Nothing for graphs without quantised values.
void report_quantized_layers(const Graph& graph, std::span<const TunedLayer> layers, bool timed,
                             Observer& observer);

}  // namespace lathe
