// SPDX-License-Identifier: Apache-2.0
#include "ir/edit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace lathe {
namespace {

GraphEditor::NewValue f32(std::string name) {
  return {.name = std::move(name), .dtype = DType::Float32, .shape = {4}};
}

// x -> a -> b -> y (output)
struct Chain {
  Graph graph;
  GraphEditor editor{graph};
  ValueId x = editor.add_input("x", DType::Float32, {4});
  NodeId a = add("a", {x}, "va");
  NodeId b = add("b", {out(a)}, "vb");
  NodeId y = add("y", {out(b)}, "vy");

  Chain() { editor.mark_output(out(y)); }
  NodeId add(const std::string& name, std::vector<ValueId> inputs, const std::string& value,
             NodeId before = kNoNode) {
    return editor.add_node(name, Pointwise{PointwiseCode::Relu}, std::move(inputs), {f32(value)},
                           {{name, "Relu"}}, before);
  }
  ValueId out(NodeId node) const { return graph.node(node).outputs[0]; }
};

TEST(Edit, NamesStayUnique) {
  Chain c;
  const ValueId k1 = c.editor.add_constant("va", Tensor::scalar_f32(1));
  EXPECT_EQ(c.graph.value(k1).name, "va_1");
  EXPECT_EQ(c.graph.find_value("va_1"), k1);
  EXPECT_EQ(c.graph.node(c.add("a", {c.x}, "")).name, "a_1");
  c.editor.rename_value(k1, "k");
  EXPECT_EQ(c.graph.find_value("va_1"), std::nullopt);
  EXPECT_EQ(c.graph.find_value("k"), k1);
}

TEST(Edit, UsersAreInExecutionOrder) {
  Chain c;
  const NodeId late = c.add("late", {c.out(c.a), c.out(c.a)}, "v", c.b);
  EXPECT_EQ(c.graph.users(c.out(c.a)), (std::vector<NodeId>{late, c.b}));
  EXPECT_EQ(c.graph.users(c.x), (std::vector<NodeId>{c.a}));
}

TEST(Edit, ReplaceUsesKeepsOutputNames) {
  Chain c;
  EXPECT_TRUE(c.editor.can_replace_uses(c.out(c.y), c.out(c.b)));
  c.editor.replace_uses(c.out(c.y), c.out(c.b));
  EXPECT_EQ(c.graph.outputs()[0], c.out(c.b));
  EXPECT_EQ(c.graph.value(c.out(c.b)).name, "vy");
  EXPECT_EQ(c.graph.find_value("vy"), c.out(c.b));
  EXPECT_EQ(c.editor.remove_dead_nodes(), 1);
  verify_structure(c.graph);
}

TEST(Edit, AnInputCannotBecomeAnOutput) {
  Chain c;
  EXPECT_FALSE(c.editor.can_replace_uses(c.out(c.y), c.x));
  EXPECT_TRUE(c.editor.can_replace_uses(c.out(c.b), c.x));
  EXPECT_THROW(c.editor.replace_uses(c.out(c.y), c.x), Error);
}

TEST(Edit, ReplaceUsesSparesTheNewProducer) {
  Chain c;
  const NodeId wrap = c.add("wrap", {c.out(c.a)}, "w", c.b);
  c.editor.replace_uses(c.out(c.a), c.out(wrap));
  EXPECT_EQ(c.graph.node(wrap).inputs[0], c.out(c.a));
  EXPECT_EQ(c.graph.node(c.b).inputs[0], c.out(wrap));
  verify_structure(c.graph);
}

TEST(Edit, FusingKeepsProvenance) {
  Chain c;
  c.editor.absorb(c.a, c.b);
  c.editor.take_over_outputs(c.a, c.b);
  c.editor.set_epilogue(c.a, PointwiseProgram::parse("Relu(0)", 1), {});
  EXPECT_EQ(c.graph.node(c.a).name, "a + b");
  EXPECT_EQ(c.graph.node(c.a).origins, (std::vector<Origin>{{"a", "Relu"}, {"b", "Relu"}}));
  EXPECT_EQ(c.graph.value(c.out(c.a)).name, "vb");
  EXPECT_EQ(c.graph.order(), (std::vector<NodeId>{c.a, c.y}));
  EXPECT_EQ(c.graph.find_value("va"), std::nullopt);
  verify_structure(c.graph);
}

TEST(Edit, EpilogueOperandsAreTrailingInputs) {
  Chain c;
  const auto add = PointwiseProgram::parse("Add(0,1)", 2);
  c.editor.set_epilogue(c.b, add, {c.x});
  EXPECT_EQ(c.graph.node(c.b).inputs, (std::vector<ValueId>{c.out(c.a), c.x}));
  EXPECT_EQ(c.graph.node(c.b).op_input_count(), 1u);
  c.editor.set_epilogue(c.b, PointwiseProgram::parse("Relu(0)", 1), {});
  EXPECT_EQ(c.graph.node(c.b).inputs.size(), 1u);
  EXPECT_EQ(c.graph.users(c.x), (std::vector<NodeId>{c.a}));
  EXPECT_THROW(c.editor.set_epilogue(c.b, add, {}), Error);
}

TEST(Edit, TakingOverWhatOthersReadIsABug) {
  Chain c;
  c.add("other", {c.out(c.a)}, "o");
  EXPECT_THROW(c.editor.take_over_outputs(c.a, c.b), Error);
}

TEST(Edit, SortPutsWhatNeedsASizeBehindWhatFindsIt) {
  Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[n]
  %late: float32[n] = Pointwise "late" (%x) {code=Relu}
  %found: int64[1, count<=n] = NonZero "find" (%late)
  %ones: float32[count<=n] = Fill "fill" () {shape=[count<=n]}
  %numbers: float32[1, count<=n] = Cast "cast" (%found) {to=float32}
  %y: float32[1, count<=n] = Pointwise "add" (%numbers, %ones) {code=Add}
  output %y
})");
  GraphEditor editor(graph);
  // "find" now waits for a node that stands at the end.
  const NodeId relu =
      editor.add_node("relu", Pointwise{PointwiseCode::Relu}, {graph.inputs()[0]},
                      {{.name = "r", .dtype = DType::Float32, .shape = {Dim::symbol("n")}}}, {});
  const auto producer = [&](const char* name) { return graph.value(*graph.find_value(name)).producer; };
  editor.set_inputs(producer("found"), {graph.node(relu).outputs[0]});
  editor.sort();
  const auto position = [&](NodeId id) { return std::find(graph.order().begin(), graph.order().end(), id); };
  EXPECT_LT(position(producer("found")), position(producer("ones")));
  EXPECT_LT(position(relu), position(producer("found")));
}

// Only the bounds have the name, and no dim of the result.
TEST(Edit, SortPutsWhatStartsAtASizeBehindWhatFindsIt) {
  Graph graph = parse_graph(R"(graph "g" {
  input %x: float32[n]
  %part: float32[3] = Slice "slice" (%x) {starts=[count<=n], ends=[(count<=n) + 3], axes=[0], steps=[1]}
  %found: int64[1, count<=n] = NonZero "find" (%x)
  output %part
  output %found
})");
  GraphEditor(graph).sort();
  EXPECT_EQ(graph.node(graph.order()[0]).name, "find");
}

TEST(Edit, SortIsStableAndFindsCycles) {
  Chain c;
  const NodeId late = c.add("late", {c.x}, "vlate");
  const std::vector<NodeId> before = c.graph.order();
  c.editor.sort();
  EXPECT_EQ(c.graph.order(), before);
  c.editor.set_inputs(c.b, {c.out(c.a), c.out(late)});
  c.editor.sort();
  EXPECT_EQ(c.graph.order(), (std::vector<NodeId>{c.a, late, c.b, c.y}));
  c.editor.replace_input(c.a, 0, c.out(c.y));
  EXPECT_THROW(c.editor.sort(), Error);
}

TEST(Edit, DeadNodesGoInOneSweep) {
  Chain c;
  const NodeId d1 = c.add("d1", {c.x}, "d1");
  c.add("d2", {c.out(d1)}, "d2");
  EXPECT_EQ(c.editor.remove_dead_nodes(), 2);
  EXPECT_EQ(c.editor.remove_dead_nodes(), 0);
  EXPECT_THROW(c.editor.remove_node(c.a), Error);
  EXPECT_THROW(c.editor.rename_node(d1, "z"), Error);
}

TEST(Edit, CompactKeepsTheGraph) {
  Chain c;
  c.editor.add_constant("unused", Tensor::scalar_f32(1));
  c.add("dead", {c.x}, "dead");
  c.editor.remove_dead_nodes();
  const std::string before = to_text(c.graph);
  c.editor.compact();
  EXPECT_EQ(to_text(c.graph), before);
  EXPECT_EQ(c.graph.value_count(), 4u);
  EXPECT_EQ(c.graph.node_count(), 3u);
  EXPECT_EQ(c.graph.users(*c.graph.find_value("va")).size(), 1u);
  verify_structure(c.graph);
}

TEST(Edit, ConstantsChangeShape) {
  Chain c;
  const ValueId k = c.editor.add_constant("k", Tensor::from<float>({2, 2}, {1, 2, 3, 4}));
  c.editor.set_constant(k, c.graph.value(k).constant.reshaped({4}));
  EXPECT_EQ(c.graph.value(k).shape, (Shape{4}));
  EXPECT_THROW(c.editor.set_constant(c.x, Tensor::scalar_f32(1)), Error);
  EXPECT_THROW(c.editor.replace_output(3, c.x), Error);
}

TEST(Graph, SymbolsOfInputs) {
  Chain c;
  c.editor.add_input("z", DType::Float32, {Dim::symbol("seq"), Dim::symbol("batch") * 2});
  EXPECT_EQ(c.graph.symbols(), (std::vector<std::string>{"batch", "seq"}));
}

}  // namespace
}  // namespace lathe
