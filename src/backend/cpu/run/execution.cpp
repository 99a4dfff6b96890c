// SPDX-License-Identifier: Apache-2.0
//
// A run is one visit of the team: all members walk the same list of layers (shape_plan.cpp), so an inference
// wakes the pool once. Where shapes depend on data the list ends, the caller reads the new dims, and the rest
// is prepared and walked.
#include "backend/cpu/run/execution.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/device/onednn.h"
#include "backend/sizes_from_values.h"
#include "backend/storage_layout.h"
#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

// Shapes that stay prepared. A server sees few shapes; random ones must not fill the memory.
constexpr size_t kKeptPlans = 8;

}  // namespace

CpuExecution::CpuExecution(std::shared_ptr<const CpuProgram> program, int threads)
    : program_(std::move(program)),
      threads_(threads),
      grown_(program_->spec().memory.slots, program_->allocator()),
      plans_(program_->segments().ranges.size()),
      has_sizes_in_values_(plans_.size(), true) {}

void CpuExecution::set_shapes(const SymbolValues& values) {
  if (has_shapes_ && values == input_symbols_) return;
  has_shapes_ = false;
  if (!expects_arena_ && callers_arena_ == nullptr && arena_.begin() == nullptr)
    arena_ =
        HostBuffer(static_cast<size_t>(arena_bytes()), "the activations of a context", program_->allocator());
  input_symbols_ = values;
  symbols_ = values;
  plan_for(0);
  has_shapes_ = true;
}

void CpuExecution::use_arena(void* memory) {
  callers_arena_ = static_cast<std::byte*>(memory);
  arena_ = HostBuffer();
  if (memory != nullptr) return;
  expects_arena_ = false;
  has_shapes_ = false;
}

void CpuExecution::expect_arena() {
  use_arena(nullptr);
  expects_arena_ = true;
}

ShapePlan& CpuExecution::plan_for(size_t segment) {
  PlanCache& cache = plans_[segment];
  const auto found =
      std::find_if(cache.begin(), cache.end(), [&](const auto& plan) { return plan->symbols() == symbols_; });
  if (found != cache.end()) {
    cache.splice(cache.begin(), cache, found);
  } else {
    const auto [first, last] = program_->segments().ranges[segment];
    const ShapePlan* latest = cache.empty() ? nullptr : cache.front().get();
    cache.push_front(
        std::make_unique<ShapePlan>(*program_, first, last, symbols_, threads_, appended_, latest));
    if (cache.size() > kKeptPlans) cache.pop_back();
  }
  ShapePlan& plan = *cache.front();
  if (plan.scratch_bytes() > scratch_.bytes())
    scratch_ = HostBuffer(plan.scratch_bytes(), "the scratch memory of a context", program_->allocator());
  return plan;
}

AppendForm CpuExecution::append_form(size_t input, size_t output) const {
  return cpu::append_form(*program_, input, output);
}

void CpuExecution::append_in_place(const std::vector<Append>& appends) {
  appended_ = find_appended(*program_, appends);
  for (PlanCache& cache : plans_) cache.clear();
  has_shapes_ = false;
}

bool CpuExecution::is_empty(size_t segment) const {
  const auto [first, last] = program_->segments().ranges[segment];
  return first == last;
}

void CpuExecution::find_sizes(size_t segment) {
  const size_t first = program_->segments().ranges[segment].first;
  if (!has_sizes_in_values_[segment]) return;
  const std::vector<std::string>& fresh = program_->segments().new_symbols[first];
  if (fresh.empty()) return;
  const Node& node = program_->graph().node(program_->layers()[first].node);
  has_sizes_in_values_[segment] = find_sizes_from_values(
      program_->graph(), node, fresh, [this](ValueId id) { return read(id); }, symbols_);
}

void CpuExecution::resolve_symbols(ShapePlan& plan) {
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    const size_t layer = plan.first_layer() + i;
    const std::vector<std::string>& fresh = program_->segments().new_symbols[layer];
    const Step& step = plan.steps()[i];
    if (fresh.empty() || step.prepared == nullptr) continue;
    step.prepared->resolve(plan.args(i, scratch_.begin()), symbols_);
    for (const std::string& name : fresh)
      check(symbols_.contains(name),
            fmt::format("layer '{}' did not say what '{}' is",
                        program_->graph().node(program_->layers()[layer].node).name, name));
  }
}

void CpuExecution::run_segments(std::span<void* const> bindings,
                                const std::function<void(ShapePlan&)>& run_plan) {
  check(has_shapes_, "Execution::run before set_shapes");
  const size_t expected = program_->graph().inputs().size() + program_->graph().outputs().size();
  check(bindings.size() == expected,
        fmt::format("{} bindings given, {} expected", bindings.size(), expected));
  bindings_.assign(bindings.begin(), bindings.end());
  symbols_ = input_symbols_;
  for (size_t segment = 0; segment < plans_.size(); ++segment) {
    if (is_empty(segment)) continue;
    find_sizes(segment);
    ShapePlan& plan = plan_for(segment);
    plan.bind(arena(), bindings, grown_);
    run_plan(plan);
    resolve_symbols(plan);
  }
}

void CpuExecution::run(std::span<void* const> bindings, Stream&) {
  run_segments(bindings, [this](ShapePlan& plan) {
    program_->pool().run(plan.team(), [this, &plan](const Worker& worker) {
      const SingleThreadedOneDnn single;
      plan.walk(worker, scratch_.begin());
    });
  });
}

void CpuExecution::run_profiled(std::span<void* const> bindings, Stream&, std::span<double> time_ms) {
  const std::vector<ProgramLayer>& layers = program_->layers();
  const std::span<double> nested = time_ms.subspan(std::min(layers.size(), time_ms.size()));
  check(time_ms.size() >= layers.size() && (nested.empty() || nested.size() == program_->nested_count()),
        "run_profiled: one time for each layer expected");
  run_segments(bindings, [&](ShapePlan& plan) {
    const size_t first = plan.first_layer(), count = plan.steps().size();
    const size_t nested_first = layers[first].nested_before;
    const ProgramLayer& last = layers[first + count - 1];
    const size_t nested_count = nested.empty() ? 0 : last.nested_before + last.nested - nested_first;
    std::vector<double> times(count + nested_count, 0.0);
    program_->pool().run(plan.team(), [&](const Worker& worker) {
      const SingleThreadedOneDnn single;
      plan.walk_timed(worker, scratch_.begin(), times);
    });
    const auto behind = times.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(times.begin(), behind, time_ms.begin() + static_cast<std::ptrdiff_t>(first));
    if (nested_count > 0)
      std::copy(behind, times.end(), nested.begin() + static_cast<std::ptrdiff_t>(nested_first));
  });
}

void CpuExecution::run_observed(std::span<void* const> bindings, Stream&, const LayerHook& hook) {
  run_segments(bindings, [&](ShapePlan& plan) {
    for (size_t i = 0; i < plan.steps().size(); ++i) {
      if (hook.before) hook.before(plan.first_layer() + i);
      program_->pool().run(plan.steps()[i].members, [&](const Worker& worker) {
        const SingleThreadedOneDnn single;
        plan.run_step(i, worker, scratch_.begin());
      });
      if (i + 1 == plan.steps().size()) resolve_symbols(plan);
      if (hook.after) hook.after(plan.first_layer() + i);
    }
  });
}

void CpuExecution::bind(std::span<void* const> bindings) {
  check(plans_.size() == 1, "shapes depend on data: no walk layer by layer");
  run_segments(bindings, [](ShapePlan&) {});
}

void CpuExecution::run_layer(size_t layer) {
  ShapePlan& plan = plan_for(0);
  program_->pool().run(plan.steps()[layer].members, [&](const Worker& worker) {
    const SingleThreadedOneDnn single;
    plan.run_step(layer, worker, scratch_.begin());
  });
}

Tensor CpuExecution::read(ValueId id) {
  const Value& value = program_->graph().value(id);
  if (value.is_constant()) return value.constant;
  if (element_count(extents(id)) == 0)
    return Tensor::allocate(value.number_type(), extents(id));  // lies nowhere
  const ValueAddress address = value_address(program_->spec(), id, symbols_);
  const std::byte* data = nullptr;
  if (address.space == ValueAddress::Space::Arena) data = arena() + address.offset;
  if (address.space == ValueAddress::Space::Binding)
    data = static_cast<const std::byte*>(bindings_[static_cast<size_t>(address.binding)]) + address.offset;
  if (address.space == ValueAddress::Space::Constant)
    data = program_->graph().value(address.constant).constant.bytes().data() + address.offset;
  if (address.space == ValueAddress::Space::Slot)
    data = grown_.addresses()[static_cast<size_t>(address.slot)] + address.offset;
  check(data != nullptr, fmt::format("value '{}' is not stored", value.name));
  if (const Room room = appended_.room(id); room.rows > 0)
    return gather_rows(value.dtype, extents(id), room, data);
  const Tensor stored = to_linear({value.dtype, value.format}, extents(id), data);
  return value.is_stored_quantized() ? dequantize(stored, *value.quantization) : stored;
}

Extents CpuExecution::extents(ValueId id) const {
  return upper_extents(program_->graph().value(id).shape, symbols_);
}

const void* CpuExecution::held_output(size_t index) const {
  const ValueAddress address = value_address(program_->spec(), program_->graph().outputs()[index], symbols_);
  if (address.space != ValueAddress::Space::Slot) return nullptr;
  return grown_.addresses()[static_cast<size_t>(address.slot)];
}

int64_t CpuExecution::device_bytes() const {
  const int64_t arena = callers_arena_ != nullptr || expects_arena_ ? 0 : arena_bytes();
  return arena + static_cast<int64_t>(scratch_.bytes() + grown_.bytes());
}

// Layers behind data-dependent dims are prepared while they run: of those nothing is known before.
std::vector<int64_t> CpuExecution::layer_scratch_bytes() const {
  std::vector<int64_t> bytes(program_->layers().size(), 0);
  for (const PlanCache& cache : plans_) {
    if (cache.empty()) continue;
    ShapePlan& plan = *cache.front();
    for (size_t i = 0; i < plan.steps().size(); ++i)
      if (const auto& layer = plan.steps()[i].prepared)
        bytes[plan.first_layer() + i] = static_cast<int64_t>(layer->scratch_bytes());
  }
  return bytes;
}

}  // namespace lathe::cpu
