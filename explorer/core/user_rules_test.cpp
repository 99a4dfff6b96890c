// SPDX-License-Identifier: Apache-2.0
#include "explorer/core/user_rules.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "explorer/core/analyse.h"

namespace lathe::explorer {
namespace {

EngineData engine_of_two() {
  EngineData engine;
  for (const auto& [type, ms] : {std::pair{"Softmax", 3.0}, {"Softmax", 0.1}, {"Convolution", 6.9}}) {
    Layer layer;
    layer.index = static_cast<int>(engine.layers.size());
    layer.name = std::string("decoder/") + type;
    layer.type = type;
    layer.precision = "FP32";
    layer.origins.push_back({"node", type, {}, {}, {}});
    layer.roofline.percent_of_roof = ms * 10;
    layer.time.emplace();
    layer.time->average_ms = ms;
    engine.layers.push_back(std::move(layer));
  }
  engine.statistics.layer_sum_ms = 10;
  return engine;
}

std::vector<Finding> apply(const std::string& when) {
  const auto rules = read_rules("r.json", R"([{"id": "mine", "title": "Found", "when": )" + when +
                                              R"(, "action": "Do.", "command": "make", "gain": 0.5}])");
  return apply_rules(engine_of_two(), rules);
}

TEST(UserRules, AllConditionsMustHold) {
  const auto both = apply(R"({"type": "Softmax"})");
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0].title, "Found: 2 layers");
  EXPECT_EQ(both[0].gain_ms, 1.55);
  EXPECT_EQ(both[0].layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(apply(R"({"type": "Softmax", "min_percent": 5})")[0].layers, (std::vector<int>{0}));
  EXPECT_EQ(apply(R"({"name": "decoder", "min_ms": 5})")[0].layers, (std::vector<int>{2}));
  EXPECT_EQ(apply(R"({"node": "Conv", "below_roof": 70})")[0].layers, (std::vector<int>{2}));
  EXPECT_TRUE(apply(R"({"node": "Conv", "below_roof": 60})").empty());
}

TEST(UserRules, AreRankedAmongTheOthers) {
  EngineData engine = engine_of_two();
  find_problems(engine,
                read_rules("r.json", R"([{"id": "mine", "title": "F", "when": {"type": "S"}, "gain": 1}])"));
  ASSERT_FALSE(engine.findings.empty());
  EXPECT_EQ(engine.findings[0].id, "mine");
  EXPECT_EQ(engine.findings[0].severity, "high");
}

TEST(UserRules, SayWhatIsWrong) {
  const auto error = [](const std::string& text) {
    try {
      read_rules("r.json", text);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error("{}").find("r.json"), std::string::npos);
  EXPECT_NE(error("nonsense").find("r.json"), std::string::npos);
  EXPECT_NE(error(R"([{"id": "a"}])").find("title"), std::string::npos);
  EXPECT_NE(error(R"([{"id": "a", "title": "b", "when": {"typ": "x"}}])").find("typ"), std::string::npos);
  EXPECT_NE(error(R"([{"id": "a", "title": "b", "when": {}}])").find("at least one condition"),
            std::string::npos);
  EXPECT_NE(
      error(R"([{"id": "a", "title": "b", "when": {"type": "x"}, "severity": "bad"}])").find("severity"),
      std::string::npos);
  EXPECT_NE(error(R"([{"id": "a", "title": "b", "when": {"type": "x"}, "gain": 2}])").find("gain"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe::explorer
