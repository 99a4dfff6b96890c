// SPDX-License-Identifier: Apache-2.0
#include "ir/dim.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/error.h"

namespace lathe {
namespace {

const Dim kB = Dim::symbol("batch"), kS = Dim::symbol("seq"), kH = Dim::symbol("h");

std::string text_of(std::string_view text) {
  return Dim::parse(text).to_string();
}
std::string parse_error(std::string_view text) {
  try {
    Dim::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    return error.what();
  }
  return "";
}

TEST(Dim, SumsAndProductsHaveOneForm) {
  EXPECT_EQ(kB * 12 * 64, kB * 768);
  EXPECT_EQ((kB + 1) * (kB - 1), kB * kB - 1);
  EXPECT_EQ(kB - kB, Dim(0));
  EXPECT_TRUE((kB + 3 - kB).is_constant(3));
  EXPECT_NE(kB, kS);
  EXPECT_NE(kB, Dim(1));
  EXPECT_EQ((kS * kB).to_string(), (kB * kS).to_string());
}

TEST(Dim, ExactDivision) {
  EXPECT_EQ((kB * 12 * 64).exact_div(64), kB * 12);
  EXPECT_EQ((kB * kS * 768).exact_div(kB * kS), Dim(768));
  EXPECT_EQ((kB * kB - 1).exact_div(kB + 1), kB - 1);
  EXPECT_EQ(Dim(0).exact_div(kB), Dim(0));
  EXPECT_EQ((kB * 3).exact_div(2), std::nullopt);
  EXPECT_EQ(kB.exact_div(kS), std::nullopt);
  EXPECT_EQ(kB.exact_div(0), std::nullopt);
  EXPECT_EQ((kB + 1).exact_div(kB - 1), std::nullopt);
}

TEST(Dim, FloorDivSimplifies) {
  EXPECT_EQ(floor_div(kH * 4 + 7, 4), kH + 1);
  EXPECT_EQ(floor_div(kH + 9, 4), floor_div(kH + 1, 4) + 2);
  EXPECT_EQ(floor_div(kH * 2 + 1, 4), floor_div(kH, 2));
  EXPECT_EQ(floor_div(kB * kS + kB, kB), kS + 1);
  EXPECT_EQ(floor_div(floor_div(kH - 1, 2), 2), floor_div(kH - 1, 4));
  EXPECT_EQ(floor_div(-7, 2), Dim(-4));
  EXPECT_EQ(ceil_div(kH * 2, 2), kH);
  EXPECT_EQ(ceil_div(7, 2), Dim(4));
  EXPECT_EQ(floor_div(kB * 2 + 1, kB), floor_div(1, kB) + 2);
  EXPECT_THROW(floor_div(kH, 0), Error);
  EXPECT_THROW(floor_div(1, 0), Error);
  EXPECT_THROW(mod(kH, 0), Error);
}

TEST(Dim, StridedLayersStayOneDivision) {
  Dim h = kH;
  for (int i = 0; i < 5; ++i) h = floor_div(h + 2 - 3, 2) + 1;  // kernel 3, stride 2, pad 1
  EXPECT_EQ(h.to_string(), "floor_div(h + 31, 32)");
}

TEST(Dim, ModSimplifies) {
  EXPECT_EQ(mod(kH * 4 + 7, 4), Dim(3));
  EXPECT_EQ(mod(kH + 9, 4), mod(kH + 1, 4));
  EXPECT_EQ(mod(kB * kS, kS), Dim(0));
  EXPECT_EQ(mod(-1, 4), Dim(3));
}

TEST(Dim, MinAndMaxOfComparables) {
  EXPECT_EQ(min(kB, kB + 1), kB);
  EXPECT_EQ(max(kB, kB + kS), kB + kS);
  EXPECT_EQ(max(kB, 0), kB);
  EXPECT_EQ(min(min(kB, kS), 4), min(kB, min(kS, 4)));
  EXPECT_EQ(min(kB, kS), min(kS, kB));
  EXPECT_EQ(max(max(kB, kS), kB), max(kB, kS));
  EXPECT_EQ(min(kB, 5).to_string(), "min(batch, 5)");
  EXPECT_EQ(min(0, min(kB * -3, -3)).to_string(), "min(-3*batch, -3)");
}

TEST(Dim, EvaluatesAndBounds) {
  const Dim d = floor_div(kH - 1, 2) * 3 + min(kB, kS) - mod(kB, 3);
  EXPECT_EQ(d.evaluate({{"h", 8}, {"batch", 5}, {"seq", 4}}), 3 * 3 + 4 - 2);
  const SymbolRanges ranges = {{"h", {1, 5, 9}}, {"batch", {2, 2, 4}}, {"seq", {1, 1, 1}}};
  EXPECT_EQ((kH * 2 - 1).bounds(ranges).high, 17);
  EXPECT_EQ((Dim(1) - kH).bounds(ranges).low, -8);
  EXPECT_EQ(floor_div(kH, 2).bounds(ranges).high, 4);
  EXPECT_EQ(mod(kH, 100).bounds(ranges).high, 9);
  EXPECT_EQ(max(kB, kH).bounds(ranges).low, 2);
  EXPECT_THROW(kB.evaluate({}), Error);
  EXPECT_THROW(Dim::symbol("x").bounds(ranges), Error);
}

TEST(Dim, OverflowIsAnError) {
  EXPECT_THROW(Dim(INT64_MAX) + 1, Error);
  EXPECT_THROW(Dim(INT64_MAX) * 2, Error);
  EXPECT_THROW((kB * INT64_MAX).evaluate({{"batch", 2}}), Error);
  EXPECT_THROW(floor_div(INT64_MIN, -1), Error);
}

TEST(Dim, DataDependent) {
  const Dim n = Dim::data_dependent("/nz.count", kB * 8);
  EXPECT_EQ(n.to_string(), "\"/nz.count\"<=8*batch");
  EXPECT_EQ(Dim::parse(n.to_string()), n);
  EXPECT_EQ(Dim::parse((n * 2 + 1).to_string()), n * 2 + 1);
  EXPECT_EQ(n.as_symbol(), "/nz.count");
  EXPECT_EQ(n.bounds({{"batch", {1, 1, 2}}}).high, 16);
  EXPECT_EQ((n + kB).data_dependent_names(), (std::set<std::string>{"/nz.count"}));
  EXPECT_EQ((n + kB).symbols(), (std::set<std::string>{"/nz.count", "batch"}));
  EXPECT_EQ(n.substitute({{"batch", 2}}).to_string(), "\"/nz.count\"<=16");
}

TEST(Dim, Substitutes) {
  EXPECT_EQ((floor_div(kH, 2) + kB).substitute({{"h", 7}}), kB + 3);
  EXPECT_EQ(min(kH, kB).substitute({{"h", kB}}), kB);
  EXPECT_EQ((kB * kS).substitute({{"seq", kH + 1}}), kB * kH + kB);
}

TEST(Dim, TextReadsBack) {
  for (const char* text : {"0", "-5", "batch", "2*seq + 1", "floor_div(h + 1, 2)", "batch*seq - 3", "-h + 1",
                           "max(\"a b/c\", 5)", "3*seq*min(batch, seq)", "mod(h, 7)", "n<=10",
                           "k<=n<=8*batch", "(k<=n<=8) + 1", "-9223372036854775808"}) {
    EXPECT_EQ(text_of(text), text);
    EXPECT_EQ(Dim::parse(text_of(text)), Dim::parse(text));
  }
  EXPECT_EQ(text_of("ceil_div(h, 2)"), "floor_div(h + 1, 2)");
  EXPECT_EQ(text_of(" 2 * (a + b) - -3 "), "2*a + 2*b + 3");
  EXPECT_EQ(Dim::symbol("q\"\\").to_string(), "\"q\\\"\\\\\"");
  EXPECT_EQ(Dim::parse("\"q\\\"\\\\\""), Dim::symbol("q\"\\"));
}

TEST(Dim, ParseErrorsSayWhere) {
  EXPECT_EQ(parse_error("2 +"), "dimension \"2 +\", at character 4: expected a number or a name");
  EXPECT_NE(parse_error("").find("expected a number"), std::string::npos);
  EXPECT_NE(parse_error("2 batch").find("unexpected text"), std::string::npos);
  EXPECT_NE(parse_error("foo(1, 2)").find("unknown function \"foo\""), std::string::npos);
  EXPECT_NE(parse_error("min(1)").find("expected ','"), std::string::npos);
  EXPECT_NE(parse_error("99999999999999999999").find("64 bits"), std::string::npos);
  EXPECT_NE(parse_error("\"ab").find("does not end"), std::string::npos);
  EXPECT_NE(parse_error("\"\"").find("needs a name"), std::string::npos);
  EXPECT_NE(parse_error("a + 1<=2").find("only a name"), std::string::npos);
  EXPECT_NE(parse_error(std::string(5000, '(')).find("nested too deeply"), std::string::npos);
  std::string product = "(a+b)";
  for (int i = 0; i < 40; ++i) product += "*(a+b" + std::to_string(i) + ")";
  EXPECT_NE(parse_error(product).find("too many terms"), std::string::npos);
}

TEST(Dim, ManyFactorsAreRefusedAtOnce) {
  std::string product = "n";
  for (int i = 0; i < 5000; ++i) product += "*n";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(parse_error(product).find("too many factors"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

// Random expressions: simplification must not change a value, and text must read back.
TEST(Dim, RandomExpressionsKeepTheirValue) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 2000; ++round) {
    const SymbolValues values = {{"a", pick(9)}, {"b", pick(9)}};
    struct Item {
      Dim dim;
      int64_t value;
    };
    std::vector<Item> items = {
        {Dim::symbol("a"), values.at("a")}, {Dim::symbol("b"), values.at("b")}, {2, 2}, {-3, -3}};
    for (int step = 0; step < 8; ++step) {
      const Item x = items[static_cast<size_t>(pick(static_cast<int>(items.size())))];
      const Item y = items[static_cast<size_t>(pick(static_cast<int>(items.size())))];
      const int64_t k = pick(6) + 1, floored = x.value / k - (x.value % k < 0);
      if (std::abs(x.value) > 1000000 || std::abs(y.value) > 1000000) continue;
      switch (pick(6)) {
        case 0:
          items.push_back({x.dim + y.dim, x.value + y.value});
          break;
        case 1:
          items.push_back({x.dim * y.dim, x.value * y.value});
          break;
        case 2:
          items.push_back({floor_div(x.dim, k), floored});
          break;
        case 3:
          items.push_back({mod(x.dim, k), x.value - floored * k});
          break;
        case 4:
          items.push_back({min(x.dim, y.dim), std::min(x.value, y.value)});
          break;
        case 5:
          items.push_back({max(x.dim, y.dim), std::max(x.value, y.value)});
          break;
      }
      const Item& last = items.back();
      ASSERT_EQ(last.dim.evaluate(values), last.value) << "round " << round << ": " << last.dim.to_string();
      ASSERT_EQ(Dim::parse(last.dim.to_string()), last.dim) << last.dim.to_string();
      const Interval bounds = last.dim.bounds({{"a", {0, 4, 8}}, {"b", {0, 4, 8}}});
      ASSERT_LE(bounds.low, last.value) << last.dim.to_string();
      ASSERT_GE(bounds.high, last.value) << last.dim.to_string();
    }
  }
}

}  // namespace
}  // namespace lathe
