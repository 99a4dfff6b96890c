// SPDX-License-Identifier: Apache-2.0
//
// A run enqueues everything on the caller's stream and returns; it waits only where shapes depend on data,
// while it records a CUDA graph, and around layers that work on the host.
#include "backend/cuda/run/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/run/device_values.h"
#include "backend/nested_layers.h"
#include "backend/sizes_from_values.h"
#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe::cuda {
namespace {

// Shapes that stay prepared. A server sees few shapes; random ones must not fill the memory.
constexpr size_t kKeptPlans = 8;

}  // namespace

CudaExecution::CudaExecution(std::shared_ptr<const CudaProgram> program)
    : program_(std::move(program)),
      grown_(*program_->device(), program_->spec().memory.slots),
      plans_(program_->segments().ranges.size()),
      updated_(plans_.size()),
      has_sizes_in_values_(plans_.size(), true) {}

CudaExecution::~CudaExecution() {
  // Memory and graphs must not go while the device still works with them.
  program_->device()->driver->cuCtxSetCurrent(program_->device()->context);
  if (has_run_) program_->device()->driver->cuCtxSynchronize();
}

void CudaExecution::set_shapes(const SymbolValues& values) {
  if (has_shapes_ && values == input_symbols_) return;
  has_shapes_ = false;
  program_->device()->make_current();
  if (!expects_arena_ && callers_arena_ == nullptr && arena_.bytes() == 0)
    arena_ = DeviceMemory(*program_->device(), static_cast<size_t>(arena_bytes()));
  input_symbols_ = values;
  symbols_ = values;
  plan_for(0);
  has_shapes_ = true;
}

void CudaExecution::expect_shapes(const SymbolValues& values) {
  if (!has_shapes_ || values == input_symbols_) return;
  program_->device()->make_current();
  const SymbolValues now = std::exchange(symbols_, values);
  try {
    plan_for(0);
  } catch (...) {
    symbols_ = now;
    throw;
  }
  symbols_ = now;
}

void CudaExecution::use_arena(void* memory) {
  if (arena_.bytes() > 0) wait_for_runs();  // the caller's memory is the caller's business
  callers_arena_ = static_cast<std::byte*>(memory);
  arena_ = DeviceMemory();
  if (memory != nullptr) return;
  expects_arena_ = false;
  has_shapes_ = false;
}

void CudaExecution::expect_arena() {
  use_arena(nullptr);
  expects_arena_ = true;
}

void CudaExecution::wait_for_runs() {
  if (!has_run_) return;
  const Driver& driver = *program_->device()->driver;
  program_->device()->make_current();
  driver.require(driver.cuCtxSynchronize(), "waiting for runs in progress");
}

ShapePlan& CudaExecution::plan_for(size_t segment) {
  const Device& device = *program_->device();
  PlanCache& cache = plans_[segment];
  const auto found =
      std::find_if(cache.begin(), cache.end(), [&](const auto& plan) { return plan->symbols() == symbols_; });
  if (found != cache.end()) {
    cache.splice(cache.begin(), cache, found);
  } else {
    const auto [first, last] = program_->segments().ranges[segment];
    auto plan = std::make_unique<ShapePlan>(*program_, first, last, symbols_,
                                            cache.empty() ? nullptr : cache.front().get());
    if (plan->scratch_bytes() > scratch_.bytes()) {
      wait_for_runs();
      // Half as much again, so that lengths that grow from run to run seldom come here.
      scratch_ = DeviceMemory(device, std::max(plan->scratch_bytes(), scratch_.bytes() * 3 / 2));
    }
    cache.push_front(std::move(plan));
    if (cache.size() > kKeptPlans) {
      retire(std::move(cache.back()));
      cache.pop_back();
    }
  }
  return *cache.front();
}

void CudaExecution::retire(std::unique_ptr<ShapePlan> plan) {
  retired_.push_back({std::move(plan), nullptr});
  if (retired_.size() <= 2 * kKeptPlans) return;  // shapes that are set and not run
  wait_for_runs();
  retired_.clear();
}

void CudaExecution::free_retired(CUstream stream) {
  for (Retired& retired : retired_) {
    if (retired.end) continue;
    if (spare_events_.empty()) spare_events_.push_back(std::make_unique<GpuEvent>(program_->device()));
    retired.end = std::move(spare_events_.back());
    spare_events_.pop_back();
    retired.end->record(stream);
  }
  while (retired_.size() > kKeptPlans) {
    retired_.front().end->synchronize();  // as many runs ago: it is done, or nearly
    spare_events_.push_back(std::move(retired_.front().end));
    retired_.pop_front();
  }
}

bool CudaExecution::is_empty(size_t segment) const {
  const auto [first, last] = program_->segments().ranges[segment];
  return first == last;
}

void CudaExecution::find_sizes(size_t segment, CUstream stream) {
  const size_t first = program_->segments().ranges[segment].first;
  const std::vector<std::string>& fresh = program_->segments().new_symbols[first];
  if (!has_sizes_in_values_[segment] || fresh.empty()) return;
  const Driver& driver = *program_->device()->driver;
  driver.require(driver.cuStreamSynchronize(stream), "waiting for the values that say a size");
  const Node& node = program_->graph().node(program_->layers()[first].node);
  has_sizes_in_values_[segment] = find_sizes_from_values(
      program_->graph(), node, fresh, [this](ValueId id) { return read(id); }, symbols_);
}

void CudaExecution::resolve_symbols(ShapePlan& plan, CUstream stream) {
  bool waited = false;
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    const size_t layer = plan.first_layer() + i;
    const std::vector<std::string>& fresh = program_->segments().new_symbols[layer];
    const Step& step = plan.steps()[i];
    const auto is_found = [&](const std::string& name) { return symbols_.contains(name); };
    if (step.prepared == nullptr || std::all_of(fresh.begin(), fresh.end(), is_found)) continue;
    const Driver& driver = *program_->device()->driver;
    if (!waited) driver.require(driver.cuStreamSynchronize(stream), "waiting for a data-dependent shape");
    waited = true;
    step.prepared->resolve(plan.args(i), symbols_);
    for (const std::string& name : fresh)
      check(symbols_.contains(name),
            fmt::format("layer '{}' did not say what '{}' is",
                        program_->graph().node(program_->layers()[layer].node).name, name));
  }
}

void CudaExecution::run_segments(std::span<void* const> bindings, CUstream stream,
                                 const std::function<void(ShapePlan&, size_t)>& run_plan) {
  check(has_shapes_, "Execution::run before set_shapes");
  const size_t expected = program_->graph().inputs().size() + program_->graph().outputs().size();
  check(bindings.size() == expected,
        fmt::format("{} bindings given, {} expected", bindings.size(), expected));
  for (size_t i = 0; i < bindings.size(); ++i)
    if (reinterpret_cast<uintptr_t>(bindings[i]) % 16 != 0)
      throw_input_error(fmt::format(
          "binding {} lies at {}, and GPU kernels need addresses that are multiples of 16", i, bindings[i]));
  program_->device()->make_current();
  has_run_ = true;
  if (!retired_.empty()) free_retired(stream);
  bindings_.assign(bindings.begin(), bindings.end());
  grown_.use(stream);
  symbols_ = input_symbols_;
  note_.clear();
  for (size_t segment = 0; segment < plans_.size(); ++segment) {
    if (is_empty(segment)) continue;
    find_sizes(segment, stream);
    ShapePlan& plan = plan_for(segment);
    plan.bind(arena(), static_cast<std::byte*>(scratch_.data()), bindings, grown_);
    run_plan(plan, segment);
    resolve_symbols(plan, stream);
  }
}

void CudaExecution::run(std::span<void* const> bindings, Stream& stream) {
  const CUstream handle = handle_of(stream);
  run_segments(bindings, handle,
               [&](ShapePlan& plan, size_t segment) { plan.run(handle, updated_[segment]); });
}

std::string CudaExecution::launch_note() const {
  if (!note_.empty()) return note_;
  std::vector<std::string> notes;  // each once
  size_t parts = 0;
  for (const PlanCache& cache : plans_) {
    if (cache.empty() || cache.front()->note().empty()) continue;
    ++parts;
    if (std::find(notes.begin(), notes.end(), cache.front()->note()) == notes.end())
      notes.push_back(cache.front()->note());
  }
  if (parts <= 1) return notes.empty() ? std::string() : notes[0];
  return fmt::format("launched in {} parts, because each needs sizes that the one in front finds: {}", parts,
                     fmt::join(notes, "; "));
}

void CudaExecution::run_profiled(std::span<void* const> bindings, Stream& stream, std::span<double> time_ms) {
  const std::vector<NodeId>& order = program_->graph().order();
  std::span<double> nested = time_ms.subspan(std::min(order.size(), time_ms.size()));
  check(
      time_ms.size() >= order.size() && (nested.empty() || time_ms.size() == timed_count(program_->graph())),
      "run_profiled: one time for each layer expected");
  const CUstream handle = handle_of(stream);
  while (marks_.size() <= order.size()) marks_.push_back(std::make_unique<GpuEvent>(program_->device()));
  run_segments(bindings, handle, [&](ShapePlan& plan, size_t) {
    const size_t first = plan.first_layer(), count = plan.steps().size();
    for (size_t i = 0; i < count; ++i) {
      marks_[i]->record(handle);
      const auto own =
          nested.empty() ? nested : nested.first(nested_count(program_->graph().node(order[first + i]).op));
      nested = nested.subspan(own.size());
      plan.enqueue_step(i, handle, own);
    }
    marks_[count]->record(handle);
    marks_[count]->synchronize();
    for (size_t i = 0; i < count; ++i)
      time_ms[first + i] = plan.steps()[i].prepared == nullptr ? 0 : marks_[i + 1]->elapsed_ms(*marks_[i]);
  });
  note_ = "launched layer by layer, with events between the layers";
}

void CudaExecution::run_observed(std::span<void* const> bindings, Stream& stream, const LayerHook& hook) {
  const CUstream handle = handle_of(stream);
  run_segments(bindings, handle, [&](ShapePlan& plan, size_t) {
    for (size_t i = 0; i < plan.steps().size(); ++i) {
      if (hook.before) hook.before(plan.first_layer() + i);
      plan.enqueue_step(i, handle);
      stream.synchronize();
      if (i + 1 == plan.steps().size()) resolve_symbols(plan, handle);
      if (hook.after) hook.after(plan.first_layer() + i);
    }
  });
}

Tensor CudaExecution::read(ValueId id) {
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
    data = program_->constant(address.constant) + address.offset;
  if (address.space == ValueAddress::Space::Slot)
    data = grown_.addresses()[static_cast<size_t>(address.slot)] + address.offset;
  check(data != nullptr, fmt::format("value '{}' is not stored", value.name));
  const Tensor linear =
      copy_to_host(*program_->device()->driver, {value.dtype, value.format}, extents(id), data);
  return value.is_stored_quantized() ? dequantize(linear, *value.quantization) : linear;
}

Extents CudaExecution::extents(ValueId id) const {
  return upper_extents(program_->graph().value(id).shape, symbols_);
}

int64_t CudaExecution::device_bytes() const {
  return (callers_arena_ != nullptr || expects_arena_ ? 0 : arena_bytes()) +
         static_cast<int64_t>(scratch_.bytes() + grown_.bytes());
}

const void* CudaExecution::held_output(size_t index) const {
  const ValueAddress address = value_address(program_->spec(), program_->graph().outputs()[index], symbols_);
  if (address.space != ValueAddress::Space::Slot) return nullptr;
  return grown_.addresses()[static_cast<size_t>(address.slot)];
}

}  // namespace lathe::cuda
