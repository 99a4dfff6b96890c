// SPDX-License-Identifier: Apache-2.0
#include "report/build_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"

namespace lathe {
namespace {

// "0.0.8": the parser prints an IR version number as three parts.
std::string ir_version_text(int64_t version) {
  return fmt::format("{}.{}.{}", version / 10000 % 100, version / 100 % 100, version % 100);
}

std::string layers_text(int count) {
  return fmt::format("{} layers", count);
}

std::string tactic_text(uint64_t id) {
  return fmt::format("0x{:016x}", id);
}

// "CaskConvolution[0x80000009]": scripts expect an id. Of a name it is always the same.
std::string runner_text(const std::string& runner) {
  return fmt::format("{}[0x{:08x}]", runner,
                     0x80000000u | static_cast<uint32_t>(hash_text(runner) & 0x7fffffffu));
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// One overload per event; each writes the lines of that event.
struct Renderer {
  Log& log;

  void verbose(const std::string& text) const { log.library(Severity::Verbose, text); }

  void operator()(const Message& e) const { log.library(e.severity, e.text); }

  void operator()(const ModelParsed& e) const {
    const std::string rule(64, '-');
    const auto row = [&](std::string_view key, const std::string& value) {
      log.library(Severity::Info, fmt::format("{:<18}{}", key, value));
    };
    log.library(Severity::Info, rule);
    row("Input filename:", e.file);
    row("ONNX IR version:", ir_version_text(e.ir_version));
    row("Opset version:", std::to_string(e.opset_version));
    row("Producer name:", e.producer);
    row("Producer version:", e.producer_version);
    row("Domain:", e.domain);
    row("Model version:", std::to_string(e.model_version));
    row("Doc string:", e.doc_string.substr(0, e.doc_string.find('\n')));
    log.library(Severity::Info, rule);
  }

  void operator()(const FusionApplied& e) const {
    verbose(fmt::format("Running: {} on {}", e.fusion, e.first));
    verbose(fmt::format("{}: Fusing {} with {}", e.fusion, e.first, e.second));
  }
  void operator()(const LayerRemoved& e) const {
    verbose(fmt::format("Running: {} on {}", e.reason, e.layer));
    verbose(fmt::format("Removing {}", e.layer));
  }
  void operator()(const PassFinished& e) const {
    if (!e.changed) return;
    verbose(fmt::format("Pass {} took {} seconds: {}", e.pass, format_number(e.seconds),
                        layers_text(e.layers_after)));
  }
  void operator()(const StageFinished& e) const {
    const bool is_start = e.label == "Original";
    verbose(fmt::format("{}{}: {}", is_start ? "" : "After ", e.label, layers_text(e.layers)));
  }
  void operator()(const GraphOptimized& e) const {
    verbose(fmt::format("Graph optimization time: {} seconds.", format_number(e.seconds)));
  }

  void operator()(const CostsStarted& e) const {
    verbose(fmt::format("=============== Computing costs for {}", e.layer));
  }
  void operator()(const FormatsStarted& e) const {
    verbose(fmt::format("*************** Autotuning format combination: {} -> {} ***************",
                        joined(e.inputs), joined(e.outputs)));
  }
  void operator()(const RunnerStarted& e) const {
    verbose(fmt::format("--------------- Timing Runner: {} ({})", e.layer, runner_text(e.runner)));
  }
  void operator()(const RunnerSkipped& e) const {
    const std::string why = e.reason.empty() ? "" : fmt::format(" ({})", e.reason);
    verbose(fmt::format("Skipping {}: No valid tactics for {}{}", e.runner, e.layer, why));
  }
  void operator()(const TacticTimed& e) const {
    verbose(fmt::format("Tactic Name: {} Tactic: {} Time: {}{}", e.tactic, tactic_text(e.id),
                        format_number(e.time_ms), e.from_cache ? " (from timing cache)" : ""));
  }
  void operator()(const RunnerFinished& e) const {
    verbose(fmt::format("{} ({}) profiling completed in {} seconds. Fastest Tactic: {} Time: {}", e.layer,
                        runner_text(e.runner), format_number(e.seconds), tactic_text(e.fastest_id),
                        format_number(e.fastest_ms)));
  }
  void operator()(const TacticChosen& e) const {
    verbose(fmt::format(">>>>>>>>>>>>>>> Chose Runner Type: {} Tactic: {}", e.runner, tactic_text(e.id)));
  }
  void operator()(const ReformatAdded& e) const {
    verbose(fmt::format("Adding reformat layer: {} from {} to {}", e.layer, e.from, e.to));
  }
  void operator()(const Progress& e) const { log.set_status(e.done >= e.total ? "" : progress_bar(e)); }

  void operator()(const MemoryPlanned& e) const {
    log.library(Severity::Info, fmt::format("Total Scratch Memory: {} bytes", e.workspace_bytes));
    log.library(Severity::Info, fmt::format("Max Scratch Memory: {} bytes", e.workspace_bytes));
    log.library(Severity::Info, fmt::format("Total Activation Memory: {} bytes", e.arena_bytes));
    log.library(Severity::Info, fmt::format("Total Weights Memory: {} bytes", e.weight_bytes));
  }
  void operator()(const EngineGenerated& e) const {
    log.set_status("");
    log.library(Severity::Info,
                fmt::format("Engine generation completed in {} seconds.", format_number(e.seconds)));
  }
};

}  // namespace

void BuildLog::on(const Event& event) {
  std::visit(Renderer{log_}, event);
}

std::string progress_bar(const Progress& progress) {
  constexpr int kWidth = 24;
  const int64_t total = std::max<int64_t>(progress.total, 1);
  const int64_t done = std::clamp<int64_t>(progress.done, 0, total);
  const auto filled = static_cast<size_t>(done * kWidth / total);
  std::string bar =
      fmt::format("[{}{}] {:3}%  {}  {}/{}", std::string(filled, '#'), std::string(kWidth - filled, '-'),
                  done * 100 / total, progress.stage, done, total);
  if (progress.remaining_seconds >= 0)
    bar += fmt::format("  ~{} s left", std::ceil(progress.remaining_seconds));
  return bar;
}

}  // namespace lathe
