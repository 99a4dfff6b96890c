// SPDX-License-Identifier: Apache-2.0
#include "tune/timing_cache.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/file.h"

namespace lathe {
namespace {

TEST(TimingCache, ValuesAreThoseOfItsText) {
  TimingCache cache;
  const double seen = cache.insert({1, 2, 3}, 0.123456789, "Conv");
  EXPECT_EQ(seen, 0.123457);
  EXPECT_EQ(cache.find({1, 2, 3}), seen);
  TimingCache read;
  EXPECT_EQ(read.merge_text(cache.to_text()), 0);
  EXPECT_EQ(read.find({1, 2, 3}), seen);
  EXPECT_EQ(read.to_text(), cache.to_text());
  EXPECT_EQ(read.hits(), 1);
}

TEST(TimingCache, TextIsSortedAndForPeople) {
  TimingCache cache;
  cache.insert({2, 1, 1}, 5);
  cache.insert({1, 0xabc, 7}, 0.5, "Relu\n(x)");
  EXPECT_EQ(cache.to_text(),
            "lathe timing cache 1\n"
            "0000000000000001 0000000000000abc 0000000000000007 0.5  # Relu (x)\n"
            "0000000000000002 0000000000000001 0000000000000001 5\n");
}

TEST(TimingCache, WrongLinesAreSkipped) {
  TimingCache cache;
  const int skipped = cache.merge_text(
      "lathe timing cache 1\n"
      "0000000000000001 0000000000000002 0000000000000003 0.5\n"
      "0000000000000001 0000000000000002 0000000000000004 nan\n"
      "0000000000000001 0000000000000002 0000000000000005 -1\n"
      "0000000000000001 0000000000000002 0000000000000006 1 2\n"
      "1 2 3 4\n"
      "hello\n"
      "\n# a remark\n"
      "0000000000000001 0000000000000002 0000000000000007");
  EXPECT_EQ(skipped, 6);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(TimingCache, OtherVersionsAreSkipped) {
  TimingCache cache;
  EXPECT_EQ(
      cache.merge_text("lathe timing cache 99\n0000000000000001 0000000000000002 0000000000000003 0.5\n"), 1);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(TimingCache, MergeKeepsWhatIsThere) {
  TimingCache a, b;
  a.insert({1, 1, 1}, 1);
  b.insert({1, 1, 1}, 2);
  b.insert({1, 1, 2}, 3);
  a.merge(b);
  EXPECT_EQ(a.find({1, 1, 1}), 1);
  EXPECT_EQ(a.find({1, 1, 2}), 3);
  a.merge_text(b.to_text());
  EXPECT_EQ(a.find({1, 1, 1}), 1);
}

TEST(TimingCache, WhatABudgetDidNotReachIsKeptUntilSomebodyTimesIt) {
  TimingCache cache;
  cache.insert_untimed({1, 1, 1}, 26, "Conv");
  EXPECT_EQ(cache.find({1, 1, 1}), std::nullopt);
  EXPECT_TRUE(cache.is_untimed({1, 1, 1}, 26));
  EXPECT_TRUE(cache.is_untimed({1, 1, 1}, 6));
  EXPECT_FALSE(cache.is_untimed({1, 1, 1}, 180));
  EXPECT_FALSE(cache.is_untimed({1, 1, 2}, 6));
  EXPECT_EQ(cache.to_text(),
            "lathe timing cache 1\n0000000000000001 0000000000000001 0000000000000001 untimed:26  # Conv\n");

  TimingCache read;
  EXPECT_EQ(read.merge_text(cache.to_text()), 0);
  EXPECT_EQ(read, cache);
  read.insert_untimed({1, 1, 1}, 180);  // the larger budget counts
  read.insert_untimed({1, 1, 1}, 6);
  EXPECT_TRUE(read.is_untimed({1, 1, 1}, 180));
  TimingCache timed;
  timed.insert({1, 1, 1}, 0.5);
  read.merge(timed);  // a time takes its place, and stays
  read.merge(cache);
  EXPECT_EQ(read.find({1, 1, 1}), 0.5);
  EXPECT_FALSE(read.is_untimed({1, 1, 1}, 6));
  EXPECT_EQ(read.merge_text("lathe timing cache 1\n"
                            "0000000000000001 0000000000000001 0000000000000002 untimed:\n"
                            "0000000000000001 0000000000000001 0000000000000003 untimed:-1\n"),
            2);
}

TEST(TimingCache, NoiseIsNeverFatal) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string text = "lathe timing cache 1\n";
    for (int k = 0; k < 100; ++k) text += static_cast<char>(random());
    TimingCache cache;
    cache.merge_text(text);
    EXPECT_LE(cache.size(), 1u);
  }
}

class TimingCacheFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ =
        std::filesystem::temp_directory_path() / ("lathe_timing_cache_test_" + std::to_string(::getpid()));
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_.string() + ".lock");
  }
  std::filesystem::path path_;
};

TEST_F(TimingCacheFile, SaveMergesWithWhatOthersWrote) {
  TimingCache a, b, read;
  EXPECT_FALSE(read.load(path_));
  a.insert({1, 1, 1}, 1);
  b.insert({1, 1, 2}, 2);
  a.save(path_);
  b.save(path_);
  EXPECT_TRUE(read.load(path_));
  EXPECT_EQ(read.size(), 2u);
}

TEST_F(TimingCacheFile, ForeignFilesAreNotOverwritten) {
  write_file_atomically(path_, "a diary");
  TimingCache cache;
  try {
    cache.save(path_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    EXPECT_NE(std::string(error.what()).find("is not a timing cache"), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_file(path_), "a diary");
}

TEST_F(TimingCacheFile, DevicesAreNotRead) {
  TimingCache cache;
  try {
    cache.load("/dev/zero");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'/dev/zero' is not a regular file: a timing cache is read, locked and replaced");
  }
}

TEST_F(TimingCacheFile, SystemErrorsNameTheFile) {
  TimingCache cache;
  try {
    cache.save("/nowhere/at/all.cache");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::System);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all.cache.lock"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lathe
