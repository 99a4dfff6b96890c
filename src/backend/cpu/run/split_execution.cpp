// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/run/split_execution.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {

SplitExecution::SplitExecution(std::shared_ptr<const CpuProgram> program) : program_(std::move(program)) {
  check(program_->segments().ranges.size() == 1, "a batch is split although shapes depend on data");
  for (int i = 0; i < program_->machine().threads; ++i)
    members_.push_back(std::make_unique<CpuExecution>(program_, 1));
}

bool SplitExecution::is_split(ValueId id) const {
  const Shape& shape = program_->graph().value(id).shape;
  return !shape.empty() && shape[0] == Dim::symbol(split().symbol);
}

int64_t SplitExecution::part_items() const {
  const int64_t team = program_->machine().threads * split().part;
  const int64_t rounds = std::max<int64_t>(1, (batch() + team - 1) / team),
                parts = rounds * program_->machine().threads;
  return std::max<int64_t>(1, (batch() + parts - 1) / parts);
}

SymbolValues SplitExecution::symbols_of_part(int64_t part) const {
  SymbolValues symbols = symbols_;
  symbols[split().symbol] = std::min(part_items(), batch() - part * part_items());
  return symbols;
}

void SplitExecution::set_shapes(const SymbolValues& values) {
  if (values == symbols_) return;
  symbols_ = values;
  SymbolValues one = values;
  one[split().symbol] = 1;
  item_bytes_.clear();
  const auto add = [&](ValueId id) {
    const Value& value = program_->graph().value(id);
    item_bytes_.push_back(
        is_split(id) ? storage_bytes(value.dtype, upper_extents(value.shape, one), value.format) : 0);
  };
  for (const ValueId id : program_->graph().inputs()) add(id);
  const auto first_output = static_cast<std::ptrdiff_t>(item_bytes_.size());
  for (const ValueId id : program_->graph().outputs()) add(id);
  has_results_ = std::any_of(item_bytes_.begin() + first_output, item_bytes_.end(),
                             [](int64_t bytes) { return bytes > 0; });
  if (part_count() == 0) return;
  if (by_team() && team_ == nullptr) {
    team_ = std::make_unique<CpuExecution>(program_, program_->machine().threads);
    team_->use_arena(callers_arena_);
    if (expects_arena_) team_->expect_arena();
  }
  // The last part may be smaller; the first is prepared last, so that it is the one at hand.
  for (const int64_t part : {part_count() - 1, int64_t{0}}) {
    if (by_team()) team_->set_shapes(symbols_of_part(part));
    for (size_t i = 0; i < members_.size() && !by_team(); ++i) members_[i]->set_shapes(symbols_of_part(part));
  }
}

std::vector<void*> SplitExecution::bindings_of_part(std::span<void* const> bindings, int64_t part) const {
  std::vector<void*> result;
  result.reserve(bindings.size());
  for (size_t i = 0; i < bindings.size(); ++i)
    result.push_back(static_cast<std::byte*>(bindings[i]) + part * part_items() * item_bytes_[i]);
  return result;
}

template <class Body>
void SplitExecution::for_each_part(std::span<void* const> bindings, const Body& body) {
  check(!symbols_.empty(), "Execution::run before set_shapes");
  check(bindings.size() == item_bytes_.size(), "another number of bindings than inputs and outputs");
  const auto run_part = [&](CpuExecution& execution, int64_t part, int member) {
    execution.set_shapes(symbols_of_part(part));
    body(execution, bindings_of_part(bindings, part), member);
  };
  if (by_team()) {
    for (int64_t part = 0; part < part_count(); ++part) run_part(*team_, part, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  program_->pool().run(program_->machine().threads, [&](const Worker& worker) {
    for (int64_t part = next.fetch_add(1); part < part_count(); part = next.fetch_add(1))
      run_part(*members_[static_cast<size_t>(worker.index)], part, worker.index);
  });
}

void SplitExecution::run(std::span<void* const> bindings, Stream& stream) {
  for_each_part(bindings, [&](CpuExecution& execution, const std::vector<void*>& part, int) {
    execution.run(part, stream);
  });
}

void SplitExecution::run_profiled(std::span<void* const> bindings, Stream& stream,
                                  std::span<double> time_ms) {
  std::vector<std::vector<double>> sums(members_.size(), std::vector<double>(time_ms.size(), 0.0));
  for_each_part(bindings, [&](CpuExecution& execution, const std::vector<void*>& part, int member) {
    std::vector<double> times(time_ms.size());
    execution.run_profiled(part, stream, times);
    std::vector<double>& sum = sums[static_cast<size_t>(member)];
    std::transform(sum.begin(), sum.end(), times.begin(), sum.begin(), std::plus<>());
  });
  const auto total = [](const std::vector<double>& times) {
    return std::accumulate(times.begin(), times.end(), 0.0);
  };
  const auto longest = std::max_element(sums.begin(), sums.end(),
                                        [&](const auto& a, const auto& b) { return total(a) < total(b); });
  std::copy(longest->begin(), longest->end(), time_ms.begin());
}

void SplitExecution::run_observed(std::span<void* const> bindings, Stream&, const LayerHook& hook) {
  observed_.clear();
  for (int64_t part = 0; part < part_count(); ++part) {
    observed_.push_back(std::make_unique<CpuExecution>(program_, program_->machine().threads));
    observed_.back()->set_shapes(symbols_of_part(part));
    observed_.back()->bind(bindings_of_part(bindings, part));
  }
  for (size_t layer = 0; layer < program_->layers().size(); ++layer) {
    if (hook.before) hook.before(layer);
    for (const auto& execution : observed_) execution->run_layer(layer);
    if (hook.after) hook.after(layer);
  }
  observed_.clear();
}

Tensor SplitExecution::read(ValueId id) {
  check(!observed_.empty(), "values of a split batch can be read while it is observed only");
  // The batch may be any dim of a value between two layers; parts lie behind one another along it.
  const Shape& shape = program_->graph().value(id).shape;
  const auto batch = std::find_if(shape.begin(), shape.end(),
                                  [&](const Dim& dim) { return dim.symbols().contains(split().symbol); });
  if (batch == shape.end()) return observed_[0]->read(id);
  const Extents all = extents(id);
  Tensor whole = Tensor::allocate(program_->graph().value(id).number_type(), all);  // as the parts give it
  const int64_t times = element_count(Extents(all.begin(), all.begin() + (batch - shape.begin())));
  const size_t row = whole.bytes().size() / static_cast<size_t>(std::max<int64_t>(1, times));
  size_t at = 0;
  for (const auto& execution : observed_) {
    const Tensor part = execution->read(id);
    const size_t bytes = part.bytes().size() / static_cast<size_t>(std::max<int64_t>(1, times));
    for (int64_t i = 0; i < times; ++i)
      std::memcpy(whole.mutable_bytes().data() + static_cast<size_t>(i) * row + at,
                  part.bytes().data() + static_cast<size_t>(i) * bytes, bytes);
    at += bytes;
  }
  return whole;
}

Extents SplitExecution::extents(ValueId id) const {
  return upper_extents(program_->graph().value(id).shape, symbols_);
}

// An arena for each member. The team needs one, while they do not run.
int64_t SplitExecution::arena_bytes() const {
  return static_cast<int64_t>(members_.size()) * member_bytes();
}

void SplitExecution::use_arena(void* memory) {
  auto* next = static_cast<std::byte*>(memory);
  for (const auto& member : members_) {
    member->use_arena(next);
    if (next != nullptr) next += member_bytes();
  }
  if (team_) team_->use_arena(memory);
  callers_arena_ = memory;
  if (memory != nullptr) return;
  expects_arena_ = false;
  symbols_.clear();
}

void SplitExecution::expect_arena() {
  use_arena(nullptr);
  expects_arena_ = true;
  for (const auto& member : members_) member->expect_arena();
  if (team_) team_->expect_arena();
}

int64_t SplitExecution::device_bytes() const {
  int64_t bytes = team_ ? team_->device_bytes() : 0;
  for (const auto& member : members_) bytes += member->device_bytes();
  return bytes;
}

}  // namespace lathe::cpu
