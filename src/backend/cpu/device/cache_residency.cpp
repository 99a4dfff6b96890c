// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/cache_residency.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "backend/cpu/device/cache_lines.h"
#include "backend/cpu/device/host_memory.h"
#include "backend/open_size.h"
#include "ops/cost.h"

namespace lathe::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPieceBytes = 64 << 10;
// Less stays in private caches, or comes back so fast that its share says nothing.
constexpr int64_t kLeastBytes = 1 << 20;
// What is still there after this time stays as long as nobody needs its place.
constexpr double kLongestPeriodMs = 25;
constexpr int kPeriods = 4;  // the first one brings the data in

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// One member's part of the measurement.
class Reader {
 public:
  Reader(const std::byte* data, int64_t bytes, const std::byte* other, int64_t other_bytes)
      : data_(data), pieces_(bytes / kPieceBytes), other_(other), other_bytes_(other_bytes) {}

  // How long a piece takes from the last-level cache and from memory.
  void calibrate() {
    const int64_t few = std::min<int64_t>(pieces_, 16);
    from_cache_ = typical(few, [&] {
      for (int64_t i = 0; i < few; ++i) time_piece(i);
      sum_ += read_lines(other_, other_ + other_bytes_);
    });
    from_memory_ = typical(few, [&] { flush_lines(data_, data_ + few * kPieceBytes); });
  }

  // Reads all pieces within a period, and something else that leaves the private cache between them. The
  // share that was still there.
  double read_within(double period_ns) {
    const auto start = Clock::now();
    double kept = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < pieces_; ++i) {
      const double slower = from_memory_ - from_cache_, saved = from_memory_ - time_piece(i);
      kept += slower > 0.1 * from_cache_ ? std::clamp(saved / slower, 0.0, 1.0) : 1;
      const double due = period_ns * static_cast<double>(i + 1) / static_cast<double>(pieces_);
      while (ns_since(start) < due) {
        sum_ += read_lines(other_ + at, other_ + at + kPieceBytes);
        at = at + 2 * kPieceBytes <= other_bytes_ ? at + kPieceBytes : 0;
      }
    }
    return pieces_ > 0 ? kept / static_cast<double>(pieces_) : 1;
  }
  unsigned sum() const { return sum_; }

 private:
  double time_piece(int64_t i) {
    const auto start = Clock::now();
    sum_ += read_lines(data_ + i * kPieceBytes, data_ + (i + 1) * kPieceBytes);
    return ns_since(start);
  }
  // The median of the first pieces after `prepare`.
  template <class Prepare>
  double typical(int64_t pieces, const Prepare& prepare) {
    std::vector<double> times;
    prepare();
    for (int64_t i = 0; i < pieces; ++i) times.push_back(time_piece(i));
    return middle(std::move(times));
  }

  const std::byte* data_;
  int64_t pieces_;
  const std::byte* other_;
  int64_t other_bytes_;
  double from_cache_ = 0, from_memory_ = 0;
  unsigned sum_ = 0;
};

// What such a network may take, milliseconds: what middling layers reach, in operations a millisecond and
// thread. Twice or half as long changes the share little.
double expected_ms(double flops, DType stored, const Machine& machine) {
  const bool narrow = stored == DType::BFloat16;
  const double rate = !machine.has(CpuFeature::Avx512) ? 30e6 : !narrow ? 80e6 : machine.amx ? 300e6 : 150e6;
  return flops / rate / machine.threads;
}

double network_flops(const LayerQuery& query, SymbolValues symbols) {
  const Graph& graph = query.graph;
  for (const NodeId id : graph.order())
    assume_open_sizes(graph, graph.node(id).outputs, query.ranges, symbols);
  double flops = 0;
  for (const NodeId id : graph.order()) flops += layer_cost(graph, id, symbols).flops;
  return flops;
}

int64_t weight_elements(const Graph& graph) {
  int64_t elements = 0;
  for (const NodeId node : graph.order())
    for (const ValueId id : graph.node(node).inputs)
      if (id != kNoValue && graph.value(id).is_constant()) elements += graph.value(id).constant.size();
  return elements;
}

}  // namespace

double measure_kept_share(ThreadPool& pool, const Machine& machine, int64_t bytes, double period_ms) {
  if (bytes > machine.l3_bytes) return 0;
  const int64_t other_bytes = 3 * machine.l2_bytes, least = kLeastBytes * machine.threads;
  if (bytes < least) return 1;
  const double period_ns = 1e6 * std::min(period_ms, kLongestPeriodMs);
  HostBuffer data(static_cast<size_t>(bytes)), other(static_cast<size_t>(other_bytes * machine.threads));
  std::memset(data.data(), 1, data.bytes());
  std::memset(other.data(), 1, other.bytes());
  std::vector<double> shares(static_cast<size_t>(machine.threads), 0);
  std::atomic<int> members{0};
  std::atomic<unsigned> sums{0};
  pool.run(machine.threads, [&](const Worker& worker) {
    const Worker::Range own = worker.slice(bytes, kPieceBytes);
    Reader reader(data.begin() + own.begin, own.end - own.begin, other.begin() + other_bytes * worker.index,
                  other_bytes);
    // One after the other: in the network's rhythm pieces are seldom read at the same time.
    for (int member = 0; member < worker.count; ++member) {
      worker.barrier();
      if (worker.index == member) reader.calibrate();
    }
    worker.barrier();
    std::vector<double> kept;
    for (int period = 0; period < kPeriods; ++period) kept.push_back(reader.read_within(period_ns));
    shares[static_cast<size_t>(worker.index)] = middle({kept.begin() + 1, kept.end()});
    sums += reader.sum();
    ++members;
  });
  double sum = 0;
  for (const double share : shares) sum += share;
  return sum / members;
}

double CacheResidency::kept_share(const LayerQuery& query, DType stored, const Machine& machine) {
  if (!is_float(stored)) stored = DType::Float32;
  const int64_t elements = weight_elements(query.graph);
  const SymbolValues symbols = LayerQuery{query.graph, kNoNode, query.ranges}.opt_values();
  const Network network{elements, symbols, stored, machine.threads};
  const std::lock_guard lock(mutex_);
  if (const auto it = known_.find(network); it != known_.end()) return it->second;
  const double period_ms = expected_ms(network_flops(query, symbols), stored, machine);
  const double share = measure_kept_share(*pool_, machine, dtype_bytes(stored, elements), period_ms);
  return known_[network] = share;
}

}  // namespace lathe::cpu
