// SPDX-License-Identifier: Apache-2.0
//
// Writes a graph as an ONNX model: as it was imported, made call by call, or at any stage of optimization.
// Core operators that ONNX has not become the nodes that they stand for; dims that depend on the inputs are
// computed by nodes of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ir/graph.h"

namespace lathe {

// The bytes of the model. Its opset is the lowest, from 21 on, that has all its operators. Throws Input for
// what ONNX cannot say.
std::string export_onnx(const Graph& graph);
// Weights go to `path`.data beside the model where both together pass 2 GB, more than which ONNX's readers
// refuse.
void export_onnx(const Graph& graph, const std::filesystem::path& path);

}  // namespace lathe
