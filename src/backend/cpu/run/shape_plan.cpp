// SPDX-License-Identifier: Apache-2.0
//
// Groups: the team shares out the pieces of layers without meeting, as long as no layer touches memory that
// another thread may still be using. Since the last meeting we keep which bytes were read and written; a
// layer that would write what was read or written, or read what was written, begins a new group. Two layers
// of one piece never do: one thread runs them.
#include "backend/cpu/run/shape_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/run/reference.h"
#include "backend/no_elements.h"
#include "backend/plan_steps.h"
#include "backend/shape_check.h"
#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

// Bytes that a layer touches, in one of the address spaces.
struct Region {
  int space = 0;  // -1: scratch, 0: arena, 1..: bindings, -2 and below: slots
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
  else if (address.space == ValueAddress::Space::Slot)
    regions.push_back({-2 - address.slot, address.offset, address.offset + bytes});
}

constexpr int64_t kOpenBytes = int64_t{1} << 60;  // of a result that lies alone in its memory

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ShapePlan::ShapePlan(const CpuProgram& program, size_t first, size_t last, const SymbolValues& symbols,
                     int threads, const Appended& appended, const ShapePlan* like)
    : program_(program),
      threads_(threads),
      first_(first),
      symbols_(symbols),
      steps_(last - first),
      operands_(last - first) {
  std::vector<size_t> fresh;
  ShapeCheck shapes(program.spec(), symbols, LateSpread::PointwiseLayers);
  share_steps(
      program, first, steps_.size(), symbols, like,
      [&](size_t begin, size_t end) {
        shapes.check(first + begin, first + end);
        for (size_t i = begin; i < end; ++i) fresh.push_back(i);
      },
      [&](size_t i) { steps_[i] = like->steps_[i]; });
  const auto prepare = [&](size_t k) {
    const size_t i = fresh[k];
    try {
      with_onednn_errors([&] { prepare_step(i, appended); });
    } catch (Error& error) {
      error.add_context(fmt::format("preparing layer '{}'",
                                    program_.graph().node(program_.layers()[first_ + i].node).name));
      throw;
    }
  };
  if (!fresh.empty()) for_each_parallel(program.pool(), fresh.size(), prepare);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].prepared == nullptr) continue;
    operands_.place(i, program_.graph().node(program_.layers()[first_ + i].node), program_.spec(), symbols_,
                    [&](ValueId id) { return program_.graph().value(id).constant.bytes().data(); });
    scratch_bytes_ = std::max(scratch_bytes_, steps_[i].prepared->scratch_bytes());
    team_ = std::max(team_, steps_[i].members);
  }
  find_groups();
  grown_results_ = GrownResults(program.spec(), first, steps_.size(), symbols,
                                [this](size_t step, ValueId id) { return finds_size_at(step, id); });
}

bool ShapePlan::finds_size_at(size_t step, ValueId result) const {
  return finds_size(program_, steps_[step].prepared.get(), result, symbols_);
}

void ShapePlan::bind(std::byte* arena, std::span<void* const> bindings, GrownMemory& grown) {
  grown_ = &grown;
  grown_results_.reserve(grown);
  operands_.bind(arena, bindings, grown.addresses());
}

void ShapePlan::prepare_step(size_t index, const Appended& appended) {
  const ProgramLayer& layer = program_.layers()[first_ + index];
  if (layer.kernel == nullptr || appended.is_needless(first_ + index)) return;
  const Graph& graph = program_.graph();
  const Node& node = graph.node(layer.node);
  const ShapeContext context{.symbols = symbols_,
                             .inputs = upper_extents(graph, node.inputs, symbols_),
                             .outputs = upper_extents(graph, node.outputs, symbols_),
                             .threads = threads_,
                             .input_rooms = appended.rooms_of(node.inputs),
                             .output_rooms = appended.rooms_of(node.outputs)};
  if (!has_work(program_, first_ + index, context.outputs)) return;
  Step& step = steps_[index];
  step.prepared = makes_elements_of_none(node, context.inputs, context.outputs)
                      ? make_reference({graph, layer.node, program_.spec().ranges},
                                       program_.spec().choices[first_ + index].tactic)
                            ->prepare(context)
                      : layer.kernel->prepare(context);
  step.members = std::clamp(step.prepared->members(threads_), 1, threads_);
}

void ShapePlan::find_groups() {
  std::vector<Access> alone, divided;  // since the last barrier, by whether one member did it
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (step.prepared == nullptr) continue;
    const Node& node = program_.graph().node(program_.layers()[first_ + i].node);
    Access access{.members = step.members};
    const auto add = [&](ValueId id, std::vector<Region>& regions) {
      if (id == kNoValue) return;
      const Value& value = program_.graph().value(id);
      const ValueAddress address = value_address(program_.spec(), id, symbols_);
      add_region(regions, address, finds_size_at(i, id) ? kOpenBytes : stored_bytes(value, symbols_));
    };
    for (const ValueId id : node.inputs) add(id, access.reads);
    for (const ValueId id : node.outputs) add(id, access.writes);
    if (step.prepared->scratch_bytes() > 0) access.writes.push_back({-1, 0, 1});
    const bool meets = step.prepared->meets(step.members);
    const auto conflicts = [&](const std::vector<Access>& since) {
      return std::any_of(since.begin(), since.end(),
                         [&](const Access& earlier) { return must_meet(earlier, access); });
    };
    // Two that one member did never conflict, so a long chain of small layers compares nothing.
    if (groups_.empty() || meets || groups_.back().meets || conflicts(divided) ||
        (step.members > 1 && conflicts(alone))) {
      alone.clear();
      divided.clear();
      groups_.push_back({.begin = i, .meets = meets});
    }
    groups_.back().end = i + 1;
    groups_.back().pieces = std::max(groups_.back().pieces, step.members);
    (step.members > 1 ? divided : alone).push_back(std::move(access));
  }
}

void ShapePlan::run_step(size_t index, const Worker& worker, std::byte* scratch,
                         std::span<double> nested_ms) const {
  const Step& step = steps_[index];
  if (step.prepared == nullptr || worker.piece >= step.members) return;
  // Fewer pieces than the team has members: each is done in one go, in a place of scratch that is the
  // piece's.
  const bool all = step.members >= worker.count;
  if (!all && worker.portion > 0) return;
  LayerArgs operands = args(index, scratch);
  operands.nested_ms = nested_ms;
  std::optional<TakenResults> results;
  if (grown_results_.takes_any()) operands.results = &results.emplace(*grown_, grown_results_, index);
  try {
    step.prepared->run(operands, all ? worker : Worker{worker.piece, step.members});
  } catch (Error& error) {
    error.add_context(
        fmt::format("in layer '{}'", program_.graph().node(program_.layers()[first_ + index].node).name));
    throw;
  }
}

void ShapePlan::walk(const Worker& worker, std::byte* scratch) const {
  for (const StepGroup& group : groups_) run_group(group, worker, scratch);
}

void ShapePlan::run_group(const StepGroup& group, const Worker& worker, std::byte* scratch,
                          std::span<double> nested_ms) const {
  if (group.meets && worker.count > 1) return run_step(group.begin, worker, scratch, nested_ms);
  worker.share(std::min(group.pieces, worker.count), [&](const Worker& part) {
    for (size_t i = group.begin; i < group.end; ++i) run_step(i, part, scratch, nested_ms);
  });
}

void ShapePlan::walk_timed(const Worker& worker, std::byte* scratch, std::span<double> time_ms) const {
  const std::span<double> nested_ms = time_ms.subspan(steps_.size());
  const auto& layers = program_.layers();
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].prepared == nullptr) {
      if (worker.index == 0) time_ms[i] = 0;
      continue;
    }
    const double start = worker.index == 0 ? now_ms() : 0;  // all have done the layer before
    const int members = steps_[i].members;
    const ProgramLayer& layer = layers[first_ + i];
    const size_t place = layer.nested_before - layers[first_].nested_before;
    run_group({i, i + 1, members, steps_[i].prepared->meets(members)}, worker, scratch,
              nested_ms.empty() ? nested_ms : nested_ms.subspan(place, layer.nested));
    if (worker.index == 0) time_ms[i] = now_ms() - start;
  }
}

}  // namespace lathe::cpu
