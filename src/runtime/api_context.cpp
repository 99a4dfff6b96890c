// SPDX-License-Identifier: Apache-2.0
//
// ExecutionContext: memory by tensor name, checked once per change, so that a run of what was bound before
// costs nothing but the run.
#include "runtime/api_context.h"

namespace lathe::v1 {

ExecutionContext Engine::create_context(int profile, ContextMemory memory) const {
  return translate_errors([&] {
    auto impl = std::make_shared<ExecutionContext::Impl>(impl_->engine->create_context(profile),
                                                         impl_->engine->backend()->create_stream());
    if (memory == ContextMemory::AllProfiles) impl->take_largest();
    return ExecutionContext(std::move(impl));
  });
}

ExecutionContext::ExecutionContext(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExecutionContext::ExecutionContext(ExecutionContext&&) noexcept = default;
ExecutionContext& ExecutionContext::operator=(ExecutionContext&&) noexcept = default;
ExecutionContext::~ExecutionContext() = default;

ExecutionContext::Impl& ExecutionContext::impl() const {
  if (impl_) return *impl_;
  refuse_now({.what = "the context was moved away", .hint = "use the one that it was moved to"});
}

std::vector<HostTensor> ExecutionContext::run(const std::vector<HostTensor>& inputs) {
  return translate_errors([&] {
    const Use use(impl().busy);
    Context& context = *impl_->context;
    impl_->ready = false;  // the shapes change
    impl_->callers.finish();
    std::vector<Tensor> tensors;
    const std::vector<size_t> own = context.own_inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& infos = context.engine().inputs();
      tensors.push_back(
          borrow(inputs[i], i < own.size() ? infos[own[i]].name : "number " + std::to_string(i)));
    }
    std::vector<HostTensor> outputs;
    const RunMemory memory(impl_->allocator.get(), context.execution(), nullptr);  // run() waits
    for (const Tensor& t : context.run(tensors)) outputs.push_back(to_host(t));
    return outputs;
  });
}

void ExecutionContext::set_input_shape(std::string_view input, const Dims& dims) {
  translate_errors([&] {
    const Use use(impl().busy);
    const Binding& b = impl_->find(input, true);
    impl_->check_not_state(b);
    impl_->ready = false;
    impl_->context->set_input_shape(b.info->name, dims);
  });
}
void ExecutionContext::set_input_values(std::string_view input, const std::vector<int64_t>& elements) {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->find(input, true);
    impl_->ready = false;
    impl_->context->set_input_values(input, elements);
  });
}
std::vector<std::string> ExecutionContext::infer_shapes() {
  return translate_errors([&] {
    const Use use(impl().busy);
    impl_->read_shape_tensors();
    impl_->start_step();
    std::vector<std::string> missing = impl_->context->inputs_without_shape();
    if (missing.empty()) impl_->context->resolve_shapes();
    return missing;
  });
}
Dims ExecutionContext::tensor_shape(std::string_view tensor) {
  return translate_errors([&] {
    const Use use(impl().busy);
    const Binding& b = impl_->find(tensor);
    impl_->read_shape_tensors();
    return b.is_input ? impl_->context->input_extents(b.index) : impl_->context->output_extents(b.index);
  });
}
size_t ExecutionContext::tensor_bytes(std::string_view tensor) {
  return translate_errors([&] {
    const Use use(impl().busy);
    impl_->read_shape_tensors();
    return impl_->needed(impl_->find(tensor));
  });
}

void ExecutionContext::bind_input(std::string_view input, DataType type, const Dims& dims, const void* data) {
  translate_errors([&] {
    const Use use(impl().busy);
    Binding& b = impl_->find(input, true);
    impl_->check_not_state(b);
    (void)volume(dims);  // throws for negative extents
    const auto bytes = static_cast<size_t>(storage_bytes(to_dtype(type), dims, b.info->format));
    impl_->check_memory(b, type, data, bytes);
    impl_->ready = false;
    impl_->context->set_input_shape(b.info->name, dims);
    b.address = const_cast<void*>(data);  // the program only reads it
    b.bytes = bytes;
  });
}
void ExecutionContext::bind_output(std::string_view output, DataType type, void* data, size_t bytes) {
  translate_errors([&] {
    const Use use(impl().busy);
    Binding& b = impl_->find(output, false);
    impl_->check_not_state(b);
    impl_->check_memory(b, type, data, bytes);
    impl_->ready = false;
    b.address = data, b.bytes = bytes, b.allocator = nullptr;
  });
}
void ExecutionContext::bind_output(std::string_view output, OutputAllocator& allocator) {
  translate_errors([&] {
    const Use use(impl().busy);
    Binding& b = impl_->find(output, false);
    impl_->check_not_state(b);
    impl_->ready = false;
    b.address = nullptr, b.bytes = 0, b.allocator = &allocator;
  });
}
const void* ExecutionContext::tensor_address(std::string_view tensor) const {
  return impl().find(tensor).address;
}

void ExecutionContext::execute() {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->check_before_run();
    impl_->run();
  });
}
void ExecutionContext::execute(Profiler& profiler) {
  translate_errors([&] {
    const Use use(impl().busy);
    auto& layers = profiler.impl_->profiler;
    auto names = impl_->context->engine().timed_names(impl_->context->profile());
    if (layers && layers->layers() != names)
      throw_input_error("a profiler can be used with one engine and one optimization profile only");
    if (!layers) layers = std::make_unique<LayerProfiler>(std::move(names));
    impl_->check_before_run();
    impl_->run(*layers);
  });
}
void ExecutionContext::enqueue(Stream& stream, std::function<void()> inputs_consumed) {
  translate_errors([&] {
    auto use = std::make_shared<Use>(impl().busy);
    impl_->check_before_run();
    // The job owns the state, so that a context may go while it runs. `use` goes before it.
    stream.impl_->push([impl = impl_, use, done = std::move(inputs_consumed)]() mutable {
      const std::shared_ptr<Use> until_end = std::move(use);
      translate_errors([&] { impl->run(); });
      if (done) done();
    });
  });
}

void ExecutionContext::enqueue(CudaStream on) {
  translate_errors([&] {
    const Use use(impl().busy);
    impl_->check_before_run();
    impl_->run_on(on.handle);
  });
}

}  // namespace lathe::v1
