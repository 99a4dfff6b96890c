// SPDX-License-Identifier: Apache-2.0
//
// What a stream computes on: the files of --loadInputs, the values of shape tensors, random values for the
// rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arguments/options.h"
#include "inference.h"
#include "report/log.h"

namespace lathe::cli {

// Where values of inputs come from. `announce`: a line per input.
class InputSource {
 public:
  InputSource(const Options& options, const Engine& engine, int profile, bool announce, Log& log)
      : options_(options), engine_(engine), profile_(profile), announce_(announce), log_(log) {}
  Tensor values(size_t input, const Extents& extents);

 private:
  bool decides_shapes(const std::string& name);
  const Options& options_;
  const Engine& engine_;
  int profile_;
  bool announce_;
  Log& log_;
  std::optional<std::vector<std::string>> deciding_;  // found when an input without a file asks
};

// Of all inputs that are not state. `announce`: a line per input and output.
void fill_inputs(const Options& options, InferenceStream& stream, int profile, bool announce, Log& log);

}  // namespace lathe::cli
