// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "explorer/core/analyse.h"
#include "explorer/core/decimal.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

// An engine of layers given as "name: node node = ms".
struct Spec {
  std::string name;
  std::vector<std::string> nodes;
  double ms = 0;
  std::string precision = "FP32", type = "Convolution";
};

EngineData engine(const std::string& name, const std::vector<Spec>& specs, std::vector<double> times = {}) {
  EngineData data;
  data.name = name;
  data.sources.push_back({"layers", name + ".json", "lathe"});
  ExactSum sum;
  for (const auto& spec : specs) {
    Layer layer;
    layer.index = static_cast<int>(data.layers.size());
    layer.name = spec.name;
    layer.type = spec.type;
    layer.precision = spec.precision;
    for (const auto& node : spec.nodes) layer.origins.push_back({node, "", {}, {}, {}});
    layer.time = LayerTime{spec.ms, {}, {}, {}, {}, {}, {}, 0};
    sum.add(spec.ms);
    data.layers.push_back(std::move(layer));
  }
  data.statistics.layer_sum_ms = sum.value();
  data.statistics.layer_count = static_cast<int>(specs.size());
  if (!times.empty()) data.iterations = Iterations{times, times, times, {}, {}, {}};
  return data;
}

EnginePair compare(const EngineData& a, const EngineData& b) {
  return compare_pair({a, b}, 0, 1);
}

TEST(Comparison, FusedLayersStandBesideWhatTheyReplace) {
  const auto pair = compare(engine("a", {{"c + r", {"c", "r"}, 1.1}, {"p", {"p"}, 0.2}}),
                            engine("b", {{"cast", {}, 0.05}, {"c", {"c"}, 0.7}, {"r + p", {"r", "p"}, 0.3}}));
  ASSERT_EQ(pair.rows.size(), 2u);
  EXPECT_EQ(pair.rows[0].baseline_layers, std::vector<int>({}));  // runs first in b
  EXPECT_EQ(pair.rows[0].status, "added");
  EXPECT_EQ(pair.rows[1].baseline_layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(pair.rows[1].candidate_layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(pair.rows[1].fusion, "regrouped");
  ASSERT_EQ(pair.fusions_lost.size(), 1u);
  EXPECT_EQ(pair.fusions_lost[0].nodes, (std::vector<std::string>{"c", "r"}));
  ASSERT_EQ(pair.fusions_new.size(), 1u);
  EXPECT_EQ(pair.fusions_new[0].nodes, (std::vector<std::string>{"r", "p"}));
}

// A fused layer of a transformer has a name of half a page; the nodes stand beside the sentence.
TEST(Comparison, SentencesHoldLabelsAndNotWholeNames) {
  const std::string path = "/m/encoder/layer.3/intermediate/dense/a_node_of_many_letters_";
  std::vector<std::string> nodes;
  for (int i = 0; i < 6; ++i) nodes.push_back(path + std::to_string(i));
  const std::vector<std::string> first(nodes.begin(), nodes.begin() + 2),
      rest(nodes.begin() + 2, nodes.end());
  const auto name = [](const std::vector<std::string>& of) {
    return fmt::format("{}", fmt::join(of, " + "));
  };
  Analysis analysis{
      {engine("a", {{name(nodes), nodes, 1}}), engine("b", {{name(first), first, 1}, {name(rest), rest, 1}})},
      {}};
  analysis.comparison = compare_engines(analysis.engines);
  apply_fail_if(*analysis.comparison, analysis.engines, "fusion lost or any layer>1%");
  const auto& pair = analysis.comparison->pairs[0];
  ASSERT_EQ(pair.fusions_lost.size(), 1u);
  EXPECT_EQ(pair.fusions_lost[0].nodes, nodes);
  EXPECT_LT(text_width(pair.fusions_lost[0].text), 220u) << pair.fusions_lost[0].text;
  EXPECT_TRUE(pair.fusions_lost[0].text.ends_with(" +3")) << pair.fusions_lost[0].text;
  for (const auto& check : analysis.comparison->checks) EXPECT_LT(text_width(check.text), 240u) << check.text;
  EXPECT_NE(summary_markdown(analysis).find(" +5 | +1 |"), std::string::npos);
}

// Twelve equal blocks; in one of them the softmax is fused away. Alignment by order and signature alone
// shifts all later rows.
TEST(Comparison, EqualBlocksDoNotShift) {
  std::vector<Spec> a, b;
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    a.push_back({"mm" + n, {"mm" + n}, 1});
    a.push_back({"sm" + n, {"sm" + n}, 0.5});
    if (i == 3) {
      b.push_back({"mm3 + sm3", {"mm3", "sm3"}, 1.2});
    } else {
      b.push_back({"x_mm" + n, {"mm" + n}, 1});
      b.push_back({"x_sm" + n, {"sm" + n}, 0.5});
    }
  }
  const auto pair = compare(engine("a", a), engine("b", b));
  EXPECT_EQ(pair.rows.size(), 23u);
  int wrong = 0;
  for (const auto& row : pair.rows) {
    for (const int i : row.candidate_layers) {
      for (const auto& origin : b[static_cast<size_t>(i)].nodes)
        wrong += std::find(row.origins.begin(), row.origins.end(), origin) == row.origins.end();
    }
    wrong += row.match != "origins";
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pair.delta_ms, -0.3);
  EXPECT_EQ(pair.fusions_new.size(), 1u);
  EXPECT_TRUE(pair.fusions_lost.empty());
}

TEST(Comparison, WithoutOriginsNamesThenOrderedSignatures) {
  auto a =
      engine("a", {{"in", {}, 1}, {"x1", {}, 1, "FP32", "T"}, {"x2", {}, 2, "FP32", "U"}, {"out", {}, 1}});
  auto b = engine("b", {{"in", {}, 1},
                        {"y0", {}, 9, "FP32", "V"},
                        {"y1", {}, 1, "FP32", "T"},
                        {"y2", {}, 2, "FP32", "U"},
                        {"out", {}, 1}});
  const auto pair = compare(a, b);
  ASSERT_EQ(pair.rows.size(), 5u);
  EXPECT_EQ(pair.rows[0].match, "name");
  EXPECT_EQ(pair.rows[1].status, "added");
  EXPECT_EQ(pair.rows[2].match, "signature");
  EXPECT_EQ(pair.rows[2].candidate_layers, std::vector<int>{2});
  EXPECT_EQ(pair.rows[4].match, "name");
  EXPECT_FALSE(pair.notes.empty());
}

TEST(Comparison, RowsAndWaterfallAddUpExactly) {
  std::vector<Spec> a, b;
  for (int i = 0; i < 40; ++i) {
    a.push_back({"l" + std::to_string(i),
                 {"n" + std::to_string(i)},
                 (100000 + i * 13700) / 1e6,
                 "FP32",
                 i % 3 == 0 ? "T" : "U"});
    b.push_back({"l" + std::to_string(i),
                 {"n" + std::to_string(i)},
                 (300000 - i * 2910) / 1e6,
                 "BF16",
                 i % 3 == 0 ? "T" : "U"});
  }
  const auto pair = compare(engine("a", a), engine("b", b));
  ExactSum rows, bars, types;
  for (const auto& row : pair.rows) rows.add(*row.delta_ms);
  for (const auto& item : pair.waterfall) bars.add(item.delta_ms);
  for (const auto& item : pair.waterfall_by_type) types.add(item.delta_ms);
  EXPECT_EQ(rows.value(), *pair.delta_ms);
  EXPECT_EQ(bars.value(), *pair.delta_ms);
  EXPECT_EQ(types.value(), *pair.delta_ms);
  EXPECT_EQ(ExactSum().add(*pair.baseline_sum_ms).add(*pair.delta_ms).value(), *pair.candidate_sum_ms);
  EXPECT_EQ(pair.precision_changes.size(), 40u);
  EXPECT_EQ(pair.waterfall.size(), 12u);
}

TEST(Comparison, IntervalsContainTheTruth) {
  std::vector<double> a, b, c;
  for (int i = 0; i < 300; ++i) {
    const double noise = static_cast<double>((i * 7919) % 101) / 1000;
    a.push_back(1 + noise);
    b.push_back(1.1 * (1 + noise));
    c.push_back(1 + static_cast<double>((i * 7907 + 13) % 101) / 1000);
  }
  const auto slower = compare_times(a, b), same = compare_times(a, c);
  EXPECT_NEAR(slower.change_percent, 10, 0.5);
  EXPECT_TRUE(slower.significant);
  EXPECT_LT(*slower.low_percent, 10.01);
  EXPECT_GT(*slower.high_percent, 9.99);
  EXPECT_FALSE(same.significant);
  EXPECT_EQ(compare_times(a, b).low_percent, slower.low_percent);  // the same files, the same interval
  EXPECT_FALSE(compare_times({1, 2}, {1, 2}).low_percent);
}

Comparison checked(const std::string& expression, const std::vector<EngineData>& engines) {
  auto comparison = compare_engines(engines);
  apply_fail_if(comparison, engines, expression);
  return comparison;
}

TEST(FailIf, BoundsAndEvents) {
  const std::vector<EngineData> engines = {engine("a", {{"c + r", {"c", "r"}, 1}}),
                                           engine("b", {{"c", {"c"}, 0.8}, {"r", {"r"}, 0.3, "BF16"}})};
  EXPECT_TRUE(checked("latency>3%", engines).failed);  // 1 -> 1.1
  EXPECT_FALSE(checked("latency > 12 %", engines).failed);
  EXPECT_TRUE(checked("layer sum>0.05ms", engines).failed);
  EXPECT_TRUE(checked("latency>50% or Fusion lost", engines).failed);
  EXPECT_FALSE(checked("latency>50% and fusion lost", engines).failed);
  EXPECT_TRUE(checked("precision changed", engines).failed);
  EXPECT_FALSE(checked("fusion new or layer removed", engines).failed);
  EXPECT_TRUE(checked("layers>0", engines).failed);
  EXPECT_EQ(checked("latency>3% or fusion lost", engines).checks.size(), 2u);
}

TEST(FailIf, ChangesWithinTheNoiseDoNotFail) {
  std::vector<double> a, b;
  for (int i = 0; i < 50; ++i) {
    a.push_back(1 + static_cast<double>((i * 37) % 50) / 50);
    b.push_back(1.02 + static_cast<double>((i * 41) % 50) / 50);
  }
  const std::vector<EngineData> engines = {engine("a", {{"c", {"c"}, 1}}, a),
                                           engine("b", {{"c", {"c"}, 1}}, b)};
  const auto comparison = checked("latency>0.1%", engines);
  EXPECT_FALSE(comparison.failed);
  EXPECT_NE(comparison.checks[0].text.find("within the noise"), std::string::npos);
}

TEST(FailIf, SaysWhatItUnderstands) {
  const std::vector<EngineData> engines = {engine("a", {{"c", {"c"}, 1}}), engine("b", {{"c", {"c"}, 1}})};
  for (const char* expression :
       {"speed>3%", "latency>x", "latency>3 parsecs", "fusion", "", "latency>3% or "}) {
    try {
      checked(expression, engines);
      FAIL() << expression;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("understood are"), std::string::npos) << error.what();
    }
  }
}

TEST(Views, MarkdownAndJunitAreEscaped) {
  Analysis analysis{{engine("a|<b>", {{"c", {"c"}, 1}}), engine("b&\"", {{"c", {"c"}, 2}})}, {}};
  analysis.comparison = compare_engines(analysis.engines);
  apply_fail_if(*analysis.comparison, analysis.engines, "latency>3%");
  const std::string markdown = summary_markdown(analysis), junit = summary_junit(analysis);
  EXPECT_NE(markdown.find("a\\|\\<b>"), std::string::npos);
  EXPECT_NE(markdown.find("**FAILED**"), std::string::npos);
  EXPECT_NE(junit.find("tests=\"1\" failures=\"1\""), std::string::npos);
  EXPECT_NE(junit.find("b&amp;&quot; against a|&lt;b&gt;"), std::string::npos);
  EXPECT_NE(junit.find("name=\"latency&gt;3%\"><failure"), std::string::npos);
}

}  // namespace
}  // namespace lathe::explorer
