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
    std::vector<HostTensor> outputs = context.run(inputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::cout << engine.outputs()[i].name << ":";
      for (const int64_t d : outputs[i].dims) std::cout << " " << d;
      if (outputs[i].type == DataType::Float && !outputs[i].bytes.empty())
        std::cout << ", first element " << outputs[i].data<float>()[0];
      std::cout << "\n";
    }

    // The same without copies, with a time per layer.
    std::vector<void*> bindings;
    for (HostTensor& t : inputs) bindings.push_back(t.bytes.data());
    for (HostTensor& t : outputs) bindings.push_back(t.bytes.data());
    Profiler profiler;
    for (int i = 0; i < 10; ++i) context.enqueue_profiled(bindings, profiler);
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
