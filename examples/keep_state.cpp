// SPDX-License-Identifier: Apache-2.0
//
// State that stays in the context from run to run: keep_state
//
// A network that takes one number and gives the mean of all that it has seen, by a cache that grows. The
// caller passes the number alone: what comes out as `present` is the next run's `past`.
#include "lathe/network.h"
#include "sample.h"

using namespace sample;

int main(int argc, char** argv) {
  return run(argc, argv, 0, "keep_state", [](const std::vector<std::string>&) {
    NetworkBuilder net("running mean");
    const NetworkTensor x = net.input("x", DataType::Float, {1});
    const NetworkTensor past = net.input("past", DataType::Float, {-1}, {"seen"});
    const NetworkTensor present = net.concatenation({past, x}, 0);
    net.output(present, "present");
    net.output(net.reduce(Reduction::Mean, present, {0}, true), "mean");

    ConsoleLogger logger;
    Builder builder(logger);
    BuilderConfig config;
    config.profiles.emplace_back().set_dims("past", {0}, {8}, {63});
    const Engine engine = builder.build(net.finish(), config);

    ExecutionContext context = engine.create_context();
    for (const StatePair& pair : context.keep_state())
      std::cout << pair.output << " is the next " << pair.input << "\n";
    for (const float number : {2.0F, 4.0F, 12.0F}) {
      const HostTensor mean = context.run({filled({1}, number)})[0];
      std::cout << "after " << number << ": mean " << mean.data<float>()[0] << "\n";
    }
    for (const std::string& note : context.state_notes()) std::cout << note << "\n";
    context.reset_state();
    std::cout << "from the beginning: mean " << context.run({filled({1}, 5)})[0].data<float>()[0] << "\n";
  });
}
