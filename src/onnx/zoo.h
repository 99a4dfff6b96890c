// SPDX-License-Identifier: Apache-2.0
//
// The model zoo: recipes of public architectures, and the writer that makes real ONNX files from them.
//
// A recipe is an ONNX file as an exporter wrote it, less its large weights; a metadata entry keeps their
// type, dims and moments. The weights are drawn here from a seed with integer arithmetic and plain IEEE
// operations, so that every machine writes the same bytes. Recipes are part of the binary: no download, no
// folder to find.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lathe {

struct ModelRecipe {
  std::string name;                          // "resnet50"
  std::string description;                   // one line
  std::vector<std::string> inputs, outputs;  // "input float32[batch, 3, 224, 224]"
  int64_t parameters = 0;
  int64_t bytes = 0;  // of the file that write_model makes
};

// Sorted by name.
std::vector<ModelRecipe> list_recipes();
// Writes a complete, valid ONNX file. Throws Input when there is no such recipe (and lists them), System when
// the file cannot be written (an old file stays as it was).
void write_model(std::string_view recipe, const std::filesystem::path& path);
// The same bytes, in order.
void write_model(std::string_view recipe, FileWriter& out);

}  // namespace lathe
