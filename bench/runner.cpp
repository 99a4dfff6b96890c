// SPDX-License-Identifier: Apache-2.0
//
// Runs one engine on demand, so that a script can interleave it with its peers run by run.
//
// usage: bench_runner ENGINE THREADS NAME:DIMS:FILE...     (raw little-endian files, dims as 1x3x224x224)
// Prints "ready", then for each line "N" on standard input runs N times and prints the N times in
// milliseconds. A time is from the call to the return, host tensors to host tensors, as a user's program
// would see it.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "backend/all.h"
#include "base/error.h"
#include "base/file.h"
#include "runtime/context.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

struct InputFile {
  std::string name, path;
  Extents extents;
};

InputFile parse_input(const std::string& text) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos)
    throw_input_error("input '" + text + "': expected NAME:DIMS:FILE");
  InputFile input{text.substr(0, first), text.substr(second + 1), {}};
  const std::string dims = text.substr(first + 1, second - first - 1);
  for (size_t at = 0; at < dims.size();) {
    size_t used = 0;
    input.extents.push_back(std::stoll(dims.substr(at), &used));
    at += used + 1;
  }
  return input;
}

std::vector<Tensor> read_inputs(const Engine& engine, const std::vector<InputFile>& files) {
  std::vector<Tensor> tensors;
  for (const TensorInfo& info : engine.inputs()) {
    for (const InputFile& file : files) {
      if (file.name != info.name) continue;
      Tensor tensor = Tensor::allocate(info.dtype, file.extents);
      const std::string bytes = read_file(file.path);
      if (bytes.size() != tensor.bytes().size())
        throw_input_error(fmt::format("{}: {} bytes, but input '{}' has {}", file.path, bytes.size(), info.name,
                                      tensor.bytes().size()));
      std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

void serve(const std::string& path, int threads, const std::vector<InputFile>& files) {
  const auto engine = Engine::load(path, open_backend({.threads = threads}));
  const auto context = engine->create_context();
  const std::vector<Tensor> inputs = read_inputs(*engine, files);
  context->run(inputs);
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    for (int i = std::stoi(line); i > 0; --i) {
      const auto start = std::chrono::steady_clock::now();
      context->run(inputs);
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      answer += fmt::format("{:.6f} ", took.count());
    }
    std::puts(answer.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: bench_runner ENGINE THREADS NAME:DIMS:FILE...\n", stderr);
    return 2;
  }
  try {
    std::vector<lathe::InputFile> files;
    for (int i = 3; i < argc; ++i) files.push_back(lathe::parse_input(argv[i]));
    lathe::serve(argv[1], std::stoi(argv[2]), files);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_runner: %s\n", error.what());
    return 1;
  }
}
