// SPDX-License-Identifier: Apache-2.0
//
// One context, many random shapes within the optimization profile: memory has to stay flat, the host's or, on
// a GPU, the GPU's. What is kept per shape (prepared plans, oneDNN's primitives) is bounded, so memory stops
// growing after a while; what grows on is a leak.
//
// usage: random_shapes ENGINE COUNT SEED LIMIT_MIB [DEVICE]
// Runs the largest shapes, then COUNT random ones, and prints MiB in use every tenth of the way. Exit code 1
// when the highest of the last half lies more than LIMIT_MIB above the first tenth.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>

#include "backend/all.h"
#include "base/error.h"
#include "base/file.h"
#include "runtime/context.h"
#include "runtime/engine.h"

namespace lathe {
namespace {

// Of the process; of the whole GPU when there is one, so nothing else may run there.
double used_mib(const Backend& backend) {
  if (const auto memory = backend.device_memory(); memory.total_bytes > 0)
    return static_cast<double>(memory.total_bytes - memory.free_bytes) / (1 << 20);
  long size = 0, resident = 0;
  std::sscanf(read_file("/proc/self/statm").c_str(), "%ld %ld", &size, &resident);
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

// Ones as integers (valid ids and masks), zeros as floats.
Tensor make_input(const TensorInfo& info, const SymbolValues& values) {
  Extents extents;
  for (const Dim& d : info.shape) extents.push_back(d.evaluate(values));
  Tensor tensor = Tensor::allocate(info.dtype, extents);
  if (info.dtype == DType::Int64)
    std::fill_n(reinterpret_cast<int64_t*>(tensor.mutable_bytes().data()), element_count(extents), 1);
  return tensor;
}

void run(Context& context, const SymbolValues& values) {
  std::vector<Tensor> inputs;
  for (const TensorInfo& info : context.engine().inputs()) inputs.push_back(make_input(info, values));
  context.run(inputs);
}

bool flat(const std::string& file, int count, unsigned seed, double limit_mib, const std::string& device) {
  const auto engine = Engine::load(file, open_backend({.device = device}));
  const auto context = engine->create_context();
  const SymbolRanges& ranges = engine->variant(0).ranges;
  if (ranges.empty()) throw_input_error(file + " has no dynamic shapes");
  SymbolValues values;
  for (const auto& [name, range] : ranges) values[name] = range.max;
  run(*context, values);

  std::mt19937 random(seed);
  std::set<SymbolValues> seen;
  double first = 0, highest = 0;
  for (int i = 1; i <= count; ++i) {
    for (const auto& [name, range] : ranges)
      values[name] = std::uniform_int_distribution<int64_t>(range.min, range.max)(random);
    seen.insert(values);
    run(*context, values);
    if (i % std::max(1, count / 10) != 0) continue;
    const double now = used_mib(*engine->backend());
    if (first == 0) first = now;
    if (2 * i > count) highest = std::max(highest, now);
    fmt::print("{:6} runs, {:5} shapes: {:.1f} MiB\n", i, seen.size(), now);
    std::fflush(stdout);
  }
  const double growth = highest - first;
  fmt::print("{}: growth {:.1f} MiB (limit {:.1f})\n", file, growth, limit_mib);
  return growth <= limit_mib;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  if (argc < 5 || argc > 6) {
    std::fputs("usage: random_shapes ENGINE COUNT SEED LIMIT_MIB [DEVICE]\n", stderr);
    return 2;
  }
  try {
    return lathe::flat(argv[1], std::stoi(argv[2]), static_cast<unsigned>(std::stoul(argv[3])),
                       std::stod(argv[4]), argc > 5 ? argv[5] : "cpu")
               ? 0
               : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_shapes: %s\n", error.what());
    return 2;
  }
}
