// SPDX-License-Identifier: Apache-2.0
//
// What the samples share: a logger, and a main() that prints what went wrong.
#pragma once

#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "lathe/builder.h"

namespace sample {

using namespace lathe::v1;

// Warnings and errors.
class ConsoleLogger final : public Logger {
 public:
  void log(Severity severity, std::string_view text) override {
    if (severity <= Severity::Warning) std::cerr << text << "\n";
  }
};

inline int run(int argc, char** argv, int words, const std::string& usage,
               const std::function<void(const std::vector<std::string>&)>& body) {
  if (argc != words + 1) {
    std::cerr << "usage: " << usage << "\n";
    return 1;
  }
  try {
    body({argv + 1, argv + argc});
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

inline HostTensor filled(const Dims& dims, float value) {
  HostTensor tensor(DataType::Float, dims);
  std::fill_n(tensor.data<float>(), static_cast<size_t>(volume(dims)), value);
  return tensor;
}

}  // namespace sample
