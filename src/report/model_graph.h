// SPDX-License-Identifier: Apache-2.0
//
// An ONNX file as JSON: its nodes, tensors and initializers, as the file has them and before any pass. The
// explorer reads no ONNX; this is how it learns of a model (`lathe inspect --graph`, `lathe explore --onnx`).
//
// Nothing is judged: a model that we cannot build, but TensorRT can, is described like any other. Shapes are
// those of the file, and those that the import finds where the file has none.
#pragma once

#include <filesystem>

#include "base/json_value.h"

namespace lathe {

// Throws Input for a damaged file, System for one that cannot be read.
Json model_graph_json(const std::filesystem::path& file);

}  // namespace lathe
