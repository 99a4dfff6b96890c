// SPDX-License-Identifier: Apache-2.0
//
// What a backend makes of all layers, choices and memory offsets together: the thing that runs.
//
// A Program is immutable and shared by all contexts (packed weights, compiled code). An Execution is the
// mutable state of one context: arena, prepared shapes, recorded graphs. Barriers, parallel branches, graph
// capture live inside.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/batch_split.h"
#include "backend/tactic.h"
#include "ir/graph.h"

namespace lathe {

// Which tactic a layer got, and the time that decided it (ms; an estimate where nothing was timed). One per
// node, in graph order.
struct Choice {
  Tactic tactic;
  double time_ms = 0;
  std::string fallback = {};  // why no kernel runs the layer, when the reference does
};

// Where a value lives while the engine runs.
struct Placement {
  enum class Kind : uint8_t {
    None,      // never stored (unused, or a constant packed into its reader)
    Arena,     // at `offset` in the arena
    Binding,   // in the caller's memory: graph input or output number `binding` (inputs first)
    Constant,  // the engine's weights, linear, read at run time
    View,      // `view_offset` bytes inside `base`, whose placement is not a View
    Grown,  // in memory number `slot` of the execution, which grows when a run knows the size (open_size.h)
  };
  Kind kind = Kind::None;
  int64_t offset = 0;
  int binding = -1;
  int slot = -1;
  ValueId base = kNoValue;
  Dim view_offset;
};

struct MemoryPlan {
  std::vector<Placement> placements;  // by ValueId
  int64_t arena_bytes = 0;
  int64_t unshared_bytes = 0;  // what it would be without reuse
  int slots = 0;               // of Grown values
};

// Byte blocks that a program wants kept in the engine file (packed weights, GPU binaries). When a program is
// compiled from a file the blocks are already there and packing is skipped.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  // The block, or an empty span. It stays valid as long as the store.
  virtual std::span<const std::byte> find(const std::string& key) const = 0;
  // Stores a block and returns where it now lies (64-byte aligned, stable).
  virtual std::span<const std::byte> put(const std::string& key, std::vector<std::byte> bytes) = 0;
  // Whether anybody will ask for what was packed: not for that of an engine that was loaded, which its file
  // does not have either. It may lie where the backend likes then.
  virtual bool wants_packed() const { return true; }
};

struct ProgramSpec {
  std::shared_ptr<const Graph> graph;  // final: typed, with formats and Reformat nodes
  std::vector<Choice> choices;         // in graph->order()
  MemoryPlan memory;
  SymbolRanges ranges;  // of the whole batch; choices and memory are for part_ranges()
  std::shared_ptr<BlobStore> blobs;
  BatchSplit split;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;
};

// A point in a stream's time.
class TimeEvent {
 public:
  virtual ~TimeEvent() = default;
  virtual void record(Stream& stream) = 0;
  virtual void synchronize() = 0;
  // Milliseconds from `start` to this one; both recorded and done.
  virtual double elapsed_ms(const TimeEvent& start) const = 0;
};

// Memory of the backend's device (or pinned host memory). Aligned to 64 bytes at least.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
};

class Execution {
 public:
  virtual ~Execution() = default;
  // Values of all symbols of the input shapes. Prepares what depends on shapes; cheap when they were seen
  // before.
  virtual void set_shapes(const SymbolValues& values) = 0;
  // The next set_shapes() will probably have these: a device that works by itself leaves the host time to
  // prepare them. May throw what set_shapes() would.
  virtual void expect_shapes(const SymbolValues&) {}
  // Addresses of graph inputs, then outputs, in backend memory, linear format. Data-dependent outputs must
  // have room for their upper bound; the address of a Grown output is not used. Enqueues on `stream` (the CPU
  // runs at once).
  virtual void run(std::span<void* const> bindings, Stream& stream) = 0;
  // The same, layer by layer: time_ms[i] is the i-th layer's; behind them, or not, those of nested_layers().
  virtual void run_profiled(std::span<void* const> bindings, Stream& stream, std::span<double> time_ms) = 0;
  // The same, with a call before and after each layer, when read() can see its inputs and outputs.
  struct LayerHook {
    std::function<void(size_t layer)> before, after;
  };
  virtual void run_observed(std::span<void* const> bindings, Stream& stream, const LayerHook& hook) = 0;
  // Copies a live value to the host in linear format. Only inside a hook.
  virtual Tensor read(ValueId value) = 0;
  // Extents of a value; data-dependent dims are known after the run.
  virtual Extents extents(ValueId value) const = 0;
  // Where the last run left a Grown output, in backend memory; null for other outputs.
  virtual const void* held_output(size_t /*index*/) const { return nullptr; }
  virtual int64_t device_bytes() const = 0;  // arena + scratch of this context
  // How the last run was launched, when that is worth a line ("CUDA graph", or why not). Empty on CPU.
  virtual std::string launch_note() const { return {}; }
};

class Program {
 public:
  virtual ~Program() = default;
  virtual std::unique_ptr<Execution> create_execution() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

}  // namespace lathe
