// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_plan.h"

#include <algorithm>

#include "backend/open_size.h"
#include "memory/arena.h"
#include "memory/lifetimes.h"
#include "memory/slots.h"

namespace lathe {
namespace {

int64_t largest_bytes(const Value& value, const SymbolRanges& ranges) {
  Extents most;
  for (const Dim& d : value.shape) most.push_back(std::max<int64_t>(0, d.bounds(ranges).high));
  return storage_bytes(value.dtype, most, value.format);
}

class Planner {
 public:
  Planner(const Graph& graph, std::span<const Choice> choices, const SymbolRanges& ranges)
      : graph_(graph), choices_(choices), ranges_(ranges), views_(analyze_views(graph, choices)) {
    check(views_.conflicts.empty(),
          "values cannot be placed without copies, which the tuner should have inserted");
    plan_.placements.resize(graph.value_count());
  }

  MemoryPlan run() {
    place_bindings();
    place_constants();
    lives_ = find_lifetimes(graph_, views_);
    place_grown();
    place_arena();
    place_views();
    return std::move(plan_);
  }

 private:
  static size_t at(ValueId v) { return static_cast<size_t>(v); }
  Placement& placement(ValueId v) { return plan_.placements[at(v)]; }
  ValueId root(ValueId v) const { return views_.storage[at(v)].root; }

  void place_bindings() {
    int binding = 0;
    for (const ValueId v : graph_.inputs())
      placement(v) = {.kind = Placement::Kind::Binding, .binding = binding++};
    for (const ValueId v : graph_.outputs()) {
      if (!has_open_size(graph_.value(root(v)), ranges_))
        placement(root(v)) = {.kind = Placement::Kind::Binding, .binding = binding};
      ++binding;
    }
  }

  void place_grown() {
    const std::vector<GrownValue> grown = find_grown_values(graph_, views_, lives_, ranges_);
    const std::vector<int> slots = share_slots(grown);
    for (size_t i = 0; i < grown.size(); ++i) {
      placement(grown[i].value) = {.kind = Placement::Kind::Grown, .slot = slots[i]};
      plan_.slots = std::max(plan_.slots, slots[i] + 1);
    }
  }

  // A constant stays when a tactic reads it at run time, as an operand or through a view.
  void place_constants() {
    for (size_t i = 0; i < graph_.order().size(); ++i) {
      const Node& node = graph_.node(graph_.order()[i]);
      const Tactic& tactic = choices_[i].tactic;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const ValueId v = node.inputs[k];
        if (v == kNoValue || !graph_.value(v).is_constant()) continue;
        const bool typed = k < tactic.inputs.size() && tactic.inputs[k].dtype != DType::Undefined;
        if (typed || tactic.is_view) placement(v) = {.kind = Placement::Kind::Constant};
      }
    }
  }

  void place_arena() {
    std::vector<ArenaBlock> blocks;
    std::vector<ValueId> roots;
    for (size_t v = 0; v < lives_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (lives_[v].first < 0 || root(id) != id || plan_.placements[v].kind != Placement::Kind::None ||
          graph_.value(id).is_constant())
        continue;
      blocks.push_back({largest_bytes(graph_.value(id), ranges_), lives_[v].first, lives_[v].last});
      roots.push_back(id);
    }
    const ArenaLayout layout = lay_out_arena(blocks);
    for (size_t i = 0; i < roots.size(); ++i) {
      placement(roots[i]) = {.kind = Placement::Kind::Arena, .offset = layout.offsets[i]};
      plan_.unshared_bytes += (blocks[i].bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    }
    plan_.arena_bytes = layout.bytes;
  }

  void place_views() {
    for (size_t v = 0; v < plan_.placements.size(); ++v) {
      const Storage& storage = views_.storage[v];
      if (storage.root == static_cast<ValueId>(v)) continue;
      plan_.placements[v] = {
          .kind = Placement::Kind::View, .base = storage.root, .view_offset = storage.offset};
    }
  }

  const Graph& graph_;
  std::span<const Choice> choices_;
  const SymbolRanges& ranges_;
  const ViewAnalysis views_;
  MemoryPlan plan_;
  std::vector<Lifetime> lives_;  // by root
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, std::span<const Choice> choices, const SymbolRanges& ranges) {
  return Planner(graph, choices, ranges).run();
}

}  // namespace lathe
