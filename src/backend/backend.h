// SPDX-License-Identifier: Apache-2.0
//
// A backend: tactics for layers, times for tactics, programs from choices, and memory. tune/, memory/, plan/ and runtime/
// know this and nothing else of a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/program.h"
#include "backend/tactic.h"
#include <utility>

namespace lathe {

// What a section of an engine was made for. Two targets are the same when their keys are.
struct Target {
  std::string backend;      // "cpu", "cuda"
  std::string description;  // for people: "AMD EPYC, AVX512-BF16, 2 threads"
  std::string key;          // exact: CPU family/model/stepping, ISA in use, caches, library and kernel revisions
  int threads = 1;          // not part of the key: another thread count only changes partitions
};

// A layer prepared for timing with one tactic: seeded random data in rotating buffers, so that a run finds its inputs cold.
class TimedLayer {
 public:
  virtual ~TimedLayer() = default;
  // Runs once on the next set of buffers; milliseconds on the device's clock.
  virtual double run_ms() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Target& target() const = 0;
  // All tactics of a layer, refused ones included, in a fixed order that starts with what the heuristic expects to be
  // fastest: level 0 takes the first supported one without timing.
  virtual std::vector<Tactic> tactics(const LayerQuery& query) const = 0;
  virtual std::unique_ptr<TimedLayer> prepare_timing(const LayerQuery& query, const Tactic& tactic) const = 0;
  // Scratch memory of the layer with this tactic at the largest shapes; -1: this device does not say. As dear as making the layer.
  virtual int64_t scratch_bytes(const LayerQuery&, const Tactic&) const { return -1; }
  virtual std::unique_ptr<Program> compile(const ProgramSpec& spec) const = 0;

  // Types that --fp16, --bf16 ... can use here; `reason` says why not.
  virtual Support supports_compute_type(DType dtype) const = 0;

  virtual std::unique_ptr<Stream> create_stream() const = 0;
  virtual std::unique_ptr<TimeEvent> create_event() const = 0;
  virtual std::unique_ptr<Buffer> allocate(size_t bytes) const = 0;
  virtual std::unique_ptr<Buffer> allocate_host(size_t bytes) const = 0;
  virtual void copy_to_device(void* device, const void* host, size_t bytes, Stream& stream) const = 0;
  virtual void copy_to_host(void* host, const void* device, size_t bytes, Stream& stream) const = 0;
  // True when bindings are host memory and transfers are not needed (CPU).
  virtual bool is_host() const = 0;
  // What trtexec's "Device Information" section shows: pairs of name and value, in order.
  virtual std::vector<std::pair<std::string, std::string>> device_information() const = 0;
};

}  // namespace lathe
