// SPDX-License-Identifier: Apache-2.0
//
// What the tuner tried: per layer the tactics that it timed, fastest first, and those that it could not use,
// with the reason. An engine keeps it as text, for reports; nothing that runs reads it. Its size is bounded:
// layers that are alike share one list, and a list holds the tactics that matter and counts the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/tactic.h"
#include "base/observer.h"

namespace lathe {

struct TriedTactic {
  std::string name, runner, types;
  double ms = -1;  // negative: there was no time for it, or it could not be prepared
  bool operator==(const TriedTactic&) const = default;
};
struct UnusableTactic {
  std::string name, runner, reason;
  bool operator==(const UnusableTactic&) const = default;
};
struct LayerTuning {
  std::vector<TriedTactic> timed;
  std::vector<UnusableTactic> refused;
  int64_t left_out = 0;
  bool operator==(const LayerTuning&) const = default;
};
using TuningRecord = std::map<std::string, LayerTuning>;  // by layer name

// "float32:linear, float32:linear -> float32:nhwc", without constants that the tactic packs.
std::string types_text(const Tactic& tactic);

// Of all that was tried what a reader wants: `chosen` and the fastest ones, and one tactic for each reason of
// a runner.
LayerTuning shortened(LayerTuning tuning, const TriedTactic& chosen);

// A record of the largest networks stays below about 256 KiB: layers beyond that have no list.
std::string tuning_record_text(const TuningRecord& record);
// Throws Input for what is no such text. An empty text is an empty record.
TuningRecord tuning_record_from_text(std::string_view text);

// Passes all events on and keeps the refusals.
class RefusalCollector final : public Observer {
 public:
  explicit RefusalCollector(Observer& next) : next_(next) {}
  void on(const Event& event) override;
  // Those of the last layer that was asked about; forgets them.
  std::vector<UnusableTactic> take();

 private:
  Observer& next_;
  std::vector<UnusableTactic> refused_;
};

}  // namespace lathe
