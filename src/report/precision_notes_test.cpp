// SPDX-License-Identifier: Apache-2.0
#include "report/precision_notes.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace lathe {
namespace {

constexpr std::string_view kExpGraph = R"(graph "g" {
  input %x: float32[2, 8]
  %a: float32[2, 8] = Pointwise "a" (%x) {code=Exp} from ["a" "Exp"]
  %b: float32[2, 8] = Pointwise "b" (%a) {code=Exp} from ["b" "Exp"]
  %c: float32[2, 8] = Pointwise "c" (%b) {code=Exp} from ["c" "Exp"]
  output %c
})";

TriedTactic timed(std::string_view type, double ms) {
  return {.name = std::string("in_") + std::string(type),
          .runner = "SomeRunner",
          .types = std::string(type) + ":linear -> " + std::string(type) + ":linear",
          .ms = ms};
}

// What is said of layer a in float32, with these tactics; b runs in bfloat16 where `narrow`.
std::optional<LayerNote> note_of(LayerTuning tuning, bool narrow = true) {
  PlanVariant variant;
  variant.graph = std::make_shared<const Graph>(parse_graph(kExpGraph, [](int64_t) { return Tensor(); }));
  LayerReport report;
  for (const NodeId id : variant.graph->order()) {
    LayerInfo layer;
    layer.name = variant.graph->node(id).name;
    layer.type = "PointWiseV2";
    layer.tactic_types = narrow && layer.name == "b" ? "bfloat16:linear -> bfloat16:linear"
                                                     : "float32:linear -> float32:linear";
    if (layer.name == "a") layer.tuning = tuning;
    report.layers.push_back(std::move(layer));
    variant.choices.emplace_back();
  }
  add_precision_notes(report, variant);
  EXPECT_FALSE(report.layers[1].note && narrow);  // computes in the narrow type
  return report.layers[0].note;
}

TEST(PrecisionNotes, NothingIsMissingWhereNothingNarrowWasAllowed) {
  EXPECT_FALSE(note_of({.timed = {timed("float32", 2)}}, false));
}

TEST(PrecisionNotes, SlowerInTheNarrowType) {
  const auto note = note_of({.timed = {timed("float32", 2), timed("bfloat16", 3)}});
  ASSERT_TRUE(note);
  EXPECT_EQ(note->reason, "measured 2 ms in float32, 3 ms in bfloat16");
  EXPECT_EQ(note->hint, "");
}

TEST(PrecisionNotes, FasterAloneButNotWithItsConversions) {
  const auto note = note_of({.timed = {timed("bfloat16", 1), timed("float32", 2)}});
  ASSERT_TRUE(note);
  EXPECT_EQ(
      note->reason,
      "measured 2 ms in float32, 1 ms in bfloat16 (in_bfloat16); conversions before and behind it cost more "
      "than that wins");
  EXPECT_NE(note->hint.find("lathe autocast"), std::string::npos);
}

TEST(PrecisionNotes, RefusedWithItsReason) {
  const auto note = note_of({.timed = {timed("float32", 2)},
                             .refused = {{"fast_bfloat16", "SomeRunner", "the row has 3 elements"}}});
  ASSERT_TRUE(note);
  EXPECT_EQ(note->reason, "no kernel in bfloat16: fast_bfloat16: the row has 3 elements");
}

TEST(PrecisionNotes, NeverTried) {
  const auto note = note_of({.timed = {timed("float32", 2)}});
  ASSERT_TRUE(note);
  EXPECT_TRUE(note->reason.starts_with("no tactic in bfloat16 was tried")) << note->reason;
}

}  // namespace
}  // namespace lathe
