// SPDX-License-Identifier: Apache-2.0
//
// What a context keeps from run to run: its memory, its listener, its state and its profile. And streams.
#include "runtime/api_context.h"
#include "runtime/debug_tensors.h"

namespace lathe::v1 {

void ExecutionContext::set_memory(void* memory, size_t bytes) {
  translate_errors([&] {
    const Use use(impl().busy);
    const auto need = static_cast<size_t>(impl_->context->memory_bytes());
    const bool fits = memory == nullptr || (bytes >= need && reinterpret_cast<uintptr_t>(memory) % 256 == 0);
    if (!fits)
      refuse(
          {.what = "the memory of a context is too small or not aligned",
           .why = bytes_text(need) + " are needed at a multiple of 256, " + bytes_text(bytes) + " were given",
           .hint = "memory_bytes() says how many"});
    impl_->callers.finish();
    impl_->use_memory(memory);
  });
}
void ExecutionContext::set_allocator(std::shared_ptr<Allocator> allocator) {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->callers.finish();
    impl_->use_allocator(std::move(allocator));
  });
}
size_t ExecutionContext::memory_bytes() const {
  return static_cast<size_t>(impl().context->memory_bytes());
}

void ExecutionContext::set_debug_listener(DebugListener* listener, std::vector<std::string> tensors) {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->listener = {};
    if (listener == nullptr) return;
    const std::vector<std::string> known = debug_tensors();
    for (const std::string& name : tensors)
      if (std::count(known.begin(), known.end(), name) == 0)
        refuse({.what = "no layer of the engine makes such a tensor",
                .where = "tensor '" + name + "'",
                .why = "a fusion took it in, or the network has none of this name",
                .hint = "debug_tensors() lists those that there are; an output of the network always is"});
    impl_->listener = debug_hook(*impl_->context, {tensors.begin(), tensors.end()},
                                 [listener](const std::string& name, const Tensor& values) {
                                   listener->on_tensor(name, to_host(values));
                                 });
  });
}
std::vector<std::string> ExecutionContext::debug_tensors() const {
  return lathe::debug_tensors(impl().context->engine(), impl().context->profile());
}

std::vector<StatePair> ExecutionContext::keep_state(const std::vector<StatePair>& pairs) {
  return translate_errors([&] {
    const Use use(impl().busy);
    Context& context = *impl_->context;
    std::vector<lathe::StatePair> wanted;
    for (const StatePair& pair : pairs) wanted.push_back({pair.input, pair.output});
    if (wanted.empty()) wanted = find_state_pairs(context.engine().inputs(), context.engine().outputs());
    context.keep_state(wanted);
    impl_->ready = false;
    std::vector<StatePair> kept;
    for (const lathe::StatePair& pair : wanted) kept.push_back({pair.input, pair.output});
    for (Binding& b : impl_->bindings)  // what was bound is not used any more
      if (impl_->is_state(b)) b.address = nullptr, b.bytes = 0, b.allocator = nullptr;
    return kept;
  });
}
void ExecutionContext::drop_state() {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->context->keep_state({});
    impl_->ready = false;
  });
}
void ExecutionContext::set_state(std::string_view input, DataType type, const Dims& dims, const void* data) {
  translate_errors([&] {
    const Use use(impl().busy);
    const Binding& b = impl_->find(input, true);
    const size_t bytes = data_bytes(type, volume(dims));
    impl_->check_memory(b, type, data, bytes);
    Tensor values = Tensor::allocate(b.info->dtype, dims);
    if (bytes > 0) std::memcpy(values.mutable_bytes().data(), data, bytes);
    impl_->context->set_state(input, std::move(values));
    impl_->ready = false;
  });
}
HostTensor ExecutionContext::state(std::string_view input) {
  return translate_errors([&] {
    const Use use(impl().busy);
    return to_host(impl_->context->read_state(impl_->find(input, true).info->name));
  });
}
void ExecutionContext::reset_state() {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->context->reset_state();
    impl_->ready = false;
  });
}
std::vector<std::string> ExecutionContext::state_notes() {
  return translate_errors([&] {
    const Use use(impl().busy);
    const State* state = impl_->context->state();
    std::vector<std::string> notes;
    for (size_t i = 0; state && i < state->size(); ++i) notes.push_back(state->note(i));
    return notes;
  });
}

int ExecutionContext::profile() const {
  return impl().context->profile();
}
void ExecutionContext::set_profile(int index) {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->callers.finish();
    impl_->set_profile(index);
  });
}
int64_t ExecutionContext::device_bytes() const {
  const auto largest = impl().largest ? static_cast<int64_t>(impl_->largest->bytes()) : 0;
  return impl_->context->device_bytes() + largest;
}

// --- Stream

Stream::Stream() : impl_(std::make_unique<Impl>()) {}
Stream::~Stream() = default;
void Stream::synchronize() {
  if (const std::exception_ptr error = impl_->wait()) std::rethrow_exception(error);
}

}  // namespace lathe::v1
