// SPDX-License-Identifier: Apache-2.0
//
// Barriers: layers are walked by the whole team without meeting, as long as no layer touches memory that another member
// may still be using. Since the last meeting we keep which bytes were read and written; a layer that would write what was
// read or written, or read what was written, meets first. Two layers that only member 0 works on never need to.
#include "backend/cpu/shape_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "backend/symbol_extents.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

// Bytes that a layer touches, in one of the address spaces.
struct Region {
  int space = 0;  // -1: scratch, 0: arena, 1..: bindings
  int64_t begin = 0, end = 0;
};

bool overlap(const std::vector<Region>& a, const std::vector<Region>& b) {
  for (const Region& x : a)
    for (const Region& y : b)
      if (x.space == y.space && x.begin < y.end && y.begin < x.end) return true;
  return false;
}

struct Access {
  std::vector<Region> reads, writes;
  int members = 1;
};

bool must_meet(const Access& earlier, const Access& later) {
  if (earlier.members == 1 && later.members == 1) return false;
  return overlap(earlier.writes, later.reads) || overlap(earlier.writes, later.writes) ||
         overlap(earlier.reads, later.writes);
}

void add_region(std::vector<Region>& regions, const ValueAddress& address, int64_t bytes) {
  if (address.space == ValueAddress::Space::Arena)
    regions.push_back({0, address.offset, address.offset + bytes});
  else if (address.space == ValueAddress::Space::Binding)
    regions.push_back({1 + address.binding, address.offset, address.offset + bytes});
}

int64_t stored_bytes(const Value& value, const SymbolValues& symbols) {
  return storage_bytes(value.dtype, upper_extents(value.shape, symbols), value.format);
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ValueAddress value_address(const CpuProgram& program, ValueId id, const SymbolValues& symbols) {
  using Space = ValueAddress::Space;
  const auto& placements = program.spec().memory.placements;
  const Placement* placement = &placements[static_cast<size_t>(id)];
  int64_t offset = 0;
  if (placement->kind == Placement::Kind::View) {
    offset = placement->view_offset.evaluate(symbols);
    id = placement->base;
    placement = &placements[static_cast<size_t>(id)];
  }
  switch (placement->kind) {
    case Placement::Kind::Arena:
      return {Space::Arena, -1, placement->offset + offset, nullptr};
    case Placement::Kind::Binding:
      return {Space::Binding, placement->binding, placement->offset + offset, nullptr};
    case Placement::Kind::Constant:
      return {Space::Constant, -1, 0, program.graph().value(id).constant.bytes().data() + offset};
    default:
      return {};
  }
}

ShapePlan::ShapePlan(const CpuProgram& program, size_t first, size_t last, const SymbolValues& symbols)
    : program_(program), first_(first), symbols_(symbols), steps_(last - first) {
  for_each_parallel(program.pool(), steps_.size(), [&](size_t i) {
    try {
      prepare_step(i);
    } catch (Error& error) {
      error.add_context(fmt::format("preparing layer '{}'",
                                    program_.graph().node(program_.layers()[first_ + i].node).name));
      throw;
    }
  });
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].prepared == nullptr) continue;
    place_operands(i);
    scratch_bytes_ = std::max(scratch_bytes_, steps_[i].prepared->scratch_bytes());
    team_ = std::max(team_, steps_[i].members);
  }
  place_barriers();
}

void ShapePlan::prepare_step(size_t index) {
  const ProgramLayer& layer = program_.layers()[first_ + index];
  if (layer.kernel == nullptr) return;
  const Graph& graph = program_.graph();
  const Node& node = graph.node(layer.node);
  ShapeContext context{.symbols = symbols_, .threads = program_.machine().threads};
  const auto extents = [&](ValueId id) {
    return id == kNoValue ? Extents{} : upper_extents(graph.value(id).shape, symbols_);
  };
  for (const ValueId id : node.inputs) context.inputs.push_back(extents(id));
  bool has_elements = false;
  for (const ValueId id : node.outputs) {
    context.outputs.push_back(extents(id));
    if (id != kNoValue && element_count(context.outputs.back()) > 0) has_elements = true;
  }
  if (!has_elements && layer.new_symbols.empty()) return;
  Step& step = steps_[index];
  step.prepared = layer.kernel->prepare(context);
  step.members =
      std::clamp(step.prepared->members(program_.machine().threads), 1, program_.machine().threads);
}

void ShapePlan::place_operands(size_t index) {
  const Node& node = program_.graph().node(program_.layers()[first_ + index].node);
  Step& step = steps_[index];
  step.inputs.assign(node.inputs.size(), nullptr);
  step.outputs.assign(node.outputs.size(), nullptr);
  const auto place = [&](ValueId id, size_t slot, bool output) {
    if (id == kNoValue) return;
    const ValueAddress address = value_address(program_, id, symbols_);
    switch (address.space) {
      case ValueAddress::Space::None:
        return;
      case ValueAddress::Space::Constant:
        step.inputs[slot] = address.constant;
        return;
      case ValueAddress::Space::Arena:
        patches_.push_back({index, slot, output, -1, address.offset});
        return;
      case ValueAddress::Space::Binding:
        patches_.push_back({index, slot, output, address.binding, address.offset});
        return;
    }
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) place(node.inputs[i], i, false);
  for (size_t i = 0; i < node.outputs.size(); ++i) place(node.outputs[i], i, true);
}

void ShapePlan::place_barriers() {
  std::vector<Access> since;
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (step.prepared == nullptr) continue;
    const Node& node = program_.graph().node(program_.layers()[first_ + i].node);
    Access access{.members = step.members};
    const auto add = [&](ValueId id, std::vector<Region>& regions) {
      if (id == kNoValue) return;
      const Value& value = program_.graph().value(id);
      add_region(regions, value_address(program_, id, symbols_), stored_bytes(value, symbols_));
    };
    for (const ValueId id : node.inputs) add(id, access.reads);
    for (const ValueId id : node.outputs) add(id, access.writes);
    if (step.prepared->scratch_bytes() > 0) access.writes.push_back({-1, 0, 1});
    step.barrier_before = std::any_of(since.begin(), since.end(),
                                      [&](const Access& earlier) { return must_meet(earlier, access); });
    if (step.barrier_before) since.clear();
    since.push_back(std::move(access));
  }
}

void ShapePlan::bind(std::byte* arena, std::span<void* const> bindings) {
  if (arena == bound_arena_ && std::equal(bindings.begin(), bindings.end(), bound_.begin(), bound_.end()))
    return;
  for (const Patch& patch : patches_) {
    std::byte* base =
        patch.binding < 0 ? arena : static_cast<std::byte*>(bindings[static_cast<size_t>(patch.binding)]);
    Step& step = steps_[patch.step];
    if (patch.output)
      step.outputs[patch.slot] = base + patch.offset;
    else
      step.inputs[patch.slot] = base + patch.offset;
  }
  bound_arena_ = arena;
  bound_.assign(bindings.begin(), bindings.end());
}

void ShapePlan::run_step(size_t index, const Worker& worker, std::byte* scratch) const {
  const Step& step = steps_[index];
  if (step.prepared == nullptr || worker.index >= step.members) return;
  const int count = std::min(step.members, worker.count);
  const LayerArgs args{step.inputs, step.outputs, scratch};
  try {
    step.prepared->run(args, Worker{worker.index, count, count == worker.count ? worker.barrier_ : nullptr});
  } catch (Error& error) {
    error.add_context(
        fmt::format("in layer '{}'", program_.graph().node(program_.layers()[first_ + index].node).name));
    throw;
  }
}

void ShapePlan::walk(const Worker& worker, std::byte* scratch) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].barrier_before) worker.barrier();
    run_step(i, worker, scratch);
  }
}

void ShapePlan::walk_timed(const Worker& worker, std::byte* scratch, std::span<double> time_ms) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].prepared == nullptr) {
      if (worker.index == 0) time_ms[i] = 0;
      continue;
    }
    worker.barrier();
    const double start = worker.index == 0 ? now_ms() : 0;
    run_step(i, worker, scratch);
    worker.barrier();
    if (worker.index == 0) time_ms[i] = now_ms() - start;
  }
}

}  // namespace lathe::cpu
