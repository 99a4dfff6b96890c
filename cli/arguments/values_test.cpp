// SPDX-License-Identifier: Apache-2.0
#include "arguments/values.h"

#include <gtest/gtest.h>

#include "arguments/arguments.h"
#include "arguments/error_of.h"

namespace lathe::cli {
namespace {

TEST(Arguments, SplitsAtTheFirstEquals) {
  Arguments arguments({"--a=b=c", "--flag", "--n=12abc"});
  EXPECT_EQ(arguments.take("--a"), "b=c");
  EXPECT_EQ(arguments.take("--flag"), "");
  EXPECT_EQ(parse_int("--n", *arguments.take("--n")), 12);
  EXPECT_EQ(arguments.take("--n"), std::nullopt);
}

TEST(Numbers, AreReadLeniently) {
  EXPECT_EQ(parse_int("--n", "1e3"), 1);
  EXPECT_EQ(parse_int("--n", "200.5"), 200);
  EXPECT_EQ(parse_int("--n", " -7"), -7);
  EXPECT_FLOAT_EQ(parse_float("--f", "0.5s"), 0.5f);
}

TEST(Numbers, ErrorsSayWhatIsNeeded) {
  EXPECT_EQ(error_of([] { parse_int("--iterations", "abc"); }),
            "--iterations=abc needs a whole number, as in --iterations=10");
  EXPECT_EQ(error_of([] { parse_int("--iterations", "99999999999"); }),
            "--iterations=99999999999 is too large for a 32-bit number");
  EXPECT_EQ(error_of([] { parse_float("--warmUp", ""); }), "--warmUp= needs a number, as in --warmUp=0.5");
  EXPECT_EQ(error_of([] { parse_float("--warmUp", "1e99"); }), "--warmUp=1e99 is out of range");
  EXPECT_EQ(error_of([] { parse_float("--warmUp", "nan"); }), "--warmUp=nan needs a finite number");
}

TEST(NamedValues, SplitAtTheLastColon) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(parse_named_value("Input:0:1x3"), Pair("Input:0", "1x3"));
  EXPECT_EQ(parse_named_value("'Input:0':1x3"), Pair("Input:0", "1x3"));
  EXPECT_EQ(parse_named_value("1x3x224x224"), Pair("1x3x224x224", "1x3x224x224"));
  EXPECT_EQ(error_of([] { parse_named_value("'a:1x3"); }),
            "Found invalid number of 's when parsing 'a:1x3. Expected: 2, received: 1");
}

TEST(Shapes, Grammar) {
  const auto shapes = parse_shapes("--shapes", "a:1x3x4,b:scalar,c:,d*:7");
  ASSERT_EQ(shapes.size(), 4u);
  EXPECT_EQ(shapes[0].second, (Extents{1, 3, 4}));
  EXPECT_TRUE(shapes[1].second.empty());
  EXPECT_TRUE(shapes[2].second.empty());
  EXPECT_EQ(*find_named(shapes, "depth"), (Extents{7}));
  EXPECT_EQ(find_named(shapes, "x"), nullptr);
  EXPECT_TRUE(parse_shapes("--shapes", "").empty());
}

TEST(Shapes, ExactNamesWinOverPatterns) {
  const auto shapes = parse_shapes("--shapes", "in*:1,input:2");
  EXPECT_EQ(*find_named(shapes, "input"), (Extents{2}));
  EXPECT_EQ(*find_named(shapes, "index"), (Extents{1}));
}

TEST(Shapes, BadNumbersAreNamed) {
  EXPECT_EQ(error_of([] { parse_shapes("--optShapes", "a:1xb"); }),
            "stoi conversion failure: failed to parse optShapes. Please double check your input string. "
            "(--optShapes=a:1xb: "
            "expected name:NxCxHxW as in input:1x3x224x224)");
  EXPECT_EQ(error_of([] { parse_shapes("--shapes", "a*b*:1"); }),
            "--shapes=a*b*:1: at most one * is allowed in a name");
}

std::string completed(const char* min, const char* opt, const char* max) {
  std::vector<std::string> notes;
  const auto ranges = complete_ranges(parse_shapes("--minShapes", min), parse_shapes("--optShapes", opt),
                                      parse_shapes("--maxShapes", max), notes);
  const auto& range = ranges.at(0).range;
  return dims_text(range.min) + " " + dims_text(range.opt) + " " + dims_text(range.max);
}

TEST(Shapes, MissingEndsOfARangeAreFilled) {
  EXPECT_EQ(completed("", "x:2", ""), "2 2 2");
  EXPECT_EQ(completed("x:1", "", "x:8"), "1 8 8");
  EXPECT_EQ(completed("", "x:4", "x:8"), "4 4 8");
  EXPECT_EQ(completed("x:1", "x:4", ""), "1 4 4");
  EXPECT_EQ(completed("x:1", "", ""), "1 1 1");
  EXPECT_EQ(completed("", "", "x:8"), "8 8 8");
  EXPECT_EQ(completed("x:1", "x:2", "x:3"), "1 2 3");
}

TEST(Shapes, FillingIsAnnounced) {
  std::vector<std::string> notes;
  complete_ranges({}, parse_shapes("--optShapes", "x:2"), {}, notes);
  EXPECT_EQ(notes, (std::vector<std::string>{"optShapes is being broadcasted to minShapes for tensor x",
                                             "optShapes is being broadcasted to maxShapes for tensor x"}));
}

TEST(Sizes, UnitsMeanWhatPeopleMean) {
  EXPECT_EQ(parse_size("1024", 1048576), 1024.0 * 1048576);
  EXPECT_EQ(parse_size("0.25G", 1), 0.25 * 1073741824);
  for (const char* text : {"512M", "512MiB", "512MB", "512m"})
    EXPECT_EQ(parse_size(text, 1), 512.0 * 1048576) << text;
  EXPECT_EQ(parse_size("77B", 1048576), 77);
  EXPECT_EQ(error_of([] { parse_size("5Q", 1); }),
            "Error parsing \"5Q\": invalid unit specifier 'Q'. Valid base-2 unit suffixes include: B "
            "(Bytes), G (Gibibytes), K "
            "(Kibibytes), M (Mebibytes).");
}

TEST(Sizes, MemoryPools) {
  const auto pools = parse_memory_pools("workspace:1024,tacticSharedMem:48K");
  EXPECT_EQ(pools.at("workspace"), 1073741824.0);
  EXPECT_EQ(pools.at("tacticSharedMem"), 49152.0);
  const std::string ending =
      " conversion failure: failed to parse --memPoolSize. Please double check your input string.";
  EXPECT_EQ(error_of([] { parse_memory_pools("x:1"); }), "Unknown memory pool: x" + ending);
  EXPECT_EQ(error_of([] { parse_memory_pools("workspace:-1"); }), "Negative memory pool size: -1" + ending);
  EXPECT_EQ(error_of([] { parse_memory_pools("workspace:x"); }),
            "stof" + ending + " (size= needs a number, as in size=0.5)");
}

TEST(IoFormats, WithAndWithoutTypes) {
  const auto formats = parse_io_formats("--inputIOFormats", "fp32:chw+hwc8,chw");
  ASSERT_EQ(formats.size(), 2u);
  EXPECT_EQ(formats[0].type, "fp32");
  EXPECT_EQ(formats[0].formats, (std::vector<std::string>{"chw", "hwc8"}));
  EXPECT_EQ(formats[1].type, "");
  EXPECT_NE(
      error_of([] { parse_io_formats("--inputIOFormats", "fp33:chw"); }).find("Invalid data type: fp33"),
      std::string::npos);
  EXPECT_NE(error_of([] { parse_io_formats("--inputIOFormats", "fp32:abc"); }).find("Invalid format: abc"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_io_formats("--inputIOFormats", "fp32:"); }).find("names no format"),
            std::string::npos);
}

TEST(Switches, PlusAndMinus) {
  const std::vector<std::string> known = {"CUDNN", "CUBLAS"};
  const auto switches = parse_switches("tactic source", "+cudnn,-CUBLAS", known, true);
  EXPECT_EQ(switches, (std::vector<std::pair<std::string, bool>>{{"CUDNN", true}, {"CUBLAS", false}}));
  EXPECT_EQ(error_of([&] { parse_switches("tactic source", "+X", known, true); }),
            "Unknown tactic source: X (known: CUDNN CUBLAS)");
  EXPECT_EQ(error_of([&] { parse_switches("tactic source", "+CUDNN,-CUDNN", known, true); }),
            "Cannot enable and disable CUDNN");
  EXPECT_EQ(error_of([&] { parse_switches("tactic source", "CUDNN", known, true); }),
            "tactic source 'CUDNN' must be prefixed by + (on) or - (off)");
}

}  // namespace
}  // namespace lathe::cli
