// SPDX-License-Identifier: Apache-2.0
//
// Runs engines.
//
//   Runtime runtime(logger);
//   Engine engine = runtime.load("resnet50.engine");
//   ExecutionContext context = engine.create_context();
//   std::vector<HostTensor> outputs = context.run({image});
//
// An Engine is immutable and may be shared by threads; a context belongs to one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/types.h"

namespace lathe::v1 {

class ExecutionContext;
class Refitter;

// Layer times of profiled runs, in milliseconds.
class Profiler {
 public:
  struct Layer {
    std::string name;
    double total_ms = 0, average_ms = 0, median_ms = 0;
  };
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  std::vector<Layer> layers() const;  // in order of execution
  int runs() const;

 private:
  friend class ExecutionContext;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// When a context takes memory for its activations.
enum class ContextMemory {
  WhenNeeded,   // when its first shapes are set: as much as its profile needs
  AllProfiles,  // at once, as much as the profile that needs most: set_profile() takes none
};

// How an engine was built.
struct BuildInfo {
  std::string lathe_version;  // that built it
  std::string device;         // "AMD EPYC, AVX512-BF16, 2 threads"
  // "level 3, fp32+bf16", then what was not as it is by default: "without OnednnMatMul", "without pass
  // fuse_pointwise", "workspace 1048576 bytes".
  std::string settings;
  bool timed = false;  // false: tactics were taken untimed (level 0, Builder::retarget)
  bool detailed_layer_information = false;
  // Of the model's file.
  std::string model, producer, producer_version;
  int64_t opset_version = 0;
};

// Cheap to copy: copies share the engine.
class Engine {
 public:
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  int profile_count() const;
  // The smallest, tuned-for and largest extents of an input in a profile. Throws for an unknown name or
  // profile.
  Dims min_dims(std::string_view input, int profile = 0) const;
  Dims opt_dims(std::string_view input, int profile = 0) const;
  Dims max_dims(std::string_view input, int profile = 0) const;
  // The same for the elements of a shape tensor.
  std::vector<int64_t> min_values(std::string_view input, int profile = 0) const;
  std::vector<int64_t> opt_values(std::string_view input, int profile = 0) const;
  std::vector<int64_t> max_values(std::string_view input, int profile = 0) const;

  BuildInfo build_info() const;
  std::vector<std::string> layer_names(int profile = 0) const;
  int64_t weight_bytes(int profile = 0) const;      // shared by all contexts
  int64_t activation_bytes(int profile = 0) const;  // of each context
  // Whether contexts read and write memory of the host (a CPU's engine) or of a GPU.
  bool uses_host_memory() const;

  ExecutionContext create_context(int profile = 0, ContextMemory memory = ContextMemory::WhenNeeded) const;

  // Writes the engine file; an old file stays as it was when that fails.
  void save(const std::string& path) const;
  std::vector<std::byte> serialize() const;
  // Gives the bytes of the engine file in order, in pieces, so that no copy of the whole is made.
  void write(const std::function<void(std::span<const std::byte>)>& piece) const;
  // The same without weights: a Refitter makes an engine of it again.
  void save_stripped(const std::string& path) const;
  std::vector<std::byte> serialize_stripped() const;

  struct Impl;
  explicit Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Gives memory for outputs whose size is not known before the run, or is left to the library's user.
class OutputAllocator {
 public:
  virtual ~OutputAllocator() = default;
  // Memory of at least `bytes` bytes on the engine's device for this run's result. Called by the thread that
  // runs; null or an exception makes the run fail.
  virtual void* allocate(std::string_view output, size_t bytes, const Dims& dims) = 0;
};

// Runs what contexts and refitters enqueue, in order, on a thread of its own.
class Stream {
 public:
  Stream();
  ~Stream();  // waits for what was enqueued
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Waits for all that was enqueued. Throws the first error of it; the runs after that one were left out.
  void synchronize();

 private:
  friend class ExecutionContext;
  friend class Refitter;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A stream of a CUDA program: a cudaStream_t or CUstream; null is the default stream.
struct CudaStream {
  void* handle = nullptr;
};

// Sees the tensors between the layers of a run.
class DebugListener {
 public:
  virtual ~DebugListener() = default;
  // Called by the thread that runs, right behind the layer that made the tensor, with a copy, row-major. An
  // exception makes the run fail.
  virtual void on_tensor(std::string_view name, const HostTensor& values) = 0;
};

// An output that is the next value of an input: a decoder's `present` of its `past`.
struct StatePair {
  std::string input, output;
};

// The state of running an engine: shapes, addresses and scratch memory. Move-only. Used by one thread at a
// time: a second one, or a call while a run is on a stream, gets an Error (Input), as does any use of a
// context that was moved away.
//
//   context.bind_input("x", DataType::Float, {2, 4}, x);              // your memory, read in place
//   context.bind_output("y", DataType::Float, y, context.tensor_bytes("y"));  // written in place
//   context.execute();
//
// Memory is of the engine's device, row-major, contiguous, aligned to its element type; it stays bound until
// another is.
class ExecutionContext {
 public:
  ExecutionContext(ExecutionContext&&) noexcept;
  ExecutionContext& operator=(ExecutionContext&&) noexcept;
  ~ExecutionContext();

  // Copies: runs once on host tensors in the engine's order; their extents are the shapes of this run. Throws
  // when one does not fit the engine or its optimization profile. What is bound stays bound.
  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs);

  // Shapes of dynamic inputs; bind_input sets them, too.
  void set_input_shape(std::string_view input, const Dims& dims);
  // Elements of a shape tensor. A bound one in host memory is read at each run.
  void set_input_values(std::string_view input, const std::vector<int64_t>& elements);
  // Checks the shapes and gives all outputs theirs. Returns the inputs that have no shape yet; then no output
  // has one. Throws for shapes outside of the optimization profile.
  std::vector<std::string> infer_shapes();
  // Extents at the shapes that are set. A data-dependent output's are the upper bound before the run and the
  // result's after it.
  Dims tensor_shape(std::string_view tensor);
  // Bytes that the tensor's memory must have; those of the upper bound where the size depends on data.
  size_t tensor_bytes(std::string_view tensor);

  void bind_input(std::string_view input, DataType type, const Dims& dims, const void* data);
  void bind_output(std::string_view output, DataType type, void* data, size_t bytes);
  // The allocator is asked at each run: before it, and the result is written in place; after it and with a
  // copy where the size depends on data. It must outlive the runs.
  void bind_output(std::string_view output, OutputAllocator& allocator);
  // What the engine reads or writes; null when nothing is bound.
  const void* tensor_address(std::string_view tensor) const;

  // Runs once and returns when the outputs are there.
  void execute();
  // The same with a time per layer (slower than execute()).
  void execute(Profiler& profiler);
  // Checks, then returns at once: the run is done when the stream was synchronized. Until then neither the
  // context nor its memory may be used. `inputs_consumed` is called on the stream's thread when inputs may be
  // written again.
  void enqueue(Stream& stream, std::function<void()> inputs_consumed = {});

  // For engines on GPUs: puts the run on a stream of the caller's CUDA program and returns. The bound memory
  // must live, and outputs stay untouched, until the stream is done with it; no wait for the device happens,
  // but where a size depends on data, in the second run of the same shapes and addresses, which records a
  // CUDA graph and checks it, and once, in the fourth of runs that all differ, which makes a graph for such.
  // Runs of one context on several streams wait for each other.
  void enqueue(CudaStream stream);

  // Activations lie in this memory of the caller from now on, instead of the context's own: memory_bytes() of
  // the engine's device, aligned to 256. Contexts that never run at the same time may share it. Set before
  // the first shapes, no other memory is ever taken. Null: the context's own again; so does set_profile().
  void set_memory(void* memory, size_t bytes);
  size_t memory_bytes() const;
  // Each run takes memory_bytes() for its activations from this allocator and gives them back behind itself:
  // on a GPU in the order of the run's stream, which both calls get. Null: the context's own memory again; so
  // does set_profile().
  void set_allocator(std::shared_ptr<Allocator> allocator);

  // Runs from now on go layer by layer, and the listener gets these tensors, or all without names: those that
  // debug_tensors() lists. What a fusion took in is none of them; an output of the network always is. Null:
  // none; so does set_profile(). The listener must outlive the runs. execute(profiler) tells it nothing.
  void set_debug_listener(DebugListener* listener, std::vector<std::string> tensors = {});
  std::vector<std::string> debug_tensors() const;

  // State. From now on each run is a step: these outputs stay in memory of the context and are inputs of the
  // next run. Such tensors get no shape and no binding, and run() takes and gives the others only. Where the
  // output is the input with something behind it (present = Concat(past, new)), a CPU writes only what is
  // new, if the layers that read it can; elsewhere two memories change places. Room is for the largest shapes
  // of the optimization profile. Without pairs: those that names tell (past.x and present.x, h0 and hn, x and
  // new_x). Gives the pairs. Throws Input for one that cannot be state; a step for which there is no room
  // throws, too, and changes nothing.
  //
  //   context.keep_state();
  //   for (...) logits = context.run({token})[0];
  //
  // Changed shapes of inputs and infer_shapes() start the next step: until then tensor_shape() tells of the
  // last run.
  std::vector<StatePair> keep_state(const std::vector<StatePair>& pairs = {});
  void drop_state();
  // What an input that is state begins with, now and after each reset_state(): a copy of `data`. Without it:
  // zeros, and no rows where it grows.
  void set_state(std::string_view input, DataType type, const Dims& dims, const void* data);
  // A copy of what the next step reads.
  HostTensor state(std::string_view input);
  // State begins again with the next run.
  void reset_state();
  // Per pair, how it is kept and why not in place. Known when a step's shapes are.
  std::vector<std::string> state_notes();

  int profile() const;
  void set_profile(int index);  // shapes and bindings have to be set again; state is not kept any more
  int64_t device_bytes() const;

 private:
  friend class Engine;
  struct Impl;
  explicit ExecutionContext(std::shared_ptr<Impl> impl);
  Impl& impl() const;
  std::shared_ptr<Impl> impl_;
};

// What the library takes memory of a device from when no other allocator is given, for pools.
std::shared_ptr<Allocator> device_allocator(const DeviceConfig& device = {});

class Runtime {
 public:
  // The logger must outlive the runtime. Throws when the device is not there.
  explicit Runtime(Logger& logger, const DeviceConfig& device = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Whether load() would take the file, from its head and index alone.
  struct FileCheck {
    bool loads = false;
    std::string reason;  // why not: it is damaged, stripped, or for other devices; empty: it loads
  };
  FileCheck check(const std::string& path) const;
  // Throws when the file is damaged, or was made for another device only (Builder::retarget helps).
  Engine load(const std::string& path);
  Engine load(std::vector<std::byte> bytes);

  std::string device_description() const;
  // Float types besides FP32 that layers compute in on this device: those for which BuilderConfig::fp16 and
  // bf16 have an effect.
  std::vector<DataType> fast_types() const;
  // Pairs of a property's name and its value with unit, as people read them.
  std::vector<std::pair<std::string, std::string>> device_properties() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::v1
