// SPDX-License-Identifier: Apache-2.0
//
// Plugins and other operators of TensorRT that are known by name. Models have them in any domain, mostly in
// ONNX's own; here they are in one.
#pragma once

#include <string_view>
#include <vector>

#include "onnx/import_node.h"

namespace lathe::onnx {

inline constexpr std::string_view kTensorRtDomain = "trt.plugins";

std::vector<Importer> tensorrt_detection_importers();
std::vector<Importer> tensorrt_plugin_importers();
std::vector<Importer> tensorrt_quantized_importers();

}  // namespace lathe::onnx
