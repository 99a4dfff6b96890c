// SPDX-License-Identifier: Apache-2.0
//
// Compiling: kernels are made in parallel, because packing and code generation take 0.2 to 3 ms a layer and
// an engine has to load in a fraction of a second. The store of packed blocks is locked for that; its order
// does not depend on threads when it orders by key.
#include "backend/cpu/run/program.h"

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <set>

#include "backend/cpu/device/onednn.h"
#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/device/weight_memory.h"
#include "backend/cpu/run/execution.h"
#include "backend/cpu/run/split_execution.h"
#include "backend/layer_symbols.h"
#include "backend/nested_layers.h"
#include "backend/offered.h"
#include "base/error.h"
#include "ir/substitute.h"

namespace lathe::cpu {

const std::vector<TacticFamily>& families() {
  static const std::vector<TacticFamily> all = tactic_families();
  return all;
}

// Some tactics are listed only where there is a second thread to share with; they run on one, too.
void check_choice(const std::vector<Graph>& graphs, NodeId layer, const SymbolRanges& ranges,
                  const Tactic& tactic, Machine machine) {
  machine.threads = std::max(machine.threads, 2);
  lathe::check_choice(families(), graphs, layer, ranges, tactic, machine);
}

std::unique_ptr<LayerKernel> make_kernel(const LayerQuery& query, const Tactic& tactic,
                                         const Machine& machine, const PackContext& pack) {
  for (const TacticFamily& family : families())
    if (family.runner == tactic.runner)
      return with_onednn_errors([&] { return family.make(query, tactic, machine, pack); });
  throw_unknown_family(query.layer(), tactic);
}

void for_each_parallel(ThreadPool& pool, size_t count, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  const int members = static_cast<int>(std::min<size_t>(count, static_cast<size_t>(pool.size())));
  pool.run(members, [&](const Worker&) {
    const SingleThreadedOneDnn single;
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) body(i);
  });
}

CpuProgram::CpuProgram(ProgramSpec spec, const Machine& machine, std::shared_ptr<ThreadPool> pool,
                       std::shared_ptr<v1::Allocator> allocator)
    : spec_(std::move(spec)), machine_(machine), pool_(std::move(pool)), allocator_(std::move(allocator)) {
  check(spec_.choices.size() == spec_.graph->order().size(), "one choice per layer expected");
  check(spec_.memory.placements.size() >= spec_.graph->value_count(), "one placement per value expected");
  make_kernels();
  segments_ = find_segments(spec_, Cut::Around);
  count_weights();
}

void CpuProgram::make_kernels() {
  const std::vector<NodeId>& order = graph().order();
  LockedBlobStore stored(*spec_.blobs);
  WeightMemory blobs(stored, allocator_);
  layers_.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    layers_[i].nested = lathe::nested_count(graph().node(order[i]).op);
    if (i > 0) layers_[i].nested_before = layers_[i - 1].nested_before + layers_[i - 1].nested;
  }
  const SymbolRanges ranges = part_ranges(spec_.ranges, spec_.split);
  const std::vector<Graph> asked = graphs_to_ask(graph(), spec_.choices);
  for_each_parallel(*pool_, order.size(), [&](size_t i) {
    const Node& node = graph().node(order[i]);
    const Tactic& tactic = spec_.choices[i].tactic;
    layers_[i].node = order[i];
    if (bodies_of(node.op).empty()) layers_[i].symbols = symbols_of(graph(), node);
    check_choice(asked, order[i], ranges, tactic, machine_);
    if (tactic.is_view) return;
    try {
      // The position makes the key unique and orders the blocks as they are used.
      const PackContext pack{blobs, fmt::format("{:05}/{}/{}", i, node.name, tactic.name)};
      with_onednn_errors([&] {
        layers_[i].kernel = make_kernel({graph(), order[i], ranges}, tactic, machine_, pack);
      });
    } catch (Error& error) {
      error.add_context(fmt::format("making layer '{}' with {}", node.name, tactic.name));
      throw;
    } catch (const std::bad_alloc&) {
      throw_system_error(
          fmt::format("out of memory: layer '{}' with {} packs {} bytes of constants, which takes up to five "
                      "times as much",
                      node.name, tactic.name, constant_bytes(node)),
          ErrorCode::FailedAllocation);
    }
  });
  weight_bytes_ = stored.bytes() + blobs.packed_bytes();
  weights_ = blobs.take();
}

int64_t CpuProgram::constant_bytes(const Node& node) const {
  int64_t bytes = 0;
  for (const ValueId id : node.inputs)
    if (id != kNoValue && graph().value(id).is_constant()) {
      const Tensor& tensor = graph().value(id).constant;
      bytes += dtype_bytes(tensor.dtype(), tensor.size());
    }
  return bytes;
}

void CpuProgram::count_weights() {
  for (size_t v = 0; v < graph().value_count(); ++v) {
    const Value& value = graph().value(static_cast<ValueId>(v));
    if (value.is_constant() && spec_.memory.placements[v].kind == Placement::Kind::Constant)
      weight_bytes_ += static_cast<int64_t>(value.constant.bytes().size());
  }
}

std::unique_ptr<Execution> CpuProgram::create_execution() const {
  if (spec_.split.on()) return std::make_unique<SplitExecution>(shared_from_this());
  return std::make_unique<CpuExecution>(shared_from_this(), machine_.threads);
}

}  // namespace lathe::cpu
