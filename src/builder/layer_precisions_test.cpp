// SPDX-License-Identifier: Apache-2.0
#include "builder/layer_precisions.h"

#include <gtest/gtest.h>

#include "backend/fake_backend.h"
#include "base/error.h"
#include "ir/text.h"

namespace lathe {
namespace {

class Lines final : public Observer {
 public:
  void on(const Event& event) override {
    if (const auto* message = std::get_if<Message>(&event)) text += message->text + "\n";
  }
  bool said(const std::string& part) const { return text.find(part) != std::string::npos; }
  std::string text;
};

constexpr const char* kNetwork = R"(graph "g" {
  input %x: float32[4, 8]
  const %w: float32[8, 8] = splat 1
  %a: float32[4, 8] = MatMul "fc1" (%x, %w) from ["/body/fc1" MatMul]
  %b: float32[4, 8] = MatMul "fc2" (%a, %w) from ["/head/fc2" MatMul]
  %s: int64[2] = ShapeOf "shape" (%b) from ["/head/shape" Shape]
  output %b
  output %s
})";

class LayerPrecisions : public testing::Test {
 protected:
  LayerPrecisions() { backend_.other_compute_type = DType::Float16; }
  LayerTypes resolve(std::vector<LayerPrecision> entries,
                     PrecisionConstraints constraints = PrecisionConstraints::Obey) {
    BuildOptions options;
    options.layer_precisions = std::move(entries);
    options.precision_constraints = constraints;
    return demanded_types(parse_graph(kNetwork), options, backend_, log_);
  }
  std::string error_of(std::vector<LayerPrecision> entries) {
    try {
      resolve(std::move(entries));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  FakeBackend backend_;
  Lines log_;
};

TEST_F(LayerPrecisions, AWholeNameCountsBeforeAPattern) {
  const LayerTypes types = resolve({{"/head/fc2", DType::Float32, {}}, {"*", DType::Float16, {}}});
  EXPECT_EQ(types.by_node.size(), 2u);
  EXPECT_EQ(types.by_node.at("/body/fc1").compute, DType::Float16);
  EXPECT_FALSE(types.by_node.at("/body/fc1").is_required);
  EXPECT_EQ(types.by_node.at("/head/fc2").compute, DType::Float32);
  EXPECT_TRUE(types.by_node.at("/head/fc2").is_required);
  EXPECT_TRUE(log_.said("Set layer /body/fc1 to precision fp16")) << log_.text;
  EXPECT_TRUE(log_.said("Skipped setting precisions for some layers.")) << log_.text;
  EXPECT_TRUE(log_.said("No type is set for layer /head/shape (Shape)")) << log_.text;
}

TEST_F(LayerPrecisions, TypesOfResults) {
  const LayerTypes types = resolve({{"/body/*", DType::Float16, {}}, {"/body/fc1", {}, {DType::Float32}}});
  EXPECT_EQ(types.by_node.at("/body/fc1").compute, DType::Float16);
  EXPECT_EQ(types.by_node.at("/body/fc1").output(0), DType::Float32);
  EXPECT_TRUE(log_.said("Set output 0 of layer /body/fc1 to type fp32")) << log_.text;
  EXPECT_NE(error_of({{"/body/fc1", {}, {DType::Float32, DType::Float16}}})
                .find("Layer /body/fc1 has 1 outputs but 2 output types are given"),
            std::string::npos);
}

TEST_F(LayerPrecisions, WhatCannotBe) {
  EXPECT_NE(error_of({{"*", DType::Int8, {}}}).find("layer '*' cannot compute in int8 on demand"),
            std::string::npos);
  EXPECT_NE(error_of({{"/head/fc2", DType::BFloat16, {}}})
                .find("cannot compute in bf16: a fake device computes in FP32"),
            std::string::npos);
  resolve({{"/head/fc2", DType::BFloat16, {}}}, PrecisionConstraints::Prefer);
  EXPECT_TRUE(
      log_.said("cannot compute in bf16: a fake device computes in FP32. It computes in another type."))
      << log_.text;
  resolve({{"/head/fc3", DType::Float16, {}}});
  EXPECT_TRUE(log_.said("No node of the model is called '/head/fc3'")) << log_.text;
}

TEST_F(LayerPrecisions, NoneHasNoEffect) {
  EXPECT_TRUE(resolve({{"*", DType::Float16, {}}}, PrecisionConstraints::None).by_node.empty());
  EXPECT_TRUE(log_.said("Types of single layers have no effect: --precisionConstraints is none"))
      << log_.text;
}

}  // namespace
}  // namespace lathe
