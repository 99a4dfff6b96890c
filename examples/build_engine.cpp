// SPDX-License-Identifier: Apache-2.0
//
// Builds an engine from an ONNX model and saves it: build_engine model.onnx model.engine [max_batch]
//
// Every dynamic first dim is taken as the batch, tuned for 1.
#include <cstdlib>
#include <iostream>

#include "lathe/builder.h"

using namespace lathe::v1;

class ConsoleLogger final : public Logger {
 public:
  void log(Severity severity, std::string_view text) override {
    if (severity <= Severity::Info) std::cout << text << "\n";
  }
};

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: build_engine model.onnx model.engine [max_batch]\n";
    return 1;
  }
  const int64_t max_batch = argc > 3 ? std::atoll(argv[3]) : 8;
  try {
    ConsoleLogger logger;
    Builder builder(logger);
    const Network network = builder.parse_onnx(argv[1]);

    BuilderConfig config;
    config.optimization_level = 1;
    OptimizationProfile& profile = config.profiles.emplace_back();
    for (const TensorInfo& input : network.inputs()) {
      Dims min = input.dims, opt = input.dims, max = input.dims;
      for (size_t d = 0; d < input.dims.size(); ++d)
        if (input.dims[d] < 0) min[d] = 1, opt[d] = 1, max[d] = d == 0 ? max_batch : 1;
      if (min != max || min != input.dims) profile.set_dims(input.name, min, opt, max);
    }
    const Engine engine = builder.build(network, config);
    engine.save(argv[2]);
    std::cout << "saved " << argv[2] << ": " << engine.layer_names().size() << " layers, "
              << engine.weight_bytes() / 1048576 << " MiB of weights\n";
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
