// SPDX-License-Identifier: Apache-2.0
#include "inference.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "base/error.h"
#include "padded_channels.h"

namespace lathe::cli {

double host_now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

// The events of one query. Host times are of the call that launched it.
struct InferenceStream::Slot {
  Slot(const Backend& backend, bool spin) {
    for (auto* event : {&input_start, &input_end, &compute_start, &compute_end, &output_start, &output_end})
      *event = spin ? backend.create_event() : backend.create_sleeping_event();
  }
  std::unique_ptr<TimeEvent> input_start, input_end, compute_start, compute_end, output_start, output_end;
  double launch_start_ms = 0, launch_end_ms = 0;
  bool transfers = false, in_flight = false;
};

InferenceStream::InferenceStream(std::shared_ptr<const Engine> engine, std::unique_ptr<Context> context,
                                 int depth, bool spin)
    : engine_(std::move(engine)),
      context_(std::move(context)),
      stream_(engine_->backend()->create_stream()),
      input_stream_(engine_->backend()->create_stream()),
      output_stream_(engine_->backend()->create_stream()) {
  const Backend& backend = *engine_->backend();
  const auto add = [&](std::vector<Binding>& bindings, int64_t byte_count) {
    Binding binding;
    binding.bytes = static_cast<size_t>(byte_count);
    binding.device = backend.allocate(std::max<size_t>(binding.bytes, 1));
    if (!backend.is_host()) binding.host = backend.allocate_host(std::max<size_t>(binding.bytes, 1));
    addresses_.push_back(binding.device->data());
    bindings.push_back(std::move(binding));
  };
  const State* state = context_->state();
  for (size_t i = 0; i < engine_->inputs().size(); ++i) {
    const bool own = !state || !state->has_input(i);
    const TensorInfo& input = engine_->inputs()[i];
    add(inputs_, own ? storage_bytes(input.dtype, context_->largest_input_extents(i), input.format) : 0);
  }
  for (size_t i = 0; i < engine_->outputs().size(); ++i)
    add(outputs_, state && state->has_output(i) ? 0 : context_->largest_output_bytes(i));
  const int slots = backend.is_host() ? 1 : depth;
  for (int i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>(backend, spin));
}

InferenceStream::~InferenceStream() = default;

void InferenceStream::copy_inputs() {
  for (auto& binding : inputs_) {
    if (binding.host == nullptr) continue;
    engine_->backend()->copy_to_device(binding.device->data(), binding.host->data(), binding.bytes, *stream_);
  }
  stream_->synchronize();
}

void InferenceStream::copy_outputs() {
  for (auto& binding : outputs_) {
    if (binding.host == nullptr) continue;
    engine_->backend()->copy_to_host(binding.host->data(), binding.device->data(), binding.bytes, *stream_);
  }
  stream_->synchronize();
}

NumericsReport InferenceStream::check_numerics() {
  copy_inputs();
  return lathe::check_numerics(*context_, addresses_, *stream_);
}

std::vector<NamedTensor> InferenceStream::outputs() {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto& info = engine_->outputs()[i];
    if (const State* state = context_->state(); state && state->has_output(i)) {
      for (size_t pair = 0; pair < state->size(); ++pair)
        if (state->output(pair) == i)
          tensors.push_back({info.name, state->read(pair, *stream_), info.is_string});
      continue;
    }
    const Extents extents = context_->output_extents(i);
    const bool padded = pads_channels(info.format);
    Tensor tensor = padded ? Tensor::allocate(DType::UInt8, {storage_bytes(info.dtype, extents, info.format)})
                           : Tensor::allocate(info.dtype, extents);
    const size_t bytes = std::min(outputs_[i].bytes, tensor.bytes().size());
    if (context_->output_is_held(i)) {
      context_->copy_output(i, tensor, nullptr, *stream_);
      stream_->synchronize();
    } else if (bytes > 0)
      std::copy_n(static_cast<const std::byte*>(outputs_[i].host_data()), bytes,
                  tensor.mutable_bytes().data());
    if (padded) tensor = without_padding(tensor.bytes().data(), info.dtype, extents, info.format);
    tensors.push_back({info.name, std::move(tensor), info.is_string});
  }
  return tensors;
}

std::unique_ptr<TimeEvent> InferenceStream::record_now() {
  auto event = engine_->backend()->create_event();
  event->record(*stream_);
  event->synchronize();
  return event;
}

// Shapes of the next step, when there is state.
void InferenceStream::start_step() {
  if (context_->state() == nullptr) return;
  if (context_->state()->is_full()) {
    stream_->synchronize();  // the last step may still read it
    context_->reset_state();
    ++restarts_;
  }
  context_->follow_state();
}

void InferenceStream::query(const Clock& clock, bool transfers, LayerProfiler* profiler) {
  start_step();
  Slot& slot = *slots_[next_];
  check(!slot.in_flight, "a query slot is used twice");
  const Backend& backend = *engine_->backend();
  slot.transfers = transfers && !backend.is_host();
  slot.in_flight = true;
  next_ = (next_ + 1) % slots_.size();

  // Copies have streams of their own: those of the next query run beside the layers of this one. It writes
  // the same bytes to the buffers that these read, so nobody has to wait.
  slot.input_start->record(*input_stream_);
  if (slot.transfers) {
    for (auto& binding : inputs_) {
      backend.copy_to_device(binding.device->data(), binding.host->data(), binding.bytes, *input_stream_);
    }
  }
  slot.input_end->record(*input_stream_);
  backend.make_wait(*stream_, *slot.input_end);
  slot.compute_start->record(*stream_);
  slot.launch_start_ms = host_now_ms() - clock.host_zero_ms;
  if (profiler != nullptr) {
    context_->enqueue_profiled(addresses_, *stream_, *profiler);
  } else {
    context_->enqueue(addresses_, *stream_);
  }
  slot.launch_end_ms = host_now_ms() - clock.host_zero_ms;
  slot.compute_end->record(*stream_);
  backend.make_wait(*output_stream_, *slot.compute_end);
  slot.output_start->record(*output_stream_);
  if (slot.transfers) {
    for (auto& binding : outputs_) {
      backend.copy_to_host(binding.host->data(), binding.device->data(), binding.bytes, *output_stream_);
    }
  }
  slot.output_end->record(*output_stream_);
}

double InferenceStream::finish(Slot& slot, const Clock& clock, QueryRecorder& record) {
  slot.output_end->synchronize();
  slot.in_flight = false;
  // Durations are of their own two events: a device gives 32-bit times, which are coarse after a long run.
  QueryTimes times;
  times.compute_start = slot.compute_start->elapsed_ms(*clock.zero);
  times.compute_end = times.compute_start + slot.compute_end->elapsed_ms(*slot.compute_start);
  times.h2d_start = times.h2d_end = times.compute_start;
  times.d2h_start = times.d2h_end = times.compute_end;
  if (slot.transfers) {
    times.h2d_start = slot.input_start->elapsed_ms(*clock.zero);
    times.h2d_end = times.h2d_start + slot.input_end->elapsed_ms(*slot.input_start);
    times.d2h_start = slot.output_start->elapsed_ms(*clock.zero);
    times.d2h_end = times.d2h_start + slot.output_end->elapsed_ms(*slot.output_start);
  }
  // On the host the call runs the layers: what it costs besides them is the launch.
  double launch_ms = slot.launch_end_ms - slot.launch_start_ms;
  if (engine_->backend()->is_host()) launch_ms = std::max(0.0, launch_ms - times.compute());
  times.enqueue_start = slot.launch_start_ms;
  times.enqueue_end = slot.launch_start_ms + launch_ms;
  record.add(times);
  return times.compute_start;
}

double InferenceStream::sync(const Clock& clock, bool all, QueryRecorder& record) {
  double start = -1;
  if (all) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = *slots_[(next_ + i) % slots_.size()];
      if (slot.in_flight) start = std::max(start, finish(slot, clock, record));
    }
    return start;
  }
  Slot& oldest = *slots_[next_];
  return oldest.in_flight ? finish(oldest, clock, record) : start;
}

namespace {

using StreamGroup = std::vector<InferenceStream*>;

// One thread's loop over its streams. At least `iterations` queries per stream and `duration` after the
// warm-up.
void run_loop(const StreamGroup& streams, const InferenceFlags& flags, const InferenceStream::Clock& clock,
              LayerProfiler* profiler, const std::stop_token& stop, QueryRecorder& record) {
  const bool endless = flags.duration_s < 0;
  const double warm_up_ms = static_cast<double>(flags.warm_up_ms);
  const double end_ms = static_cast<double>(flags.duration_s) * 1000 + warm_up_ms;
  double elapsed_ms = 0;
  int64_t skipped = 0;
  for (int64_t i = 0; endless || i < flags.iterations + skipped || elapsed_ms < end_ms; ++i) {
    for (size_t s = 0; s < streams.size(); ++s)
      streams[s]->query(clock, flags.transfers, s == 0 ? profiler : nullptr);
    for (auto* stream : streams) elapsed_ms = std::max(elapsed_ms, stream->sync(clock, false, record));
    if (stop.stop_requested()) break;
    if (elapsed_ms < warm_up_ms) {
      if (elapsed_ms != 0) ++skipped;
    } else if (flags.idle_ms > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(flags.idle_ms));
    }
  }
  for (auto* stream : streams) stream->sync(clock, true, record);
}

}  // namespace

std::vector<QueryRecorder> run_queries(std::vector<std::unique_ptr<InferenceStream>>& streams,
                                       const InferenceFlags& flags, const RecordOptions& recording,
                                       LayerProfiler* profiler, const std::stop_token& stop) {
  for (auto& stream : streams) stream->copy_inputs();
  if (flags.sleep_ms > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(flags.sleep_ms));
  const auto zero = streams.front()->record_now();
  const InferenceStream::Clock clock{zero.get(), host_now_ms()};

  const size_t loops = flags.threads ? streams.size() : 1;
  std::vector<StreamGroup> parts(loops);
  for (size_t s = 0; s < streams.size(); ++s) parts[s % loops].push_back(streams[s].get());
  std::vector<QueryRecorder> records(loops, QueryRecorder(recording));
  std::vector<std::exception_ptr> errors(loops);
  const auto body = [&](size_t part) {
    try {
      run_loop(parts[part], flags, clock, part == 0 ? profiler : nullptr, stop, records[part]);
    } catch (...) {
      errors[part] = std::current_exception();
    }
  };
  const Backend& backend = *streams.front()->context().engine().backend();
  backend.mark_profiled_range(true);
  std::vector<std::thread> threads;
  for (size_t part = 1; part < loops; ++part) threads.emplace_back(body, part);
  body(0);
  for (auto& thread : threads) thread.join();
  backend.mark_profiled_range(false);
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return records;
}

}  // namespace lathe::cli
