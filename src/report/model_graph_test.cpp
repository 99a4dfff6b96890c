// SPDX-License-Identifier: Apache-2.0
#include "report/model_graph.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "onnx/test_model.h"

namespace lathe {
namespace {

using onnx::TestModel;

Json graph_of(const std::string& bytes) {
  const std::string file = testing::TempDir() + "model_graph_test.onnx";
  write_file_atomically(file, bytes);
  Json json;
  try {
    json = model_graph_json(file);
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
  std::filesystem::remove(file);
  return json;
}

Json tensor(const Json& graph, const std::string& name) {
  for (const auto& one : graph["tensors"]) {
    if (one["name"] == name) return one;
  }
  return nullptr;
}

TEST(ModelGraph, HoldsNodesTensorsAndInitializers) {
  const Json graph =
      graph_of(TestModel()
                   .input("x", 1, {"batch", "3"})
                   .constant<float>("w", 1, {3, 2}, {1, 2, 3, 4, 5, 6})
                   .node("MatMul", {"x", "w"}, {"m"})
                   .node("Identity", {"m"}, {"same"})
                   .node("Transpose", {"same"}, {"y"}, {TestModel::ints_attribute("perm", {1, 0})})
                   .output("y")
                   .bytes());
  EXPECT_EQ(graph["schema"], "lathe-model");
  EXPECT_EQ(graph["opset"], 17);
  EXPECT_EQ(graph["inputs"], Json::array({"x"}));
  EXPECT_EQ(graph["outputs"], Json::array({"y"}));
  ASSERT_EQ(graph["nodes"].size(), 3U);
  EXPECT_EQ(graph["nodes"][0]["name"], "MatMul_of_m");
  EXPECT_EQ(graph["nodes"][0]["inputs"], Json::array({"x", "w"}));
  EXPECT_EQ(graph["nodes"][2]["attributes"]["perm"], Json::array({1, 0}));
  EXPECT_EQ(graph["initializers"][0],
            (Json{{"name", "w"}, {"type", "float32"}, {"shape", {3, 2}}, {"bytes", 24}}));
  EXPECT_EQ(tensor(graph, "x")["shape"], Json::array({"batch", 3}));
  EXPECT_EQ(tensor(graph, "m")["shape"], Json::array({"batch", 2}));  // not in the file
  EXPECT_EQ(tensor(graph, "same")["shape"], Json::array({"batch", 2}));
  EXPECT_EQ(tensor(graph, "y")["shape"], Json::array({2, "batch"}));
  EXPECT_EQ(tensor(graph, "w"), Json());
  EXPECT_EQ(graph["note"], "");
}

// A model that we cannot build is described, and the reason said why its shapes are those of the file.
TEST(ModelGraph, HoldsWhatWeDoNotSupport) {
  const Json graph = graph_of(
      TestModel().input("x", 1, {"2"}).node("Strange", {"x"}, {"y"}, {}, "com.example").output("y").bytes());
  EXPECT_EQ(graph["nodes"][0]["domain"], "com.example");
  EXPECT_EQ(tensor(graph, "x")["shape"], Json::array({2}));
  EXPECT_NE(graph["note"].get<std::string>().find("Shapes are those of the file alone"), std::string::npos);
}

TEST(ModelGraph, NamesAnInitializerThatCannotBe) {
  TestModel model;
  model.input("x", 1, {"2"})
      .initializer(TestModel::make_tensor("w", 1, {int64_t{1} << 40, int64_t{1} << 40}, ""));
  model.node("Relu", {"x"}, {"y"}).output("y");
  try {
    graph_of(model.bytes());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("initializer 'w' has impossible dimensions"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lathe
