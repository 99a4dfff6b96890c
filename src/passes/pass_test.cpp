// SPDX-License-Identifier: Apache-2.0
#include "passes/pass.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/edit.h"
#include "ir/text.h"
#include "passes/passes.h"

namespace lathe {
namespace {

constexpr std::string_view kGraph = R"(graph "g" {
  input %x: float32[4]
  %a: float32[4] = Pointwise "sigmoid" (%x) {code=Sigmoid}
  %b: float32[4] = Pointwise "mul" (%x, %a) {code=Mul}
  %c: float32[4] = Pointwise "sigmoid2" (%b) {code=Sigmoid}
  %d: float32[4] = Pointwise "mul2" (%b, %c) {code=Mul}
  output %d
})";

class Recorder final : public Observer {
 public:
  void on(const Event& event) override { events.push_back(event); }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const Event& event : events) {
      if (const auto* e = std::get_if<T>(&event)) found.push_back(*e);
    }
    return found;
  }
  std::vector<Event> events;
};

struct Harness {
  Graph graph = parse_graph(kGraph);
  Recorder observer;
  ThreadPool pool{1};
  PassContext context{observer, pool};
  std::vector<Stage> stages = {{"function fusion", {{"fuse_silu", "SwishFusion", fuse_silu}}}};
  std::vector<std::string> dumped;

  std::string error(const PassOptions& options) {
    try {
      run_passes(graph, stages, options, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

// Passes that do wrong, one way each.
bool breaks_shape(Graph& graph, PassContext&) {
  GraphEditor(graph).set_shape(graph.outputs()[0], {5});
  return true;
}
bool changes_meaning(Graph& graph, PassContext&) {
  const NodeId last = graph.value(graph.outputs()[0]).producer;
  if (std::get<Pointwise>(graph.node(last).op).code == PointwiseCode::Add) return false;
  GraphEditor(graph).set_op(last, Pointwise{PointwiseCode::Add});
  return true;
}
bool never_content(Graph&, PassContext&) {
  return true;
}

TEST(RunPasses, SaysWhatHappened) {
  Harness run;
  EXPECT_EQ(run.error({}), "");
  const auto fusions = run.observer.all<FusionApplied>();
  ASSERT_EQ(fusions.size(), 2u);
  EXPECT_EQ(fusions[0].fusion, "SwishFusion");
  EXPECT_EQ(fusions[0].first, "sigmoid");
  EXPECT_EQ(fusions[0].second, "mul");
  const auto stages = run.observer.all<StageFinished>();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].label, "Original");
  EXPECT_EQ(stages[0].layers, 4);
  EXPECT_EQ(stages[1].label, "function fusion");
  EXPECT_EQ(stages[1].layers, 2);
  const auto passes = run.observer.all<PassFinished>();
  ASSERT_EQ(passes.size(), 2u);  // a second round finds nothing
  EXPECT_TRUE(passes[0].changed);
  EXPECT_FALSE(passes[1].changed);
  EXPECT_EQ(run.observer.all<GraphOptimized>().size(), 1u);
}

TEST(RunPasses, DisablesByName) {
  Harness run;
  EXPECT_EQ(run.error({.disabled = {"fuse_silu"}}), "");
  EXPECT_EQ(run.graph.order().size(), 4u);
}

TEST(RunPasses, UnknownNamesAreErrors) {
  EXPECT_EQ(Harness().error({.disabled = {"fuse_silly"}}),
            "there is no pass \"fuse_silly\" (known: fuse_silu)");
  EXPECT_NE(Harness().error({.dump_after = {"fuse_silly"}}), "");
  EXPECT_EQ(Harness().error({.dump_after = {"all"}}), "");
}

TEST(RunPasses, StopsAfterSoManyRewrites) {
  Harness run;
  EXPECT_EQ(run.error({.stop_after = 1}), "");
  EXPECT_EQ(run.graph.order().size(), 3u);
  EXPECT_EQ(run.context.changes, 1);
  Harness none;
  EXPECT_EQ(none.error({.stop_after = 0}), "");
  EXPECT_EQ(none.graph.order().size(), 4u);
}

TEST(RunPasses, DumpsAfterAPass) {
  Harness run;
  PassOptions options{.dump_after = {"fuse_silu"}};
  options.dump = [&](std::string_view pass, const Graph& graph) {
    run.dumped.push_back(std::string(pass) + " " + std::to_string(graph.order().size()));
  };
  EXPECT_EQ(run.error(options), "");
  EXPECT_EQ(run.dumped, (std::vector<std::string>{"fuse_silu 2", "fuse_silu 2"}));
  Harness all;
  options.dump_after = {"all"};  // only where something changed
  run.dumped.clear();
  EXPECT_EQ(all.error(options), "");
  EXPECT_EQ(run.dumped, (std::vector<std::string>{"fuse_silu 2"}));
}

TEST(RunPasses, VerifiesAndNamesThePass) {
  Harness run;
  run.stages[0].passes = {{"breaks_shape", "", breaks_shape}};
  EXPECT_NE(run.error({}).find("in pass breaks_shape: "), std::string::npos);
}

TEST(RunPasses, OracleFindsAChangeOfMeaning) {
  Harness run;
  run.stages[0].passes = {{"changes_meaning", "", changes_meaning}};
  EXPECT_EQ(run.error({}), "");  // types and shapes are right
  Harness verified;
  verified.stages = run.stages;
  const std::string error = verified.error({.verify_with_oracle = true});
  EXPECT_NE(error.find("in pass changes_meaning: "), std::string::npos);
  EXPECT_NE(error.find("the rewrite changes output \"d\""), std::string::npos) << error;
}

TEST(RunPasses, ARestlessPassEnds) {
  Harness run;
  run.stages[0].passes = {{"never_content", "", never_content}};
  EXPECT_EQ(run.error({}), "");
}

TEST(DefaultStages, NamesAndLabels) {
  for (const Stage& stage : default_stages()) {
    EXPECT_FALSE(stage.label.empty());
    for (const Pass& pass : stage.passes) {
      EXPECT_NE(pass.run, nullptr);
      EXPECT_FALSE(pass.label.empty()) << pass.name;
    }
  }
}

// Reports and `lathe diff` find a value of the model by its name: it must keep the order of its elements.
TEST(MoveShufflesDown, NamesKeepTheirOrderOfElements) {
  Harness h;
  h.graph = parse_graph(R"(graph "g" {
  input %x: float32[2, 3]
  const %c: float32[] = [2]
  %t: float32[3, 2] = Transpose "t" (%x) {perm=[1, 0]}
  %scaled: float32[3, 2] = Pointwise "scale" (%t, %c) {code=Mul}
  %y: float32[3, 2] = Pointwise "exp" (%scaled) {code=Exp}
  output %y
})");
  ASSERT_TRUE(move_shuffles_down(h.graph, h.context));
  const auto scaled = h.graph.find_value("scaled");
  ASSERT_TRUE(scaled);
  EXPECT_EQ(h.graph.value(*scaled).shape, (Shape{3, 2}));
  EXPECT_TRUE(std::holds_alternative<Transpose>(h.graph.node(h.graph.value(*scaled).producer).op));
}

}  // namespace
}  // namespace lathe
