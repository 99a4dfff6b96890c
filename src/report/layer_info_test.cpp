// SPDX-License-Identifier: Apache-2.0
#include "report/layer_info.h"

#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "ir/text.h"
#include "report/layer_costs.h"

namespace lathe {
namespace {

constexpr std::string_view kConvGraph = R"(graph "g" {
  input %x: float32[batch, 3, 8, 8]
  const %w: float32[4, 3, 3, 3] = ref 0
  const %b: float32[4] = ref 1
  %y: float32[batch, 4, 8, 8]:channels_last = Conv "conv + relu" (%x, %w, %b) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} epilogue {Relu(0)} from ["conv" "Conv", "relu" "Relu"]
  %z: float32[batch, 4, 8, 8]:channels_last = Pointwise "exp" (%y) {code=Exp} from ["exp" "Exp"]
  %r: float32[batch, 4, 8, 8] = Reformat "copy" (%z)
  output %r
})";

Tensor constant(int64_t index) {
  return Tensor::allocate(DType::Float32, index == 0 ? Extents{4, 3, 3, 3} : Extents{4});
}

struct Fixture {
  Fixture() {
    variant.graph = std::make_shared<const Graph>(parse_graph(kConvGraph, constant));
    for (size_t i = 0; i < variant.graph->order().size(); ++i) {
      Choice choice;
      choice.tactic.runner = "SomeRunner";
      choice.tactic.name = "some_tactic";
      choice.tactic.id = 0x1a;
      choice.time_ms = 0.5;
      variant.choices.push_back(choice);
    }
    plan.inputs = input_infos(*variant.graph);
    plan.outputs = output_infos(*variant.graph);
    OptimizationProfile profile;
    profile.shapes["x"] = {{1, 3, 8, 8}, {2, 3, 8, 8}, {4, 3, 8, 8}};
    plan.profiles.push_back(profile);
  }
  Plan plan;
  PlanVariant variant;
};

TEST(LayerInfo, DetailsAreTheInspectors) {
  Fixture f;
  f.plan.verbosity = ProfilingVerbosity::Detailed;
  const auto report = describe_layers(f.plan, f.variant, SymbolValues{{"batch", 2}});
  const std::string text = layer_info_json(report);
  EXPECT_TRUE(text.starts_with(
      "{\"Layers\": [{\n  \"Name\": \"conv + relu\",\n  \"LayerType\": \"SomeRunner\",\n  \"Inputs\": [\n"
      "  {\n    \"Name\": \"x\",\n    \"Location\": \"Device\",\n    \"Dimensions\": [2,3,8,8],\n"
      "    \"Format/Datatype\": \"Row major linear FP32\","))
      << text;
  EXPECT_NE(text.find("\n},{\n  \"Name\": \"exp\""), std::string::npos);
  EXPECT_NE(text.find("],\n\"Bindings\": [\"x\"\n,\"r\"\n],\n\"I/O Tensors\": ["), std::string::npos);
  const Json json = parse_json(text, "layers");
  const Json& conv = json["Layers"][0];
  EXPECT_EQ(conv["ParameterType"], "Convolution");
  EXPECT_EQ(conv["Kernel"], Json::array({3, 3}));
  EXPECT_EQ(conv["OutMaps"], 4);
  EXPECT_EQ(conv["HasReLU"], 1);
  EXPECT_EQ(conv["Activation"], "RELU");
  EXPECT_EQ(conv["Weights"], Json({{"Type", "Float"}, {"Count", 108}}));
  EXPECT_EQ(conv["Inputs"].size(), 1u);  // constants are not inputs
  EXPECT_EQ(conv["Outputs"][0]["Format/Datatype"], "Channel major FP32 format");
  EXPECT_EQ(conv["TacticValue"], "0x000000000000001a");
  EXPECT_EQ(conv["Metadata"], "[ONNX Layer: conv]\x1e[ONNX Layer: relu]");
  EXPECT_EQ(json["Layers"][1]["LayerType"], "PointWiseV2");
  EXPECT_EQ(json["Layers"][1]["Operations"][0], "auto const var0 = Exp(arg0);");
  EXPECT_EQ(json["Layers"][2]["Origin"], "REFORMAT");
  EXPECT_EQ(json["I/O Tensors"][0]["ProfileInfo"][0]["MaxShape"], Json::array({4, 3, 8, 8}));
}

TEST(LayerInfo, LinesOfTensorRT8) {
  Fixture f;
  EXPECT_TRUE(
      engine_layers_text(describe_layers(f.plan, f.variant, SymbolValues{{"batch", 2}}))
          .starts_with("Layer(SomeRunner): conv + relu, Tactic: 0x000000000000001a, x (Float[2,3,8,8]) -> y "
                       "(Float[2,4,8,8])\n"));
}

TEST(LayerInfo, WeightsOfABlockAreTheSumOfItsParts) {
  constexpr std::string_view kText = R"(graph "g" {
  input %x: float32[1, 4, 8, 8]
  const %w: float32[8, 4, 1, 1] = ref 0
  const %wb: float32[8] = ref 1
  const %d: float32[8, 1, 3, 3] = ref 2
  const %db: float32[8] = ref 3
  const %p: float32[4, 8, 1, 1] = ref 4
  const %pb: float32[4] = ref 5
  %y: float32[1, 4, 8, 8] = DepthwiseBlock "block" (%x, %w, %wb, %d, %db, %p, %pb) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]}
  output %y
})";
  const Extents shapes[] = {{8, 4, 1, 1}, {8}, {8, 1, 3, 3}, {8}, {4, 8, 1, 1}, {4}};
  const Graph graph =
      parse_graph(kText, [&](int64_t index) { return Tensor::allocate(DType::Float32, shapes[index]); });
  std::map<std::string, int64_t> counts;
  for (const auto& [name, field] : describe_op(graph, graph.node(graph.order()[0])).fields)
    if (const auto* weights = std::get_if<WeightsField>(&field)) counts[name] = weights->count;
  EXPECT_EQ(counts, (std::map<std::string, int64_t>{{"Weights", 32 + 72 + 32}, {"Bias", 20}}));
}

TEST(LayerInfo, CostsOfALayerAndOfItsNodes) {
  Fixture f;
  f.plan.verbosity = ProfilingVerbosity::Detailed;
  constexpr std::string_view kPortable = R"(graph "g" {
  input %x: float32[batch, 3, 8, 8]
  const %w: float32[4, 3, 3, 3] = ref 0
  const %b: float32[4] = ref 1
  %c: float32[batch, 4, 8, 8] = Conv "conv" (%x, %w, %b) {kernel=[3, 3], strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1]} from ["conv" "Conv"]
  %y: float32[batch, 4, 8, 8] = Pointwise "relu" (%c) {code=Relu} from ["relu" "Relu"]
  %z: float32[batch, 4, 8, 8] = Pointwise "exp" (%y) {code=Exp} from ["exp" "Exp"]
  output %z
})";
  f.plan.set_portable_graph(std::make_shared<const Graph>(parse_graph(kPortable, constant)));
  auto report = describe_layers(f.plan, f.variant, SymbolValues{{"batch", 2}});
  add_layer_costs(report, 0, f.plan, f.variant, SymbolValues{{"batch", 2}});
  const Json json = parse_json(layer_info_json(report), "layers");
  const Json& conv = json["Layers"][0];
  const int64_t result = 2 * 4 * 8 * 8;
  EXPECT_EQ(conv["Flops"], 2 * result * 27 + result);  // products, then relu
  EXPECT_EQ(conv["BytesWritten"], result * 4);
  EXPECT_EQ(conv["WeightBytes"], (108 + 4) * 4);
  EXPECT_EQ(conv["BytesRead"], 2 * 3 * 64 * 4 + (108 + 4) * 4);
  const Json& nodes = conv["OnnxNodes"]["Nodes"];
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0]["OpType"], "Conv");
  EXPECT_EQ(nodes[0]["SavedBytes"], result * 4);
  EXPECT_EQ(nodes[1]["Flops"], result);
  EXPECT_EQ(nodes[1]["Bytes"], 2 * result * 4);
  EXPECT_FALSE(nodes[1].contains("SavedBytes"));  // exp, which is another layer, reads it
  EXPECT_TRUE(json["Producer"].get<std::string>().starts_with("Lathe "));
}

TEST(LayerInfo, TensorsSayWhereTheyLie) {
  Fixture f;
  f.plan.verbosity = ProfilingVerbosity::Detailed;
  auto& placements = f.variant.memory.placements;
  const auto place = [&](size_t layer, Placement placement) {
    const NodeId node = f.variant.graph->order()[layer];
    const auto id = static_cast<size_t>(f.variant.graph->node(node).outputs[0]);
    if (placements.size() <= id) placements.resize(id + 1);
    placements[id] = placement;
    return static_cast<ValueId>(id);
  };
  Placement arena;
  arena.kind = Placement::Kind::Arena;
  arena.offset = 128;
  Placement view;
  view.kind = Placement::Kind::View;
  view.base = place(0, arena);
  view.view_offset = Dim(32);
  place(1, view);
  f.variant.memory.arena_bytes = 4096;
  f.variant.choices[1].tactic.is_view = true;
  auto report = describe_layers(f.plan, f.variant, SymbolValues{{"batch", 2}});
  report.settings = "level 3, fp32";
  const Json json = parse_json(layer_info_json(report), "layers");
  EXPECT_EQ(json["ArenaBytes"], 4096);
  EXPECT_EQ(json["BuildSettings"], "level 3, fp32");
  EXPECT_EQ(json["Layers"][0]["Outputs"][0]["ArenaOffset"], 128);
  EXPECT_EQ(json["Layers"][1]["Outputs"][0]["AliasOf"], "y");
  EXPECT_EQ(json["Layers"][1]["Outputs"][0]["AliasOffset"], 32);
  EXPECT_FALSE(json["Layers"][0]["Inputs"][0].contains("ArenaOffset"));  // the caller's
}

// At level 0 a choice has an estimate, which tools would take for a measurement.
TEST(LayerInfo, TimesOfTacticsOnlyWhereTheyWereMeasured) {
  Fixture f;
  EXPECT_EQ(describe_layers(f.plan, f.variant, std::nullopt).layers[0].tactic_ms, 0);
  f.variant.measured_ms = 2;
  EXPECT_EQ(describe_layers(f.plan, f.variant, std::nullopt).layers[0].tactic_ms, 0.5);
}

TEST(LayerInfo, TellsWhatTheTunerTried) {
  Fixture f;
  f.plan.verbosity = ProfilingVerbosity::Detailed;
  TuningRecord record;
  record["conv + relu"] = {{{"some_tactic", "SomeRunner", types_text(f.variant.choices[0].tactic), 0.5},
                            {"another", "SomeRunner", "a -> b", 0.75},
                            {"late", "SomeRunner", "a -> b", -1}},
                           {{"amx", "Amx", "this CPU has no \"AMX\""}},
                           3};
  f.variant.tuning = tuning_record_text(record);
  const Json json =
      parse_json(layer_info_json(describe_layers(f.plan, f.variant, SymbolValues{{"batch", 2}})), "layers");
  const Json& tuning = json["Layers"][0]["Tuning"];
  ASSERT_EQ(tuning["Timed"].size(), 3u);
  EXPECT_EQ(tuning["Timed"][0]["Chosen"], "yes");
  EXPECT_EQ(tuning["Timed"][1]["Ms"], 0.75);
  EXPECT_FALSE(tuning["Timed"][1].contains("Chosen"));
  EXPECT_FALSE(tuning["Timed"][2].contains("Ms"));
  EXPECT_EQ(tuning["Refused"][0]["Reason"], "this CPU has no \"AMX\"");
  EXPECT_EQ(tuning["LeftOut"], 3);
  EXPECT_FALSE(json["Layers"][1].contains("Tuning"));
}

TEST(LayerInfo, DimsThatNoRunFixedAreMinusOne) {
  Fixture f;
  f.plan.verbosity = ProfilingVerbosity::Detailed;
  const auto report = describe_layers(f.plan, f.variant, std::nullopt);
  EXPECT_EQ(report.layers[0].inputs[0].dims, (Extents{-1, 3, 8, 8}));
}

TEST(LayerInfo, LayersAndBindingsOfFurtherProfilesSayWhich) {
  Fixture f;
  auto report = describe_layers(f.plan, f.variant, SymbolValues{{"batch", 2}});
  add_profile(report, f.plan, f.variant, SymbolValues{{"batch", 4}});
  const Json names = parse_json(layer_info_json(report), "layers");
  EXPECT_EQ(names["Layers"], Json::array({"conv + relu", "exp", "copy", "conv + relu [profile 1]",
                                          "exp [profile 1]", "copy [profile 1]"}));
  EXPECT_EQ(names["Bindings"], Json::array({"x", "r", "x [profile 1]", "r [profile 1]"}));
  EXPECT_EQ(names["I/O Tensors"].size(), 2u);
  report.verbosity = ProfilingVerbosity::Detailed;
  const Json json = parse_json(layer_info_json(report), "layers");
  EXPECT_EQ(json["Layers"][3]["Inputs"][0]["Name"], "x [profile 1]");
  EXPECT_EQ(json["Layers"][3]["Inputs"][0]["Dimensions"], Json::array({4, 3, 8, 8}));
  EXPECT_EQ(json["Layers"][3]["Outputs"][0]["Name"], "y");
  EXPECT_EQ(json["Layers"][5]["Outputs"][0]["Name"], "r [profile 1]");
}

TEST(LayerInfo, NamesOnlyAndNothing) {
  Fixture f;
  const auto names = describe_layers(f.plan, f.variant, std::nullopt);
  EXPECT_TRUE(layer_info_json(names).starts_with(
      "{\"Layers\": [\"conv + relu\"\n,\"exp\"\n,\"copy\"\n],\n\"Bindings\": [\"x\"\n,\"r\"\n],\n"));
  EXPECT_EQ(layer_info_text(names), "conv + relu\nexp\ncopy\n\nBindings:\nx\nr\n");
  f.plan.verbosity = ProfilingVerbosity::None;
  EXPECT_TRUE(
      layer_info_json(describe_layers(f.plan, f.variant, std::nullopt)).starts_with("{\"Layers\": [],\n"));
}

TEST(LayerInfo, TheLogHasOneLinePerLayer) {
  Fixture f;
  f.plan.verbosity = ProfilingVerbosity::Detailed;
  const std::string text = layer_info_text(describe_layers(f.plan, f.variant, SymbolValues{{"batch", 1}}));
  EXPECT_TRUE(
      text.starts_with("Name: conv + relu, LayerType: SomeRunner, Inputs: [ { Name: x, Location: Device, "
                       "Dimensions: [1,3,8,8], "
                       "Format/Datatype: Row major linear FP32 }], Outputs: [ { Name: y, "))
      << text;
  EXPECT_NE(text.find("Weights: {\"Type\": \"Float\", \"Count\": 108}, Bias: {\"Type\": \"Float\", "
                      "\"Count\": 4}, HasBias: 1"),
            std::string::npos);
}

TEST(FormatText, KnowsOnlyTheExplorersWords) {
  EXPECT_EQ(format_text({DType::Float16, kLinear}), "Row major linear FP16 format");
  EXPECT_EQ(format_text({DType::BFloat16, kLinear}), "BFloat16");
  EXPECT_EQ(format_text({DType::Float32, kBlocked16}), "Float");
  EXPECT_EQ(format_text({DType::Float16, kBlocked16}),
            "Sixteen wide channel vectorized row major FP16 format");
  EXPECT_EQ(format_text({DType::Bool, kLinear}), "Bool");
}

}  // namespace
}  // namespace lathe
