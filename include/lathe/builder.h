// SPDX-License-Identifier: Apache-2.0
//
// Builds engines from ONNX models.
//
//   Builder builder(logger);
//   Network network = builder.parse_onnx("resnet50.onnx");
//   BuilderConfig config;
//   config.profiles.emplace_back().set_dims("input", {1, 3, 224, 224}, {8, 3, 224, 224}, {32, 3, 224, 224});
//   Engine engine = builder.build(network, config);
//   engine.save("resnet50.engine");
#pragma once

#include <cstddef>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "lathe/network.h"
#include "lathe/runtime.h"
#include "lathe/types.h"

namespace lathe::v1 {

// The shapes that an engine accepts. Every dynamic input has a range; min <= opt <= max in each dim, and it
// is tuned for opt.
class OptimizationProfile {
 public:
  OptimizationProfile& set_dims(std::string input, Dims min, Dims opt, Dims max);
  // The elements of a shape tensor.
  OptimizationProfile& set_values(std::string input, std::vector<int64_t> min, std::vector<int64_t> opt,
                                  std::vector<int64_t> max);

  struct Range {
    std::string input;
    bool values = false;
    Dims min, opt, max;
  };
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// What a timing cache knows of one tactic of one layer.
struct TimingCacheEntry {
  uint64_t target = 0;     // the device
  uint64_t signature = 0;  // the layer, with types and formats of this tactic's operands
  uint64_t tactic = 0;
  double milliseconds = 0;  // 0: a time budget ended before it was timed
  std::string about;        // for people: "onednn_matmul | MatMul{...} (...) -> (...) | float32:linear, ..."
};

// Measured times, kept between builds. Text; files of several machines merge. Cheap to copy: copies share the
// cache.
class TimingCache {
 public:
  TimingCache();
  // Adds the entries of a file. False when there is none; throws when it is something else.
  bool load(const std::string& path);
  // Merges into the file, under a lock.
  void save(const std::string& path) const;
  void merge(const TimingCache& other);
  // The text of a file, and its opposite: adds the entries of a text; lines that cannot be read are left out.
  std::string to_text() const;
  void merge_text(std::string_view text);
  size_t size() const;
  // All tactics that were candidates for a layer, those that lost included.
  std::vector<TimingCacheEntry> entries() const;
  // Gives the entry of this target, signature and tactic another time: builds take the tactic with the least.
  // Throws Input where there is no such entry, and for a time that is not above 0.
  void set_time(const TimingCacheEntry& entry, double milliseconds);

  struct Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// How far a build is.
struct Progress {
  std::string stage;              // "Tuning", "Timing whole engines"
  int64_t done = 0, total = 0;    // steps of this stage
  double remaining_seconds = -1;  // of this stage; -1: not known yet
};

class ProgressMonitor {
 public:
  virtual ~ProgressMonitor() = default;
  // Called on the building thread. False cancels: build() throws Error (Cancelled). Must not throw.
  virtual bool on_progress(const Progress& progress) = 0;
};

// What callers give as an input, or take as an output, where that differs from the model.
struct IoType {
  std::optional<DataType> type;  // a Cast converts numbers; nullopt: the model's
  // "chw", "hwc", "dhwc"; "hwc8", "hwc16" and "dhwc8", which pad channels; "chw16" where they need no padding.
  std::string format = "chw";
};

// What single layers compute in, and the types of their results: Float, Half or BFloat16.
struct LayerPrecision {
  std::string layer;  // the name of a node of the ONNX model; '*' stands for any text
  std::optional<DataType> compute;
  std::vector<DataType> outputs;  // one for all outputs, or one for each
};
// Where no tactic has the types: Prefer takes others; with Obey build() throws, unless the layer is named by
// a pattern alone.
enum class PrecisionConstraints { None, Prefer, Obey };

struct BuilderConfig {
  std::vector<OptimizationProfile> profiles;  // empty: one; its unknown dims are 1

  // Types that layers may compute in besides the model's own. The faster engine of with and without is kept.
  bool bf16 = false;
  bool fp16 = false;
  bool best = false;            // all that the device has
  bool strongly_typed = false;  // types come from the model alone
  // They need none of the flags above, which let the other layers choose. A whole name counts before a
  // pattern; a layer that several nodes became computes in Float if one of them shall.
  std::vector<LayerPrecision> layer_precisions;
  PrecisionConstraints precision_constraints = PrecisionConstraints::Obey;

  int optimization_level = 3;       // 0 (nothing is timed) to 5
  int max_tactics = -1;             // timed per layer; -1: by level
  int avg_timing = 8;               // repetitions per tactic
  double time_budget_seconds = -1;  // for tuning; -1: by level
  bool winograd = true;             // faster, less exact tactics, within the error budget
  bool keep_nan = false;            // leave out what libraries compute without keeping NaN
  std::vector<std::string> disabled_runners;
  std::vector<std::string> disabled_passes;  // names of optimizer_passes()
  int64_t workspace_limit_bytes =
      -1;  // of one layer's scratch memory; tactics that need more are refused; -1: none

  // Read and filled by the build. Same model, same cache: same engine bytes.
  TimingCache timing_cache;
  bool error_on_timing_cache_miss = false;
  bool detailed_layer_information = false;
  bool fail_on_fallback = false;  // throw when a layer has no kernel and would run on the slow reference
  // The engine file has weights as kernels read them beside those of the model: up to 2.5 times the model,
  // and nothing is packed at load. Else each weight is in it once.
  bool fast_load = false;

  std::map<std::string, IoType> io_types;  // by the name of the input or output
  std::vector<std::string>
      plugin_libraries;  // paths; the engine file carries them (PluginRegistry::trust_engines)

  ProgressMonitor* progress = nullptr;  // must outlive the build
  std::stop_token stop;                 // cancels from any thread: build() throws Error (Cancelled)
};

// A rewrite of the graph that builds make.
struct OptimizerPass {
  std::string name;          // "fuse_attention"
  std::string does;          // in a sentence
  bool is_optional = false;  // taken where it is faster
};
// All of them, in the order in which they run.
std::vector<OptimizerPass> optimizer_passes();

// Whether a model can be imported, and what stands in the way.
struct ModelSupport {
  struct Node {
    std::string name, op_type, reason;  // of the ONNX model
  };
  bool supported = false;
  std::vector<Node> unsupported_nodes;  // all of them
  std::string reason;                   // empty when the model is supported
  std::string to_json()
      const;  // {"supported": false, "reason": "...", "unsupported_nodes": [{"name", "op_type", "reason"}]}
};

// An initializer's values in memory of the caller: row-major, of the initializer's type. Read in place where
// they are aligned to it, so they must not change, and `keep_alive` holds them as long as a network or an
// engine needs them; null: they outlive all of these.
struct WeightsInMemory {
  const void* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> keep_alive;
};

class Builder {
 public:
  // The logger must outlive the builder. Throws when the device is not there.
  explicit Builder(Logger& logger, const DeviceConfig& device = {});
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // What models leave open of their inputs. `lengths`: how many tensors a sequence has, or an optional: 0 or
  // 1. Those of a sequence 'x' are the engine's inputs x_0, x_1, ...; a sequence that is an output becomes
  // outputs in the same way. `shapes`: of inputs that have not even a rank in the model.
  void set_open_inputs(const std::map<std::string, int64_t>& lengths,
                       const std::map<std::string, std::vector<int64_t>>& shapes = {});
  Network parse_onnx(const std::string& path);
  // `directory`: where external weights lie; empty: there are none.
  Network parse_onnx(std::span<const std::byte> model, const std::string& directory = {});
  // The same with these weights instead of those of the model, which need not have any for them.
  Network parse_onnx(std::span<const std::byte> model, const std::map<std::string, WeightsInMemory>& weights,
                     const std::string& directory = {});

  // Imports the model and forgets it. Throws when there is no such file; a damaged model is one that is not
  // supported.
  ModelSupport check_onnx(const std::string& path);
  // The same for a model in memory, with its external weights in `directory` (empty: there are none).
  ModelSupport check_onnx(std::span<const std::byte> model, const std::string& directory = {});

  Engine build(const Network& network, const BuilderConfig& config = {});
  // An engine for this builder's device from the file of another, in seconds: untimed, or timed with
  // `config`.
  Engine retarget(const std::string& path);
  Engine retune(const std::string& path, const BuilderConfig& config = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Weights that a Refitter can set.
struct WeightsInfo {
  std::string name;  // the initializer's
  DataType type = DataType::Float;
  Dims dims;
  bool missing = false;  // the engine file was stripped of them, and they were not set
};

// Gives an engine other weights: what was folded and packed is made anew, tactics stay, nothing is timed.
//
//   Refitter refitter(logger, "resnet50.engine");  // or one that was saved by save_stripped()
//   refitter.set_from_onnx("finetuned.onnx");
//   Engine engine = refitter.refit();
class Refitter {
 public:
  // The logger must outlive the refitter. Throws when the device is not there, or the engine file is damaged.
  Refitter(Logger& logger, const Engine& engine);
  Refitter(Logger& logger, const std::string& path, const DeviceConfig& device = {});
  Refitter(Logger& logger, std::vector<std::byte> engine, const DeviceConfig& device = {});
  ~Refitter();
  Refitter(const Refitter&) = delete;
  Refitter& operator=(const Refitter&) = delete;

  std::vector<WeightsInfo> weights() const;
  // Copies. Throws for an unknown name, another type or other extents.
  void set(std::string_view name, const HostTensor& values);
  // All weights of a model with the same layers; what was set before is forgotten.
  void set_from_onnx(const std::string& path);
  void set_from_onnx(std::span<const std::byte> model, const std::string& directory = {});
  // The old engine stays as it is. Throws when weights are missing, or lead to other layers (a factor that
  // was exactly 1, say).
  Engine refit() const;
  // The same on the stream, behind what it was given before, with the weights as they are now: they may be
  // set anew at once, and the refitter (not its logger) may go. What goes wrong is in the future, and in
  // Stream::synchronize().
  std::shared_future<Engine> refit(Stream& stream) const;
  // An engine that was built without these passes (BuilderConfig::disabled_passes) is refitted without them.
  void set_disabled_passes(const std::vector<std::string>& names);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lathe::v1
