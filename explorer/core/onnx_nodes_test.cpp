// SPDX-License-Identifier: Apache-2.0
//
// Where a model's nodes went: into layers by name and by tensors, or nowhere and why.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "explorer/core/analyse.h"
#include "explorer/core/analysis_json.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

// x -> Conv -> Relu -> Reshape(by Shape arithmetic) -> Identity -> Gemm -> y, and a node that nothing needs.
constexpr const char* kModel = R"({"schema": "lathe-model", "file": "m.onnx", "opset": 17,
  "inputs": ["x"], "outputs": ["y"],
  "initializers": [{"name": "w", "type": "float32", "shape": [8, 4], "bytes": 128},
                   {"name": "v", "type": "float32", "shape": [8], "bytes": 32}],
  "tensors": [{"name": "x", "type": "float32", "shape": ["batch", 4]}, {"name": "c", "type": "float32", "shape": null}],
  "nodes": [
    {"name": "scale", "op_type": "Mul", "inputs": ["w", "w"], "outputs": ["ww"]},
    {"name": "conv", "op_type": "Conv", "inputs": ["x", "ww"], "outputs": ["c"], "attributes": {"group": 1}},
    {"name": "relu", "op_type": "Relu", "inputs": ["c"], "outputs": ["r"]},
    {"name": "shape", "op_type": "Shape", "inputs": ["x"], "outputs": ["s"]},
    {"name": "gather", "op_type": "Gather", "inputs": ["s", "v"], "outputs": ["g"]},
    {"name": "reshape", "op_type": "Reshape", "inputs": ["r", "g"], "outputs": ["f"]},
    {"name": "same", "op_type": "Identity", "inputs": ["f"], "outputs": ["i"]},
    {"name": "cast", "op_type": "Cast", "inputs": ["x"], "outputs": ["x2"]},
    {"name": "hidden", "op_type": "Sin", "inputs": ["i"], "outputs": ["h"]},
    {"name": "gemm", "op_type": "Gemm", "inputs": ["h", "v", ""], "outputs": ["y"]}]})";

std::string layer(const std::string& name, const std::string& in, const std::string& out,
                  const std::string& more = "") {
  return R"({"Name": ")" + name + R"(", "LayerType": "T", "Inputs": [{"Name": ")" + in +
         R"(", "Dimensions": [1, 4], "Format/Datatype": "Float"}], "Outputs": [{"Name": ")" + out +
         R"(", "Dimensions": [1, 4], "Format/Datatype": "Float"}])" + more + "}";
}

EngineData engine_of(const std::string& layers, const std::string& model = kModel) {
  return analyse_engine({recognise_file("l.json", R"({"Bindings": ["x", "y"], "Layers": [)" + layers + "]}"),
                         recognise_file("m.json", model)},
                        {});
}

const OnnxNode& node(const EngineData& engine, const std::string& name) {
  for (const auto& one : engine.onnx->nodes) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("no node " + name);
}

const std::string kNamed =
    layer("conv + relu", "x", "r") + "," + layer("gemm", "r", "y", R"(, "Metadata": "[ONNX Layer: gemm]")");

TEST(OnnxNodes, FindTheirLayersByName) {
  const auto engine = engine_of(kNamed);
  EXPECT_EQ(node(engine, "conv").fate, "fused");
  EXPECT_EQ(node(engine, "relu").layers, std::vector<int>{0});
  EXPECT_EQ(node(engine, "gemm").fate, "layer");
  EXPECT_EQ(node(engine, "gemm").layers, std::vector<int>{1});
  EXPECT_EQ(engine.layers[0].origins[0].op_type, "Conv");  // the name alone does not tell
  EXPECT_TRUE(engine.onnx->own_layers.empty());
}

TEST(OnnxNodes, SayWhyTheyVanished) {
  const auto engine = engine_of(kNamed);
  EXPECT_EQ(node(engine, "scale").fate, "constant");
  EXPECT_EQ(node(engine, "shape").fate, "shape");
  EXPECT_EQ(node(engine, "gather").fate, "shape");
  EXPECT_EQ(node(engine, "reshape").fate, "view");
  EXPECT_EQ(node(engine, "same").fate, "no_op");
  EXPECT_EQ(node(engine, "cast").fate, "unused");
  EXPECT_EQ(node(engine, "hidden").fate, "unknown");
  EXPECT_EQ(node(engine, "hidden").why,
            "no layer names it; after layer 0 (conv + relu), before layer 1 (gemm)");
  EXPECT_EQ(
      engine.onnx->text,
      "10 nodes: 1 alone in a layer, 2 fused with others, 1 as a view of memory, 1 without effect, 1 "
      "constant, "
      "2 shape arithmetic, 1 unused, 1 in no layer that says so. 2 of 2 layers run nodes of the model.");
}

// An opaque block: what lies between its tensors, without constants and shapes.
TEST(OnnxNodes, AreFoundThroughTensors) {
  const auto engine = engine_of(layer("{ForeignNode[a...b]}", "x", "f") + "," +
                                layer("Reformatting CopyNode for Input Tensor 0 to gemm", "f", "f2") + "," +
                                layer("gemm", "f2", "y"));
  EXPECT_EQ(node(engine, "conv").layers, std::vector<int>{0});
  EXPECT_TRUE(node(engine, "conv").by_tensors);
  EXPECT_EQ(node(engine, "reshape").layers, std::vector<int>{0});
  EXPECT_EQ(node(engine, "scale").fate, "constant");
  EXPECT_EQ(node(engine, "gather").fate, "shape");
  ASSERT_EQ(engine.layers[0].origins.size(), 3U);
  EXPECT_EQ(engine.layers[0].origins[1].name, "relu");
  EXPECT_EQ(engine.onnx->own_layers, std::vector<int>{1});
}

// A reformat before the block renames its input; a block that cannot be told from what is before it takes
// nothing.
TEST(OnnxNodes, AreFoundAcrossReformats) {
  const std::string copy = layer("Reformatting CopyNode for Input Tensor 0 to B", "x", "xr"),
                    rest = layer("gemm", "f", "y");
  EXPECT_EQ(node(engine_of(copy + "," + layer("{ForeignNode[B]}", "xr", "f") + "," + rest), "conv").layers,
            std::vector<int>{1});
  EXPECT_TRUE(
      node(engine_of(layer("{ForeignNode[B]}", "elsewhere", "f") + "," + rest), "conv").layers.empty());
}

TEST(OnnxNodes, ThatTheModelDoesNotHaveAreSaid) {
  const auto engine =
      engine_of(kNamed + "," + layer("l", "y", "z", R"(, "Metadata": "[ONNX Layer: strange]")"));
  ASSERT_FALSE(engine.notes.empty());
  EXPECT_EQ(engine.notes.back().text,
            "m.onnx: 1 nodes that layers of l.json name are not in it (first: strange): is it the model that "
            "the engine was "
            "built from?");
}

TEST(OnnxNodes, OfAFunctionCountWithItsCall) {
  const auto engine = engine_of(layer("call/Relu_0", "x", "y"),
                                R"({"schema": "lathe-model", "inputs": ["x"], "outputs": ["y"],
    "nodes": [{"name": "call", "op_type": "F", "domain": "d", "inputs": ["x"], "outputs": ["y"], "expands": true}]})");
  EXPECT_EQ(node(engine, "call").fate, "expanded");
  EXPECT_EQ(node(engine, "call").layers, std::vector<int>{0});
}

TEST(OnnxNodes, WithoutANameAreKnownByTheirResult) {
  const auto engine = engine_of(layer("l", "x", "y", R"(, "Metadata": "[ONNX Layer: node_of_y]")"),
                                R"({"schema": "lathe-model", "inputs": ["x"], "outputs": ["y"],
    "nodes": [{"name": "Relu_0", "op_type": "Relu", "inputs": ["x"], "outputs": ["y"]}]})");
  EXPECT_EQ(node(engine, "Relu_0").fate, "layer");
}

std::string message(const std::string& layers, const std::string& model) {
  try {
    engine_of(layers, model);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OnnxNodes, OfAnotherModelAreRefused) {
  const std::string other = R"({"schema": "lathe-model", "file": "o.onnx", "inputs": ["p"], "outputs": ["q"],
    "nodes": [{"name": "n", "op_type": "Relu", "inputs": ["p"], "outputs": ["q"]}]})";
  EXPECT_EQ(message(layer("a", "x", "y"), other),
            "o.onnx: no layer of l.json names one of its 1 nodes (first: \"n\") or tensors: the engine is "
            "not of this model");
}

TEST(OnnxNodes, DamagedFilesNameTheField) {
  EXPECT_EQ(
      message(layer("a", "x", "y"), R"({"schema": "lathe-model", "nodes": [{"name": "n", "op_type": 3}]})"),
      "m.json: nodes[0].op_type: expected a string, found a number (3)");
  EXPECT_EQ(message(layer("a", "x", "y"),
                    R"({"schema": "lathe-model", "nodes": [], "tensors": [{"name": "t", "shape": [null]}]})"),
            "m.json: tensors[0].shape[0]: expected an integer, found null");
}

TEST(OnnxNodes, NameTheModelForCommands) {
  const auto engine = engine_of(kNamed);
  EXPECT_EQ(engine.model_file, "m.onnx");
  EXPECT_EQ(engine.model_name, "m");
}

TEST(OnnxNodes, AreInTheReports) {
  Analysis analysis;
  analysis.engines.push_back(engine_of(kNamed));
  const Json onnx = analysis_json(analysis)["engines"][0]["onnx"];
  EXPECT_EQ(onnx["fates"]["shape"], 2);
  EXPECT_EQ(onnx["nodes"][9]["inputs"][2], -1);
  EXPECT_EQ(onnx["tensors"][0]["role"], "initializer");
  EXPECT_EQ(onnx["tensors"][2]["shape"], Json::array({"batch", 4}));
  EXPECT_NE(summary_text(analysis, false).find("  model    10 nodes: 1 alone in a layer"), std::string::npos);
}

}  // namespace
}  // namespace lathe::explorer
