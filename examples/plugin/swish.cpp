// SPDX-License-Identifier: Apache-2.0
//
// A plugin library: the operators Swish (x * sigmoid(beta * x)) of one input of any shape, and Positive,
// which gives the elements that are greater than 0, whose number only a run finds.
#include <algorithm>
#include <cmath>

#include "lathe/plugin.h"

namespace {

using lathe::v1::Plugin;
using lathe::v1::PluginFields;

constexpr int kFloat = 1;

class Swish final : public Plugin {
 public:
  static constexpr const char *kName = "Swish", *kVersion = "1", *kNamespace = "example";

  explicit Swish(const PluginFields& fields) : beta_(fields.real("beta", 1)) {}

  void infer(Inference& node) override {
    if (node.input_count() != 1 || node.input(0).type != kFloat)
      throw std::invalid_argument("Swish takes one input of float32");
    node.set_output(0, node.input(0));
  }
  // Element by element, it works in any order of them.
  bool supports(int, const Layout& layout) const override {
    return layout.inputs[0].format == layout.outputs[0].format;
  }
  // A thread is worth it from some thousand elements on.
  int64_t work_items(const Layout& layout) const override {
    return (Run::elements(layout.inputs[0]) + kPiece - 1) / kPiece;
  }

  void run_cpu(const Run& run) const override {
    const auto* x = run.input<float>(0);
    auto* y = run.output<float>(0);
    const int64_t end = std::min(run.end * kPiece, Run::elements(run.inputs[0]));
    for (int64_t i = run.begin * kPiece; i < end; ++i) y[i] = x[i] / (1 + std::exp(-beta_ * x[i]));
  }

 private:
  static constexpr int64_t kPiece = 4096;
  float beta_;
};

class Positive final : public Plugin {
 public:
  static constexpr const char *kName = "Positive", *kVersion = "1", *kNamespace = "example";

  explicit Positive(const PluginFields&) {}

  void infer(Inference& node) override {
    if (node.input(0).type != kFloat) throw std::invalid_argument("Positive takes float32");
    auto count = node.constant(1);
    for (const auto& dim : node.input(0).dims) count = count * dim;
    node.set_output(0, {kFloat, {node.data_dependent(count)}});
  }
  void run_cpu(const Run& run) const override {
    const auto* x = run.input<float>(0);
    auto* y = run.output<float>(0);
    int64_t found = 0;
    for (int64_t i = 0; i < Run::elements(run.inputs[0]); ++i)
      if (x[i] > 0) y[found++] = x[i];
    run.outputs[0].dims[0] = found;
  }
};

}  // namespace

extern "C" const lathe_plugin_library_info* lathe_plugin_library(uint32_t host_abi_version) {
  return lathe::v1::plugin_library<Swish, Positive>(host_abi_version);
}
