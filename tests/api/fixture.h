// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the public API share: a folder, a logger that remembers, a builder, and errors by their
// parts.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/builder.h"
#include "lathe/runtime.h"
#include "tiny_onnx.h"

namespace lathe::v1 {
namespace fs = std::filesystem;

class Lines final : public Logger {
 public:
  void log(Severity severity, std::string_view text) override { lines.emplace_back(severity, text); }
  std::vector<std::pair<Severity, std::string>> lines;
};

// A folder of this test, gone with it.
class Api : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const std::string& name) const { return (folder / name).string(); }

  Network parse() {
    const std::string model = api_test::tiny_onnx();
    return builder.parse_onnx(std::as_bytes(std::span(model)));
  }
  BuilderConfig config() const {
    BuilderConfig result;
    result.optimization_level = 0;
    result.profiles.emplace_back().set_dims("x", {1, 4}, {2, 4}, {8, 4});
    return result;
  }
  Engine build() { return builder.build(parse(), config()); }

  const fs::path folder = fs::temp_directory_path() / ("lathe_api_test_" + std::to_string(::getpid()));
  Lines logger;
  Builder builder{logger, {.threads = 1}};
};

// The message of the error that `call` throws, which must be of that kind.
inline std::string message_of(ErrorKind kind, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

inline const std::vector<float> kTwoRows = {1, 2, 3, 4, 0, 0, 500, 1};
inline const std::vector<float> kTheirResult = {5, 16, 0, 1, 11, 401};

inline std::vector<float> floats(const HostTensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + volume(tensor.dims)};
}
inline void bind_both(ExecutionContext& context, const std::vector<float>& x, std::vector<float>& y) {
  context.bind_input("x", DataType::Float, {static_cast<int64_t>(x.size()) / 4, 4}, x.data());
  context.bind_output("y", DataType::Float, y.data(), y.size() * sizeof(float));
}

// The code of the error that `call` throws.
inline ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::Success;
}

// The parts of the error that `call` throws.
inline ErrorFields fields_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.fields();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace lathe::v1
