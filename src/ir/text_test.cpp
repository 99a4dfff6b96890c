// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "ir/edit.h"
#include "ir/verify.h"

namespace lathe {
namespace {

constexpr std::string_view kExample = R"(graph "a \"b\"" {
  input %input: float32[batch, 3, "h/w", 224]
  input %n: int64[2] contents [batch, 4]
  const %w: float32[2, 3, 1, 1] = [0.1, -2, 3e+20, inf, -inf, nan]
  const %b: float32[2] = [1, 2]
  const %i: int64[1] = [9223372036854775807]
  const %u: uint64[1] = [18446744073709551615]
  const %big: float16[5, 5] = splat 0.5
  const %q: int4[3] = [-8, 7, 0]
  %c: bfloat16[batch, 2, "h/w", 224]:channels_last = Conv "conv1 + relu1" (%input, %w, _, %b) {kernel=[1, 1], auto_pad=SameUpper} epilogue 2 {Add(0,1) Relu(2)} allow [bfloat16, float16] from ["conv1" "Conv", "relu1" "Relu"]
  %"x/y:0": float32[1], _, %z: int64["nz/count"<=8*batch + 1] = TopK "top\x0ak" (%c, %i, %u) {axis=0, largest=false}
  %s: float32[2] = Slice "slice" (%"x/y:0", %big, %q, %n) {starts=[floor_div(batch, 2)], ends=[batch], axes=[0], steps=[1]}
  %p: float32[2] = PointwiseChain "chain" (%s, %z) {program=2 {Mul(0,1) Clip[0,6](2)}}
  %f: float64[] = Fill "fill" () {shape=[], dtype=float64, value=0.1}
  %r: float32[1] = Reduce "r" (%p) {kind=Mean, axes=[]}
  output %p
  output %f
  output %r
}
)";

std::string error_of(std::string_view text) {
  try {
    parse_graph(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.what();
  }
  return "";
}
// Puts one statement into a graph that has %x.
std::string statement_error(const std::string& statement) {
  return error_of("graph \"g\" {\n input %x: float32[2]\n" + statement + "\n}");
}

TEST(Text, ReadsBackExactly) {
  const Graph graph = parse_graph(kExample);
  verify_structure(graph);
  EXPECT_EQ(to_text(graph, {.inline_constants = true}), kExample);
  EXPECT_EQ(graph.node(0).op_input_count(), 3u);
  EXPECT_EQ(std::get<Reduce>(graph.node(5).op).axes, Ints{});
  EXPECT_EQ(graph.value(*graph.find_value("u")).constant.data<uint64_t>()[0], UINT64_MAX);
}

TEST(Text, BigConstantsAreReferences) {
  const Graph graph = parse_graph(kExample);
  std::vector<Tensor> kept;
  const std::string text = to_text(graph, {.constant_index = [&](ValueId, const Tensor& t) {
                                     kept.push_back(t);
                                     return static_cast<int64_t>(kept.size()) - 1;
                                   }});
  EXPECT_NE(text.find("%big: float16[5, 5] = ref 0\n"), std::string::npos);
  const Graph again = parse_graph(text, [&](int64_t i) { return kept.at(static_cast<size_t>(i)); });
  EXPECT_EQ(to_text(again, {.inline_constants = true}), kExample);
  EXPECT_NE(error_of(text).find("constant 0, which is not at hand"), std::string::npos);
  EXPECT_NE(error_of(to_text(graph)).find("says only its hash"), std::string::npos);
  EXPECT_THROW(parse_graph(text, [](int64_t) { return Tensor::scalar_f32(1); }), Error);
}

TEST(Text, EveryOperatorReadsBack) {
  for (size_t i = 0; i < std::variant_size_v<OpFields>; ++i) {
    Graph graph;
    GraphEditor editor(graph);
    const ValueId x = editor.add_input("x", DType::Float32, {1});
    const auto op = [&]<size_t... I>(std::index_sequence<I...>) {
      Op result;
      ((I == i ? (result.emplace<I>(), 0) : 0), ...);
      return result;
    }
    (std::make_index_sequence<std::variant_size_v<OpFields>>());
    const NodeId node =
        editor.add_node("node", op, {x}, {{.name = "y", .dtype = DType::Float32, .shape = {1}}}, {});
    editor.mark_output(graph.node(node).outputs[0]);
    const Graph again = parse_graph(to_text(graph));
    EXPECT_EQ(again.node(0).op, op) << op_name(op);
    EXPECT_EQ(op_from_name(op_name(op)), op);
  }
  EXPECT_EQ(op_from_name("Bogus"), std::nullopt);
}

TEST(Text, FloatsReadBackBitByBit) {
  std::mt19937 random(3);
  std::vector<float> values;
  while (values.size() < 2000) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  Graph graph;
  GraphEditor editor(graph);
  editor.mark_output(editor.add_constant("c", Tensor::from<float>({2000}, values)));
  const Graph again = parse_graph(to_text(graph, {.inline_constants = true}));
  const auto got = again.value(again.outputs()[0]).constant.data<float>();
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(values[i]));
}

TEST(Text, CommentsAndGeneratedConstants) {
  const Graph graph = parse_graph(
      "graph \"g\" { # a comment\n const %r: float32[3] = random 7 # seed\n const %s: int32[2] = random 1\n "
      "output %r output %s}");
  const auto r = graph.value(graph.outputs()[0]).constant.data<float>();
  EXPECT_TRUE(r[0] != r[1] && std::abs(r[0]) <= 0.5f && std::abs(r[2]) <= 0.5f);
  EXPECT_LT(graph.value(graph.outputs()[1]).constant.data<int32_t>()[0], 8);
}

TEST(Text, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error_of("graph \"g\" {\n  inptu %x\n}"),
            "graph text, line 2, column 3: expected input, const, output, a value (%name) or '}'");
  EXPECT_NE(error_of("").find("line 1, column 1: expected \"graph\""), std::string::npos);
  EXPECT_NE(error_of("graph \"g").find("does not end"), std::string::npos);
  EXPECT_NE(error_of("graph \"g\" {} x").find("unexpected text"), std::string::npos);
  EXPECT_NE(statement_error("output %y").find("line 3, column 8: value %y is not defined"),
            std::string::npos);
  EXPECT_NE(statement_error("input %x: float32[2]").find("%x is defined twice"), std::string::npos);
  EXPECT_NE(statement_error("input %: float32[2]").find("expected a value's name"), std::string::npos);
  EXPECT_NE(statement_error("input %y: float33[2]").find("unknown element type \"float33\""),
            std::string::npos);
  EXPECT_NE(statement_error("input %y: float32[-2]").find("a dim is negative"), std::string::npos);
  EXPECT_NE(statement_error("input %y: float32[2 +]").find("expected a number or a name"), std::string::npos);
  EXPECT_NE(statement_error("input %y: float32[2]:blocked8").find("needs a channel axis"), std::string::npos);
  EXPECT_NE(statement_error("input %y: float32[2, 2]:bogus").find("unknown tensor format"),
            std::string::npos);
  std::string rank = "1";
  for (int i = 0; i < 80; ++i) rank += ",1";
  EXPECT_NE(statement_error("input %y: float32[" + rank + "]").find("at most 64 dims"), std::string::npos);
}

TEST(Text, GridsReadBack) {
  const std::string text =
      "graph \"g\" {\n  input %x: float32[n, 4] quantized uint8 scale [0.02] zero [128]\n"
      "  const %w: float32[2] quantized int8 scale [0.5, 0.25] zero [0, -3] axis 0 = [1, 2]\n"
      "  %y: uint8[n, 4]:channels_last quantized uint8 scale [0.02] zero [128] = Reformat \"r\" (%x, %w)\n"
      "  %z: float8e4m3fn[n, 4] quantized float8e4m3fn scale [0.02] zero [0] = Reformat \"s\" (%x)\n"
      "  output %y\n  output %z\n}\n";
  const Graph graph = parse_graph(text);
  verify_structure(graph);
  EXPECT_EQ(to_text(graph, {.inline_constants = true}), text);
  EXPECT_FALSE(graph.value(*graph.find_value("x")).is_stored_quantized());
  const Value& y = graph.value(*graph.find_value("y"));
  EXPECT_TRUE(y.is_stored_quantized());
  EXPECT_EQ(y.number_type(), DType::Float32);
  EXPECT_EQ(graph.value(*graph.find_value("z")).number_type(), DType::Float32);
}

TEST(Text, ErrorsOfGrids) {
  const auto error = [](const std::string& grid) {
    return statement_error("input %y: float32[2, 3] quantized " + grid);
  };
  EXPECT_NE(error("int16 scale [1] zero [0]").find("int8, uint8 or float8e4m3fn, not to int16"),
            std::string::npos);
  EXPECT_NE(error("int8 scale [1] zero []").find("scales and zero points differ in number"),
            std::string::npos);
  EXPECT_NE(error("int8 scale [1, 1, 1, 1] zero [0, 0, 0, 0] axis 1").find("number of scales is not that"),
            std::string::npos);
  EXPECT_NE(error("int8 scale [1, 1] zero [0, 0]").find("number of scales is not that"), std::string::npos);
  EXPECT_NE(error("int8 scale [1] zero [0] axis 2").find("axis does not exist"), std::string::npos);
  EXPECT_NE(error("int8 scale [0] zero [0]").find("not a positive normal number"), std::string::npos);
  EXPECT_NE(error("int8 scale [nan] zero [0]").find("not a positive normal number"), std::string::npos);
  EXPECT_NE(error("uint8 scale [1] zero [-1]").find("a zero point is not a number of uint8"),
            std::string::npos);
  EXPECT_NE(error("float8e4m3fn scale [1] zero [-1]").find("no zero point but 0"), std::string::npos);
  EXPECT_NE(error("uint8 zero [0]").find("expected \"scale\""), std::string::npos);
}

TEST(Text, ErrorsOfConstants) {
  EXPECT_NE(statement_error("const %c: float32[b] = [1]").find("not constant"), std::string::npos);
  EXPECT_NE(statement_error("const %c: float32[1, 1]:blocked8 = [1]").find("not linear"), std::string::npos);
  EXPECT_NE(statement_error("const %c: float32[2] = [1]").find("1 elements for a tensor of 2"),
            std::string::npos);
  EXPECT_NE(statement_error("const %c: float32[2] = [1, x]").find("expected a number"), std::string::npos);
  EXPECT_NE(statement_error("const %c: int64[1] = [99999999999999999999]").find("out of range"),
            std::string::npos);
  EXPECT_NE(statement_error("const %c: float32[999999999999] = splat 1").find("too many elements"),
            std::string::npos);
  EXPECT_NE(statement_error("const %c: float32[999999999999, 999999999999] = splat 1").find("64 bits"),
            std::string::npos);
}

TEST(Text, ErrorsOfNodes) {
  EXPECT_NE(statement_error("%y: float32[2] = Bogus \"n\" (%x)").find("unknown operator \"Bogus\""),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Conv \"\" (%x)").find("empty or used twice"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Conv \"n\" (%x) {bogus=1}").find("Conv has no field \"bogus\""),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Conv \"n\" (%x) {groups=1, groups=1}").find("given twice"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Conv \"n\" (%x) {groups=1 2}").find("unexpected text"),
            std::string::npos);
  EXPECT_NE(
      statement_error("%y: float32[2] = Conv \"n\" (%x) {auto_pad=Bogus}").find("unknown name \"Bogus\""),
      std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Cast \"n\" (%x) {saturate=1}").find("expected true or false"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Cast \"n\" (%y)").find("not defined before"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Cast \"n\" (%x) epilogue {}").find("no steps"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Cast \"n\" (%x) epilogue {Relu(3)}").find("not defined yet"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Cast \"n\" (%x) epilogue 3 {Relu(0)}").find("has 3 inputs"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Cast \"n\" (_) epilogue 2 {Relu(0)}")
                .find("operand of the epilogue is absent"),
            std::string::npos);
  EXPECT_NE(statement_error("_ = Cast \"n\" (%x) epilogue {Relu(0)}").find("needs its first output"),
            std::string::npos);
  EXPECT_NE(error_of("graph \"g\" { %y: float32[] = Cast \"n\" () {to=\"\\").find("expected '}'"),
            std::string::npos);
  EXPECT_NE(statement_error("%y: float32[2] = Cast \"\\xg\" (%x)").find("hexadecimal"), std::string::npos);
}

// Whatever the damage, parsing gives a valid graph or an Input error.
TEST(Text, DamagedTextNeverCrashes) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text(kExample);
    for (unsigned n = random() % 3 + 1; n > 0; --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        case 3:
          text[at] = "[]{}()\"%,:=_-9"[random() % 14];
          break;
      }
    }
    try {
      const Graph graph = parse_graph(text);
      verify_structure(graph);
      EXPECT_EQ(to_text(parse_graph(to_text(graph, {.inline_constants = true})), {.inline_constants = true}),
                to_text(graph, {.inline_constants = true}));
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::Input) << error.what() << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace lathe
