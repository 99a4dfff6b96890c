// SPDX-License-Identifier: Apache-2.0
//
// Importers that write an operator out, or that choose something for it: what the node tests of ONNX do not
// show.
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/import_check.h"
#include "onnx/import_node.h"
#include "ops/interpreter.h"

namespace lathe::onnx {
namespace {

using Names = TestModel::Names;

struct InfoNotes final : Observer {
  std::vector<std::string> lines;
  void on(const Event& event) override {
    if (const auto* log = std::get_if<Message>(&event); log && log->severity == Severity::Info)
      lines.push_back(log->text);
  }
};

// The bytes stay alive as long as the model, whose constants may point into them.
struct Imported {
  std::string bytes;
  ImportedModel model;
  std::vector<std::string> notes;
};

Imported import_with_notes(const TestModel& model) {
  Imported result{model.bytes(), {}, {}};
  InfoNotes notes;
  result.model = import_onnx(std::as_bytes(std::span(result.bytes.data(), result.bytes.size())), {}, notes);
  result.notes = notes.lines;
  return result;
}

std::vector<std::vector<double>> run_all(const TestModel& model, const std::vector<Tensor>& inputs) {
  const Imported imported = import_with_notes(model);
  std::vector<std::vector<double>> values;
  for (const Tensor& output : interpret(imported.model.graph, inputs)) values.push_back(output.to_doubles());
  return values;
}

using Numbers = std::vector<double>;

// --- recurrent layers
// One input and one hidden value in both directions, h = activation(x + h).
TestModel bidirectional(const Names& attributes, const Names& outputs = {"y", "h"}) {
  TestModel m;
  m.input("x", kFloat, {"t", "1", "1"});
  m.constant<float>("w", kFloat, {2, 1, 1}, {1, 1}).constant<float>("r", kFloat, {2, 1, 1}, {1, 1});
  Names all = {TestModel::text_attribute("direction", "bidirectional")};
  all.insert(all.end(), attributes.begin(), attributes.end());
  m.node("RNN", {"x", "w", "r"}, outputs, all);
  for (const std::string& name : outputs)
    if (!name.empty()) m.output(name);
  return m;
}

TEST(ImportRecurrent, BothDirectionsSideBySide) {
  const auto y = run_all(bidirectional({TestModel::texts_attribute("activations", {"Relu", "relu"})}),
                         {floats({2, 1, 1}, {1, 2})});
  EXPECT_EQ(y[0], (Numbers{1, 3, 3, 2}));  // step 1: forward, backward; step 2
  EXPECT_EQ(y[1], (Numbers{3, 3}));
}

TEST(ImportRecurrent, ParametersGoToActivationsThatHaveThem) {
  // Relu takes none, so that both values are the second direction's.
  std::string alpha, beta;
  for (auto [name, attribute] : {std::pair{"activation_alpha", &alpha}, {"activation_beta", &beta}}) {
    put_bytes(*attribute, 1, name);
    const float value = 10;
    put_key(*attribute, 7, WireType::Fixed32);
    attribute->append(reinterpret_cast<const char*>(&value), sizeof(value));
    put_int(*attribute, 20, 6);
  }
  const auto y = run_all(
      bidirectional({TestModel::texts_attribute("activations", {"Relu", "Affine"}), alpha, beta}, {"", "h"}),
      {floats({1, 1, 1}, {1})});
  EXPECT_EQ(y[0], (Numbers{1, 20}));
}

// ONNX's default has two names for one direction, too.
TEST(ImportRecurrent, TheDefaultMayBeSpelledOut) {
  std::vector<Numbers> results;
  for (const Names& attributes : {Names{}, {TestModel::texts_attribute("activations", {"Tanh", "Tanh"})}}) {
    TestModel m;
    m.input("x", kFloat, {"2", "1", "1"}).output("y");
    m.constant<float>("w", kFloat, {1, 1, 1}, {1}).constant<float>("r", kFloat, {1, 1, 1}, {1});
    m.node("RNN", {"x", "w", "r"}, {"y"}, attributes);
    results.push_back(run_all(m, {floats({2, 1, 1}, {1, 2})})[0]);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(ImportRecurrent, Errors) {
  expect_says(import_error(bidirectional({TestModel::texts_attribute("activations", {"Relu"})})),
              "it has 1 activations, expected 2");
  expect_says(import_error(bidirectional({TestModel::texts_attribute("activations", {"Relu", "Gelu"})})),
              "its activation 'Gelu' is not known");
  expect_says(import_error(bidirectional({TestModel::float_attribute("clip", -1)})), "clip is -1");
  TestModel m;
  m.input("x", kFloat, {"3", "1", "1"})
      .input("w", kFloat, {"2", "1", "1"})
      .input("r", kFloat, {"1", "1", "1"})
      .output("y");
  m.node("RNN", {"x", "w", "r"}, {"y"});
  expect_says(import_error(m), "input 1 is not of 1 directions");
}

// --- random numbers
TestModel uniform(const Names& attributes) {
  TestModel m;
  Names all = {TestModel::ints_attribute("shape", {4})};
  all.insert(all.end(), attributes.begin(), attributes.end());
  return m.node("RandomUniform", {}, {"y"}, all).output("y");
}

TEST(ImportRandom, WithoutASeedOneIsPickedAndSaid) {
  const Imported imported = import_with_notes(uniform({}));
  ASSERT_EQ(imported.notes.size(), 1u);
  expect_says(imported.notes[0], "node 'RandomUniform_of_y' (RandomUniform): it has no seed;");
  EXPECT_TRUE(import_with_notes(uniform({TestModel::float_attribute("seed", 1)})).notes.empty());
  EXPECT_EQ(run_all(uniform({}), {}), run_all(uniform({}), {}));
  EXPECT_NE(run_all(uniform({TestModel::float_attribute("seed", 1)}), {}),
            run_all(uniform({TestModel::float_attribute("seed", 2)}), {}));
}

TEST(ImportRandom, DropoutScalesWhatItKeeps) {
  TestModel m;
  m.input("x", kFloat, {"1000"})
      .input("ratio", kFloat, {})
      .input("training", kBool, {})
      .output("y")
      .output("mask", kBool);
  m.node("Dropout", {"x", "ratio", "training"}, {"y", "mask"}, {TestModel::int_attribute("seed", 5)});
  const Tensor x = floats({1000}, std::vector<float>(1000, 3));
  const auto y = run_all(m, {x, Tensor::scalar_f32(0.25f), Tensor::from<bool>({}, {true})});
  double kept = 0;
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(y[0][i], y[1][i] != 0 ? 4 : 0);
    kept += y[1][i];
  }
  EXPECT_NEAR(kept, 750, 50);
  EXPECT_EQ(run_all(m, {x, Tensor::scalar_f32(0.25f), Tensor::from<bool>({}, {false})})[0], x.to_doubles());
}

TEST(ImportRandom, BernoulliAndMultinomialFollowTheirProbabilities) {
  TestModel m;
  m.input("p", kFloat, {"2000"})
      .output("y")
      .node("Bernoulli", {"p"}, {"y"}, {TestModel::float_attribute("seed", 1)});
  const Numbers drawn_ones = run_all(m, {floats({2000}, std::vector<float>(2000, 0.3f))})[0];
  double ones = 0;
  for (const double v : drawn_ones) ones += v;
  EXPECT_NEAR(ones, 600, 60);
  TestModel drawn;
  drawn.input("x", kFloat, {"1", "3"}).output("y", 6);
  drawn.node("Multinomial", {"x"}, {"y"},
             {TestModel::int_attribute("sample_size", 1000), TestModel::float_attribute("seed", 1)});
  const Numbers classes = run_all(drawn, {floats({1, 3}, {0, -1e9f, std::log(3.0f)})})[0];
  std::vector<int> counts(3);
  for (const double v : classes) ++counts.at(static_cast<size_t>(v));
  EXPECT_NEAR(counts[0], 250, 50);
  EXPECT_EQ(counts[1], 0);
}

// --- opsets 1 to 6
TEST(ImportLegacy, BroadcastFromAnAxis) {
  TestModel m(6);
  m.input("a", kFloat, {"2", "2"}).input("b", kFloat, {"2"}).output("y");
  m.node("Add", {"a", "b"}, {"y"},
         {TestModel::int_attribute("broadcast", 1), TestModel::int_attribute("axis", 0)});
  EXPECT_EQ(run_all(m, {floats({2, 2}, {1, 2, 3, 4}), floats({2}, {10, 20})})[0], (Numbers{11, 12, 23, 24}));
}

TEST(ImportLegacy, ShapesAndTypesAsAttributes) {
  TestModel m(1);
  m.input("x", kFloat, {"2", "2"}).output("y");
  m.node("Pad", {"x"}, {"padded"},
         {TestModel::ints_attribute("paddings", {0, 1, 0, 0}), TestModel::float_attribute("value", 9)});
  m.node("Reshape", {"padded"}, {"flat"}, {TestModel::ints_attribute("shape", {-1})});
  m.node("Cast", {"flat"}, {"y"}, {TestModel::text_attribute("to", "DOUBLE")});
  EXPECT_EQ(run_all(m, {floats({2, 2}, {1, 2, 3, 4})})[0], (Numbers{9, 1, 2, 9, 3, 4}));
  TestModel up(1);
  up.input("x", kFloat, {"1", "1", "1", "2"}).output("y");
  up.node("Upsample", {"x"}, {"y"},
          {TestModel::float_attribute("height_scale", 1), TestModel::float_attribute("width_scale", 2)});
  EXPECT_EQ(run_all(up, {floats({1, 1, 1, 2}, {1, 2})})[0], (Numbers{1, 1, 2, 2}));
}

TEST(ImportLegacy, TestModeOfNormsAndDropout) {
  TestModel m(6);
  m.input("x", kFloat, {"1", "2"})
      .output("y")
      .constant<float>("one", kFloat, {2}, {1, 1})
      .constant<float>("zero", kFloat, {2}, {0, 0});
  m.node("BatchNormalization", {"x", "one", "zero", "zero", "one"}, {"n"},
         {TestModel::int_attribute("is_test", 1), TestModel::float_attribute("epsilon", 0)});
  m.node("Dropout", {"n"}, {"d"})
      .node("PRelu", {"d", "slope"}, {"y"})
      .constant<float>("slope", kFloat, {2}, {2, 3});
  const Imported imported = import_with_notes(m);
  ASSERT_EQ(imported.notes.size(), 1u);
  expect_says(imported.notes[0], "is_test is 0; it is taken as 1");
  EXPECT_EQ(run_all(m, {floats({1, 2}, {-1, -1})})[0], (Numbers{-2, -3}));
  TestModel training(6);
  training.input("x", kFloat, {"1", "2"}).output("y").constant<float>("one", kFloat, {2}, {1, 1});
  training.node("BatchNormalization", {"x", "one", "one", "one", "one"}, {"y", "mean"});
  expect_says(import_error(training), "training mode in opsets before 7 is not supported");
}

// --- transforms
void expect_near(const Numbers& actual, const Numbers& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-4) << "element " << i;
}

TEST(ImportSignal, TransformsOfAnyLengthAndAxis) {
  const auto dft = [](const std::string& points, int64_t axis, const Names& attributes) {
    TestModel m(20);
    m.input("x", kFloat, {"2", points, "1"}).constant<int64_t>("axis", kInt64, {}, {axis}).output("y");
    return m.node("DFT", {"x", "", "axis"}, {"y"}, attributes);
  };
  const Tensor x = floats({2, 4, 1}, {1, 2, 3, 4, 0, 0, 1, 0});
  expect_near(run_all(dft("4", 1, {TestModel::int_attribute("onesided", 1)}), {x})[0],
              {10, 0, -2, 2, -2, 0, 1, 0, -1, 0, 1, 0});
  expect_near(run_all(dft("4", 0, {}), {x})[0], {1, 0, 2, 0, 4, 0, 4, 0, 1, 0, 2, 0, 2, 0, 4, 0});
  expect_says(import_error(dft("4", 2, {})), "the last dim, which holds real and imaginary part");
}

TEST(ImportSignal, FramesWithAWindow) {
  TestModel m(17);
  m.input("x", kFloat, {"1", "n", "1"})
      .constant<int64_t>("step", kInt64, {}, {1})
      .constant<float>("window", kFloat, {2}, {1, 10});
  m.node("STFT", {"x", "step", "window"}, {"y"}, {TestModel::int_attribute("onesided", 0)}).output("y");
  expect_near(run_all(m, {floats({1, 4, 1}, {1, 2, 3, 4})})[0],
              {21, 0, -19, 0, 32, 0, -28, 0, 43, 0, -37, 0});
}

TEST(ImportVision, BlocksOfAnImage) {
  const auto fold = [](const Names& shape, const std::vector<int64_t>& image,
                       const std::vector<int64_t>& block, const Names& attributes) {
    TestModel m(18);
    m.input("x", kFloat, shape).ints("image", image).ints("block", block).output("y");
    return m.node("Col2Im", {"x", "image", "block"}, {"y"}, attributes);
  };
  // Two channels, overlapping blocks, a column that no block reaches, and a block that reaches into the
  // padding.
  const Tensor x = floats({1, 4, 2}, {1, 2, 10, 20, 3, 4, 30, 40});
  EXPECT_EQ(run_all(fold({"N", "4", "2"}, {1, 4}, {1, 2}, {TestModel::ints_attribute("dilations", {1, 2})}),
                    {x})[0],
            (Numbers{1, 2, 10, 20, 3, 4, 30, 40}));
  EXPECT_EQ(run_all(fold({"1", "4", "2"}, {1, 4}, {1, 2},
                         {TestModel::ints_attribute("strides", {1, 2}),
                          TestModel::ints_attribute("pads", {0, 1, 0, 0})}),
                    {x})[0],
            (Numbers{10, 2, 20, 0, 30, 4, 40, 0}));
  expect_says(
      import_error(fold({"1", "4", "3"}, {1, 4}, {1, 2}, {TestModel::ints_attribute("strides", {1, 2})})),
      "x has 3 columns, the image has 2 blocks");
}

TEST(ImportReshape, NoDimsNeedOneElement) {
  TestModel m;
  m.input("shape", kInt64, {"0"}).constant<int64_t>("x", kInt64, {0, 2}, {}).output("y");
  m.node("Reshape", {"x", "shape"}, {"y"});
  expect_says(import_error(m), "cannot reshape [0, 2] to []");
}

TEST(ImportLoop, CarriedValuesAreThere) {
  TestModel body;
  body.input("i", kInt64, {}).input("go", kBool, {}).input("v", kFloat, {"1"}).output("go").output("v");
  TestModel m;
  m.input("trips", kInt64, {}).output("y");
  m.node("Loop", {"trips", "", ""}, {"y"}, {TestModel::graph_attribute("body", body.graph())});
  expect_says(import_error(m), "input 2 is missing");
  TestModel scan;
  scan.input("x", kFloat, {"3"}).output("y");
  TestModel row;
  row.input("s", kFloat, {}).input("v", kFloat, {}).output("s").output("v");
  scan.node(
      "Scan", {"", "x"}, {"y"},
      {TestModel::graph_attribute("body", row.graph()), TestModel::int_attribute("num_scan_inputs", 1)});
  expect_says(import_error(scan), "input 0 is missing");
}

TEST(ImportVision, ImagesOfSomeDimensions) {
  TestModel m(18);
  m.input("x", kFloat, {"1", "4", "2"})
      .input("image", kInt64, {"2147483648"})
      .ints("block", {1, 2})
      .output("y");
  m.node("Col2Im", {"x", "image", "block"}, {"y"});
  expect_says(import_error(m), "images of 2147483648 dimensions are not supported, 62 are");
}

TEST(ImportVision, LargestPixelsOfBoxes) {
  TestModel m(22);
  m.input("x", kFloat, {"1", "1", "2", "4"}).input("boxes", kFloat, {"R", "5"}).output("y");
  m.node(
      "MaxRoiPool", {"x", "boxes"}, {"y"},
      {TestModel::ints_attribute("pooled_shape", {1, 2}), TestModel::float_attribute("spatial_scale", 0.5f)});
  EXPECT_EQ(run_all(m, {floats({1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}), floats({1, 5}, {0, 0, 0, 6, 2})})[0],
            (Numbers{5, 7}));
}

TEST(ImportVision, GridsOfOnePixelAreCentred) {
  TestModel m(20);
  m.input("theta", kFloat, {"1", "2", "3"}).ints("size", {1, 1, 1, 3}).output("y");
  m.node("AffineGrid", {"theta", "size"}, {"y"}, {TestModel::int_attribute("align_corners", 1)});
  // (x, y) goes to (2 x + 5, 3 y + 7)
  EXPECT_EQ(run_all(m, {floats({1, 2, 3}, {2, 0, 5, 0, 3, 7})})[0], (Numbers{3, 7, 5, 7, 7, 7}));
}

TEST(ImportNorm, SimplifiedLayerNormalizationIsAnRmsNorm) {
  TestModel m(17);
  m.input("x", kFloat, {"1", "2"})
      .constant<float>("scale", kFloat, {2}, {1, 10})
      .output("y")
      .output("inverse");
  m.node("SimplifiedLayerNormalization", {"x", "scale"}, {"y", "inverse"},
         {TestModel::float_attribute("epsilon", 0)});
  const auto y = run_all(m, {floats({1, 2}, {1, 7})});  // the root of the mean square is 5
  expect_near(y[0], {0.2, 14});
  expect_near(y[1], {0.2});
}

// --- others
TEST(ImportState, CausalConvKeepsTheLastPositions) {
  TestModel m(27);
  m.input("x", kFloat, {"1", "1", "2"})
      .input("past", kFloat, {"1", "1", "2"})
      .constant<float>("w", kFloat, {1, 1, 3}, {1, 10, 100});
  m.node("CausalConvWithState", {"x", "w", "", "past"}, {"y", "state"}).output("y").output("state");
  const auto y = run_all(m, {floats({1, 1, 2}, {3, 4}), floats({1, 1, 2}, {1, 2})});
  EXPECT_EQ(y[0], (Numbers{321, 432}));
  EXPECT_EQ(y[1], (Numbers{3, 4}));
}

TEST(ImportState, TensorScatterRefusesWhatDoesNotFit) {
  const auto scatter = [](const char* mode) {
    TestModel m(24);
    m.input("cache", kFloat, {"1", "3", "1"})
        .input("update", kFloat, {"1", "2", "1"})
        .input("at", kInt64, {"1"})
        .output("y");
    m.node("TensorScatter", {"cache", "update", "at"}, {"y"}, {TestModel::text_attribute("mode", mode)});
    return m;
  };
  const std::vector<Tensor> inputs = {floats({1, 3, 1}, {1, 2, 3}), floats({1, 2, 1}, {8, 9}),
                                      Tensor::from<int64_t>({1}, {2})};
  EXPECT_EQ(run_all(scatter("circular"), inputs)[0], (Numbers{9, 2, 8}));
  EXPECT_THROW(run_all(scatter("linear"), inputs), Error);
}

// --- axes that only a run knows
TestModel with_axes(std::string_view op, const Names& shape, const std::string& count) {
  TestModel m;
  return m.input("x", kFloat, shape)
      .input("axes", kInt64, {count})
      .output("y")
      .node(op, {"x", "axes"}, {"y"});
}

Extents shape_of_run(const TestModel& m, const Extents& shape, const std::vector<int64_t>& axes) {
  const Imported imported = import_with_notes(m);
  const std::vector<Tensor> inputs = {Tensor::allocate(DType::Float32, shape),
                                      Tensor::from<int64_t>({static_cast<int64_t>(axes.size())}, axes)};
  return interpret(imported.model.graph, inputs)[0].extents();
}

TEST(ImportRuntimeAxes, ShapesFollowTheAxes) {
  const TestModel more = with_axes("Unsqueeze", {"2", "3"}, "2"),
                  less = with_axes("Squeeze", {"1", "2", "1", "3"}, "2");
  EXPECT_EQ(shape_of_run(more, {2, 3}, {0, 2}), (Extents{1, 2, 1, 3}));
  EXPECT_EQ(shape_of_run(more, {2, 3}, {-1, -2}), (Extents{2, 3, 1, 1}));
  EXPECT_EQ(shape_of_run(less, {1, 2, 1, 3}, {2, 0}), (Extents{2, 3}));
  EXPECT_THROW(shape_of_run(less, {1, 2, 1, 3}, {1, 0}), Error);
  EXPECT_THROW(shape_of_run(more, {2, 3}, {0, 0}), Error);
}

TEST(ImportRuntimeAxes, LargeTensorsAreRefused) {
  expect_says(import_error(with_axes("Unsqueeze", {"100", "100"}, "1")),
              "which is supported for small tensors only");
  expect_says(import_error(with_axes("Squeeze", {"1", "n"}, "1")), "axes must be constant");
  expect_says(import_error(with_axes("Squeeze", {"1", "1"}, "k")), "the number of its axes is not known");
  expect_says(import_error(with_axes("Squeeze", {"1"}, "2")), "there are more axes than dimensions");
}

TEST(ImportPad, RefusesPadsOfOtherTypes) {
  const auto pad = [](std::string_view op, std::string_view domain, int pads, int axes) {
    TestModel m(18);
    m.input("x", kFloat, {"3", "4"}).input("pads", pads, {"2"}).input("axes", axes, {"1"}).output("y");
    m.node(op, {"x", "pads", "", "axes"}, {"y"}, {}, domain);
    return m;
  };
  expect_says(import_error(pad("Pad", "", 2, kInt64)), "its pads (input 1) are uint8, expected int64");
  expect_says(import_error(pad("Pad", "com.microsoft", 6, kInt64)),
              "its pads (input 1) are int32, expected int64");
  expect_says(import_error(pad("Pad", "", kInt64, kFloat)),
              "its axes (input 3) are float32, expected int32 or int64");
}

TEST(ImportRuntimeSizes, CropsAndPadsAroundTheMiddle) {
  TestModel m(18);
  m.input("x", kFloat, {"2", "3"})
      .input("target", kInt64, {"2"})
      .output("y")
      .node("CenterCropPad", {"x", "target"}, {"y"});
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_all(m, {x, Tensor::from<int64_t>({2}, {3, 1})})[0], (Numbers{2, 5, 0}));
  EXPECT_EQ(run_all(m, {x, Tensor::from<int64_t>({2}, {1, 4})})[0], (Numbers{1, 2, 3, 0}));
  TestModel wrong(18);
  wrong.input("x", kFloat, {"2", "3"})
      .input("target", kInt64, {"1"})
      .output("y")
      .node("CenterCropPad", {"x", "target"}, {"y"});
  expect_says(import_error(wrong), "needs one entry per axis");
}

TEST(ImportRuntimeSizes, PartsOfASplit) {
  TestModel m(18);
  m.input("x", kFloat, {"n", "2"})
      .input("sizes", kInt64, {"2"})
      .output("a")
      .output("b")
      .node("Split", {"x", "sizes"}, {"a", "b"});
  const auto split = [&](std::vector<int64_t> sizes) {
    return run_all(m, {floats({3, 2}, {1, 2, 3, 4, 5, 6}), Tensor::from<int64_t>({2}, sizes)});
  };
  EXPECT_EQ(split({1, 2}), (std::vector<Numbers>{{1, 2}, {3, 4, 5, 6}}));
  EXPECT_EQ(split({0, 3})[0], Numbers());
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{1, 1}, {2, 2}, {-1, 4}, {4, -1}}) {
    try {
      split(wrong);
      ADD_FAILURE() << wrong[0];
    } catch (const Error& error) {
      expect_says(error.what(), "sizes_add_up_to_the_dim");
    }
  }
  // Neither the sizes nor what is split is known before the run: rows of experts.
  TestModel found(18);
  found.input("x", kFloat, {"n"})
      .input("sizes", kInt64, {"2"})
      .output("a")
      .output("b")
      .node("NonZero", {"x"}, {"places"})
      .node("Transpose", {"places"}, {"rows"})
      .node("GatherND", {"x", "rows"}, {"kept"})
      .node("Split", {"kept", "sizes"}, {"a", "b"});
  const auto split_found = [&](std::vector<int64_t> sizes) {
    return run_all(found, {floats({5}, {1, 0, 2, 3, 0}), Tensor::from<int64_t>({2}, sizes)});
  };
  EXPECT_EQ(split_found({1, 2}), (std::vector<Numbers>{{1}, {2, 3}}));
  EXPECT_EQ(split_found({3, 0}), (std::vector<Numbers>{{1, 2, 3}, {}}));
  try {
    split_found({3, 2});
    ADD_FAILURE();
  } catch (const Error& error) {
    expect_says(error.what(), "sizes_add_up_to_the_dim");
  }
  TestModel one(18);
  one.input("x", kFloat, {"n"})
      .input("sizes", kInt64, {"3"})
      .output("a")
      .node("Split", {"x", "sizes"}, {"a"});
  expect_says(import_error(one), "the sizes of its parts must be a list of 1");
}

// --- sequences
TEST(ImportSequences, ListsOfTensorsLeaveNothing) {
  TestModel m;
  m.input("a", kFloat, {"1"})
      .input("b", kFloat, {"1"})
      .ints("minus_one", {-1})
      .ints("zero", {0})
      .output("y")
      .output("n", kInt64)
      .output("z");
  m.node("SequenceConstruct", {"a", "b"}, {"s"}).node("SequenceInsert", {"s", "b", "zero"}, {"longer"});
  m.node("SequenceErase", {"longer", "minus_one"}, {"t"}).node("Identity", {"t"}, {"u"});
  m.node("ConcatFromSequence", {"u"}, {"y"},
         {TestModel::int_attribute("axis", 0), TestModel::int_attribute("new_axis", 1)});
  m.node("SequenceLength", {"longer"}, {"n"})
      .node("SequenceAt", {"t", "minus_one"}, {"last"})
      .node("Neg", {"last"}, {"z"});
  const auto y = run_all(m, {floats({1}, {1}), floats({1}, {2})});
  EXPECT_EQ(y[0], (Numbers{2, 1}));
  EXPECT_EQ(y[1], (Numbers{3}));
  EXPECT_EQ(y[2], (Numbers{-1}));
}

TEST(ImportSequences, PartsOfATensor) {
  TestModel m;
  m.input("x", kFloat, {"3", "2"})
      .ints("zero", {0})
      .ints("two", {2})
      .constant<int64_t>("size", kInt64, {}, {2})
      .output("y")
      .output("z");
  m.node("SplitToSequence", {"x"}, {"rows"}, {TestModel::int_attribute("keepdims", 0)});
  m.node("SequenceAt", {"rows", "two"}, {"row"}).node("Neg", {"row"}, {"y"});
  m.node("SplitToSequence", {"x", "size"}, {"halves"})
      .node("SequenceAt", {"halves", "zero"}, {"first"})
      .node("Neg", {"first"}, {"z"});
  const auto y = run_all(m, {floats({3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(y[0], (Numbers{-5, -6}));
  EXPECT_EQ(y[1], (Numbers{-1, -2, -3, -4}));
}

TEST(ImportSequences, OtherDomainsReadNone) {
  TestModel m;
  m.input("a", kFloat, {"2"}).output("y").node("SequenceConstruct", {"a"}, {"s"});
  m.node("QuickGelu", {"s"}, {"y"}, {}, kMicrosoftDomain);
  expect_says(import_error(m), "one of its inputs is a sequence, which only operators on sequences may read");
}

TEST(ImportSplit, AsManyPartsAsOutputs) {
  TestModel m(18);
  m.input("x", kFloat, {"4"}).output("y");
  m.node("Split", {"x"}, {"y"}, {TestModel::int_attribute("num_outputs", int64_t{1} << 60)});
  expect_says(import_error(m), "num_outputs is 1152921504606846976, the node has 1 outputs");
}

TEST(ImportNorm, GroupsNeedChannels) {
  TestModel m(18);
  m.input("x", kFloat, {"4"}).input("s", kFloat, {"2"}).output("y");
  m.node("GroupNormalization", {"x", "s", "s"}, {"y"}, {TestModel::int_attribute("num_groups", 2)});
  expect_says(import_error(m), "its input needs at least two dimensions (batch, channels)");
}

TEST(ImportTensorRt, AnchorsOfEachClassNeedDimensions) {
  TestModel m;
  m.input("boxes", kFloat, {"1", "5", "2", "4"}).input("scores", kFloat, {"1", "5", "2"}).output("y");
  m.input("anchors", kFloat, {"4"}).node("EfficientNMS_TRT", {"boxes", "scores", "anchors"}, {"y"});
  expect_says(import_error(m), "its anchors need two dimensions at least (boxes, 4)");
}

TEST(ImportSequences, Errors) {
  const auto with = [](std::string_view op, const Names& inputs) {
    TestModel m;
    m.input("a", kFloat, {"n"})
        .input("i", kInt64, {})
        .ints("five", {5})
        .output("y")
        .node("SequenceConstruct", {"a", "a"}, {"s"});
    return import_error(m.node(op, inputs, {"y"}));
  };
  expect_says(with("SequenceAt", {"s", "five"}), "position 5 is not in a sequence of 2");
  expect_says(with("SequenceAt", {"a", "five"}), "its first input is no sequence");
  expect_says(with("SequenceAt", {"s"}), "input 1 is missing");
  expect_says(with("Neg", {"s"}), "one of its inputs is a sequence");
  expect_says(with("SplitToSequence", {"s"}), "input 0 is a sequence where a tensor is expected");
  expect_says(with("SequenceInsert", {"s", "s"}), "input 1 is a sequence where a tensor is expected");
  TestModel long_one;
  long_one.input("x", kFloat, {"1099511627776"}).output("y");
  long_one.node("SplitToSequence", {"x"}, {"s"}).node("SequenceLength", {"s"}, {"y"});
  expect_says(import_error(long_one), "it makes 1099511627776 parts; 1 to 4096 are supported");
}

TEST(ImportMatMulInteger, NeedsDims) {
  TestModel m(20);
  m.input("x", 3, {}).input("w", 3, {"4", "2"}).output("y").node("MatMulInteger", {"x", "w"}, {"y"});
  expect_says(import_error(m), "its operands must have a dim at least");
}

}  // namespace
}  // namespace lathe::onnx
