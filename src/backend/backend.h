// SPDX-License-Identifier: Apache-2.0
//
// A backend: tactics for layers, times for tactics, programs from choices, and memory. tune/, memory/, plan/
// and runtime/ know this and nothing else of a device.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/program.h"
#include "backend/tactic.h"

namespace lathe {

// What a section of an engine was made for. Two targets are the same when their keys are.
struct Target {
  std::string backend;      // "cpu", "cuda"
  std::string description;  // for people: "AMD EPYC, AVX512-BF16, 2 threads"
  std::string key;  // exact: CPU family/model/stepping, ISA in use, caches, library and kernel revisions
  int threads = 1;  // not part of the key: another thread count only changes partitions
};

// A layer prepared for timing with one tactic: seeded random data in rotating buffers, so that a run finds
// its inputs cold.
class TimedLayer {
 public:
  virtual ~TimedLayer() = default;
  // Runs once on the next set of buffers; milliseconds on the device's clock.
  virtual double run_ms() = 0;
};

// What may be expected of a device before anything is timed, and how far a layer's time alone can be trusted.
struct TuningTraits {
  double flops_per_ms = 4e7,
         bytes_per_ms = 8e6;  // the roofline behind estimates: half of what one middling core reaches
  // What a reformat costs its neighbours beyond its own time: another barrier, and data that leaves the
  // caches.
  double reformat_surcharge_ms = 0.004;
  // What a layer may take on top of its share of the time budget: libraries load their kernels when they are
  // first used.
  double first_use_seconds = 0;
  // Rivals share their operands, so that a race of many takes no more memory than one of two.
  bool shares_operands = false;
  // Narrow types win as a rule: an engine without them is a rival to check, not one to tune layer by layer.
  bool narrow_types_win = false;
  // Others share the device and halve its speed for seconds: what was timed then is timed once more.
  bool has_slow_phases = false;
  bool tunes_bodies = false;  // its layers with bodies take Tactic::bodies
  // Neighbours overlap in a network, so times of single layers may mislead: the tuned engine is checked
  // against the one that would be built without timing.
  bool check_whole_engines = false;
};

// A layer and a tactic that will be prepared for timing.
struct TimingTask {
  LayerQuery query;
  Tactic tactic;
};

// Work that goes on in the background; ends with the object.
class BackgroundWork {
 public:
  virtual ~BackgroundWork() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Target& target() const = 0;
  // All tactics of a layer, refused ones included, in a fixed order that starts with what the heuristic
  // expects to be fastest: level 0 takes the supported one with the least expected_us, or the first where
  // nothing is expected, without timing.
  virtual std::vector<Tactic> tactics(const LayerQuery& query) const = 0;
  virtual std::unique_ptr<TimedLayer> prepare_timing(const LayerQuery& query, const Tactic& tactic) const = 0;
  // The tasks will be timed, in this order: what takes the processor (compiling) may begin on threads of the
  // backend's own. The graphs of the tasks outlive the result. Null: nothing to do ahead.
  virtual std::unique_ptr<BackgroundWork> prepare_ahead(std::vector<TimingTask>) const { return nullptr; }
  virtual TuningTraits tuning_traits() const { return {}; }
  // Scratch memory of the layer with this tactic at the largest shapes; -1: this device does not say. As dear
  // as making the layer.
  virtual int64_t scratch_bytes(const LayerQuery&, const Tactic&) const { return -1; }
  virtual std::unique_ptr<Program> compile(const ProgramSpec& spec) const = 0;
  // Operators that not every backend has, and this one has fast tactics for, by kName: passes may make them,
  // and keep them whole.
  virtual std::vector<std::string_view> own_operators() const { return {}; }
  // Whether products of bytes take a stack of matrices, each column of each with a scale of its own: passes
  // make one product of several then.
  virtual bool stacks_grids() const { return false; }
  // The same device with one thread, on which layers of a split batch are tuned; null: programs here run
  // whole batches only.
  virtual std::shared_ptr<const Backend> one_thread() const { return nullptr; }

  // Types that --fp16, --bf16 ... can use here; `reason` says why not.
  virtual Support supports_compute_type(DType dtype) const = 0;

  // Is there a kernel of this float type for every kind of layer? Where there is none, a model that is stored
  // in the type computes in FP32.
  virtual bool computes_everything_in(DType dtype) const { return supports_compute_type(dtype).ok; }

  virtual std::unique_ptr<Stream> create_stream() const = 0;
  virtual std::unique_ptr<TimeEvent> create_event() const = 0;
  // One whose synchronize() sleeps instead of spinning: it leaves the processor to others and wakes some
  // microseconds late.
  virtual std::unique_ptr<TimeEvent> create_sleeping_event() const { return create_event(); }
  // What `stream` gets from now on waits for the event. Nothing to do where work runs at once.
  virtual void make_wait(Stream&, const TimeEvent&) const {}
  virtual std::unique_ptr<Buffer> allocate(size_t bytes) const = 0;
  virtual std::unique_ptr<Buffer> allocate_host(size_t bytes) const = 0;
  virtual void copy_to_device(void* device, const void* host, size_t bytes, Stream& stream) const = 0;
  virtual void copy_to_host(void* host, const void* device, size_t bytes, Stream& stream) const = 0;
  // Free and total bytes of the device's own memory; zeros where it is the host's.
  struct DeviceMemoryFigures {
    int64_t free_bytes = 0, total_bytes = 0;
  };
  virtual DeviceMemoryFigures device_memory() const { return {}; }
  // The part of a run that a profiler of the device should look at begins or ends.
  virtual void mark_profiled_range(bool begins) const { (void)begins; }
  // True when bindings are host memory and transfers are not needed (CPU).
  virtual bool is_host() const = 0;
  // What trtexec's "Device Information" section shows: pairs of name and value, in order.
  virtual std::vector<std::pair<std::string, std::string>> device_information() const = 0;
};

}  // namespace lathe
