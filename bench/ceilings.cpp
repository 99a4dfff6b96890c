// SPDX-License-Identifier: Apache-2.0
//
// Best of many short runs, all threads at once: noise only ever takes away. A run is long against the meeting
// of the team and short against a time slice.
#include "ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "backend/cpu/device/machine.h"
#include "ceiling_kernels.h"

namespace lathe::bench {
namespace {

constexpr int kRuns = 60;

// Units per nanosecond, so that operations become GFLOP/s and bytes GB/s. `body` returns the units of one
// member.
double best_rate(ThreadPool& pool, int runs, const std::function<double(int member)>& body) {
  double best = 0;
  std::vector<double> units(static_cast<size_t>(pool.size()));
  for (int i = 0; i < runs; ++i) {
    double nanoseconds = 0;
    pool.run(pool.size(), [&](const Worker& worker) {
      worker.barrier();
      const auto start = std::chrono::steady_clock::now();
      units[static_cast<size_t>(worker.index)] = body(worker.index);
      worker.barrier();
      if (worker.index == 0)
        nanoseconds =
            std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    });
    double sum = 0;
    for (const double u : units) sum += u;
    best = std::max(best, sum / nanoseconds);
  }
  return best;
}

double copy_rate(ThreadPool& pool, size_t bytes_each, int runs, int repeats) {
  std::vector<std::vector<char>> from(static_cast<size_t>(pool.size())), to(from.size());
  return best_rate(pool, runs, [&](int member) {
    auto &source = from[static_cast<size_t>(member)], &target = to[static_cast<size_t>(member)];
    if (source.empty()) {  // the thread that uses it touches it first
      source.assign(bytes_each, 1);
      target.assign(bytes_each, 2);
    }
    for (int i = 0; i < repeats; ++i) std::memcpy(target.data(), source.data(), bytes_each);
    return 2.0 * static_cast<double>(bytes_each) * repeats;
  });
}

double read_rate(ThreadPool& pool, size_t bytes_each, int runs) {
  std::vector<std::vector<char>> from(static_cast<size_t>(pool.size()));
  return best_rate(pool, runs, [&](int member) {
    auto& source = from[static_cast<size_t>(member)];
    if (source.empty()) source.assign(bytes_each, 1);
    return load_lines_avx2(source.data(), static_cast<int64_t>(source.size()));
  });
}

}  // namespace

Ceilings measure_ceilings(ThreadPool& pool) {
  const cpu::Machine machine = cpu::make_machine(cpu::read_cpu_info(), {}, pool.size());
  Ceilings c;
  c.isa = cpu::isa_name(machine.isa());
  const bool wide = machine.has(CpuFeature::Avx512);
  c.f32_gflops = best_rate(
      pool, kRuns, [&](int) { return wide ? multiply_add_avx512(100000) : multiply_add_avx2(100000); });
  if (machine.amx)
    c.bf16_gflops = best_rate(pool, kRuns, [](int) { return dot_bf16_amx(20000); });
  else if (machine.has(CpuFeature::Bf16))
    c.bf16_gflops = best_rate(pool, kRuns, [](int) { return dot_bf16_avx512(100000); });
  c.cache_copy_gbs = copy_rate(pool, static_cast<size_t>(machine.l2_bytes / 4), kRuns, 20);
  c.memory_copy_gbs = copy_rate(pool, static_cast<size_t>(2 * machine.l3_bytes), 8, 1);
  c.memory_read_gbs = read_rate(pool, static_cast<size_t>(4 * machine.l3_bytes), 12);
  return c;
}

}  // namespace lathe::bench
