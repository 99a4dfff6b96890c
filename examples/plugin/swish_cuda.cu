// SPDX-License-Identifier: Apache-2.0
//
// Swish (x * sigmoid(beta * x)) of any shape on CPUs and GPUs: the plugin of swish.cpp with run_cuda().
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "lathe/plugin.h"

namespace {

using lathe::v1::Plugin;
using lathe::v1::PluginFields;

constexpr int kFloat = 1, kThreads = 256;

__host__ __device__ float swish(float x, float beta) {
  return x / (1 + expf(-beta * x));
}

__global__ void swish_all(const float* x, float* y, int64_t count, float beta) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = swish(x[i], beta);
}

class Swish final : public Plugin {
 public:
  static constexpr const char *kName = "Swish", *kVersion = "1", *kNamespace = "example";
  static constexpr bool kCuda = true;

  explicit Swish(const PluginFields& fields) : beta_(fields.real("beta", 1)) {}

  void infer(Inference& node) override {
    if (node.input_count() != 1 || node.input(0).type != kFloat)
      throw std::invalid_argument("Swish takes one input of float32");
    node.set_output(0, node.input(0));
  }
  bool supports(int, const Layout& layout) const override {
    return layout.inputs[0].format == layout.outputs[0].format;
  }

  void run_cpu(const Run& run) const override {
    for (int64_t i = 0; i < Run::elements(run.inputs[0]); ++i)
      run.output<float>(0)[i] = swish(run.input<float>(0)[i], beta_);
  }
  // On the stream, without waiting: the run may be recorded into a CUDA graph.
  void run_cuda(const Run& run) const override {
    const int64_t count = Run::elements(run.inputs[0]);
    if (count == 0) return;
    const auto blocks = static_cast<unsigned>(std::min<int64_t>((count + kThreads - 1) / kThreads, 65535));
    swish_all<<<blocks, kThreads, 0, static_cast<cudaStream_t>(run.stream)>>>(
        run.input<float>(0), run.output<float>(0), count, beta_);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
      throw std::runtime_error(std::string("launching Swish: ") + cudaGetErrorString(error));
  }

 private:
  float beta_;
};

}  // namespace

extern "C" const lathe_plugin_library_info* lathe_plugin_library(uint32_t host_abi_version) {
  return lathe::v1::plugin_library<Swish>(host_abi_version);
}
