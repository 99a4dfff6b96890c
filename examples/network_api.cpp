// SPDX-License-Identifier: Apache-2.0
//
// A network made call by call, with a loop, and written as ONNX: network_api square_root.onnx
//
// Newton's method for the square roots of a vector, until no element changes by more than 1e-6.
#include <cmath>

#include "lathe/network.h"
#include "sample.h"

using namespace sample;

int main(int argc, char** argv) {
  return run(argc, argv, 1, "network_api square_root.onnx", [](const std::vector<std::string>& words) {
    NetworkBuilder net("square roots");
    const NetworkTensor x = net.input("x", DataType::Float, {-1}, {"count"});
    const NetworkTensor half = net.scalar(0.5),
                        start = net.elementwise(Elementwise::Product, half,
                                                net.elementwise(Elementwise::Sum, x, net.scalar(1)));
    const auto step = [&](NetworkBuilder& body, const NetworkTensor&, const NetworkTensors& carried) {
      const NetworkTensor& y = carried[0];
      const NetworkTensor next =
          body.elementwise(Elementwise::Product, half,
                           body.elementwise(Elementwise::Sum, y, body.elementwise(Elementwise::Div, x, y)));
      const NetworkTensor change = body.reduce(
          Reduction::Max, body.unary(Unary::Abs, body.elementwise(Elementwise::Sub, next, y)), {0}, false);
      return NetworkBuilder::LoopStep{
          .carried = {next}, .go_on = body.elementwise(Elementwise::Greater, change, net.scalar(1e-6))};
    };
    const NetworkTensors results = net.loop(net.scalar(100, DataType::Int64), NetworkTensor(), {start}, step);
    net.output(results[0], "roots");
    const Network network = net.finish();
    network.to_onnx(words[0]);

    ConsoleLogger logger;
    Builder builder(logger);
    BuilderConfig config;
    config.profiles.emplace_back().set_dims("x", {1}, {4}, {1000});
    const Engine engine = builder.build(network, config);
    const std::vector<float> values = {1, 2, 144, 1e6F};
    const HostTensor roots = engine.create_context().run({HostTensor(DataType::Float, {4}, values)})[0];
    for (size_t i = 0; i < values.size(); ++i)
      std::cout << "root of " << values[i] << ": " << roots.data<float>()[i] << "\n";
  });
}
