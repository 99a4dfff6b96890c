// SPDX-License-Identifier: Apache-2.0
//
// A backend for tests of the tuner, the memory plan, the engine file and the runtime: few tactics, fixed
// times, real memory.
//
// Every layer has "fake_linear" (1 ms) and "fake_fast" (0.4 ms, channels-last operands, which are stored as
// linear: here formats are only labels); reformats cost 0.05 ms; Conv also has an inexact "fake_winograd"
// (0.2 ms), MatMul in each allowed type "fake_low" (0.1 ms) and "fake_low_sums" with an FP32 result (0.2 ms).
// DepthwiseBlock has "fake_block" (0.1 ms) in channels-last. Reshape, Split, Slice and Concat are views in
// linear format. Pointwise layers may work in place. It computes on float32: Relu, Add (same shapes), and
// Conv as x + w[0], with w packed into a block; copies for the rest.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "base/hash.h"

namespace lathe {

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(std::string key = "fake 1") {
    target_ = {.backend = "fake", .description = "a fake device", .key = std::move(key), .threads = 1};
  }

  std::map<std::string, double, std::less<>> times_ms = {
      {"fake_linear", 1.0},   {"fake_fast", 0.4},     {"fake_copy", 0.05},
      {"fake_winograd", 0.2}, {"fake_move", 0.5},     {"fake_reference", 50},
      {"fake_low", 0.1},      {"fake_low_sums", 0.2}, {"fake_block", 0.1}};
  bool fast_tactics = true;
  std::map<std::string, double> expected_us;            // by tactic
  DType other_compute_type = DType::Undefined;          // besides FP32
  std::map<std::string, int64_t, std::less<>> scratch;  // bytes by tactic
  double prepare_seconds = 0;  // what preparing a tactic for timing takes, to reach the end of a budget
  TuningTraits traits;
  bool throws_when_timed = false;     // as an operator does whose indices random data cannot give
  bool throws_when_prepared = false;  // for timing, as for sizes that are assumed and do not fit
  mutable int timings = 0;            // calls of prepare_timing
  int slow_from = 1 << 30;            // after so many of them the device is half as fast
  int slow_until = 0;                 // and before so many
  int waits = -1;                     // what is prepared as this one seems to take a hundred times its time
  bool linear_in_channels_last = false;  // fake_linear takes operands in either format
  mutable int packed_blocks = 0;         // blocks that compile() had to pack

  const Target& target() const override { return target_; }
  std::vector<Tactic> tactics(const LayerQuery& query) const override;
  std::unique_ptr<TimedLayer> prepare_timing(const LayerQuery&, const Tactic& tactic) const override {
    const int timing = timings++;
    if (throws_when_prepared) throw_input_error("updates of 384, expected 6144");
    std::this_thread::sleep_for(std::chrono::duration<double>(prepare_seconds));
    return std::make_unique<Timed>(*this, times_ms.find(tactic.name)->second * (timing == waits ? 100 : 1));
  }
  TuningTraits tuning_traits() const override { return traits; }
  int64_t scratch_bytes(const LayerQuery&, const Tactic& tactic) const override {
    const auto found = scratch.find(tactic.name);
    return found == scratch.end() ? 0 : found->second;
  }
  std::unique_ptr<Program> compile(const ProgramSpec& spec) const override;
  Support supports_compute_type(DType dtype) const override {
    return dtype == other_compute_type ? Support{} : Support::no("a fake device computes in FP32");
  }

  std::unique_ptr<Stream> create_stream() const override { return std::make_unique<FakeStream>(); }
  std::unique_ptr<TimeEvent> create_event() const override { return std::make_unique<FakeEvent>(); }
  std::unique_ptr<Buffer> allocate(size_t bytes) const override {
    return std::make_unique<FakeBuffer>(bytes);
  }
  std::unique_ptr<Buffer> allocate_host(size_t bytes) const override { return allocate(bytes); }
  void copy_to_device(void* to, const void* from, size_t n, Stream&) const override {
    std::memcpy(to, from, n);
  }
  void copy_to_host(void* to, const void* from, size_t n, Stream&) const override {
    std::memcpy(to, from, n);
  }
  bool is_host() const override { return true; }
  std::vector<std::pair<std::string, std::string>> device_information() const override {
    return {{"Device", "fake"}};
  }

 private:
  struct Timed final : TimedLayer {
    Timed(const FakeBackend& backend, double ms) : backend(backend), ms(ms) {}
    double run_ms() override {
      if (backend.throws_when_timed) throw_input_error("an index is out of range");
      const bool slow = backend.timings >= backend.slow_from || backend.timings < backend.slow_until;
      return slow ? 2 * ms : ms;
    }
    const FakeBackend& backend;
    double ms;
  };
  struct FakeStream final : Stream {
    void synchronize() override {}
  };
  struct FakeEvent final : TimeEvent {
    void record(Stream&) override { at = std::chrono::steady_clock::now(); }
    void synchronize() override {}
    double elapsed_ms(const TimeEvent& start) const override {
      return std::chrono::duration<double, std::milli>(at - static_cast<const FakeEvent&>(start).at).count();
    }
    std::chrono::steady_clock::time_point at;
  };
  struct FakeBuffer final : Buffer {
    explicit FakeBuffer(size_t bytes) : storage(bytes) {}
    void* data() override { return storage.data(); }
    size_t bytes() const override { return storage.size(); }
    std::vector<std::byte> storage;
  };
  class FakeExecution;
  class FakeProgram;

  Target target_;
};

// A compiled program: the spec and, per Conv, its packed block.
class FakeBackend::FakeProgram final : public Program {
 public:
  FakeProgram(const ProgramSpec& spec, int& packed_blocks) : spec(spec) {
    for (const NodeId id : spec.graph->order()) {
      const Node& node = spec.graph->node(id);
      if (!std::holds_alternative<Conv>(node.op)) continue;
      auto block = spec.blobs->find(node.name + "/w");
      if (block.empty()) {
        const auto bytes = spec.graph->value(node.inputs[1]).constant.bytes().first(4);
        block = spec.blobs->put(node.name + "/w", {bytes.begin(), bytes.end()});
        ++packed_blocks;
      }
      float& w = weights[id];
      std::memcpy(&w, block.data(), 4);
    }
  }
  std::unique_ptr<Execution> create_execution() const override;
  int64_t weight_bytes() const override { return static_cast<int64_t>(weights.size()) * 4; }

  ProgramSpec spec;
  std::map<NodeId, float> weights;
};

class FakeBackend::FakeExecution final : public Execution {
 public:
  explicit FakeExecution(const FakeProgram& program)
      : program_(program), spec_(program.spec), arena_(static_cast<size_t>(spec_.memory.arena_bytes)) {}

  void set_shapes(const SymbolValues& values) override { values_ = values; }
  void run(std::span<void* const> bindings, Stream&) override { run_layers(bindings, {}, nullptr); }
  void run_profiled(std::span<void* const> bindings, Stream&, std::span<double> time_ms) override {
    run_layers(bindings, time_ms, nullptr);
  }
  void run_observed(std::span<void* const> bindings, Stream&, const LayerHook& hook) override {
    run_layers(bindings, {}, &hook);
  }
  Tensor read(ValueId id) override {
    const auto size = static_cast<size_t>(bytes(id));
    Tensor t = Tensor::allocate(spec_.graph->value(id).dtype, extents(id));
    std::memcpy(t.mutable_bytes().data(), address(id), size);
    return t;
  }
  Extents extents(ValueId id) const override { return evaluate(spec_.graph->value(id).shape, values_); }
  int64_t device_bytes() const override { return spec_.memory.arena_bytes; }

 private:
  int64_t bytes(ValueId id) const {
    return dtype_bytes(spec_.graph->value(id).dtype, element_count(extents(id)));
  }

  std::byte* address(ValueId id) {
    const Placement& p = spec_.memory.placements[static_cast<size_t>(id)];
    switch (p.kind) {
      case Placement::Kind::None:
        return nullptr;
      case Placement::Kind::Arena:
        return arena_.data() + p.offset;
      case Placement::Kind::Binding:
        return static_cast<std::byte*>(bindings_[static_cast<size_t>(p.binding)]);
      case Placement::Kind::Constant:
        return const_cast<std::byte*>(spec_.graph->value(id).constant.bytes().data());
      case Placement::Kind::View:
        return address(p.base) + p.view_offset.evaluate(values_);
      case Placement::Kind::Grown:
        break;  // this device finds no sizes
    }
    return nullptr;
  }

  void run_layers(std::span<void* const> bindings, std::span<double> time_ms, const LayerHook* hook) {
    bindings_ = bindings;
    for (size_t i = 0; i < spec_.graph->order().size(); ++i) {
      if (hook && hook->before) hook->before(i);
      const NodeId id = spec_.graph->order()[i];
      if (!spec_.choices[i].tactic.is_view) run_layer(id, spec_.graph->node(id));
      if (!time_ms.empty()) time_ms[i] = 0.25 * static_cast<double>(i + 1);
      if (hook && hook->after) hook->after(i);
    }
  }

  void run_layer(NodeId id, const Node& node) {
    auto* out = reinterpret_cast<float*>(address(node.outputs[0]));
    const auto* in = reinterpret_cast<const float*>(address(node.inputs[0]));
    const auto count = static_cast<size_t>(bytes(node.outputs[0])) / 4;
    const auto* pointwise = std::get_if<Pointwise>(&node.op);
    if (std::holds_alternative<Conv>(node.op)) {
      for (size_t i = 0; i < count; ++i) out[i] = in[i] + program_.weights.at(id);
    } else if (pointwise && pointwise->code == PointwiseCode::Relu) {
      for (size_t i = 0; i < count; ++i) out[i] = std::max(in[i], 0.0f);
    } else if (pointwise && pointwise->code == PointwiseCode::Add) {
      const auto* other = reinterpret_cast<const float*>(address(node.inputs[1]));
      for (size_t i = 0; i < count; ++i) out[i] = in[i] + other[i];
    } else {
      check(std::holds_alternative<Reformat>(node.op), "the fake backend cannot run " + node.name);
      std::memmove(out, in, static_cast<size_t>(bytes(node.outputs[0])));
    }
  }

  const FakeProgram& program_;
  const ProgramSpec& spec_;
  std::vector<std::byte> arena_;
  SymbolValues values_;
  std::span<void* const> bindings_;
};

inline std::unique_ptr<Execution> FakeBackend::FakeProgram::create_execution() const {
  return std::make_unique<FakeExecution>(*this);
}

inline std::unique_ptr<Program> FakeBackend::compile(const ProgramSpec& spec) const {
  return std::make_unique<FakeProgram>(spec, packed_blocks);
}

inline std::vector<Tactic> FakeBackend::tactics(const LayerQuery& query) const {
  const Node& node = query.layer();
  const auto make = [&](std::string name, bool fast) {
    Tactic t = with_variant({.runner = fast ? "FakeFast" : "Fake"}, std::move(name), {{"fast", fast}});
    const auto type = [&](ValueId id) -> TensorType {
      if (id == kNoValue || query.graph.value(id).is_constant()) return {};
      const Value& v = query.graph.value(id);
      return {v.dtype, fast && v.shape.size() >= 3 ? kChannelsLast : kLinear};
    };
    for (const ValueId id : node.inputs) t.inputs.push_back(type(id));
    for (const ValueId id : node.outputs) t.outputs.push_back(type(id));
    return t;
  };
  if (std::holds_alternative<Reformat>(node.op)) {
    Tactic t = make("fake_copy", false);
    t.runner = "Reformat";
    const Value& in = query.graph.value(node.inputs[0]);
    const Value& out = query.graph.value(node.outputs[0]);
    t.inputs = {{in.dtype, in.format}};
    t.outputs = {{out.dtype, out.format}};
    return {t};
  }
  if (std::holds_alternative<ReshapeOp>(node.op) || std::holds_alternative<Split>(node.op) ||
      std::holds_alternative<Slice>(node.op) || std::holds_alternative<Concat>(node.op)) {
    Tactic view = make("fake_view", false);
    view.is_view = true;
    return {view, make("fake_move", false)};
  }
  if (std::holds_alternative<DepthwiseBlock>(node.op)) return {make("fake_block", true)};
  std::vector<Tactic> list = {make("fake_linear", false)};
  if (fast_tactics) list.push_back(make("fake_fast", true));
  if (linear_in_channels_last) list.push_back(make("fake_linear", true));
  if (std::holds_alternative<Conv>(node.op)) {
    list.push_back(make("fake_winograd", false));
    list.back().error_factor = 10;
  }
  if (std::holds_alternative<MatMul>(node.op)) {
    for (const DType low : node.allowed_types) {
      for (const bool sums : {false, true}) {
        list.push_back(make(sums ? "fake_low_sums" : "fake_low", false));
        list.back().inputs[0].dtype = low;
        if (!sums) list.back().outputs[0].dtype = low;
      }
    }
  }
  if (std::holds_alternative<Pointwise>(node.op))
    for (Tactic& t : list) t.in_place_inputs = {0};
  list.push_back(make("fake_huge", false));
  list.back().support = Support::no("needs more memory than there is");
  list.push_back(make("fake_reference", false));
  list.back().runner = "FakeReference";
  list.back().last_resort = true;
  for (Tactic& t : list)
    if (const auto found = expected_us.find(t.name); found != expected_us.end())
      t.expected_us = found->second;
  return list;
}

}  // namespace lathe
