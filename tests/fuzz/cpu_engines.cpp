// SPDX-License-Identifier: Apache-2.0
#include "engine_files.h"
#include "onnx/test_model.h"

namespace fuzz {

using namespace lathe;

Network parse(Builder& builder, const Source& source) {
  return builder.parse_onnx(onnx::as_bytes(source.onnx));
}

std::vector<OptimizationProfile> profiles_of(const Network& network, bool two) {
  OptimizationProfile profile;
  for (const TensorInfo& input : network.inputs()) {
    if (is_static(input.shape)) continue;
    ShapeRange range;
    for (const Dim& d : input.shape) {
      const bool fixed = d.is_constant();
      range.min.push_back(fixed ? d.value() : 1);
      range.opt.push_back(fixed ? d.value() : 4);
      range.max.push_back(fixed ? d.value() : 16);
    }
    profile.shapes[input.name] = range;
  }
  std::vector<OptimizationProfile> all = {profile};
  if (two) {
    for (auto& [name, range] : profile.shapes) range.min = range.max = range.opt;
    all.push_back(profile);
  }
  return all;
}

void add_cpu_engines(const std::vector<Source>& models, int threads, std::vector<EngineFile>& files) {
  NullObserver quiet;
  const auto backend = open_backend({.threads = threads});
  Builder builder(backend, quiet);
  for (size_t i = 0; i < models.size(); ++i) {
    const Network network = parse(builder, models[i]);
    BuildOptions options{.profiles = profiles_of(network, i % 4 == 3), .optimization_level = 0};
    options.fast_load = i % 2 == 1;  // with packed weights in the file
    const auto add = [&](const std::string& how) {
      files.push_back({models[i].name + how, backend, builder.build(network, options)->plan()->to_bytes()});
    };
    add("");
    // The families behind oneDNN, and a batch in parts.
    options.disabled_runners = {"OnednnConvolution", "OnednnMatMul", "OnednnPooling", "DepthwiseConvolution"};
    options.batch_part = models[i].name == "depthwise" || models[i].name == "perceptron" ? 1 : 0;
    add(" own");
  }
}

}  // namespace fuzz
