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

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/types.h"

namespace lathe::v1 {

class ExecutionContext;

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

// Cheap to copy: copies share the engine.
class Engine {
 public:
  std::vector<TensorInfo> inputs() const;
  std::vector<TensorInfo> outputs() const;
  int profile_count() const;
  // The smallest, tuned-for and largest extents of an input in a profile. Throws for an unknown name or profile.
  Dims min_dims(std::string_view input, int profile = 0) const;
  Dims opt_dims(std::string_view input, int profile = 0) const;
  Dims max_dims(std::string_view input, int profile = 0) const;

  std::vector<std::string> layer_names(int profile = 0) const;
  int64_t weight_bytes(int profile = 0) const;      // shared by all contexts
  int64_t activation_bytes(int profile = 0) const;  // of each context

  ExecutionContext create_context(int profile = 0) const;

  // Writes the engine file; an old file stays as it was when that fails.
  void save(const std::string& path) const;
  std::vector<std::byte> serialize() const;

  struct Impl;
  explicit Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// The state of running an engine: shapes and memory. Move-only.
class ExecutionContext {
 public:
  ExecutionContext(ExecutionContext&&) noexcept;
  ExecutionContext& operator=(ExecutionContext&&) noexcept;
  ~ExecutionContext();

  // Runs once. `inputs` are in the engine's order; their extents are the shapes of this run. Throws when one does not fit the
  // engine or its optimization profile.
  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs);

  // The same without copies: set the shapes that are dynamic, then give one address per input and per output, inputs first, in
  // the engine's order, each with room for input_bytes() or output_bytes(). Addresses are of the device's memory.
  void set_input_dims(std::string_view input, const Dims& dims);
  void set_input_values(std::string_view input, const std::vector<int64_t>& elements);  // shape tensors
  size_t input_bytes(size_t index);
  size_t output_bytes(size_t index);  // room for the upper bound where the size depends on data
  void enqueue(std::span<void* const> bindings);
  // After a run, or before it when nothing depends on data.
  Dims output_dims(size_t index);

  // Runs with a time per layer (slower than enqueue).
  void enqueue_profiled(std::span<void* const> bindings, Profiler& profiler);

  void set_profile(int index);  // shapes have to be set again
  int64_t device_bytes() const;

 private:
  friend class Engine;
  struct Impl;
  explicit ExecutionContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Runtime {
 public:
  // The logger must outlive the runtime. Throws when the device is not there.
  explicit Runtime(Logger& logger, const DeviceConfig& device = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Throws when the file is damaged, or was made for another device only (Builder::retarget helps).
  Engine load(const std::string& path);
  Engine load(std::vector<std::byte> bytes);

  std::string device_description() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::v1
