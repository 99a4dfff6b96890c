// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "backend/fake_backend.h"
#include "ir/edit.h"
#include "ir/verify.h"
#include "memory/views.h"

namespace lathe {
namespace {

// A graph and, per node, what its tactic is: made node by node.
class Case {
 public:
  Graph graph;
  GraphEditor editor{graph};
  std::vector<Choice> choices;

  ValueId input(const std::string& name, Shape shape) {
    return editor.add_input(name, DType::Float32, std::move(shape));
  }
  std::vector<ValueId> add(const std::string& name, Op op, std::vector<ValueId> inputs,
                           std::vector<Shape> shapes, bool is_view, std::vector<int> in_place = {}) {
    std::vector<GraphEditor::NewValue> outputs;
    for (size_t i = 0; i < shapes.size(); ++i)
      outputs.push_back(
          {.name = name + "_" + std::to_string(i), .dtype = DType::Float32, .shape = shapes[i]});
    const NodeId id = editor.add_node(name, std::move(op), std::move(inputs), std::move(outputs), {});
    Tactic tactic{
        .runner = "Test", .name = "test", .is_view = is_view, .in_place_inputs = std::move(in_place)};
    const auto type = [&](ValueId v) {
      return graph.value(v).is_constant() ? TensorType{} : TensorType{DType::Float32, {}};
    };
    for (const ValueId v : graph.node(id).inputs) tactic.inputs.push_back(type(v));
    for (const ValueId v : graph.node(id).outputs) tactic.outputs.push_back(type(v));
    choices.push_back({tactic, 0});
    return graph.node(id).outputs;
  }
  ValueId relu(const std::string& name, ValueId x, std::vector<int> in_place = {}) {
    return add(name, Pointwise{.code = PointwiseCode::Relu}, {x}, {graph.value(x).shape}, false,
               std::move(in_place))[0];
  }
  ValueId sum(const std::string& name, ValueId a, ValueId b, std::vector<int> in_place = {}) {
    return add(name, Pointwise{.code = PointwiseCode::Add}, {a, b}, {graph.value(a).shape}, false,
               std::move(in_place))[0];
  }
  ValueId concat(const std::string& name, std::vector<ValueId> parts, bool is_view) {
    Shape shape = graph.value(parts[0]).shape;
    shape[0] = 0;
    for (const ValueId p : parts) shape[0] = shape[0] + graph.value(p).shape[0];
    return add(name, Concat{.axis = 0}, std::move(parts), {shape}, is_view)[0];
  }
  std::vector<ValueId> split(const std::string& name, ValueId x, const Shape& sizes, bool is_view) {
    std::vector<Shape> shapes(sizes.size(), graph.value(x).shape);
    for (size_t i = 0; i < sizes.size(); ++i) shapes[i][0] = sizes[i];
    return add(name, Split{.axis = 0, .sizes = sizes}, {x}, shapes, is_view);
  }
  void output(ValueId v) { editor.mark_output(v); }

  MemoryPlan plan(const SymbolRanges& ranges = {}) {
    verify_structure(graph);
    const MemoryPlan plan = plan_memory(graph, choices, ranges);
    for (const auto pick : {&SymbolRange::min, &SymbolRange::opt, &SymbolRange::max}) {
      SymbolValues values;
      for (const auto& [symbol, range] : ranges) values[symbol] = range.*pick;
      check_memory_plan(graph, choices, plan, values);
    }
    return plan;
  }
  const Placement& at(const MemoryPlan& plan, ValueId v) { return plan.placements[static_cast<size_t>(v)]; }
};

TEST(MemoryPlan, ChainsShareTwoBuffers) {
  Case c;
  ValueId v = c.input("x", {16, 16});
  for (int i = 0; i < 6; ++i) v = c.relu("relu" + std::to_string(i), v);
  c.output(v);
  const MemoryPlan plan = c.plan();
  EXPECT_EQ(plan.arena_bytes, 2 * 1024);
  EXPECT_EQ(plan.unshared_bytes, 5 * 1024);
  EXPECT_EQ(c.at(plan, v).kind, Placement::Kind::Binding);
  EXPECT_EQ(c.at(plan, v).binding, 1);
}

TEST(MemoryPlan, InPlaceOnlyWhenNobodyReadsAfterwards) {
  Case c;
  const ValueId x = c.input("x", {16});
  const ValueId a = c.relu("a", x, {0});  // not over the caller's input
  const ValueId b = c.relu("b", a, {0});  // not over a: c reads it
  const ValueId d = c.sum("c", a, b, {0});
  const ValueId e = c.relu("d", d, {0});  // ends in the output's binding, with d in it
  c.output(e);
  const MemoryPlan plan = c.plan();
  EXPECT_EQ(c.at(plan, a).kind, Placement::Kind::Binding);  // a, d and e share the output
  EXPECT_EQ(c.at(plan, b).kind, Placement::Kind::Arena);
  EXPECT_EQ(c.at(plan, d).kind, Placement::Kind::View);
  EXPECT_EQ(plan.arena_bytes, 64);
}

TEST(MemoryPlan, AnOperandReadTwiceIsNotOverwritten) {
  Case c;
  const ValueId x = c.relu("r", c.input("x", {16}));
  const ValueId y = c.sum("twice", x, x, {0});
  const ValueId z = c.relu("z", y);
  c.output(z);
  const MemoryPlan plan = c.plan();
  EXPECT_NE(c.at(plan, y).kind, Placement::Kind::View);
}

TEST(MemoryPlan, ViewsOfSplitAndConcat) {
  Case c;
  const ValueId x = c.relu("r", c.input("x", {Dim::symbol("n") * Dim(4), 8}));
  const Dim n = Dim::symbol("n");
  const auto parts = c.split("split", x, {n, n * Dim(3)}, true);
  const ValueId a = c.relu("a", parts[1]), b = c.relu("b", parts[0]);
  const ValueId y = c.concat("concat", {a, b}, true);
  const ValueId z = c.relu("z", y);
  c.output(z);
  const MemoryPlan plan = c.plan({{"n", {1, 2, 5}}});
  EXPECT_EQ(c.at(plan, parts[1]).kind, Placement::Kind::View);
  EXPECT_EQ(c.at(plan, parts[1]).view_offset.to_string(), (n * Dim(32)).to_string());
  EXPECT_EQ(c.at(plan, b).base, y);
  EXPECT_EQ(c.at(plan, b).view_offset.to_string(), (n * Dim(96)).to_string());
  EXPECT_EQ(plan.arena_bytes, 2 * 640);
}

// A part behind one whose length a run finds has no place before that is found.
TEST(MemoryPlan, PartsWhoseOffsetIsFoundTooLateAreCopied) {
  const Dim n = Dim::data_dependent("n", 8);
  const auto conflicts = [&](bool found_first, bool nested) {
    Case c;
    const ValueId x = c.input("x", {8});
    const auto find = [&] { return c.add("find", Pointwise{}, {x}, {{n}}, false)[0]; };
    ValueId found = found_first ? find() : kNoValue, part = c.relu("part", x);
    if (nested) part = c.concat("inner", {part, c.relu("other", x)}, true);
    if (!found_first) found = find();
    c.output(c.relu("y", c.concat("whole", {found, part}, true)));
    verify_structure(c.graph);
    return analyze_views(c.graph, c.choices).conflicts;
  };
  for (const bool nested : {false, true}) {
    EXPECT_TRUE(conflicts(true, nested).empty());
    const auto late = conflicts(false, nested);
    ASSERT_EQ(late.size(), 1u);
    EXPECT_EQ(late[0].index, 1u);
  }
}

TEST(MemoryPlan, ConcatOfConcatsEndsInTheOutput) {
  Case c;
  const ValueId x = c.input("x", {4});
  const ValueId inner = c.concat("inner", {c.relu("a", x), c.relu("b", x)}, true);
  const ValueId outer = c.concat("outer", {inner, c.relu("c", x)}, true);
  c.output(outer);
  const MemoryPlan plan = c.plan();
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_EQ(c.at(plan, inner).base, outer);
}

TEST(Views, ConflictsAreNamed) {
  Case c;
  const ValueId x = c.input("x", {4});
  const ValueId a = c.relu("a", x);
  const ValueId y = c.concat("y", {x, a}, true);               // an input of the graph cannot move
  const ValueId z = c.concat("z", {a, c.relu("b", x)}, true);  // a lies in y already
  const auto parts = c.split("s", y, {4, 4}, true);
  for (const ValueId v : {z, parts[0], parts[1]}) c.output(v);  // parts lie in y, which is no output
  const ViewAnalysis analysis = analyze_views(c.graph, c.choices);
  const auto node = [&](size_t i) { return c.graph.order()[i]; };
  const std::vector<ViewConflict> expected = {{ViewConflict::Kind::Input, node(1), 0},
                                              {ViewConflict::Kind::Input, node(3), 0},
                                              {ViewConflict::Kind::Output, kNoNode, 1},
                                              {ViewConflict::Kind::Output, kNoNode, 2}};
  EXPECT_EQ(analysis.conflicts, expected);
  EXPECT_THROW(plan_memory(c.graph, c.choices, {}), Error);
}

TEST(Views, OutputsThatAreInputsOrTwiceNeedCopies) {
  Case c;
  const ValueId x = c.input("x", {4});
  const ValueId a = c.relu("a", x);
  for (const ValueId v : {x, a, a}) c.output(v);
  const auto conflicts = analyze_views(c.graph, c.choices).conflicts;
  ASSERT_EQ(conflicts.size(), 2u);
  EXPECT_EQ(conflicts[0].index, 0u);
  EXPECT_EQ(conflicts[1].index, 2u);
}

TEST(Views, OffsetsFollowTheFormat) {
  Case c;
  const ValueId x = c.input("x", {1, 32, 5, 7});
  const auto offset = [&](Op op, Format format, size_t part) {
    c.editor.set_type(x, DType::Float32, format);
    const auto outputs = c.add("v", std::move(op), {x}, {{1, 16, 5, 7}, {1, 16, 5, 7}}, true);
    return view_offset_bytes(c.graph, c.graph.value(outputs[0]).producer, part).value();
  };
  const Split channels{.axis = 1, .sizes = {16, 16}};
  EXPECT_EQ(offset(channels, kLinear, 1), 16 * 35 * 4);
  EXPECT_EQ(offset(channels, kBlocked16, 1), 16 * 35 * 4);
  EXPECT_EQ(offset(channels, kBlocked8, 0), 0);
  EXPECT_EQ(offset(channels, kChannelsLast, 1), 16 * 4);
  const Slice rows{.starts = Shape{2}, .ends = Shape{5}, .axes = {2}, .steps = {1}};
  EXPECT_EQ(offset(rows, kLinear, 0), 2 * 7 * 4);
  EXPECT_EQ(offset(rows, kChannelsLast, 0), 2 * 7 * 32 * 4);
  EXPECT_EQ(offset(rows, kBlocked16, 0), 2 * 7 * 16 * 4);
}

// What a run finds the size of and nothing bounds has no place in the arena: it takes turns in slots, and an
// output keeps its own.
TEST(MemoryPlan, OpenSizesLieInSlots) {
  Case c;
  const ValueId x = c.input("x", {8});
  const Dim open = Dim::data_dependent("found", Dim(int64_t{1} << 31)), few = Dim::data_dependent("few", 100);
  const auto find = [&](const std::string& name, ValueId from, const Dim& d) {
    return c.add(name, Pointwise{.code = PointwiseCode::Relu}, {from}, {{d}}, false)[0];
  };
  const ValueId a = find("a", x, open), b = c.relu("b", a), d = c.relu("d", b), e = c.relu("e", d),
                f = find("f", x, few);
  c.output(d);
  c.output(e);
  c.output(f);
  const MemoryPlan plan = plan_memory(c.graph, c.choices, {});
  check_memory_plan(c.graph, c.choices, plan, {{"found", 1000}, {"few", 3}});
  for (const ValueId v : {a, b, d, e}) EXPECT_EQ(c.at(plan, v).kind, Placement::Kind::Grown);
  EXPECT_EQ(plan.slots, 2);
  EXPECT_EQ(c.at(plan, d).slot, c.at(plan, a).slot);
  EXPECT_NE(c.at(plan, e).slot, c.at(plan, d).slot);
  EXPECT_EQ(c.at(plan, f).kind, Placement::Kind::Binding);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(CheckMemoryPlan, FindsOverlapsAndPlacesOutside) {
  Case c;
  const ValueId x = c.input("x", {16});
  const ValueId a = c.relu("a", x), b = c.relu("b", x), y = c.sum("y", a, b);
  c.output(y);
  const MemoryPlan good = c.plan();
  const auto expect_error = [&](const MemoryPlan& plan, const std::string& text) {
    try {
      check_memory_plan(c.graph, c.choices, plan, {});
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  MemoryPlan overlap = good;
  overlap.placements[static_cast<size_t>(b)].offset = overlap.placements[static_cast<size_t>(a)].offset;
  expect_error(overlap, "layer 'y' finds 'a_0' overwritten");
  MemoryPlan outside = good;
  outside.arena_bytes = 64;
  expect_error(outside, "lies outside the arena");
  MemoryPlan missing = good;
  missing.placements[static_cast<size_t>(a)].kind = Placement::Kind::None;
  expect_error(missing, "has no place");
  MemoryPlan over_input = good;
  over_input.placements[static_cast<size_t>(a)] = {.kind = Placement::Kind::Binding, .binding = 0};
  expect_error(over_input, "layer 'a' writes over its input 'x'");
}

// Random graphs of all kinds of sharing. Where a view cannot be placed the node copies instead.
TEST(MemoryPlan, RandomGraphs) {
  int64_t arena = 0, unshared = 0;
  int views = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    std::vector<bool> view_allowed(64, true);
    for (int attempt = 0;; ++attempt) {
      ASSERT_LT(attempt, 64);
      std::mt19937 draw(seed);
      Case c;
      const Dim n = Dim::symbol("n");
      std::vector<ValueId> values = {c.input("x", {n * Dim(4), 3}), c.input("y", {n * Dim(4), 3})};
      const auto pick = [&] { return values[draw() % values.size()]; };
      const int nodes = 4 + static_cast<int>(draw() % 20);
      for (int i = 0; i < nodes; ++i) {
        const std::string name = "n" + std::to_string(i);
        const ValueId a = pick(), b = pick();
        const std::vector<int> in_place = draw() % 2 ? std::vector<int>{0} : std::vector<int>{1, 0};
        const bool view = view_allowed[static_cast<size_t>(i)];
        const Dim rows = c.graph.value(a).shape[0];
        switch (draw() % 5) {
          case 0:
            values.push_back(c.relu(name, a, {0}));
            break;
          case 1:
            values.push_back(c.graph.value(a).shape == c.graph.value(b).shape ? c.sum(name, a, b, in_place)
                                                                              : c.relu(name, a));
            break;
          case 2:
            values.push_back(c.concat(name, {a, b}, view && a != b));
            break;
          case 3: {
            const auto parts = c.split(name, a, {n, rows - n}, view);
            values.insert(values.end(), parts.begin(), parts.end());
            break;
          }
          default:
            values.push_back(c.add(name, ReshapeOp{.shape = Shape{rows, 3}}, {a}, {{rows, 3}}, view)[0]);
        }
      }
      const size_t outputs = 1 + draw() % 3;
      for (size_t k = 0; k < outputs; ++k) {
        const ValueId v = pick();
        if (c.graph.value(v).producer != kNoNode && !c.graph.is_output(v)) c.output(v);
      }
      // A split into nothing is no graph: sizes may be 0, but not negative.
      bool negative = false;
      for (size_t v = 0; v < c.graph.value_count(); ++v)
        negative |= c.graph.value(static_cast<ValueId>(v)).shape[0].evaluate({{"n", 1}}) < 0;
      if (negative) break;

      const ViewAnalysis analysis = analyze_views(c.graph, c.choices);
      if (!analysis.conflicts.empty()) {  // no copies here: the view, or one before an output, is not one
        bool settled = false;
        for (const ViewConflict& conflict : analysis.conflicts)
          if (conflict.kind == ViewConflict::Kind::Input) {
            const std::string name = c.graph.node(conflict.node).name;
            view_allowed[static_cast<size_t>(std::stoi(name.substr(1)))] = false;
            settled = true;
          }
        if (!settled) view_allowed.assign(64, false);
        continue;
      }
      const MemoryPlan plan = c.plan({{"n", {1, 2, 7}}});
      for (const Choice& choice : c.choices) views += choice.tactic.is_view;
      arena += plan.arena_bytes;
      unshared += plan.unshared_bytes;
      break;
    }
  }
  EXPECT_GT(views, 300);
  EXPECT_LT(arena, unshared);
}

}  // namespace
}  // namespace lathe
