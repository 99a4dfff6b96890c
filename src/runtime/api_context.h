// SPDX-License-Identifier: Apache-2.0
//
// What is behind an ExecutionContext: its bindings, and their checks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/api_bridge.h"
#include "runtime/api_stream.h"
#include "runtime/caller_stream.h"
#include "runtime/run_memory.h"

namespace lathe::v1 {

[[noreturn]] inline void refuse(ErrorFields fields, ErrorCode code = ErrorCode::InvalidArgument) {
  throw Error(ErrorKind::Input, code, std::move(fields));
}
// The call is right, and comes too early or too late.
[[noreturn]] inline void refuse_now(ErrorFields fields) {
  refuse(std::move(fields), ErrorCode::InvalidState);
}

inline std::string bytes_text(size_t bytes) {
  return std::to_string(bytes) + " bytes";
}

inline HostTensor to_host(const Tensor& tensor) {
  HostTensor out(to_data_type(tensor.dtype()), tensor.extents());
  if (!out.bytes.empty()) std::memcpy(out.bytes.data(), tensor.bytes().data(), out.bytes.size());
  return out;
}

struct Binding {
  const lathe::TensorInfo* info = nullptr;
  bool is_input = false;
  size_t index = 0;  // among the inputs, or among the outputs
  void* address = nullptr;
  size_t bytes = 0;  // of the caller's memory
  OutputAllocator* allocator = nullptr;

  std::string where() const {
    return std::string(is_input ? "input '" : "output '") + info->name + "' (" +
           std::string(dtype_name(info->dtype)) + " " + lathe::to_string(info->shape) + ")";
  }
};

inline bool overlap(const Binding& a, const Binding& b, size_t a_bytes, size_t b_bytes) {
  const auto* x = static_cast<const std::byte*>(a.address);
  const auto* y = static_cast<const std::byte*>(b.address);
  return x < y + b_bytes && y < x + a_bytes;
}

struct ExecutionContext::Impl {
  Impl(std::unique_ptr<Context> made, std::unique_ptr<lathe::Stream> stream)
      : context(std::move(made)), stream(std::move(stream)), callers(*context->engine().backend()) {
    forget_bindings();
  }

  std::unique_ptr<Context> context;
  std::unique_ptr<lathe::Stream> stream;
  CallerStreamRuns callers;
  std::shared_ptr<Allocator> allocator;         // of the memory of runs; null: none
  std::unique_ptr<Buffer> largest;              // for all profiles; null: the context takes what it needs
  Execution::LayerHook listener;                // empty: none
  std::vector<Binding> bindings;                // inputs, then outputs
  std::vector<void*> addresses;                 // what the program gets
  std::vector<std::unique_ptr<Buffer>> bounds;  // by output: room for the upper bound of a data-dependent one
  alignas(64) std::byte nothing[64];            // the address of tensors without elements
  bool ready = false;
  std::atomic<bool> busy = false;

  void forget_bindings() {
    bindings.clear();
    const auto add = [&](const std::vector<lathe::TensorInfo>& infos, bool is_input) {
      for (size_t i = 0; i < infos.size(); ++i)
        bindings.push_back({.info = &infos[i], .is_input = is_input, .index = i});
    };
    add(context->engine().inputs(), true);
    add(context->engine().outputs(), false);
    addresses.assign(bindings.size(), nullptr);
    bounds.clear();
    bounds.resize(context->engine().outputs().size());
    ready = false;
  }

  Binding& find(std::string_view name) {
    for (Binding& b : bindings)
      if (b.info->name == name) return b;
    std::string names;
    for (const Binding& b : bindings) names += (names.empty() ? "" : ", ") + b.info->name;
    refuse({.what = "the engine has no such tensor",
            .where = "tensor '" + std::string(name) + "'",
            .why = "its inputs and outputs are " + names,
            .hint = "names are those of the ONNX model"});
  }
  Binding& find(std::string_view name, bool input) {
    Binding& b = find(name);
    if (b.is_input != input)
      refuse({.what = input ? "it is no input" : "it is no output",
              .where = b.where(),
              .hint = input ? "outputs get memory by bind_output" : "inputs get memory by bind_input"});
    return b;
  }
  // State is bound by the context itself.
  bool is_state(const Binding& b) const {
    const State* state = context->state();
    return state && (b.is_input ? state->has_input(b.index) : state->has_output(b.index));
  }
  void check_not_state(const Binding& b) const {
    if (is_state(b))
      refuse({.what = "it is state, which the context keeps",
              .where = b.where(),
              .why = "keep_state() named it",
              .hint = "set_state() gives its first values, state() reads it"});
  }
  size_t needed(const Binding& b) {
    return static_cast<size_t>(b.is_input ? context->input_bytes(b.index) : context->output_bytes(b.index));
  }

  void check_memory(const Binding& b, DataType type, const void* data, size_t bytes) const {
    if (to_dtype(type) != b.info->dtype)
      refuse({.what = "its memory has another type",
              .where = b.where(),
              .why = "it was given " + std::string(data_type_name(type)),
              .hint = "convert the data first"});
    if (data == nullptr && bytes > 0)
      refuse(
          {.what = "its address is null", .where = b.where(), .hint = "bind memory of " + bytes_text(bytes)});
    const auto element = static_cast<uintptr_t>(std::max<int64_t>(1, dtype_bytes(b.info->dtype, 1)));
    if (reinterpret_cast<uintptr_t>(data) % element != 0)
      refuse({.what = "its address is not aligned",
              .where = b.where(),
              .why = "elements have " + bytes_text(element),
              .hint = "bind memory whose address is a multiple of that"});
  }

  void read_shape_tensors() {
    if (!context->engine().backend()->is_host()) return;
    for (const Binding& b : bindings)
      if (b.is_input && b.info->contents && b.address)
        context->set_input_values(b.info->name, elements_of(b));
  }
  static std::vector<int64_t> elements_of(const Binding& b) {
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(b.address), b.bytes);
    const auto count = static_cast<int64_t>(b.bytes) / dtype_bytes(b.info->dtype, 1);
    return Tensor::wrap(b.info->dtype, {count}, bytes, nullptr).to_int64s();
  }

  // Everything that a run needs is there, and fits the shapes that are set.
  void prepare() {
    context->resolve_shapes();
    for (size_t i = 0; i < bindings.size(); ++i) {
      Binding& b = bindings[i];
      if (is_state(b)) continue;
      if (b.allocator == nullptr) check_room(b);
      addresses[i] = b.address != nullptr ? b.address : static_cast<void*>(nothing);
      if (b.allocator != nullptr && context->output_is_data_dependent(b.index))
        addresses[i] = room_for_bound(b);
    }
    check_overlaps();
    ready = true;
  }
  bool is_held(const Binding& b) const { return !b.is_input && context->output_is_held(b.index); }
  void check_room(const Binding& b) {
    if (is_held(b) && b.address == nullptr)
      refuse_now({.what = "nobody takes its result",
                  .where = b.where(),
                  .why = "only a run finds its size, and nothing bounds it",
                  .hint = "set an output allocator, or bind memory that is large enough"});
    const size_t need = needed(b);
    if (b.address == nullptr && need > 0)
      refuse_now({.what = "no memory is bound",
                  .where = b.where(),
                  .why = bytes_text(need) + " are needed at these shapes",
                  .hint = b.is_input ? "call bind_input" : "call bind_output"});
    if (b.bytes < need)
      refuse({.what = "its memory is too small",
              .where = b.where(),
              .why = bytes_text(need) + " are needed at these shapes, " + bytes_text(b.bytes) + " were given",
              .hint = "tensor_bytes(name) says how many"});
  }
  void* room_for_bound(const Binding& b) {
    std::unique_ptr<Buffer>& room = bounds[b.index];
    const size_t need = std::max<size_t>(1, needed(b));
    if (!room || room->bytes() < need) room = context->engine().backend()->allocate(need);
    return room->data();
  }
  // A layer may still read what another has written already.
  void check_overlaps() {
    for (const Binding& out : bindings) {
      if (out.is_input || out.address == nullptr) continue;
      for (const Binding& other : bindings)
        if (&other != &out && other.address != nullptr && overlap(out, other, needed(out), needed(other)))
          refuse({.what = "its memory overlaps that of '" + other.info->name + "'",
                  .where = out.where(),
                  .hint = "give each output memory of its own"});
    }
  }

  void* ask(const Binding& b, size_t bytes) {
    void* memory = b.allocator->allocate(b.info->name, bytes, context->output_extents(b.index));
    if (memory == nullptr && bytes > 0)
      throw Error(ErrorKind::System, ErrorCode::FailedAllocation,
                  ErrorFields{.what = "its allocator gave no memory",
                              .where = b.where(),
                              .why = bytes_text(bytes) + " were asked for"});
    return memory != nullptr ? memory : static_cast<void*>(nothing);
  }
  void allocate_before_run() {
    for (size_t i = 0; i < bindings.size(); ++i)
      if (const Binding& b = bindings[i];
          b.allocator && !is_state(b) && !context->output_is_data_dependent(b.index))
        addresses[i] = ask(b, needed(b));
  }
  // The memory of the caller for a result of this many bytes whose size the run found.
  void* room_for_result(const Binding& b, size_t bytes) {
    if (b.allocator != nullptr) return ask(b, bytes);
    if (bytes <= b.bytes) return b.address;
    refuse({.what = "its memory is too small for the result",
            .where = b.where(),
            .why = "the run found " + bytes_text(bytes) + ", " + bytes_text(b.bytes) + " were given",
            .hint = "set an output allocator"});
  }
  void hand_over_after_run() {
    for (const Binding& b : bindings) {
      if (b.is_input || !context->output_is_data_dependent(b.index)) continue;
      if (b.allocator == nullptr && !is_held(b)) continue;
      const auto bytes =
          static_cast<size_t>(storage_bytes(b.info->dtype, context->output_extents(b.index), b.info->format));
      void* memory = room_for_result(b, bytes);
      if (bytes == 0) continue;
      const Backend& backend = *context->engine().backend();
      if (!backend.is_host())
        refuse({.what = "output allocators of data-dependent outputs need host memory",
                .where = b.where(),
                .hint = "bind memory of tensor_bytes(name) bytes"});
      std::memcpy(memory, is_held(b) ? context->held_output(b.index) : bounds[b.index]->data(), bytes);
    }
  }

  void check_before_run() {
    read_shape_tensors();
    if (context->state()) start_step();
    if (!ready) prepare();
  }
  void start_step() {
    context->start_step();
    ready = false;
  }
  // Memory for the profile that needs most, now and for good.
  void take_largest() {
    const lathe::Engine& engine = context->engine();
    int64_t bytes = 0;
    for (int p = 0; p < engine.profile_count(); ++p)
      bytes = std::max(bytes, engine.create_context(p)->memory_bytes());
    largest = engine.backend()->allocate(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    context->use_memory(largest->data());
  }
  void set_profile(int index) {
    context->set_profile(index);
    if (largest) context->use_memory(largest->data());
    listener = {};
    allocator = nullptr;
    forget_bindings();
  }
  // Runs that follow take their memory from there.
  void use_allocator(std::shared_ptr<Allocator> from) {
    use_memory(nullptr);
    if (from) expect_run_memory(context->execution());
    allocator = std::move(from);
  }
  void use_memory(void* memory) {
    context->use_memory(memory);
    allocator = nullptr;
    largest = nullptr;
    ready = false;
  }
  void enqueue_run(lathe::Stream& on) {
    allocate_before_run();
    const RunMemory memory(allocator.get(), context->execution(), &on);
    if (listener.after)
      context->enqueue_observed(addresses, on, listener);
    else
      context->enqueue(addresses, on);
  }
  void run() {
    callers.finish();
    enqueue_run(*stream);
    stream->synchronize();
    hand_over_after_run();
  }
  void run_on(void* callers_stream) {
    enqueue_run(callers.begin(callers_stream));
    callers.end();
    hand_over_after_run();
  }
  void run(LayerProfiler& layers) {
    callers.finish();
    allocate_before_run();
    const RunMemory memory(allocator.get(), context->execution(), stream.get());
    context->enqueue_profiled(addresses, *stream, layers);
    hand_over_after_run();
  }
};

// The right to use a context. Refuses a second user, instead of letting both work on the same memory.
class Use {
 public:
  explicit Use(std::atomic<bool>& busy) : busy_(&busy) {
    if (busy.exchange(true, std::memory_order_acquire))
      refuse_now({.what = "the context is in use",
                  .why = "another thread or a stream runs it",
                  .hint = "synchronize the stream first, or give each thread a context of its own"});
  }
  ~Use() { busy_->store(false, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<bool>* busy_;
};

}  // namespace lathe::v1
