// SPDX-License-Identifier: Apache-2.0
#include "compiled_graph.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace lathe::onnxruntime_ep {
namespace {

using v1::Dims;

bool is_dynamic(const v1::TensorInfo& info) {
  return info.is_shape_tensor || std::ranges::find(info.dims, -1) != info.dims.end();
}

Dims elements_of(const RunInput& input) {
  Dims elements(static_cast<size_t>(v1::volume(input.dims)));
  for (size_t i = 0; i < elements.size(); ++i)
    elements[i] = input.type == v1::DataType::Int32 ? static_cast<const int32_t*>(input.data)[i]
                                                    : static_cast<const int64_t*>(input.data)[i];
  return elements;
}

// What of an input has to lie in its range: its extents, or a shape tensor's elements.
Dims ranged(const v1::TensorInfo& info, const RunInput& input) {
  return info.is_shape_tensor ? elements_of(input) : input.dims;
}

}  // namespace

EngineMaker::EngineMaker(v1::Logger& logger, Options wanted)
    : options(std::move(wanted)), builder(logger, options.device) {
  if (!options.timing_cache_file.empty()) options.build.timing_cache.load(options.timing_cache_file);
}

v1::Engine EngineMaker::build(const v1::Network& network, std::vector<v1::OptimizationProfile> profiles) {
  const std::lock_guard lock(building);
  v1::BuilderConfig config = options.build;
  config.profiles = std::move(profiles);
  v1::Engine engine = builder.build(network, config);
  if (!options.timing_cache_file.empty()) options.build.timing_cache.save(options.timing_cache_file);
  return engine;
}

// Gives the results the memory of ONNX Runtime's outputs.
struct CompiledGraph::Worker final : v1::OutputAllocator {
  Worker(std::shared_ptr<const v1::Engine> made, const std::vector<std::string>& names)
      : engine(std::move(made)), context(engine->create_context()), outputs(names) {
    if (engine->uses_host_memory())
      for (const std::string& name : outputs) context.bind_output(name, *this);
  }
  void* allocate(std::string_view output, size_t, const Dims& dims) override {
    return memory_of(output, dims);
  }
  void* memory_of(std::string_view output, const Dims& dims) const {
    const auto at = static_cast<size_t>(std::ranges::find(outputs, output) - outputs.begin());
    OrtValue* value = nullptr;
    check(ort().KernelContext_GetOutput(kernel, at, dims.data(), dims.size(), &value));
    void* data = nullptr;
    check(ort().GetTensorMutableData(value, &data));
    return data;
  }

  std::shared_ptr<const v1::Engine> engine;
  v1::ExecutionContext context;
  const std::vector<std::string>& outputs;
  OrtKernelContext* kernel = nullptr;  // of the run
};

CompiledGraph::CompiledGraph(EngineMaker& maker, const std::string& model, std::vector<std::string> inputs,
                             std::vector<std::string> outputs)
    : maker_(maker), inputs_(std::move(inputs)), outputs_(std::move(outputs)), infos_(inputs_.size()) {
  bool dynamic = false;
  {
    const std::lock_guard lock(maker_.building);
    network_ = maker_.builder.parse_onnx(std::as_bytes(std::span(model)));
  }
  for (const v1::TensorInfo& info : network_->inputs()) {
    const auto at = static_cast<size_t>(std::ranges::find(inputs_, info.name) - inputs_.begin());
    if (at == inputs_.size())
      throw v1::Error(v1::ErrorKind::Internal, "ONNX Runtime does not give the input '" + info.name + "'");
    infos_[at] = info;
    dynamic = dynamic || is_dynamic(info);
  }
  if (dynamic) return;
  engine_ = std::make_shared<const v1::Engine>(maker_.build(*network_, {}));
  network_.reset();
}

CompiledGraph::~CompiledGraph() = default;

void CompiledGraph::run(OrtKernelContext& context) {
  const std::vector<RunInput> inputs = read_inputs(context);
  std::unique_ptr<Worker> worker = take_worker(inputs);
  worker->kernel = &context;
  if (worker->engine->uses_host_memory()) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (infos_[i]) worker->context.bind_input(inputs_[i], inputs[i].type, inputs[i].dims, inputs[i].data);
    worker->context.execute();
  } else {
    run_with_copies(*worker, inputs);
  }
  give_back(std::move(worker));
}

// On a GPU: ONNX Runtime has its tensors in memory of the host.
void CompiledGraph::run_with_copies(Worker& worker, const std::vector<RunInput>& inputs) const {
  std::vector<v1::HostTensor> given;
  for (const v1::TensorInfo& info : worker.engine->inputs()) {
    const RunInput& input =
        inputs[static_cast<size_t>(std::ranges::find(inputs_, info.name) - inputs_.begin())];
    v1::HostTensor& tensor = given.emplace_back(input.type, input.dims);
    if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), input.data, tensor.bytes.size());
  }
  const std::vector<v1::HostTensor> results = worker.context.run(given);
  const std::vector<v1::TensorInfo> outputs = worker.engine->outputs();
  for (size_t i = 0; i < results.size(); ++i) {
    void* memory = worker.memory_of(outputs[i].name, results[i].dims);
    if (!results[i].bytes.empty()) std::memcpy(memory, results[i].bytes.data(), results[i].bytes.size());
  }
}

std::vector<RunInput> CompiledGraph::read_inputs(OrtKernelContext& context) const {
  std::vector<RunInput> inputs(inputs_.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!infos_[i]) continue;
    const OrtValue* value = nullptr;
    check(ort().KernelContext_GetInput(&context, i, &value));
    if (value == nullptr)
      throw v1::Error(v1::ErrorKind::Input,
                      v1::ErrorFields{.what = "it was not given", .where = "input '" + inputs_[i] + "'"});
    TensorView view = view_of(*value);
    inputs[i] = {static_cast<v1::DataType>(view.element_type), std::move(view.dims), view.data};
  }
  return inputs;
}

std::unique_ptr<CompiledGraph::Worker> CompiledGraph::take_worker(const std::vector<RunInput>& inputs) {
  const std::lock_guard lock(mutex_);
  if (!fits(inputs)) make_engine(inputs);
  if (idle_.empty()) return std::make_unique<Worker>(engine_, outputs_);
  std::unique_ptr<Worker> worker = std::move(idle_.back());
  idle_.pop_back();
  return worker;
}

void CompiledGraph::give_back(std::unique_ptr<Worker> worker) {
  const std::lock_guard lock(mutex_);
  if (worker->engine == engine_) idle_.push_back(std::move(worker));
}

bool CompiledGraph::fits(const std::vector<RunInput>& inputs) const {
  if (!engine_) return false;
  if (!network_) return true;  // what does not fit an engine of fixed shapes is for it to say
  for (const InputRange& range : ranges_) {
    const auto at = static_cast<size_t>(std::ranges::find(inputs_, range.input) - inputs_.begin());
    if (!range.holds(ranged(*infos_[at], inputs[at]))) return false;
  }
  return true;
}

void CompiledGraph::make_engine(const std::vector<RunInput>& inputs) {
  for (int attempt = 0;; ++attempt) {
    std::vector<InputRange> ranges;
    v1::OptimizationProfile profile;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!infos_[i] || !is_dynamic(*infos_[i])) continue;
      const auto before = std::ranges::find(ranges_, inputs_[i], &InputRange::input);
      const bool values = infos_[i]->is_shape_tensor;
      InputRange range = widen(before == ranges_.end() ? std::nullopt : std::optional(*before),
                               values ? Dims{} : infos_[i]->dims, ranged(*infos_[i], inputs[i]), attempt);
      range.input = inputs_[i];
      range.values = values;
      if (range.values)
        profile.set_values(range.input, range.min, range.opt, range.max);
      else
        profile.set_dims(range.input, range.min, range.opt, range.max);
      ranges.push_back(std::move(range));
    }
    try {
      auto made = std::make_shared<const v1::Engine>(maker_.build(*network_, {std::move(profile)}));
      idle_.clear();
      engine_ = std::move(made);
      ranges_ = std::move(ranges);
      return;
    } catch (const v1::Error& error) {
      // Shapes that contradict each other at a bound may not do so within narrower ones.
      if (error.kind() != v1::ErrorKind::Input || attempt + 1 == kRangeAttempts) throw;
    }
  }
}

}  // namespace lathe::onnxruntime_ep
