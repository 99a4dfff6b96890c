// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/device/cache_residency.h"

#include <gtest/gtest.h>

#include "backend/cpu/device/machine.h"
#include "ir/text.h"

namespace lathe::cpu {
namespace {

TEST(CacheResidency, IsAShare) {
  ThreadPool pool(2);
  Machine machine = make_machine(read_cpu_info(), std::nullopt, pool.size());
  machine.l3_bytes = 32 << 20;
  EXPECT_EQ(measure_kept_share(pool, machine, machine.l3_bytes + 1, 1), 0) << "more than the cache holds";
  EXPECT_EQ(measure_kept_share(pool, machine, 100 << 10, 1), 1) << "private caches hold that";
  for (const double period_ms : {0.0, 3.0}) {
    const double share = measure_kept_share(pool, machine, 6 << 20, period_ms);
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
  }
  // Called from inside a team it has one thread, and its whole range.
  pool.run(1, [&](const Worker&) { EXPECT_LE(measure_kept_share(pool, machine, 6 << 20, 0), 1); });
}

TEST(CacheResidency, IsMeasuredOnceForANetwork) {
  const auto pool = std::make_shared<ThreadPool>(1);
  Machine machine = make_machine(read_cpu_info(), std::nullopt, 1);
  machine.l3_bytes = 32 << 20;
  CacheResidency residency(pool);
  const SymbolRanges ranges;
  const auto network = [](const std::string& columns) {
    return parse_graph("graph \"g\" {\n  input %x: float32[8, 1024]\n  const %w: float32[1024, " + columns +
                       "] = splat 0.5\n  %y: float32[8, " + columns +
                       "] = MatMul \"product\" (%x, %w)\n  output %y\n}");
  };
  const Graph graph = network("1600"), copy = graph, large = network("9000");
  const LayerQuery query{graph, graph.order()[0], ranges};
  const double share = residency.kept_share(query, DType::Float32, machine);
  EXPECT_EQ(residency.kept_share({copy, copy.order()[0], ranges}, DType::Float32, machine), share);
  EXPECT_EQ(residency.kept_share(query, DType::Undefined, machine), share) << "a layer without operands";
  const LayerQuery too_large{large, large.order()[0], ranges};
  EXPECT_EQ(residency.kept_share(too_large, DType::Float32, machine), 0);
}

}  // namespace
}  // namespace lathe::cpu
