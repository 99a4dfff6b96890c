// SPDX-License-Identifier: Apache-2.0
//
// What is known of an engine's layers, as data. --dumpLayerInfo, --exportLayerInfo and `lathe inspect` are
// views of it. Key names and value formats are those of TensorRT's engine inspector, so that the tools made
// for it read ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "plan/plan.h"
#include "tune/quantized_layers.h"
#include "tune/tuning_record.h"

namespace lathe {

// Where a tensor lies: `offset` bytes inside another tensor's memory (`inside`), or inside the arena. Inputs
// and outputs of the network are the caller's and have none.
struct TensorPlace {
  std::string inside;  // "": the arena
  int64_t offset = 0;
};

struct LayerTensor {
  std::string name;
  Extents dims;  // -1: not known
  TensorType type;
  std::optional<TensorPlace> place;
  std::optional<Quantization> quantization = std::nullopt;  // of the integers that are stored
};

struct WeightsField {
  std::string type;
  int64_t count = 0;
};
using LayerField =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<std::string>, WeightsField>;

// An ONNX node's share of a layer: its own work, and the bytes that it would move if it ran alone.
struct OnnxNodeCost {
  std::string name, op_type;
  std::optional<double> flops;
  std::optional<int64_t> bytes,
      saved_bytes;  // saved: never written, because only this layer reads the result
};
struct LayerCosts {
  double flops = 0;
  int64_t bytes_read = 0, bytes_written = 0, weight_bytes = 0;
  std::vector<OnnxNodeCost> nodes;
};

struct LayerInfo {
  std::string name;                          // equals the profile's
  std::string type;                          // LayerType: the runner, PointWiseV2, Reformat, Constant ...
  std::string parameter_type;                // ParameterType; empty for constants
  std::vector<LayerTensor> inputs, outputs;  // constants are not listed: they are weights
  std::vector<std::pair<std::string, LayerField>> fields;
  std::string tactic;
  DType sums_in = DType::Undefined;  // sum_type.h
  uint64_t tactic_id = 0;
  double tactic_ms = 0;           // the time that decided, 0 when untimed
  std::string fallback;           // why the reference runs the layer; empty: a kernel does
  std::optional<LayerNote> note;  // why it is slower than it might be: precision_notes.h
  bool is_nested = false;         // a layer of a body of the last one that is not
  std::vector<Origin> origins;
  std::optional<LayerCosts> costs;  // add_layer_costs()
  std::optional<LayerTuning> tuning;
  std::string tactic_types;  // to find the tactic among those that were tried
};

struct BindingReport {
  LayerTensor tensor;
  bool is_input = true;
  bool is_shape_tensor = false;
  std::vector<ShapeRange> ranges;  // per profile, inputs only
};

struct LayerReport {
  ProfilingVerbosity verbosity = ProfilingVerbosity::LayerNamesOnly;
  std::vector<LayerInfo> layers;  // in execution order, profile by profile
  std::vector<BindingReport> bindings;
  int profiles = 1;         // how many are in `layers`
  std::string settings;     // what the layers were built with: "level 3, fp32"
  int64_t arena_bytes = 0;  // of the profile that needs most
};

// What runs for one optimization profile on one target. `symbols`: the shapes of a run; without them dims
// that are not constant are -1.
LayerReport describe_layers(const Plan& plan, const PlanVariant& variant,
                            const std::optional<SymbolValues>& symbols);

// Adds what runs for the next profile. Its layers, and the bindings that they read and write, carry
// profile_suffix(), so that names stay unique and readers can tell profiles apart.
void add_profile(LayerReport& report, const Plan& plan, const PlanVariant& variant,
                 const std::optional<SymbolValues>& symbols);

// Operator-specific facts of a node: ParameterType and fields.
struct OpDescription {
  std::string parameter_type;
  std::vector<std::pair<std::string, LayerField>> fields;
};
OpDescription describe_op(const Graph& graph, const Node& node);

// "Row major linear FP32", "Channel major FP16 format", "Float": words that the engine explorer knows.
std::string format_text(const TensorType& type);

// The text of --exportLayerInfo, in the inspector's line layout.
std::string layer_info_json(const LayerReport& report);
// One layer of it with all that is known.
std::string layer_json(const LayerInfo& layer);
// A line per layer as TensorRT 8's verbose log has them: "Layer(Reformat): a, Tactic: 0x.., x (Float[1,3]) ->
// y (Float[1,3])".
std::string engine_layers_text(const LayerReport& report);
// The lines of --dumpLayerInfo after "Layers:".
std::string layer_info_text(const LayerReport& report);

}  // namespace lathe
