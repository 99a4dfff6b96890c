// SPDX-License-Identifier: Apache-2.0
//
// trtexec's measured loop: contexts with their bindings, queries in flight, and the times of each.
//
// A query is: copy inputs, run the layers, copy outputs, with events around each. On a device two queries are
// in flight per stream (the host runs one ahead); on a backend that computes on the host a query is finished
// when the call returns.
#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "arguments/options.h"
#include "report/log.h"
#include "report/numerics_check.h"
#include "report/outputs.h"
#include "report/performance.h"
#include "runtime/engine.h"
#include "runtime/profiler.h"

namespace lathe::cli {

// Bindings of one input or output: on the device, and on the host when that is another place.
struct Binding {
  std::unique_ptr<Buffer> device, host;
  size_t bytes = 0;
  void* host_data() { return host ? host->data() : device->data(); }
};

class InferenceStream {
 public:
  // Shapes are set; inputs are filled through input_data().
  InferenceStream(std::shared_ptr<const Engine> engine, std::unique_ptr<Context> context, int depth,
                  bool spin);
  ~InferenceStream();

  Context& context() { return *context_; }
  void* input_data(size_t index) { return inputs_[index].host_data(); }
  void copy_inputs();   // host to device, waits
  void copy_outputs();  // device to host, waits
  // Runs once, layer by layer (report/numerics_check.h).
  NumericsReport check_numerics();
  // Outputs of the last query, on the host.
  std::vector<NamedTensor> outputs();

  struct Clock {
    const TimeEvent* zero = nullptr;  // the device's zero
    double host_zero_ms = 0;
  };
  // Starts a query; `profiler` (may be null) gets the layers' times.
  void query(const Clock& clock, bool transfers, LayerProfiler* profiler);
  // Waits for the oldest query that is due and records its times. Returns its start on the device, in
  // milliseconds; negative: none was due yet. `all`: for everything in flight.
  double sync(const Clock& clock, bool all, QueryRecorder& record);
  std::unique_ptr<TimeEvent> record_now();
  // How often state was full, so that it began again.
  int64_t restarts() const { return restarts_; }

 private:
  struct Slot;
  void start_step();
  double finish(Slot& slot, const Clock& clock, QueryRecorder& record);

  std::shared_ptr<const Engine> engine_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Stream> stream_, input_stream_, output_stream_;
  std::vector<Binding> inputs_, outputs_;
  std::vector<void*> addresses_;
  std::vector<std::unique_ptr<Slot>> slots_;
  size_t next_ = 0;
  int64_t restarts_ = 0;
};

double host_now_ms();

// The loop of `flags` over all streams; returns what each of its threads recorded. `profiler` (may be null)
// listens to the first stream. The loop ends early, after at least one query, when `stop` asks for it.
std::vector<QueryRecorder> run_queries(std::vector<std::unique_ptr<InferenceStream>>& streams,
                                       const InferenceFlags& flags, const RecordOptions& recording,
                                       LayerProfiler* profiler, const std::stop_token& stop = {});

}  // namespace lathe::cli
