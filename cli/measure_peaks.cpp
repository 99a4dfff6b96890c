// SPDX-License-Identifier: Apache-2.0
#include "measure_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "builder/builder.h"
#include "engine_setup.h"
#include "inference.h"
#include "ir/text.h"

namespace lathe::cli {
namespace {

// What a machine needs to show what it can do. The product: on a host about a millisecond, as on a busy
// machine some runs of that length are left alone; on a GPU enough to fill it. Read and written, the stream's
// elements are much larger than the caches. On a host tactics differ by far and are timed in little time; on
// a GPU a library's first choice is near the peak, and every further candidate would be compiled first.
struct Sizes {
  int64_t extent, elements;
  int level;
};
constexpr Sizes kHost = {768, 16 * 1024 * 1024, 3}, kDevice = {4096, 64 * 1024 * 1024, 0};

std::string product_text(std::string_view type, int64_t extent) {
  return fmt::format(
      "graph \"peak\" {{\n  input %x: {0}[{1}, {1}]\n  const %w: {0}[{1}, {1}] = ref 0\n"
      "  %y: {0}[{1}, {1}] = MatMul \"product\" (%x, %w)\n  output %y\n}}",
      type, extent);
}

std::string stream_text(int64_t elements) {
  return fmt::format(
      "graph \"peak\" {{\n  input %x: float32[{0}]\n  %y: float32[{0}] = Pointwise \"stream\" (%x) "
      "{{code=Relu}}\n  output %y\n}}",
      elements);
}

// Numbers without a pattern: units draw less power and clock higher on constants and zeros.
Tensor operand(DType type, int64_t extent) {
  std::vector<double> values(static_cast<size_t>(extent * extent));
  uint32_t state = 1;
  for (double& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<double>(state >> 8) / (1 << 23) - 1;
  }
  return Tensor::from_doubles(type, {extent, extent}, values);
}

// On a machine that others use the best time of one round says what they left. Rounds go on until three of
// them agree.
constexpr int kRounds = 12, kAgreeing = 3;
constexpr double kAgree = 1.05;

struct Fastest {
  double ms = 0;
  bool stable = false;
};

// Least time of the slowest layer in one round of runs.
double round_ms(std::vector<std::unique_ptr<InferenceStream>>& streams, const Engine& engine) {
  LayerProfiler profiler(engine.timed_names(0));
  InferenceFlags flags;
  flags.iterations = 4;
  flags.warm_up_ms = 10;
  flags.duration_s = 0.15f;
  run_queries(streams, flags, {}, &profiler);
  double slowest = 0;
  for (size_t i = 0; i < profiler.layers().size(); ++i)
    slowest = std::max(slowest, profiler.times_ms(i).min());
  return slowest;
}

// Least time of the graph's slowest layer (casts and reformats beside it do not count). `data`: the input,
// and the constant where the graph has one; zeros without it.
Fastest fastest_ms(const std::string& text, const std::optional<Tensor>& data, int level,
                   const std::shared_ptr<const Backend>& backend) {
  NullObserver observer;
  Builder builder(backend, observer);
  Network network;
  network.graph = std::make_shared<const Graph>(parse_graph(text, [&](int64_t) { return *data; }));
  BuildOptions options;
  options.optimization_level = level;
  options.time_budget_seconds = 3;
  const auto engine = builder.build(network, options);
  std::vector<std::unique_ptr<InferenceStream>> streams;
  streams.push_back(std::make_unique<InferenceStream>(engine, engine->create_context(0), 1, true));
  const TensorInfo& input = engine->inputs()[0];
  const auto bytes = static_cast<size_t>(dtype_bytes(input.dtype, element_count(to_extents(input.shape))));
  if (data) {
    check(data->bytes().size() == bytes, "the input of the product has the type of its constant");
    std::memcpy(streams[0]->input_data(0), data->bytes().data(), bytes);
  } else {
    std::memset(streams[0]->input_data(0), 0, bytes);
  }
  std::vector<double> rounds;
  Fastest fastest;
  while (static_cast<int>(rounds.size()) < kRounds && !fastest.stable) {
    rounds.push_back(round_ms(streams, *engine));
    fastest.ms = *std::min_element(rounds.begin(), rounds.end());
    fastest.stable = agree(rounds, kAgreeing, kAgree);
  }
  return fastest;
}

}  // namespace

bool agree(const std::vector<double>& times, int count, double ratio) {
  if (times.empty()) return false;
  const double least = *std::min_element(times.begin(), times.end());
  return std::count_if(times.begin(), times.end(), [&](double t) { return t <= ratio * least; }) >= count;
}

explorer::Peaks measure_peaks(const SystemFlags& system) {
  const auto backend = open_device(system);
  explorer::Peaks peaks;
  peaks.source = "measured";
  const Sizes sizes = backend->is_host() ? kHost : kDevice;
  const auto extent = static_cast<double>(sizes.extent);
  for (const auto& [name, type] :
       {std::pair{"FP32", DType::Float32}, {"BF16", DType::BFloat16}, {"FP16", DType::Float16}}) {
    const Fastest product = fastest_ms(product_text(dtype_name(type), sizes.extent),
                                       operand(type, sizes.extent), sizes.level, backend);
    if (product.ms > 0) peaks.flops_per_s[name] = 2 * extent * extent * extent / product.ms * 1e3;
    if (!product.stable) peaks.unstable.emplace_back(name);
  }
  const Fastest stream = fastest_ms(stream_text(sizes.elements), {}, sizes.level, backend);
  if (stream.ms > 0) peaks.bytes_per_s = 2.0 * 4 * static_cast<double>(sizes.elements) / stream.ms * 1e3;
  if (!stream.stable) peaks.unstable.emplace_back("memory");
  peaks.launch_ms = backend->is_host() ? 0.002 : 0.005;
  return peaks;
}

}  // namespace lathe::cli
