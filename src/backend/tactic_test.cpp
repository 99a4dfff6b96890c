// SPDX-License-Identifier: Apache-2.0
#include "backend/tactic.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"

namespace lathe {
namespace {

std::string error_of(auto&& body) {
  try {
    body();
  } catch (const Error& error) {
    return (error.kind() == ErrorKind::Internal ? "ours: " : "input: ") + std::string(error.what());
  }
  return {};
}

TEST(TacticParams, KeepTheirOrderAndValues) {
  TacticParams params = {{"rows", 128}, {"splits", 2}};
  params.set("cluster", 1);
  EXPECT_EQ(params.get("splits"), 2);
  EXPECT_EQ(params.get_int("rows"), 128);
  EXPECT_EQ(params.get("blocks", 7), 7);
  EXPECT_EQ(params.get_int("blocks", 7), 7);
  ASSERT_EQ(params.entries().size(), 3u);
  EXPECT_EQ(params.entries()[2], TacticParams::Entry("cluster", 1));
  EXPECT_NE(params, (TacticParams{{"rows", 128}, {"splits", 2}}));
}

TEST(TacticParams, SayWhatIsMissingTwiceOrTooLarge) {
  const TacticParams params = {{"parts", int64_t{1} << 40}};
  EXPECT_NE(error_of([&] { params.get("rows"); }).find("ours: a tactic has no parameter 'rows'"), std::string::npos);
  EXPECT_NE(error_of([] { TacticParams{{"a", 1}, {"a", 2}}; }).find("a tactic has two parameters 'a'"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { params.get_int("parts"); }),
            "input: parameter 'parts' of a tactic is 1099511627776");
  EXPECT_EQ(error_of([&] { params.get_int("parts", 1); }),
            "input: parameter 'parts' of a tactic is 1099511627776");
}

TEST(Tactic, AVariantHasItsNameIdAndParameters) {
  const Tactic base{.runner = "Product", .name = "product"};
  const Tactic t = with_variant(base, "product_64", {{"rows", 64}});
  EXPECT_EQ(t.runner, "Product");
  EXPECT_EQ(t.name, "product_64");
  EXPECT_EQ(t.id, hash_text("product_64"));
  EXPECT_EQ(t.params.get("rows"), 64);
}

}  // namespace
}  // namespace lathe
