// SPDX-License-Identifier: Apache-2.0
//
// What a call of the public API costs: bench_overhead model.onnx
//
// The model should take next to no time (bench/overhead.py writes one that copies a number), so that the call
// is what is measured. Prints the median and the 99th percentile of single calls in microseconds, as JSON.
#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>

#include "lathe/builder.h"

using namespace lathe::v1;

namespace {

class Quiet final : public Logger {
  void log(Severity, std::string_view) override {}
};

void measure(const char* name, const std::function<void()>& call) {
  constexpr size_t kWarm = 2000, kCalls = 20000;
  std::vector<double> us;
  for (size_t i = 0; i < kWarm + kCalls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    if (i >= kWarm) us.push_back(time.count());
  }
  std::sort(us.begin(), us.end());
  std::cout << "{\"call\": \"" << name << "\", \"median_us\": " << us[kCalls / 2]
            << ", \"p99_us\": " << us[kCalls * 99 / 100] << "}\n";
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: bench_overhead model.onnx\n";
    return 1;
  }
  Quiet logger;
  Builder builder(logger, {.threads = 1});
  BuilderConfig config;
  config.optimization_level = 0;
  const Engine engine = builder.build(builder.parse_onnx(argv[1]), config);
  ExecutionContext context = engine.create_context();
  std::vector<HostTensor> inputs, outputs;
  for (const TensorInfo& t : engine.inputs()) inputs.emplace_back(t.type, t.dims);
  for (const TensorInfo& t : engine.outputs()) outputs.emplace_back(t.type, t.dims);
  const auto bind = [&] {
    for (size_t i = 0; i < inputs.size(); ++i)
      context.bind_input(engine.inputs()[i].name, inputs[i].type, inputs[i].dims, inputs[i].bytes.data());
    for (size_t i = 0; i < outputs.size(); ++i)
      context.bind_output(engine.outputs()[i].name, outputs[i].type, outputs[i].bytes.data(),
                          outputs[i].bytes.size());
  };
  bind();
  measure("execute", [&] { context.execute(); });
  const std::string in = engine.inputs()[0].name, out = engine.outputs()[0].name;
  measure("bind and execute", [&] {
    context.bind_input(in, inputs[0].type, inputs[0].dims, inputs[0].bytes.data());
    context.bind_output(out, outputs[0].type, outputs[0].bytes.data(), outputs[0].bytes.size());
    context.execute();
  });
  Stream stream;
  measure("enqueue and synchronize", [&] {
    context.enqueue(stream);
    stream.synchronize();
  });
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
