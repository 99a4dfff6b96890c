// SPDX-License-Identifier: Apache-2.0
#include "tune/tuning_record.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace lathe {
namespace {

constexpr size_t kTimed = 16, kRefused = 12, kReason = 200;
constexpr size_t kMostBytes = 256 << 10;

std::string types_text(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) {
    if (type.dtype == DType::Undefined) continue;
    text += (text.empty() ? "" : ", ") + to_string(type);
  }
  return text;
}

// Whole UTF-8 characters of at most kReason bytes.
std::string cut(const std::string& text) {
  if (text.size() <= kReason) return text;
  size_t end = kReason;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

Json to_json(const LayerTuning& tuning) {
  Json timed = Json::array(), refused = Json::array();
  for (const TriedTactic& t : tuning.timed) timed.push_back({t.name, t.runner, t.types, t.ms});
  for (const UnusableTactic& t : tuning.refused) refused.push_back({t.name, t.runner, t.reason});
  return {{"timed", std::move(timed)}, {"refused", std::move(refused)}, {"left_out", tuning.left_out}};
}

LayerTuning from_json(const Json& json) {
  LayerTuning tuning;
  for (const Json& t : json.at("timed")) tuning.timed.push_back({t.at(0), t.at(1), t.at(2), t.at(3)});
  for (const Json& t : json.at("refused")) tuning.refused.push_back({t.at(0), t.at(1), t.at(2)});
  tuning.left_out = json.at("left_out");
  return tuning;
}

}  // namespace

std::string types_text(const Tactic& tactic) {
  return types_text(tactic.inputs) + " -> " + types_text(tactic.outputs);
}

LayerTuning shortened(LayerTuning tuning, const TriedTactic& chosen) {
  auto& timed = tuning.timed;
  const auto unknown = [](const TriedTactic& t) { return t.ms < 0; };
  std::stable_sort(timed.begin(), timed.end(), [&](const TriedTactic& a, const TriedTactic& b) {
    if (unknown(a) != unknown(b)) return unknown(b);
    return a.ms < b.ms;
  });
  if (timed.size() > kTimed) {
    const auto own = std::find(timed.begin(), timed.end(), chosen);
    if (own != timed.end() && own - timed.begin() >= static_cast<std::ptrdiff_t>(kTimed))
      std::iter_swap(own, timed.begin() + kTimed - 1);
    tuning.left_out += static_cast<int64_t>(timed.size() - kTimed);
    timed.resize(kTimed);
  }
  std::set<std::pair<std::string, std::string>> reasons;
  std::erase_if(tuning.refused, [&](UnusableTactic& t) {
    t.reason = cut(t.reason);
    const bool keep = reasons.size() < kRefused && reasons.emplace(t.runner, t.reason).second;
    if (!keep) ++tuning.left_out;
    return !keep;
  });
  return tuning;
}

std::string tuning_record_text(const TuningRecord& record) {
  std::map<std::string, size_t> numbers;  // of lists, by their text
  Json lists = Json::array(), layers = Json::object();
  size_t bytes = 0;
  for (const auto& [layer, tuning] : record) {
    Json list = to_json(tuning);
    const std::string text = dump_json(list, -1);
    const bool known = numbers.contains(text);
    bytes += layer.size() + 8 + (known ? 0 : text.size());
    if (bytes > kMostBytes) break;
    if (!known) {
      numbers.emplace(text, lists.size());
      lists.push_back(std::move(list));
    }
    layers[layer] = numbers.at(text);
  }
  return layers.empty() ? "" : dump_json({{"lists", std::move(lists)}, {"layers", std::move(layers)}}, -1);
}

TuningRecord tuning_record_from_text(std::string_view text) {
  TuningRecord record;
  if (text.empty()) return record;
  const Json json = parse_json(text, "the record of the tuning");
  try {
    std::vector<LayerTuning> lists;
    for (const Json& list : json.at("lists")) lists.push_back(from_json(list));
    for (const auto& [layer, number] : json.at("layers").items())
      record[layer] = lists.at(number.get<size_t>());
  } catch (const std::exception& error) {  // keys, types and numbers of another's making
    throw_input_error(std::string("the record of the tuning is damaged: ") + error.what());
  }
  return record;
}

void RefusalCollector::on(const Event& event) {
  next_.on(event);
  const auto* skipped = std::get_if<RunnerSkipped>(&event);
  if (skipped == nullptr) return;
  // "name: why"
  const size_t colon = skipped->reason.find(": ");
  const bool named = colon != std::string::npos;
  refused_.push_back({named ? skipped->reason.substr(0, colon) : skipped->runner, skipped->runner,
                      named ? skipped->reason.substr(colon + 2) : skipped->reason});
}

std::vector<UnusableTactic> RefusalCollector::take() {
  return std::exchange(refused_, {});
}

}  // namespace lathe
