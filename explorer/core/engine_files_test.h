// SPDX-License-Identifier: Apache-2.0
//
// Small files of one engine, for tests of the analysis.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "explorer/core/analyse.h"

namespace lathe::explorer {

inline std::string tensor(const std::string& name, const std::string& dims,
                          const std::string& type = "Float") {
  return fmt::format(R"({{"Name": "{}", "Dimensions": [{}], "Format/Datatype": "{}"}})", name, dims, type);
}

inline std::string layer(const std::string& name, const std::string& type, const std::string& inputs,
                         const std::string& outputs, const std::string& more = "") {
  return fmt::format(R"({{"Name": "{}", "LayerType": "{}", "Inputs": [{}], "Outputs": [{}]{}}})", name, type,
                     inputs, outputs, more);
}

inline InputFile layers_file(const std::vector<std::string>& layers, const std::string& bindings) {
  return recognise_file("layers.json", fmt::format(R"({{"Layers": [{}], "Bindings": [{}]}})",
                                                   fmt::join(layers, ","), bindings));
}

inline InputFile profile_file(const std::vector<std::pair<std::string, double>>& times) {
  std::string text = R"([{"count": 10})";
  for (const auto& [name, ms] : times)
    text +=
        fmt::format(R"(, {{"name": "{}", "timeMs": {}, "averageMs": {}, "medianMs": {}, "percentage": 1}})",
                    name, ms * 10, ms, ms);
  return recognise_file("profile.json", text + "]");
}

inline EngineData analyse(std::vector<InputFile> files) {
  return analyse_engine(files, {});
}

inline const Layer& find(const EngineData& engine, const std::string& name) {
  for (const auto& l : engine.layers) {
    if (l.name == name) return l;
  }
  throw std::runtime_error("no layer " + name);
}

inline const std::string kConv = layer(
    "conv", "CaskConvolution", tensor("x", "1,3,8,8"), tensor("h", "1,4,8,8"),
    R"(, "ParameterType": "Convolution", "Kernel": [3,3], "Groups": 1, "OutMaps": 4, "Weights": {"Type": "Float", "Count": 108})");
inline const std::string kFc =
    layer("fc", "gemm", tensor("h", "4,64") + "," + tensor("w", "64,10"), tensor("y", "4,10"));

// Null when there is none.
inline const Finding* finding_of(const EngineData& engine, const std::string& id) {
  const auto found = std::find_if(engine.findings.begin(), engine.findings.end(),
                                  [&](const Finding& f) { return f.id == id; });
  return found == engine.findings.end() ? nullptr : &*found;
}

}  // namespace lathe::explorer
