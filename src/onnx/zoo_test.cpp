// SPDX-License-Identifier: Apache-2.0
#include "onnx/zoo.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <map>

#include "base/error.h"
#include "onnx/import.h"
#include "onnx/model.h"

namespace lathe {
namespace {

// Hashes what is written, so that no test needs gigabytes of disk.
struct HashWriter final : FileWriter {
  uLong crc = 0;
  int64_t bytes = 0;
  void write(std::span<const std::byte> piece) override {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    bytes += static_cast<int64_t>(piece.size());
  }
};

struct MemoryWriter final : FileWriter {
  std::vector<std::byte> bytes;
  void write(std::span<const std::byte> piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
};

const std::map<std::string, uint32_t> kChecksums = {
    {"alexnet", 0x5a77a3cd},         {"bert_base", 0x4ede248e}, {"detector", 0xee5ae496},
    {"efficientnet_b0", 0x30078825}, {"gpt2", 0x613f67e2},      {"mobilenet_v2", 0x63c4669e},
    {"resnet50", 0x1a5ecb6f},        {"vgg16", 0xdee1efd9},     {"vit_b_16", 0x2b97e2b4},
};

TEST(Zoo, ListsItsRecipes) {
  const std::vector<ModelRecipe> recipes = list_recipes();
  ASSERT_EQ(recipes.size(), kChecksums.size());
  for (const ModelRecipe& r : recipes) {
    EXPECT_TRUE(kChecksums.contains(r.name)) << r.name;
    EXPECT_FALSE(r.description.empty()) << r.name;
    EXPECT_GT(r.parameters, 1'000'000) << r.name;
  }
}

// The same bytes on every machine. A recipe that changes on purpose changes its line here.
TEST(Zoo, WritesTheSameBytesEverywhere) {
  for (const ModelRecipe& r : list_recipes()) {
    HashWriter out;
    write_model(r.name, out);
    EXPECT_EQ(out.bytes, r.bytes) << r.name;
    EXPECT_EQ(out.crc, kChecksums.at(r.name)) << r.name << ": " << std::hex << out.crc;
  }
}

TEST(Zoo, UnknownRecipesAreErrors) {
  HashWriter out;
  try {
    write_model("resnet51", out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_NE(std::string(error.what()).find("resnet50"), std::string::npos);
  }
}

// Names of batch and sequence are all that the shapes of a model's values depend on; only the detector has
// dims that depend on data (how many boxes are left).
void expect_known_shapes(const std::string& name, const Graph& graph) {
  for (const std::string& symbol : graph.symbols())
    EXPECT_TRUE(symbol == "batch" || symbol == "seq") << name << ": " << symbol;
  if (name == "detector") return;
  for (const NodeId node : graph.order()) {
    for (const ValueId id : graph.node(node).outputs) {
      for (const Dim& d : id == kNoValue ? Shape() : graph.value(id).shape) {
        EXPECT_TRUE(d.data_dependent_names().empty())
            << name << ": " << graph.value(id).name << " " << d.to_string();
      }
    }
  }
}

TEST(Zoo, WeightsAreAlignedAndShapesKnownOnImport) {
  for (const ModelRecipe& recipe : list_recipes()) {
    const auto out = std::make_shared<MemoryWriter>();
    out->bytes.reserve(static_cast<size_t>(recipe.bytes));
    write_model(recipe.name, *out);
    const onnx::ModelProto model = onnx::parse_model(out->bytes);
    for (const onnx::TensorProto& t : model.graph.initializers) {
      if (t.raw_data && t.raw_data->size() > 100000) {
        EXPECT_EQ((t.raw_data->data() - out->bytes.data()) % 64, 0) << recipe.name << " " << t.name;
      }
    }
    NullObserver observer;
    expect_known_shapes(recipe.name, import_onnx(out->bytes, {}, observer, out).graph);
  }
}

}  // namespace
}  // namespace lathe
