// SPDX-License-Identifier: Apache-2.0
#include "tune/tuning_record.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace lathe {
namespace {

LayerTuning many(int timed, int refused) {
  LayerTuning tuning;
  for (int i = 0; i < timed; ++i) tuning.timed.push_back({"t" + std::to_string(i), "R", "a -> b", 100.0 - i});
  tuning.timed.push_back({"untimed", "R", "a -> b", -1});
  for (int i = 0; i < refused; ++i)
    tuning.refused.push_back({"r" + std::to_string(i), "R", "reason " + std::to_string(i % 3)});
  return tuning;
}

TEST(TuningRecord, KeepsTheFastestTheChosenAndEveryReason) {
  const LayerTuning all = many(40, 30);
  const LayerTuning kept =
      shortened(all, all.timed[0]);  // the slowest was chosen: its formats suited the neighbours
  ASSERT_EQ(kept.timed.size(), 16u);
  EXPECT_EQ(kept.timed[0].name, "t39");
  EXPECT_NE(std::find(kept.timed.begin(), kept.timed.end(), all.timed[0]), kept.timed.end());
  EXPECT_EQ(kept.refused.size(), 3u);
  EXPECT_EQ(kept.left_out, (41 - 16) + (30 - 3));
}

TEST(TuningRecord, UntimedOnesComeLast) {
  const LayerTuning kept = shortened(many(2, 0), {});
  ASSERT_EQ(kept.timed.size(), 3u);
  EXPECT_EQ(kept.timed[0].name, "t1");
  EXPECT_EQ(kept.timed[2].name, "untimed");
}

TEST(TuningRecord, TextKeepsItAndEqualListsAreOne) {
  TuningRecord record;
  record["conv \"a\""] = record["conv b"] = many(3, 2);
  record["fc"] = many(1, 0);
  const std::string text = tuning_record_text(record);
  EXPECT_EQ(tuning_record_from_text(text), record);
  TuningRecord once;
  once["conv b"] = record["conv b"];
  once["fc"] = record["fc"];
  EXPECT_LT(text.size(), tuning_record_text(once).size() + 40);
  EXPECT_TRUE(tuning_record_from_text("").empty());
}

TEST(TuningRecord, SizeIsBounded) {
  TuningRecord record;
  for (int i = 0; i < 5000; ++i) {
    LayerTuning tuning = many(16, 12);
    tuning.timed[0].ms = 1000 + i;  // no two alike
    record["layer " + std::to_string(i)] = tuning;
  }
  const std::string text = tuning_record_text(record);
  EXPECT_LT(text.size(), 300u << 10);
  EXPECT_GT(tuning_record_from_text(text).size(), 100u);
}

TEST(TuningRecord, DamagedTextIsAnError) {
  for (const char* text :
       {"[]", "{\"lists\": [], \"layers\": {\"a\": 0}}", "{\"lists\": [{}], \"layers\": {}}"}) {
    try {
      tuning_record_from_text(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the record of the tuning is damaged"), std::string::npos)
          << error.what();
    }
  }
}

TEST(TuningRecord, LongReasonsAreCutBetweenCharacters) {
  LayerTuning tuning;
  std::string reason;
  for (int i = 0; i < 150; ++i) reason += "\u00e4";
  tuning.refused.push_back({"a", "R", "x" + reason});
  const std::string cut = shortened(tuning, {}).refused[0].reason;
  EXPECT_EQ(cut.size(), 199u + 3);
}

}  // namespace
}  // namespace lathe
