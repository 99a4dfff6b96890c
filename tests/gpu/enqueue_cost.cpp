// SPDX-License-Identifier: Apache-2.0
//
// What ExecutionContext::enqueue() on a CUDA stream costs the host: enqueue_cost model.onnx
//
// The model has one input and one output of fixed shapes and takes next to no time. Prints, as JSON, the median
// microseconds of a call and of a launch of a CUDA graph of one node, which is what the engine itself does. The
// driver is opened by name, as by a program that has no CUDA at build time.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <vector>

#include "lathe/builder.h"

using namespace lathe::v1;

namespace {

class Quiet final : public Logger {
  void log(Severity, std::string_view) override {}
};

// The few functions of the driver that this program calls.
class Cuda {
 public:
  Cuda() : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {
    if (library_ == nullptr)
      throw std::runtime_error("libcuda.so.1 cannot be opened: there is no NVIDIA driver");
    call("cuInit", 0U);
    int device = 0;
    void* context = nullptr;
    call("cuDeviceGet", &device, 0);
    call("cuDevicePrimaryCtxRetain", &context, device);
    call("cuCtxSetCurrent", context);
  }
  template <class... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
    if (const int result = function(arguments...); result != 0)
      throw std::runtime_error(std::string(name) + " failed: " + std::to_string(result));
  }
  template <class... Arguments>
  std::function<void()> caller(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return [=] {
      if (function(arguments...) != 0) throw std::runtime_error("a call of the driver failed");
    };
  }
  void* allocate(size_t bytes) const {
    unsigned long long address = 0;
    call("cuMemAlloc_v2", &address, bytes);
    return reinterpret_cast<void*>(address);
  }

 private:
  void* library_;
};

double median_us(const std::function<void()>& body, const std::function<void()>& wait) {
  constexpr int kWarm = 500, kCalls = 10000, kAhead = 64;
  std::vector<double> us;
  for (int i = 0; i < kWarm + kCalls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    if (i >= kWarm) us.push_back(time.count());
    if (i % kAhead == 0) wait();  // a full queue would make calls wait for the device
  }
  std::nth_element(us.begin(), us.begin() + kCalls / 2, us.end());
  return us[kCalls / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: enqueue_cost model.onnx\n";
    return 1;
  }
  Quiet logger;
  Builder builder(logger, {.device = "0"});
  BuilderConfig config;
  config.optimization_level = 0;
  const Engine engine = builder.build(builder.parse_onnx(argv[1]), config);
  const Cuda cuda;
  void* stream = nullptr;
  cuda.call("cuStreamCreate", &stream, 1U);
  ExecutionContext context = engine.create_context();
  const TensorInfo x = engine.inputs().at(0), y = engine.outputs().at(0);
  const size_t bytes = data_bytes(x.type, volume(x.dims)), y_bytes = data_bytes(y.type, volume(y.dims));
  void* memory = cuda.allocate(bytes);
  context.bind_input(x.name, x.type, x.dims, memory);
  context.bind_output(y.name, y.type, cuda.allocate(y_bytes), y_bytes);
  const auto wait = cuda.caller("cuStreamSynchronize", stream);
  const double enqueue = median_us([&] { context.enqueue(CudaStream{stream}); }, wait);

  // A graph of one node: bytes of the input set to 0.
  void *graph = nullptr, *executable = nullptr;
  cuda.call("cuStreamBeginCapture_v2", stream, 2);
  cuda.call("cuMemsetD8Async", reinterpret_cast<unsigned long long>(memory), static_cast<unsigned char>(0),
            bytes, stream);
  cuda.call("cuStreamEndCapture", stream, &graph);
  cuda.call("cuGraphInstantiateWithFlags", &executable, graph, 0ULL);
  const double launch = median_us(cuda.caller("cuGraphLaunch", executable, stream), wait);
  wait();
  std::cout << "{\"enqueue_us\": " << enqueue << ", \"graph_launch_us\": " << launch << "}\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
