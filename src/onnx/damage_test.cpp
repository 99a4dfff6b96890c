// SPDX-License-Identifier: Apache-2.0
//
// Thousands of damaged models: each import gives a graph or an Error, never a crash, a hang or an absurd
// allocation. The damage is seeded, and a failure names the seed. Run under the sanitizers too.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/file.h"
#include "onnx/import.h"
#include "onnx/test_model.h"

namespace lathe::onnx {
namespace {

constexpr const char* kModels[] = {"opset7", "opset9", "opset11", "opset13", "tiny"};

// One of: flipped bits, a cut, an absurd length, a run copied elsewhere, a run removed.
void damage(std::string& bytes, std::mt19937& random) {
  const auto place = [&] { return random() % bytes.size(); };
  switch (random() % 5) {
    case 0:
      for (unsigned i = 0, n = 1 + random() % 8; i < n; ++i)
        bytes[place()] ^= static_cast<char>(1 << (random() % 8));
      break;
    case 1:
      bytes.resize(place());
      break;
    case 2:
      for (unsigned i = 0, n = 1 + random() % 5, at = static_cast<unsigned>(place());
           i < n && at + i < bytes.size(); ++i) {
        bytes[at + i] = static_cast<char>(0xff);
      }
      break;
    case 3: {
      const size_t from = place(), length = std::min<size_t>(random() % 64, bytes.size() - from);
      bytes.insert(place(), bytes.substr(from, length));
      break;
    }
    default:
      bytes.erase(place(), random() % 64);
  }
}

// Big weights make most flips harmless, so the damage goes to the structure: the file less its bulk.
class Damage : public testing::TestWithParam<const char*> {};

TEST_P(Damage, GivesAnErrorOrAGraph) {
  const std::string whole = read_file(std::string("tests/models/small/") + GetParam() + ".onnx");
  NullObserver observer;
  int errors = 0;
  for (unsigned seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string bytes = whole;
    for (unsigned i = 0, n = 1 + random() % 3; i < n && !bytes.empty(); ++i) damage(bytes, random);
    try {
      import_onnx(as_bytes(bytes), {}, observer);
    } catch (const Error& error) {
      ++errors;
      EXPECT_NE(error.kind(), ErrorKind::System) << error.what();
      EXPECT_NE(error.kind(), ErrorKind::Internal) << error.what();
      EXPECT_LT(std::string(error.what()).size(), 20000u);
    }
  }
  EXPECT_GT(errors, 400);
}

INSTANTIATE_TEST_SUITE_P(SmallModels, Damage, testing::ValuesIn(kModels));

}  // namespace
}  // namespace lathe::onnx
