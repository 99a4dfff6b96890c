// SPDX-License-Identifier: Apache-2.0
//
// One engine for single items and for large batches, each tuned for: dynamic_shapes model.onnx
//
// An optimization profile is a range of shapes with tactics and memory of its own. A context has one profile
// at a time; within its range shapes change from run to run.
#include "sample.h"

using namespace sample;

int main(int argc, char** argv) {
  return run(argc, argv, 1, "dynamic_shapes model.onnx", [](const std::vector<std::string>& words) {
    ConsoleLogger logger;
    Builder builder(logger);
    const Network network = builder.parse_onnx(words[0]);
    BuilderConfig config;
    config.optimization_level = 1;
    const TensorInfo input = network.inputs().at(0);
    const auto batch = [&](int64_t items) {
      Dims dims = input.dims;
      for (int64_t& d : dims) d = d < 0 ? items : d;
      return dims;
    };
    config.profiles.emplace_back().set_dims(input.name, batch(1), batch(1), batch(1));
    config.profiles.emplace_back().set_dims(input.name, batch(2), batch(8), batch(16));
    const Engine engine = builder.build(network, config);

    for (int profile = 0; profile < engine.profile_count(); ++profile) {
      ExecutionContext context = engine.create_context(profile);
      for (const int64_t items : {1, 3, 16}) {
        std::cout << "profile " << profile << ", batch " << items << ": ";
        try {
          const HostTensor y = context.run({filled(batch(items), 1)})[0];
          std::cout << y.dims[0] << " rows, activations of up to " << context.memory_bytes() << " bytes\n";
        } catch (const Error& error) {  // outside of the profile's range
          std::cout << "refused\n";
        }
      }
    }
  });
}
