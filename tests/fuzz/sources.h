// SPDX-License-Identifier: Apache-2.0
//
// Small ONNX models that between them have most operators, symbols in their shapes, views, and constants that
// are packed or made of others.
#pragma once

#include <string>
#include <vector>

namespace fuzz {

struct Source {
  std::string name, onnx;
};
std::vector<Source> source_models();

}  // namespace fuzz
