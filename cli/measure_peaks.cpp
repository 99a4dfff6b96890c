// SPDX-License-Identifier: Apache-2.0
#include "measure_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "builder/builder.h"
#include "engine_setup.h"
#include "inference.h"
#include "ir/text.h"

namespace lathe::cli {
namespace {

// Extents of the product. On a host about a millisecond: on a busy machine some runs of that length are left alone.
constexpr int64_t kHostExtent = 768, kDeviceExtent = 8192;
constexpr int64_t kElements = 16 * 1024 * 1024;  // 64 MiB read and 64 MiB written: larger than caches

std::string product_text(std::string_view type, int64_t extent) {
  return fmt::format(
      "graph \"peak\" {{\n  input %x: {0}[{1}, {1}]\n  const %w: {0}[{1}, {1}] = ref 0\n"
      "  %y: {0}[{1}, {1}] = MatMul \"product\" (%x, %w)\n  output %y\n}}",
      type, extent);
}

std::string stream_text() {
  return fmt::format(
      "graph \"peak\" {{\n  input %x: float32[{0}]\n  %y: float32[{0}] = Pointwise \"stream\" (%x) "
      "{{code=Relu}}\n  output %y\n}}",
      kElements);
}

// Least time of the graph's slowest layer (casts and reformats beside it do not count).
double fastest_ms(const std::string& text, DType type, int64_t extent,
                  const std::shared_ptr<const Backend>& backend) {
  NullObserver observer;
  Builder builder(backend, observer);
  Network network;
  network.graph = std::make_shared<const Graph>(parse_graph(text, [&](int64_t) {
    return Tensor::from_doubles(type, {extent, extent},
                                std::vector<double>(static_cast<size_t>(extent * extent), 0.5));
  }));
  BuildOptions options;
  options.optimization_level = 3;
  options.time_budget_seconds = 3;
  const auto engine = builder.build(network, options);
  std::vector<std::unique_ptr<InferenceStream>> streams;
  streams.push_back(std::make_unique<InferenceStream>(engine, engine->create_context(0), 1, true));
  const TensorInfo& input = engine->inputs()[0];
  std::memset(streams[0]->input_data(0), 0,
              static_cast<size_t>(dtype_bytes(input.dtype, element_count(to_extents(input.shape)))));
  LayerProfiler profiler(engine->layer_names(0));
  InferenceFlags flags;
  flags.iterations = 8;
  flags.warm_up_ms = 20;
  flags.duration_s = 0.5f;
  run_queries(streams, flags, &profiler);
  double slowest = 0;
  for (size_t i = 0; i < profiler.layers().size(); ++i) {
    const auto& times = profiler.times_ms(i);
    if (!times.empty())
      slowest = std::max(slowest, static_cast<double>(*std::min_element(times.begin(), times.end())));
  }
  return slowest;
}

}  // namespace

explorer::Peaks measure_peaks(const SystemFlags& system) {
  const auto backend = open_device(system);
  explorer::Peaks peaks;
  peaks.source = "measured";
  const int64_t extent = backend->is_host() ? kHostExtent : kDeviceExtent;
  const double flops =
      2.0 * static_cast<double>(extent) * static_cast<double>(extent) * static_cast<double>(extent);
  for (const auto& [name, type] :
       {std::pair{"FP32", DType::Float32}, {"BF16", DType::BFloat16}, {"FP16", DType::Float16}}) {
    if (const double ms = fastest_ms(product_text(dtype_name(type), extent), type, extent, backend); ms > 0)
      peaks.flops_per_s[name] = flops / ms * 1e3;
  }
  if (const double ms = fastest_ms(stream_text(), DType::Float32, 0, backend); ms > 0)
    peaks.bytes_per_s = 2.0 * 4 * static_cast<double>(kElements) / ms * 1e3;
  peaks.launch_ms = backend->is_host() ? 0.002 : 0.005;
  return peaks;
}

}  // namespace lathe::cli
