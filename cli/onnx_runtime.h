// SPDX-License-Identifier: Apache-2.0
//
// ONNX Runtime as a second opinion: its library is loaded when somebody asks for it, through its C interface,
// which keeps its functions in the same order from version to version. No header and no package of it is
// needed to build Lathe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/tensor.h"

namespace lathe::cli {

class OnnxRuntime {
 public:
  // `where`: "onnxruntime", for the library that the dynamic linker finds; a library; or a folder with one,
  // as that of the Python package. Throws Input, with what to do, where there is none. The library stays
  // until the program ends.
  explicit OnnxRuntime(const std::string& where);

  std::string version() const { return version_; }
  // The outputs of these names, on the CPU and without optimisations of the graph: what ONNX says. `inputs`
  // in the order of `input_names`. Throws Input with ONNX Runtime's message.
  std::vector<Tensor> run(const std::string& model, const std::vector<std::string>& input_names,
                          std::span<const Tensor> inputs, const std::vector<std::string>& output_names) const;

 private:
  const void* const* functions_ = nullptr;  // the table of the C interface
  std::string version_;
};

}  // namespace lathe::cli
