// SPDX-License-Identifier: Apache-2.0
//
// What sets the peak of activation memory, and what it would be without: a tensor that lies there unused
// while the largest layers run could be computed again when it is needed, or be needed earlier.
#include <fmt/format.h>

#include <algorithm>

#include "explorer/core/findings.h"
#include "explorer/core/rule_parts.h"
#include "explorer/core/text.h"

namespace lathe::explorer {
namespace {

// Bytes alive at the worst step when `tensor` is kept only from its writers to its first reader and at its
// last.
int64_t peak_without(const EngineData& engine, const Tensor& tensor, int from, int to) {
  int64_t peak = 0;
  for (size_t i = 0; i < engine.memory.steps.size(); ++i) {
    const bool gone = static_cast<int>(i) > from && static_cast<int>(i) < to;
    peak = std::max(peak, engine.memory.steps[i] - (gone ? tensor.bytes.value_or(0) : 0));
  }
  return peak;
}

}  // namespace

std::vector<Finding> find_held_memory(const EngineData& engine) {
  constexpr double kShare = 0.1;
  const Memory& memory = engine.memory;
  if (!memory.peak_layer || memory.peak_bytes <= 0) return {};
  Finding f{"held-memory", "", "info", "high"};
  for (const int index : memory.peak_tensors) {
    const Tensor& tensor = engine.tensors[static_cast<size_t>(index)];
    // The longest wait between two uses that spans the peak.
    int from = -1, to = -1;
    for (const auto& other : engine.tensors) {
      const bool same = &other == &tensor || (other.alias_of && *other.alias_of == index);
      if (!same) continue;
      for (const auto* uses : {&other.producers, &other.consumers}) {
        for (const int use : *uses) {
          if (use <= *memory.peak_layer) from = std::max(from, use);
          if (use >= *memory.peak_layer) to = to < 0 ? use : std::min(to, use);
        }
      }
    }
    if (from < 0 || to < 0 || from == *memory.peak_layer || to == *memory.peak_layer) continue;
    const int64_t without = peak_without(engine, tensor, from, to);
    if (static_cast<double>(memory.peak_bytes - without) < kShare * static_cast<double>(memory.peak_bytes))
      continue;
    f.evidence.push_back(fmt::format("{}: {}, unused from layer {} to {}; the peak would be {}",
                                     shorten(tensor.name, 60),
                                     binary_text(static_cast<double>(tensor.bytes.value_or(0))), from, to,
                                     binary_text(static_cast<double>(without))));
    if (!tensor.producers.empty()) f.layers.push_back(tensor.producers.front());
  }
  if (f.evidence.empty()) return {};
  f.title = fmt::format("The peak of memory holds {} that nothing uses there",
                        count_text(f.evidence.size(), "tensor"));
  f.action =
      "Where memory is short: compute them again before their last use, or move their readers (a residual "
      "branch) "
      "earlier in the model.";
  return {f};
}

}  // namespace lathe::explorer
