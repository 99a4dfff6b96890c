// SPDX-License-Identifier: Apache-2.0
//
// What the stages of a build have to say, as data. Stages emit typed events; report/ renders them as
// TensorRT's log lines, a progress bar or JSON. No stage holds a log format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lathe {

enum class Severity { InternalError, Error, Warning, Info, Verbose };

// Free text, for what has no structure worth keeping (one-line notices, fallbacks, reasons).
struct Message {
  Severity severity = Severity::Info;
  std::string text;
};

// --- import
struct ModelParsed {
  std::string file, producer, producer_version, domain, doc_string;
  int64_t ir_version = 0, opset_version = 0, model_version = 0;
};

// --- passes
struct FusionApplied {  // "ConvReluFusion: Fusing A with B"
  std::string fusion, first, second;
};
struct LayerRemoved {  // "Running: PoolingErasure on A" / "Removing A"
  std::string reason, layer;
};
struct PassFinished {
  std::string pass;
  bool changed = false;
  double seconds = 0;
  int layers_after = 0;
};
struct StageFinished {  // "After vertical fusions: N layers"
  std::string label;
  int layers = 0;
};
struct GraphOptimized {
  double seconds = 0;
};

// --- tuning
struct CostsStarted {
  std::string layer;
};
struct FormatsStarted {  // "Autotuning format combination: Float(150528,50176,224,1) -> Float(...)"
  std::vector<std::string> inputs, outputs;
};
struct RunnerStarted {
  std::string layer, runner;
};
struct RunnerSkipped {
  std::string layer, runner, reason;
};
struct TacticTimed {
  std::string layer, tactic;
  uint64_t id = 0;
  double time_ms = 0;
  bool from_cache = false;
};
struct RunnerFinished {
  std::string layer, runner;
  double seconds = 0;
  uint64_t fastest_id = 0;
  double fastest_ms = 0;
};
struct TacticChosen {
  std::string layer, runner, tactic;
  uint64_t id = 0;
  double time_ms = 0;
};
struct ReformatAdded {
  std::string layer, from, to;
};
struct Progress {  // remaining_seconds < 0: not known yet
  std::string stage;
  int64_t done = 0, total = 0;
  double remaining_seconds = -1;
};
struct MemoryPlanned {
  int64_t arena_bytes = 0, weight_bytes = 0, workspace_bytes = 0;
};
struct EngineGenerated {
  double seconds = 0;
};

using Event =
    std::variant<Message, ModelParsed, FusionApplied, LayerRemoved, PassFinished, StageFinished,
                 GraphOptimized, CostsStarted, FormatsStarted, RunnerStarted, RunnerSkipped, TacticTimed,
                 RunnerFinished, TacticChosen, ReformatAdded, Progress, MemoryPlanned, EngineGenerated>;

class Observer {
 public:
  virtual ~Observer() = default;
  // Called on the thread that builds. Must not throw.
  virtual void on(const Event& event) = 0;

  void log(Severity severity, std::string text) { on(Message{severity, std::move(text)}); }
};

// Hears nothing. For tests and for callers that do not care.
class NullObserver final : public Observer {
 public:
  void on(const Event&) override {}
};

}  // namespace lathe
