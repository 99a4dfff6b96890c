// SPDX-License-Identifier: Apache-2.0
#include "onnx/zoo.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/hash.h"
#include "onnx/import.h"
#include "onnx/model.h"

namespace lathe {
namespace {

// Hashes what is written, so that no test needs gigabytes of disk.
struct HashWriter final : FileWriter {
  uint32_t crc = 0;
  int64_t bytes = 0;
  void write(std::span<const std::byte> piece) override {
    crc = crc32(piece, crc);
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
    {"efficientnet_b0", 0x4477ab38}, {"gpt2", 0x613f67e2},      {"mobilenet_v2", 0x63c4669e},
    {"resnet50", 0x1a5ecb6f},        {"vgg16", 0xdee1efd9},     {"vit_b_16", 0x2b97e2b4},
};

TEST(Zoo, ListsItsRecipes) {
  const std::vector<Recipe> recipes = list_recipes();
  ASSERT_EQ(recipes.size(), kChecksums.size());
  for (const Recipe& r : recipes) {
    EXPECT_TRUE(kChecksums.contains(r.name)) << r.name;
    EXPECT_FALSE(r.description.empty()) << r.name;
    EXPECT_GT(r.parameters, 1'000'000) << r.name;
  }
}

// The same bytes on every machine. A recipe that changes on purpose changes its line here.
TEST(Zoo, WritesTheSameBytesEverywhere) {
  for (const Recipe& r : list_recipes()) {
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

TEST(Zoo, WeightsAreAlignedAndModelsImportWithNamedDims) {
  for (const char* name : {"mobilenet_v2", "efficientnet_b0", "resnet50", "detector"}) {
    MemoryWriter out;
    write_model(name, out);
    const onnx::ModelProto model = onnx::parse_model(out.bytes);
    for (const onnx::TensorProto& t : model.graph.initializers) {
      if (t.raw_data && t.raw_data->size() > 100000) {
        EXPECT_EQ((t.raw_data->data() - out.bytes.data()) % 64, 0) << t.name;
      }
    }
    NullObserver observer;
    const ImportedModel imported = import_onnx(out.bytes, {}, observer);
    EXPECT_EQ(imported.graph.symbols(), std::vector<std::string>{"batch"}) << name;
  }
}

}  // namespace
}  // namespace lathe
