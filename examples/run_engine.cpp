// SPDX-License-Identifier: Apache-2.0
//
// Loads an engine, runs it on ones, and prints outputs and the slowest layers: run_engine model.engine
#include <algorithm>
#include <cstring>
#include <iostream>

#include "lathe/runtime.h"

using namespace lathe::v1;

class ConsoleLogger final : public Logger {
 public:
  void log(Severity severity, std::string_view text) override {
    if (severity <= Severity::Warning) std::cerr << text << "\n";
  }
};

HostTensor ones(DataType type, const Dims& dims) {
  HostTensor tensor(type, dims);
  const auto count = static_cast<size_t>(volume(dims));
  if (type == DataType::Float) std::fill_n(tensor.data<float>(), count, 1.0f);
  if (type == DataType::Int64) std::fill_n(tensor.data<int64_t>(), count, 1);
  if (type == DataType::Int32) std::fill_n(tensor.data<int32_t>(), count, 1);
  return tensor;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: run_engine model.engine\n";
    return 1;
  }
  try {
    ConsoleLogger logger;
    Runtime runtime(logger);
    const Engine engine = runtime.load(argv[1]);
    ExecutionContext context = engine.create_context();

    std::vector<HostTensor> inputs;
    for (const TensorInfo& input : engine.inputs())
      inputs.push_back(ones(input.type, engine.opt_dims(input.name)));
    const std::vector<HostTensor> outputs = context.run(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::cout << engine.outputs()[i].name << ":";
      for (const int64_t d : outputs[i].dims) std::cout << " " << d;
      if (outputs[i].type == DataType::Float && !outputs[i].bytes.empty())
        std::cout << ", first element " << outputs[i].data<float>()[0];
      std::cout << "\n";
    }

    // The same without copies, with a time per layer.
    for (size_t i = 0; i < inputs.size(); ++i)
      context.bind_input(engine.inputs()[i].name, inputs[i].type, inputs[i].dims, inputs[i].bytes.data());
    std::vector<HostTensor> results;  // with room for the largest result, where its size depends on data
    for (const TensorInfo& output : engine.outputs()) {
      HostTensor& result = results.emplace_back(output.type, context.tensor_shape(output.name));
      context.bind_output(output.name, result.type, result.bytes.data(), result.bytes.size());
    }
    Profiler profiler;
    for (int i = 0; i < 10; ++i) context.execute(profiler);
    std::vector<Profiler::Layer> layers = profiler.layers();
    std::sort(layers.begin(), layers.end(),
              [](const auto& a, const auto& b) { return a.total_ms > b.total_ms; });
    for (size_t i = 0; i < std::min<size_t>(5, layers.size()); ++i)
      std::cout << layers[i].average_ms << " ms  " << layers[i].name << "\n";
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
