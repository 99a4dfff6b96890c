// SPDX-License-Identifier: Apache-2.0
//
// What an engine consists of, layer by layer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lathe/runtime.h"

namespace lathe::v1 {

// A layer of the final graph: what a profile shows and one tactic runs.
struct LayerDescription {
  std::string name;  // as in profiles
  std::string type;  // "Gemm", "PointWise", "Reformat", ...
  std::string tactic;
  double tactic_ms = 0;                 // the time that decided; 0: untimed
  std::vector<std::string> onnx_nodes;  // that the layer implements
  std::vector<std::string> inputs, outputs;
  std::string fallback;  // why no kernel runs the layer and the slow reference does; empty: a kernel does
};

// Shapes are those that each optimization profile was tuned for. Cheap to copy.
class EngineInspector {
 public:
  explicit EngineInspector(const Engine& engine);
  // In order of execution, profile by profile.
  std::vector<LayerDescription> layers() const;
  // The whole engine in the layout of TensorRT's inspector, as --exportLayerInfo writes it, with all that is
  // known.
  std::string json() const;
  // A line for each layer.
  std::string text() const;
  // One layer, an element of "Layers" in json(). Throws for a name that no layer has.
  std::string layer_json(std::string_view name) const;
  std::string layer_text(std::string_view name) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace lathe::v1
