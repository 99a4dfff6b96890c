// SPDX-License-Identifier: Apache-2.0
//
// Tensors for people and scripts: --dumpOutput, --exportOutput, --dumpRawBindingsToFile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "ir/tensor.h"
#include "report/log.h"

namespace lathe {

struct NamedTensor {
  std::string name;
  Tensor tensor;
  bool is_string = false;  // uint8 whose last dim is bytes of strings (ir/strings.h)
};

// Strings are quoted, as in JSON, and their dim of bytes is left out.
void print_outputs(Log& log, const std::vector<NamedTensor>& outputs);
// The file of --exportOutput. NaN is null, infinities are 1e999: strict JSON has neither.
void write_outputs_json(FileWriter& file, const std::vector<NamedTensor>& outputs);

// "<name>.<input|output>.<dims joined by .>.<type>.raw", with unusual characters replaced and long names
// shortened.
std::string raw_file_name(const NamedTensor& tensor, bool is_input);
// Writes the tensor's bytes into `folder` and says so.
void write_raw_file(Log& log, const NamedTensor& tensor, bool is_input, const std::filesystem::path& folder);

}  // namespace lathe
