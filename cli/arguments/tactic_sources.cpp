// SPDX-License-Identifier: Apache-2.0
#include "arguments/tactic_sources.h"

#include "arguments/values.h"

namespace lathe::cli {
namespace {

struct Source {
  std::string name;
  std::vector<std::string> runners;  // empty: of TensorRT alone
};

const std::vector<Source>& sources() {
  static const std::vector<Source> kSources = {
      {"CUBLAS", {"CublasLt"}},
      {"CUBLAS_LT", {"CublasLt"}},
      {"CUBLASLT", {"CublasLt"}},
      {"CUDNN", {"CudnnConvolution"}},
      {"ONEDNN", {"OnednnConvolution", "OnednnDeconvolution", "OnednnMatMul", "OnednnPool"}},
      {"EDGE_MASK_CONVOLUTIONS", {}},
      {"JIT_CONVOLUTIONS", {}}};
  return kSources;
}

const Source& source(const std::string& name) {
  for (const Source& s : sources())
    if (s.name == name) return s;
  return sources().back();
}

}  // namespace

TacticSwitches parse_tactic_sources(const std::string& text) {
  std::vector<std::string> names;
  for (const Source& s : sources()) names.push_back(s.name);
  return parse_switches("tactic source", text, names, true);
}

std::vector<std::string> sources_without_effect(const TacticSwitches& switches) {
  std::vector<std::string> names;
  for (const auto& [name, on] : switches)
    if (source(name).runners.empty()) names.push_back(name);
  return names;
}

std::set<std::string, std::less<>> disabled_runners(const TacticSwitches& switches) {
  std::set<std::string, std::less<>> runners;
  for (const auto& [name, on] : switches)
    if (!on) runners.insert(source(name).runners.begin(), source(name).runners.end());
  return runners;
}

}  // namespace lathe::cli
