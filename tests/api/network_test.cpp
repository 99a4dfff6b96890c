// SPDX-License-Identifier: Apache-2.0
//
// The network API through include/lathe and the shared library alone: layers by what they compute, and the
// same after the network was written as ONNX and read again.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "lathe/builder.h"
#include "lathe/network.h"
#include "lathe/runtime.h"

namespace lathe::v1 {
namespace {

class Quiet final : public Logger {
 public:
  void log(Severity, std::string_view) override {}
};

HostTensor floats(const Dims& dims, const std::vector<float>& values) {
  return HostTensor(DataType::Float, dims, values);
}
HostTensor integers(const Dims& dims, const std::vector<int64_t>& values) {
  return HostTensor(DataType::Int64, dims, values);
}

class NetworkApi : public testing::Test {
 protected:
  std::vector<HostTensor> run(const Network& network, const std::vector<HostTensor>& inputs) {
    BuilderConfig config;
    config.optimization_level = 0;
    OptimizationProfile profile;
    const auto infos = network.inputs();
    for (size_t i = 0; i < infos.size(); ++i)
      profile.set_dims(infos[i].name, inputs[i].dims, inputs[i].dims, inputs[i].dims);
    config.profiles = {profile};
    return builder.build(network, config).create_context().run(inputs);
  }
  // The first output, which must be the same from the network's ONNX form.
  HostTensor result(const NetworkBuilder& net, const std::vector<HostTensor>& inputs) {
    const Network network = net.finish();
    HostTensor y = run(network, inputs)[0];
    const HostTensor again = run(builder.parse_onnx(network.to_onnx_bytes()), inputs)[0];
    EXPECT_EQ(y.dims, again.dims);
    EXPECT_EQ(y.bytes, again.bytes);
    return y;
  }
  void expect(const NetworkBuilder& net, const std::vector<HostTensor>& inputs, const Dims& dims,
              const std::vector<float>& values) {
    const HostTensor y = result(net, inputs);
    ASSERT_EQ(y.type, DataType::Float);
    EXPECT_EQ(y.dims, dims);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(y.data<float>()[i], values[i], 1e-5) << i;
  }
  Quiet logger;
  Builder builder{logger, {.threads = 1}};
  NetworkBuilder net{"test"};
};

ErrorFields error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.fields();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_F(NetworkApi, ConvolutionAndPooling) {
  const auto x = net.input("x", DataType::Float, {-1, 1, 4, 4}, {"batch"});
  EXPECT_EQ(x.dim_names(), (std::vector<std::string>{"batch", "1", "4", "4"}));
  const auto w = net.constant(floats({1, 1, 2, 2}, {1, 0, 0, 1}), "w");
  const auto y = net.convolution(x, w, net.constant(floats({1}, {10})), {.strides = {2, 2}}, "conv");
  EXPECT_EQ(y.dims(), (Dims{-1, 1, 2, 2}));
  EXPECT_EQ(y.name(), "conv_output");
  net.output(net.pooling(Pooling::Max, y, {2, 2}), "y");
  std::vector<float> image;
  for (int i = 0; i < 16; ++i) image.push_back(static_cast<float>(i));
  expect(net, {floats({1, 1, 4, 4}, image)}, {1, 1, 1, 1}, {10 + 10 + 15});
}

TEST_F(NetworkApi, PointwiseLayers) {
  const auto x = net.input("x", DataType::Float, {4});
  const auto clipped = net.activation(Activation::Clip, x, -1.0, 2.0);
  const auto both = net.elementwise(Elementwise::FloorDiv, clipped, net.scalar(2));
  const auto picked =
      net.select(net.elementwise(Elementwise::Greater, x, net.scalar(0)), both, net.unary(Unary::Neg, x));
  net.output(net.activation(Activation::ScaledTanh, picked, 2.0, 0.5), "y");
  const auto expected = [](float v) { return 2 * std::tanh(0.5f * v); };
  expect(net, {floats({4}, {-3, -0.5, 1, 5})}, {4}, {expected(3), expected(0.5f), expected(0), expected(1)});
}

TEST_F(NetworkApi, FloorDivisionOfIntegers) {
  const auto x = net.input("x", DataType::Int64, {4});
  net.output(
      net.cast(net.elementwise(Elementwise::FloorDiv, x, net.scalar(3, DataType::Int64)), DataType::Float),
      "y");
  expect(net, {integers({4}, {-7, -3, 2, 7})}, {4}, {-3, -1, 0, 2});
}

TEST_F(NetworkApi, ScaleAlongAnAxis) {
  const auto x = net.input("x", DataType::Float, {1, 2, 2, 1});
  net.output(
      net.scale(x, net.constant(floats({2}, {2, 3})), net.constant(floats({2}, {1, 0})), net.scalar(2)), "y");
  expect(net, {floats({1, 2, 2, 1}, {1, 2, 3, 4})}, {1, 2, 2, 1}, {9, 25, 81, 144});
}

TEST_F(NetworkApi, ProductsAndEinsum) {
  const auto x = net.input("x", DataType::Float, {2, 2});
  const auto y = net.matrix_multiply(x, net.constant(floats({2, 2}, {1, 2, 3, 4})), false, true);
  net.output(net.einsum("ij,ij->i", {y, x}), "y");
  expect(net, {floats({2, 2}, {1, 2, 3, 4})}, {2}, {1 * 5 + 2 * 11, 3 * 11 + 4 * 25});
}

TEST_F(NetworkApi, ReductionsAndNormalization) {
  const auto x = net.input("x", DataType::Float, {2, 3});
  const auto [values, indices] = net.top_k(x, net.constant(integers({1}, {2})));
  const auto y =
      net.concatenation({net.softmax(x), values, net.cast(indices, DataType::Float),
                         net.layer_norm(x, net.constant(floats({3}, {1, 1, 1}))), net.cumulative(x, 1)},
                        1);
  net.output(net.slice(y, {0}, {1}), "y");
  const float e1 = std::exp(-2.f), e2 = std::exp(-1.f), sum = e1 + e2 + 1, d = 1 / std::sqrt(2.f / 3);
  expect(net, {floats({2, 3}, {1, 2, 3, 0, 0, 0})}, {1, 13},
         {e1 / sum, e2 / sum, 1 / sum, 3, 2, 2, 1, -d, 0, d, 1, 3, 6});
}

TEST_F(NetworkApi, RaggedSoftmax) {
  const auto x = net.input("x", DataType::Float, {1, 2, 3});
  net.output(net.ragged_softmax(x, net.constant(integers({1, 2, 1}, {2, 3}))), "y");
  expect(net, {floats({1, 2, 3}, {1, 1, 9, 2, 2, 2})}, {1, 2, 3}, {0.5, 0.5, 0, 1.f / 3, 1.f / 3, 1.f / 3});
}

TEST_F(NetworkApi, MovementWithDynamicDims) {
  const auto x = net.input("x", DataType::Float, {-1, 4}, {"rows"});
  const auto halves = net.split(x, {1, 3}, 1);
  const auto flat = net.reshape(net.transpose(halves[1], {1, 0}), Dims{-1});
  const auto padded = net.pad(flat, {1, 0}, Padding::Constant, 7);
  const auto count = net.shape(x);
  EXPECT_EQ(padded.dim_names()[0], "3*rows + 1");
  net.output(net.concatenation({padded, net.cast(count, DataType::Float)}, 0), "y");
  expect(net, {floats({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})}, {9}, {7, 1, 5, 2, 6, 3, 7, 2, 4});
}

TEST_F(NetworkApi, GatherScatterResize) {
  const auto x = net.input("x", DataType::Float, {4});
  const auto picked = net.gather(x, net.constant(integers({2}, {3, 0})));
  const auto written =
      net.scatter_elements(x, net.constant(integers({2}, {1, 1})), picked, 0, ScatterMode::Add);
  const auto large = net.resize(net.reshape(written, Dims{1, 1, 4}), {.scales = {1, 1, 2}});
  net.output(net.reshape(large, Dims{8}), "y");
  expect(net, {floats({4}, {1, 2, 3, 4})}, {8}, {1, 1, 7, 7, 3, 3, 4, 4});
}

TEST_F(NetworkApi, QuantizationKeepsTheGrid) {
  const auto x = net.input("x", DataType::Float, {3});
  net.output(net.dequantize(net.quantize(x, net.scalar(0.5)), net.scalar(0.5)), "y");
  expect(net, {floats({3}, {0.6f, -0.9f, 1000})}, {3}, {0.5, -1, 63.5});
}

TEST_F(NetworkApi, BranchesCaptureWhatTheyRead) {
  const auto x = net.input("x", DataType::Float, {2});
  const auto twice = net.elementwise(Elementwise::Product, x, net.scalar(2));
  const auto condition =
      net.elementwise(Elementwise::Greater, net.reduce(Reduction::Sum, x, {0}, false), net.scalar(0));
  const auto y = net.if_else(
      condition,
      [&](NetworkBuilder& body) { return NetworkTensors{body.elementwise(Elementwise::Sum, x, twice)}; },
      [&](NetworkBuilder& body) { return NetworkTensors{body.unary(Unary::Abs, twice)}; });
  net.output(y[0], "y");
  expect(net, {floats({2}, {1, 2})}, {2}, {3, 6});
  expect(net, {floats({2}, {-1, -2})}, {2}, {2, 4});
}

TEST_F(NetworkApi, LoopsCarryAndScan) {
  const auto x = net.input("x", DataType::Float, {1});
  const auto results = net.loop(
      net.constant(integers({}, {40})), {}, {x},
      [&](NetworkBuilder& body, const NetworkTensor& iteration, const NetworkTensors& carried) {
        const auto next = body.elementwise(Elementwise::Sum, carried[0], x);
        const auto go_on = body.elementwise(Elementwise::Less, iteration, body.scalar(2, DataType::Int64));
        return NetworkBuilder::LoopStep{{next}, {next}, go_on};
      });
  net.output(net.concatenation({results[0], net.reshape(results[1], Dims{-1})}, 0), "y");
  expect(net, {floats({1}, {2})}, {4}, {8, 4, 6, 8});
}

TEST_F(NetworkApi, GoesOnWithANetwork) {
  const auto x = net.input("x", DataType::Float, {-1}, {"n"});
  const auto y = net.unary(Unary::Neg, x, "negative");
  net.output(net.unary(Unary::Exp, y), "y");
  NetworkBuilder more(net.finish());
  more.replace(more.find("negative_output"), more.unary(Unary::Abs, more.find("x")));
  more.set_input_shape("x", {2});
  EXPECT_EQ(more.find("y").dims(), (Dims{2}));
  EXPECT_EQ(more.finish().layer_count(), 2);
  expect(more, {floats({2}, {-1, 2})}, {2}, {std::exp(1.f), std::exp(2.f)});
  const NetworkLayer layer = more.finish().layers()[1];
  EXPECT_EQ(layer.op_type, "Exp");
  EXPECT_EQ(layer.outputs, std::vector<std::string>{"y"});
}

TEST_F(NetworkApi, TakesAPartOfANetwork) {
  const auto x = net.input("x", DataType::Float, {2});
  const auto y = net.elementwise(Elementwise::Product, net.unary(Unary::Neg, x, "negative"),
                                 net.elementwise(Elementwise::Sum, net.scalar(1), net.scalar(2)));
  net.output(net.unary(Unary::Exp, y), "y");
  NetworkBuilder part(net.finish());
  part.cut_input("negative_output");
  part.rename("negative_output", "z");
  part.fold();
  const Network network = part.finish();
  EXPECT_EQ(network.layer_count(), 2);
  EXPECT_EQ(network.inputs().back().name, "z");
  EXPECT_EQ(error_of([&] { part.cut_input("nothing"); }).what.substr(0, 36),
            "the network has no tensor 'nothing' ");
}

TEST_F(NetworkApi, ErrorsNameTheLayer) {
  const auto x = net.input("x", DataType::Float, {2, 3});
  const ErrorFields product = error_of([&] { net.matrix_multiply(x, x, false, false, "product"); });
  EXPECT_EQ(product.node, "product");
  EXPECT_EQ(product.op_type, "MatMul");
  EXPECT_EQ(product.where.substr(0, 24), "layer 'product' (MatMul)");
  EXPECT_EQ(error_of([&] { net.op("Nonsense", {x}); }).what,
            "there is no such operator; docs/operators.md lists those that there are");
  EXPECT_EQ(error_of([&] { net.op("If", {x}); }).what,
            "its bodies are no attributes: call if_else, loop or scan");
  EXPECT_EQ(error_of([&] { net.finish(); }).what, "it has no outputs");
  EXPECT_EQ(error_of([&] { net.input("x", DataType::Float, {1}); }).what, "the name is taken");
  EXPECT_EQ(error_of([&] { net.input("", DataType::Float, {1}); }).what, "it has no name");
  EXPECT_EQ(error_of([&] { net.input("z", DataType::Float, {-2}); }).what, "it has the dim -2");
  EXPECT_EQ(error_of([&] { net.find("nothing"); }).what, "the network has no such tensor");
  NetworkBuilder other;
  EXPECT_EQ(error_of([&] { other.unary(Unary::Neg, x); }).what,
            "one of its inputs is a tensor of another network");
  EXPECT_EQ(error_of([&] { NetworkTensor().name(); }).what, "it is none");
  net.output(x, "y");
  EXPECT_EQ(error_of([&] { net.output(x, "y"); }).what, "there is one of this name");
  EXPECT_NE(error_of([&] {
              net.set_input_shape("x", {2, 4});
            }).what.find("cannot become 2x4"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { net.set_input_shape("q", {2, 4}); }).what, "the network has no input 'q'");
  EXPECT_EQ(error_of([&] { net.replace(x, net.scalar(1)); }).what, "type and shape differ");
}

TEST_F(NetworkApi, ErrorsOfBodies) {
  const auto x = net.input("x", DataType::Float, {1});
  const auto condition = net.elementwise(Elementwise::Greater, x, net.scalar(0));
  NetworkTensor inside;
  net.if_else(
      condition, [&](NetworkBuilder& body) { return NetworkTensors{inside = body.unary(Unary::Abs, x)}; },
      [&](NetworkBuilder&) { return NetworkTensors{x}; });
  EXPECT_EQ(error_of([&] { inside.name(); }).what, "its body is complete");
  EXPECT_EQ(error_of([&] {
              net.if_else(
                  condition,
                  [&](NetworkBuilder&) {
                    return NetworkTensors{x, x};
                  },
                  [&](NetworkBuilder&) { return NetworkTensors{x}; });
            }).what,
            "its branches give 2 and 1 values");
  EXPECT_EQ(error_of([&] {
              net.if_else(
                  condition,
                  [&](NetworkBuilder& body) { return NetworkTensors{body.input("z", DataType::Float, {1})}; },
                  [&](NetworkBuilder&) { return NetworkTensors{x}; });
            }).what,
            "a body cannot have inputs");
  EXPECT_EQ(error_of([&] {
              net.loop({}, condition, {x}, [](NetworkBuilder&, const NetworkTensor&, const NetworkTensors&) {
                return NetworkBuilder::LoopStep{};
              });
            }).what,
            "its body gives 0 values to carry");
}

}  // namespace
}  // namespace lathe::v1
