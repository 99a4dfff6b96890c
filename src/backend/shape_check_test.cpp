// SPDX-License-Identifier: Apache-2.0
#include "backend/shape_check.h"

#include <gtest/gtest.h>

#include "backend/no_elements.h"
#include "base/error.h"
#include "ir/text.h"

namespace lathe {
namespace {

ProgramSpec spec_of(const std::string& statements) {
  ProgramSpec spec;
  spec.graph = std::make_shared<Graph>(parse_graph("graph \"g\" {\n" + statements + "}\n"));
  spec.memory.placements.resize(spec.graph->value_count());
  return spec;
}

std::string error_at(const ProgramSpec& spec, const SymbolValues& symbols,
                     LateSpread spread = LateSpread::PointwiseLayers) {
  try {
    ShapeCheck(spec, symbols, spread).check(0, spec.graph->order().size());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "";
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ShapeCheck, ViewsLieInsideTheirBase) {
  // The index of a packed constant is not known any more; where the view begins is.
  ProgramSpec spec = spec_of(R"(
  input %x: float32[n, 4]
  input %i: int64[]
  %y: float32[4] = Gather "row" (%x, %i)
  output %y
)");
  const ValueId x = *spec.graph->find_value("x"), y = *spec.graph->find_value("y");
  spec.memory.placements[static_cast<size_t>(y)] = {
      .kind = Placement::Kind::View, .base = x, .view_offset = Dim(2 * 4 * 4)};
  EXPECT_EQ(error_at(spec, {{"n", 3}}), "");
  expect_says(error_at(spec, {{"n", 2}}), "layer 'row': 'y' of 4 reaches outside of 'x' of 2x4");
  spec.memory.placements[static_cast<size_t>(y)].view_offset = Dim(-16);
  expect_says(error_at(spec, {{"n", 3}}), "reaches outside");
}

const char* const kTail = R"(
  input %x: float32[n, 4]
  const %w: float32[4, 4] = splat 1
  input %z: float32[m, 4]
  %y: float32[n, 4] = MatMul "product" (%x, %w, %z) epilogue 2 {Add(0,1)}
  output %y
)";

TEST(ShapeCheck, TailsAreNotSpreadLate) {
  const ProgramSpec spec = spec_of(kTail);
  EXPECT_EQ(error_at(spec, {{"n", 3}, {"m", 3}}), "");
  EXPECT_EQ(error_at(spec, {{"n", 1}, {"m", 1}}), "");
  expect_says(error_at(spec, {{"n", 3}, {"m", 1}}),
              "layer 'product': operand 'z' of [m, 4] has the size 1 in 'm', and the engine was not built to "
              "spread it over the 3 of 'n'; build it for these shapes alone");
}

TEST(ShapeCheck, PointwiseLayersAreSpreadLateWhereTheBackendCan) {
  const ProgramSpec spec = spec_of(R"(
  input %x: float32[n]
  input %z: float32[m]
  %y: float32[n] = Pointwise "sum" (%x, %z) {code=Add}
  output %y
)");
  EXPECT_EQ(error_at(spec, {{"n", 3}, {"m", 1}}), "");
  expect_says(error_at(spec, {{"n", 3}, {"m", 1}}, LateSpread::Nowhere), "layer 'sum': operand 'z'");
  EXPECT_EQ(error_at(spec, {{"n", 3}, {"m", 3}}, LateSpread::Nowhere), "");
}

TEST(NoElements, SumsOfNothingAreTheReferences) {
  const ProgramSpec spec = spec_of(R"(
  input %x: float32[n, 4]
  %y: float32[4] = Reduce "sum" (%x) {axes=[0], keepdims=false}
  %z: float32[n, 4] = Pointwise "relu" (%x) {code=Relu}
  output %y
  output %z
)");
  const Node& sum = spec.graph->node(spec.graph->order()[0]);
  const Node& relu = spec.graph->node(spec.graph->order()[1]);
  const Extents none = {0, 4}, some = {2, 4}, row = {4};
  EXPECT_TRUE(makes_elements_of_none(sum, {&none, 1}, {&row, 1}));
  EXPECT_FALSE(makes_elements_of_none(sum, {&some, 1}, {&row, 1}));
  EXPECT_FALSE(makes_elements_of_none(relu, {&none, 1}, {&none, 1}));
  // A scatter without updates has its data.
  Node scatter;
  scatter.op = ScatterND{};
  scatter.inputs = {0, 1, 2};
  scatter.outputs = {3};
  const Extents no_index = {0, 1}, inputs[] = {some, no_index, none};
  EXPECT_FALSE(makes_elements_of_none(scatter, inputs, {&some, 1}));
  const NodeId first = spec.graph->order()[0];
  const SymbolRanges never{{"n", {0, 0, 0}}}, sometimes{{"n", {0, 0, 8}}};
  EXPECT_TRUE(has_empty_operand({*spec.graph, first, never}));
  EXPECT_FALSE(has_empty_operand({*spec.graph, first, sometimes}));  // tuned for one
}

// All dims that a body names itself are assumed to be alike, and its operands need not fit then.
TEST(FitsAtUpperBounds, WhatIsAssumedOfABodyMayNotFit) {
  const Graph graph = parse_graph(R"(graph "body" {
  input %all: float32[count, 320, 320]
  input %one: float32[1, height, width]
  %more: float32[count + 1, 320, 320] = Concat "append" (%all, %one) {axis=0}
  output %more
})");
  SymbolRanges ranges = {{"count", {1, 64, 100}}, {"height", {1, 64, 400}}, {"width", {1, 64, 400}}};
  EXPECT_FALSE(fits_at_upper_bounds({graph, graph.order()[0], ranges}));
  ranges["height"].opt = ranges["width"].opt = 320;
  EXPECT_TRUE(fits_at_upper_bounds({graph, graph.order()[0], ranges}));
}

}  // namespace
}  // namespace lathe
