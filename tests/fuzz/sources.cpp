// SPDX-License-Identifier: Apache-2.0
#include "sources.h"

#include <bit>
#include <cmath>

#include "onnx/test_model.h"

namespace fuzz {
namespace {

using lathe::onnx::TestModel;
using Ints = std::vector<int64_t>;
constexpr int kFloat = 1, kInt8 = 3, kInt64 = 7, kBool = 9;

std::string ints(std::string_view name, const Ints& values) {
  return TestModel::ints_attribute(name, values);
}
std::string integer(std::string_view name, int64_t value) {
  return TestModel::int_attribute(name, value);
}
std::string text(std::string_view name, std::string_view value) {
  std::string a;
  lathe::onnx::put_bytes(a, 1, name);
  lathe::onnx::put_bytes(a, 4, value);
  lathe::onnx::put_int(a, 20, 3);
  return a;
}

// Weights whose elements are all different.
void weights(TestModel& m, std::string_view name, const Ints& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 0.2f;
  m.constant(name, kFloat, dims, values);
}

std::string convolutions() {
  TestModel m(17);
  m.input("x", kFloat, {"1", "3", "16", "16"}).output("y");
  weights(m, "w1", {16, 3, 3, 3});
  weights(m, "b1", {16});
  weights(m, "w2", {32, 16, 3, 3});
  weights(m, "w3", {10, 32});
  weights(m, "b3", {10});
  m.node("Conv", {"x", "w1", "b1"}, {"c1"}, {ints("pads", {1, 1, 1, 1}), ints("kernel_shape", {3, 3})});
  m.node("Relu", {"c1"}, {"r1"});
  m.node("MaxPool", {"r1"}, {"p1"}, {ints("kernel_shape", {2, 2}), ints("strides", {2, 2})});
  m.node("Conv", {"p1", "w2"}, {"c2"}, {ints("pads", {1, 1, 1, 1}), ints("strides", {2, 2})});
  m.node("Relu", {"c2"}, {"r2"});
  m.node("GlobalAveragePool", {"r2"}, {"g"});
  m.node("Flatten", {"g"}, {"f"}, {integer("axis", 1)});
  m.node("Gemm", {"f", "w3", "b3"}, {"y"}, {integer("transB", 1)});
  return m.bytes();
}

std::string depthwise() {
  TestModel m(13);
  m.input("x", kFloat, {"N", "16", "12", "12"}).output("y");
  weights(m, "w0", {32, 16, 1, 1});
  weights(m, "w1", {32, 1, 3, 3});
  weights(m, "b1", {32});
  weights(m, "w2", {16, 32, 1, 1});
  m.constant<float>("low", kFloat, {}, {0}).constant<float>("high", kFloat, {}, {6});
  m.node("Conv", {"x", "w0"}, {"c0"});
  m.node("Clip", {"c0", "low", "high"}, {"r0"});
  m.node("Conv", {"r0", "w1", "b1"}, {"c1"}, {ints("pads", {1, 1, 1, 1}), integer("group", 32)});
  m.node("Clip", {"c1", "low", "high"}, {"r1"});
  m.node("Conv", {"r1", "w2"}, {"c2"});
  m.node("Add", {"c2", "x"}, {"s"});
  m.node("AveragePool", {"s"}, {"y"}, {ints("kernel_shape", {3, 3}), integer("ceil_mode", 1)});
  return m.bytes();
}

std::string perceptron() {
  TestModel m(17);
  m.input("x", kFloat, {"N", "64"}).output("y");
  weights(m, "w1", {64, 300});  // more than 64 KiB
  weights(m, "b1", {300});
  weights(m, "w2", {300, 16});
  m.constant<float>("root", kFloat, {}, {1.41421354f}).constant<float>("one", kFloat, {}, {1});
  m.constant<float>("half", kFloat, {}, {0.5f});
  m.node("MatMul", {"x", "w1"}, {"p"}).node("Add", {"p", "b1"}, {"s"});
  m.node("Div", {"s", "root"}, {"d"}).node("Erf", {"d"}, {"e"}).node("Add", {"e", "one"}, {"e1"});
  m.node("Mul", {"s", "e1"}, {"g"}).node("Mul", {"g", "half"}, {"h"});
  m.node("MatMul", {"h", "w2"}, {"q"}).node("Softmax", {"q"}, {"y"}, {integer("axis", -1)});
  return m.bytes();
}

std::string attention() {
  TestModel m(17);
  m.input("x", kFloat, {"N", "S", "32"}).output("y");
  for (const char* name : {"wq", "wk", "wv", "wo"}) weights(m, name, {32, 32});
  weights(m, "scale", {32});
  weights(m, "bias", {32});
  m.ints("heads", {0, 0, 4, 8}).ints("flat", {0, 0, 32});
  m.constant<float>("root", kFloat, {}, {0.35f});
  for (const std::string p : {"q", "k", "v"}) {
    m.node("MatMul", {"x", "w" + p}, {p + "0"}).node("Reshape", {p + "0", "heads"}, {p + "1"});
    m.node("Transpose", {p + "1"}, {p}, {ints("perm", p == "k" ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3})});
  }
  m.node("MatMul", {"q", "k"}, {"scores"}).node("Mul", {"scores", "root"}, {"scaled"});
  m.node("Softmax", {"scaled"}, {"p"}, {integer("axis", -1)}).node("MatMul", {"p", "v"}, {"o"});
  m.node("Transpose", {"o"}, {"t"}, {ints("perm", {0, 2, 1, 3})}).node("Reshape", {"t", "flat"}, {"r"});
  m.node("MatMul", {"r", "wo"}, {"a"}).node("Add", {"a", "x"}, {"s"});
  m.node("LayerNormalization", {"s", "scale", "bias"}, {"y"}, {integer("axis", -1)});
  return m.bytes();
}

std::string positions() {
  TestModel m(17);
  m.input("ids", kInt64, {"N", "S"}).output("y").output("z");
  weights(m, "table", {40, 8});
  weights(m, "places", {16, 8});
  m.ints("zero", {0}).ints("one", {1}).ints("first", {0}).constant<int64_t>("at", kInt64, {}, {1});
  m.node("Gather", {"table", "ids"}, {"e"}).node("Shape", {"ids"}, {"s"}).node("Gather", {"s", "one"}, {"n"});
  m.node("Slice", {"places", "zero", "n", "first", "one"}, {"p"}).node("Unsqueeze", {"p", "first"}, {"u"});
  m.node("Add", {"e", "u"}, {"y"});
  m.node("Concat", {"s", "one"}, {"wide"}, {integer("axis", 0)}).node("ConstantOfShape", {"wide"}, {"c"});
  m.node("Unsqueeze", {"n", "first"}, {"n2"}).node("Squeeze", {"n2", "first"}, {"n1"});
  m.node("Concat", {"one", "n1", "one"}, {"to"}, {integer("axis", 0)}).node("Expand", {"c", "to"}, {"z"});
  return m.bytes();
}

std::string movement() {
  TestModel m(13);
  m.input("x", kFloat, {"N", "6", "5"})
      .input("z", kFloat, {"M", "6", "5"})
      .output("y")
      .output("t")
      .output("w");
  m.ints("parts", {2, 4}).ints("starts", {0, 1}).ints("ends", {6, -1}).ints("axes", {1, 2});
  m.ints("pads", {0, 1, 0, 0, 2, 1}).ints("times", {1, 2, 1}).ints("all", {-1, 10}).ints("some", {2, 0, 1});
  m.node("Concat", {"x", "z"}, {"c"}, {integer("axis", 0)});
  m.node("Split", {"c", "parts"}, {"a", "b"}, {integer("axis", 1)});
  m.node("Concat", {"b", "a"}, {"d"}, {integer("axis", 1)});
  m.node("Slice", {"d", "starts", "ends", "axes"}, {"s"}).node("Pad", {"s", "pads"}, {"p"});
  m.node("Tile", {"p", "times"}, {"y"})
      .node("Reshape", {"d", "all"}, {"r"})
      .node("Gather", {"r", "some"}, {"g"});
  m.node("Transpose", {"g"}, {"t"}, {ints("perm", {1, 0})});
  m.node("Identity", {"a"}, {"i"}).node("Flatten", {"i"}, {"w"}, {integer("axis", 2)});
  return m.bytes();
}

std::string selection() {
  TestModel m(17);
  m.input("x", kFloat, {"N", "20"})
      .output("v")
      .output("i", kInt64)
      .output("n", kInt64)
      .output("w")
      .output("c");
  m.ints("k", {3}).constant<int64_t>("axis", kInt64, {}, {1}).constant<float>("zero", kFloat, {}, {0});
  m.node("TopK", {"x", "k"}, {"v", "i"}).node("NonZero", {"x"}, {"n"});
  m.node("ArgMax", {"x"}, {"a"}, {integer("axis", 1), integer("keepdims", 1)});
  m.node("GatherElements", {"x", "i"}, {"g"}, {integer("axis", 1)}).node("Greater", {"g", "zero"}, {"q"});
  m.node("Where", {"q", "g", "v"}, {"w"}).node("CumSum", {"x", "axis"}, {"c"});
  return m.bytes();
}

std::string upsampling() {
  TestModel m(17);
  m.input("x", kFloat, {"1", "8", "H", "W"}).output("y");
  weights(m, "w", {8, 16, 2, 2});
  weights(m, "s", {16});
  weights(m, "b", {16});
  m.constant<float>("scales", kFloat, {4}, {1, 1, 2, 2});
  m.node("ConvTranspose", {"x", "w", "b"}, {"c"}, {ints("strides", {2, 2})});
  m.node("InstanceNormalization", {"c", "s", "b"}, {"n"});
  m.node("Resize", {"n", "", "scales"}, {"y"}, {text("mode", "nearest")});
  return m.bytes();
}

std::string quantized() {
  TestModel m(17);
  m.input("x", kFloat, {"N", "8", "8", "8"}).output("y");
  m.constant<float>("s", kFloat, {}, {0.05f}).constant<int8_t>("z", 3, {}, {3});
  std::vector<int8_t> w(16 * 8 * 9);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<int8_t>(i % 17) - 8;
  m.constant<int8_t>("wq", 3, {16, 8, 3, 3}, w).constant<int8_t>("wz", 3, {}, {0});
  m.node("QuantizeLinear", {"x", "s", "z"}, {"q"}).node("DequantizeLinear", {"q", "s", "z"}, {"d"});
  m.node("DequantizeLinear", {"wq", "s", "wz"}, {"w"}).node("Conv", {"d", "w"}, {"c"});
  m.node("QuantizeLinear", {"c", "s", "z"}, {"q2"}).node("DequantizeLinear", {"q2", "s", "z"}, {"d2"});
  m.node("Sigmoid", {"d2"}, {"y"});
  return m.bytes();
}

std::string reductions() {
  TestModel m(18);
  m.input("x", kFloat, {"N", "C", "7"}).output("y").output("z").output("k", kInt64);
  m.ints("last", {-1}).constant<float>("two", kFloat, {}, {2}).constant<float>("tiny", kFloat, {}, {1e-5f});
  m.node("ReduceMean", {"x", "last"}, {"m"}).node("Sub", {"x", "m"}, {"d"}).node("Pow", {"d", "two"}, {"p"});
  m.node("ReduceMean", {"p", "last"}, {"v"}).node("Add", {"v", "tiny"}, {"a"}).node("Sqrt", {"a"}, {"s"});
  m.node("Div", {"d", "s"}, {"y"}).node("ReduceMax", {"x", "last"}, {"h"}, {integer("keepdims", 0)});
  m.node("ReduceSum", {"h", "last"}, {"u"}).node("Max", {"h", "u"}, {"b"}).node("Min", {"b", "h"}, {"z"});
  m.node("Size", {"x"}, {"k"});
  return m.bytes();
}

std::string indices() {
  TestModel m(16);
  m.input("x", kFloat, {"N", "6"}).input("i", kInt64, {"K", "1"}).input("u", kFloat, {"K", "6"});
  m.output("y").output("g").output("o").output("r");
  m.constant<int64_t>("depth", kInt64, {}, {4})
      .constant<float>("pair", kFloat, {2}, {0, 1})
      .ints("flat", {-1});
  m.node("ScatterND", {"x", "i", "u"}, {"y"}, {text("reduction", "add")}).node("GatherND", {"x", "i"}, {"g"});
  m.node("Reshape", {"i", "flat"}, {"f"}).node("OneHot", {"f", "depth", "pair"}, {"o"});
  m.node("Trilu", {"g"}, {"t"}).node("Einsum", {"t", "u"}, {"r"}, {text("equation", "ij,kj->ik")});
  return m.bytes();
}

std::string gates() {
  TestModel m(11);
  m.input("x", kFloat, {"N", "16", "9", "9"}).output("y");
  for (const char* name : {"s", "b", "mean"}) weights(m, name, {16});
  m.constant<float>("var", kFloat, {16}, std::vector<float>(16, 0.7f));
  weights(m, "w1", {4, 16, 1, 1});
  weights(m, "w2", {16, 4, 1, 1});
  m.node("BatchNormalization", {"x", "s", "b", "mean", "var"}, {"n"}).node("GlobalAveragePool", {"n"}, {"g"});
  m.node("Conv", {"g", "w1"}, {"c"}).node("Relu", {"c"}, {"r"}).node("Conv", {"r", "w2"}, {"e"});
  m.node("Sigmoid", {"e"}, {"q"}).node("Mul", {"n", "q"}, {"h"});
  m.node("LeakyRelu", {"h"}, {"l"}).node("Pad", {"l", "pads"}, {"y"});
  m.ints("pads", {0, 0, 1, 1, 0, 0, 1, 1});
  return m.bytes();
}

// Bodies that capture, in each other. No Loop: a mutated one may repeat for ever.
std::string bodies() {
  TestModel yes(17), inner_yes(17), inner_no(17), no(17), step(17);
  inner_yes.output("p").node("Concat", {"h", "x"}, {"p"}, {integer("axis", 0)});
  inner_no.output("q").node("Relu", {"x"}, {"q"});
  yes.output("a").node("If", {"d"}, {"a"},
                       {TestModel::graph_attribute("then_branch", inner_yes.graph()),
                        TestModel::graph_attribute("else_branch", inner_no.graph())});
  no.output("b").node("MatMul", {"h", "w"}, {"b"});
  step.input("s", kFloat, {"N", "4"}).input("r", kFloat, {"N", "4"}).output("t").output("u");
  step.node("MatMul", {"s", "w"}, {"m"}).node("Add", {"m", "r"}, {"t"}).node("Tanh", {"t"}, {"u"});
  TestModel m(17);
  m.input("c", kBool, {})
      .input("d", kBool, {})
      .input("x", kFloat, {"N", "4"})
      .input("rows", kFloat, {"N", "T", "4"});
  m.output("y").output("last").output("all");
  weights(m, "w", {4, 4});
  m.node("Sigmoid", {"x"}, {"h"});
  m.node("If", {"c"}, {"y"},
         {TestModel::graph_attribute("then_branch", yes.graph()),
          TestModel::graph_attribute("else_branch", no.graph())});
  m.node("Scan", {"x", "rows"}, {"last", "all"},
         {TestModel::graph_attribute("body", step.graph()), integer("num_scan_inputs", 1),
          ints("scan_input_axes", {1}), ints("scan_output_axes", {1}), ints("scan_input_directions", {1})});
  return m.bytes();
}

std::string recurrent() {
  TestModel m(22);
  m.input("x", kFloat, {"T", "N", "6"})
      .input("lengths", 6, {"N"})
      .output("y")
      .output("z")
      .output("h")
      .output("c");
  weights(m, "wl", {2, 20, 6});
  weights(m, "rl", {2, 20, 5});
  weights(m, "bl", {2, 40});
  weights(m, "pl", {2, 15});
  weights(m, "wg", {1, 12, 6});
  weights(m, "rg", {1, 12, 4});
  m.node("LSTM", {"x", "wl", "rl", "bl", "lengths", "", "", "pl"}, {"y", "", "c"},
         {integer("hidden_size", 5), text("direction", "bidirectional")});
  m.node("GRU", {"x", "wg", "rg"}, {"z", "h"},
         {integer("hidden_size", 4), integer("linear_before_reset", 1), text("direction", "reverse")});
  return m.bytes();
}

std::string sampling() {
  TestModel m(22);
  m.input("x", kFloat, {"N", "4", "7", "8"})
      .input("grid", kFloat, {"N", "P", "3", "2"})
      .input("boxes", kFloat, {"R", "4"});
  m.input("images", kInt64, {"R"})
      .input("offset", kFloat, {"N", "8", "6", "7"})
      .output("y")
      .output("a")
      .output("d")
      .output("u");
  weights(m, "w", {6, 4, 2, 2});
  m.node("GridSample", {"x", "grid"}, {"y"}, {text("mode", "cubic"), text("padding_mode", "reflection")});
  m.node("RoiAlign", {"x", "boxes", "images"}, {"a"},
         {integer("output_height", 2), integer("output_width", 3), integer("sampling_ratio", 2)});
  m.node("DeformConv", {"x", "w", "offset"}, {"d"}, {ints("kernel_shape", {2, 2})});
  m.node("MaxPool", {"x"}, {"p", "i"}, {ints("kernel_shape", {2, 2}), ints("strides", {2, 2})});
  m.node("MaxUnpool", {"p", "i"}, {"u"}, {ints("kernel_shape", {2, 2}), ints("strides", {2, 2})});
  return m.bytes();
}

std::string signals() {
  TestModel m(26);
  m.input("x", kFloat, {"N", "32", "1"})
      .input("labels", kInt64, {"N"})
      .output("y")
      .output("z")
      .output("q")
      .output("l")
      .output("b");
  m.constant<int64_t>("step", kInt64, {}, {3})
      .constant<int64_t>("size", kInt64, {}, {8})
      .constant<int64_t>("one", kInt64, {}, {1});
  m.ints("image", {3, 4}).ints("block", {2, 2});
  m.node("HannWindow", {"size"}, {"window"}).node("STFT", {"x", "step", "window"}, {"y"});
  m.node("DFT", {"x", "", "one"}, {"z"})
      .node("Unique", {"x"}, {"q"})
      .node("ReduceMean", {"y"}, {"m"}, {integer("keepdims", 0)});
  m.node("Flatten", {"y"}, {"f"})
      .node("SoftmaxCrossEntropyLoss", {"f", "labels"}, {"l"}, {integer("ignore_index", 2)});
  m.constant<float>("columns", kFloat, {1, 4, 6}, std::vector<float>(24, 1))
      .node("Col2Im", {"columns", "image", "block"}, {"k"});
  m.node("CumProd", {"k", "one"}, {"e"}).node("Add", {"e", "m"}, {"b"});
  return m.bytes();
}

// Weights that an engine file stores as the model has them, with how they were folded, stacked and converted,
// and scales of blocks.
std::string remade() {
  TestModel m(21);
  m.input("x", kFloat, {"N", "48", "6", "6"}).output("y");
  weights(m, "w", {48, 48, 3, 3});
  for (const char* name : {"gamma", "beta", "mean"}) weights(m, name, {48});
  m.constant("variance", kFloat, {48}, std::vector<float>(48, 0.5f));
  for (const char* name : {"left", "right"}) weights(m, name, {36, 512});
  std::vector<int8_t> bytes(512 * 64);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<int8_t>(i * 37 % 251);
  m.constant("bytes", kInt8, {512, 64}, bytes);
  m.constant("steps", kFloat, {16, 64}, std::vector<float>(16 * 64, 0.03f));
  m.constant<int64_t>("rows", kInt64, {3}, {0, 48, 36});
  m.node("Conv", {"x", "w"}, {"c"}, {ints("pads", {1, 1, 1, 1})});
  m.node("BatchNormalization", {"c", "gamma", "beta", "mean", "variance"}, {"b"});
  m.node("Reshape", {"b", "rows"}, {"r"});
  m.node("MatMul", {"r", "left"}, {"p"}).node("MatMul", {"r", "right"}, {"q"}).node("Add", {"p", "q"}, {"s"});
  m.node("DequantizeLinear", {"bytes", "steps"}, {"d"}, {integer("axis", 0), integer("block_size", 32)});
  m.node("MatMul", {"s", "d"}, {"y"});
  return m.bytes();
}

// Rows as a sequence, which a loop turns, branches make shorter or longer, and a map changes.
std::string sequences() {
  TestModel turn;
  turn.input("k", kInt64, {}).input("on", kBool, {}).list_input("s", kFloat, {"4"});
  turn.output("still", kBool).output("next").node("Identity", {"on"}, {"still"}).ints("first", {0});
  turn.node("SequenceAt", {"s", "first"}, {"one"}).node("SequenceErase", {"s", "first"}, {"rest"});
  turn.node("Tanh", {"one"}, {"changed"}).node("SequenceInsert", {"rest", "changed"}, {"next"});
  TestModel shorter, longer, negative;
  shorter.node("SequenceErase", {"turned"}, {"fewer"}).output("fewer");
  longer.node("SequenceInsert", {"turned", "w", "place"}, {"more"}).output("more");
  negative.input("row", kFloat, {"4"}).node("Neg", {"row"}, {"other"}).output("other");
  TestModel m(17);
  m.input("x", kFloat, {"N", "4"}).input("n", kInt64, {}).input("c", kBool, {}).input("place", kInt64, {});
  m.output("y").output("count", kInt64);
  weights(m, "w", {4});
  m.node("SplitToSequence", {"x"}, {"rows"}, {integer("axis", 0), integer("keepdims", 0)});
  m.node("Loop", {"n", "", "rows"}, {"turned"}, {TestModel::graph_attribute("body", turn.graph())});
  m.node("If", {"c"}, {"some"},
         {TestModel::graph_attribute("then_branch", shorter.graph()),
          TestModel::graph_attribute("else_branch", longer.graph())});
  m.node("SequenceMap", {"some"}, {"mapped"}, {TestModel::graph_attribute("body", negative.graph())});
  m.node("ConcatFromSequence", {"mapped"}, {"y"}, {integer("axis", 0), integer("new_axis", 1)});
  m.node("SequenceLength", {"mapped"}, {"count"});
  return m.bytes();
}

// Parts of sizes that a run brings, which a loop makes longer, branches insert and erase, and a map changes.
std::string ragged_sequences() {
  const std::vector<std::string> along = {integer("axis", 1)};
  TestModel twice;
  twice.input("k", kInt64, {}).input("on", kBool, {}).list_input("s", kFloat, {"2", ""});
  twice.output("still", kBool).output("next").node("Identity", {"on"}, {"still"}).ints("first", {0});
  twice.node("SequenceAt", {"s", "first"}, {"one"}).node("SequenceErase", {"s", "first"}, {"rest"});
  twice.node("Concat", {"one", "one"}, {"two"}, along).node("SequenceInsert", {"rest", "two"}, {"next"});
  TestModel shorter, longer, negative;
  shorter.node("SequenceErase", {"grown", "place"}, {"fewer"}).output("fewer");
  longer.node("SequenceInsert", {"grown", "x", "place"}, {"more"}).output("more");
  negative.input("part", kFloat, {"2", ""}).node("Neg", {"part"}, {"other"}).output("other");
  TestModel m(17);
  m.input("x", kFloat, {"2", "N"}).input("sizes", kInt64, {"K"}).input("n", kInt64, {});
  m.input("c", kBool, {}).input("place", kInt64, {}).output("y").output("all");
  m.node("SplitToSequence", {"x", "sizes"}, {"parts"}, along);
  m.node("Loop", {"n", "", "parts"}, {"grown"}, {TestModel::graph_attribute("body", twice.graph())});
  m.node("If", {"c"}, {"some"},
         {TestModel::graph_attribute("then_branch", shorter.graph()),
          TestModel::graph_attribute("else_branch", longer.graph())});
  m.node("SequenceMap", {"some"}, {"all"}, {TestModel::graph_attribute("body", negative.graph())});
  m.node("ConcatFromSequence", {"all"}, {"y"}, along);
  return m.bytes();
}

}  // namespace

std::vector<Source> source_models() {
  return {{"convolutions", convolutions()},
          {"depthwise", depthwise()},
          {"perceptron", perceptron()},
          {"attention", attention()},
          {"positions", positions()},
          {"movement", movement()},
          {"selection", selection()},
          {"upsampling", upsampling()},
          {"quantized", quantized()},
          {"reductions", reductions()},
          {"indices", indices()},
          {"gates", gates()},
          {"recurrent", recurrent()},
          {"sampling", sampling()},
          {"signals", signals()},
          {"bodies", bodies()},
          {"remade", remade()},
          {"sequences", sequences()},
          {"ragged_sequences", ragged_sequences()}};
}

}  // namespace fuzz
