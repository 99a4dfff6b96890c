// SPDX-License-Identifier: Apache-2.0
//
// Rivals of one layer race in groups, since each holds rotating copies of its operands: a group stays under a
// memory limit, and the fastest so far (perhaps of an earlier build) runs along in the next group. Others
// count by their ratio to it: cores of shared machines change speed, by 1.5 to 2 times for seconds, and a
// figure of then says little beside one of now.
#include "tune/measure.h"

#include <algorithm>

#include "backend/open_size.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/symbol_extents.h"
#include "tune/candidates.h"
#include "tune/pbqp.h"
#include "tune/signature.h"
#include "tune/timer.h"

namespace lathe {
namespace {

constexpr double kGroupBytes = 96e6;
constexpr double kAloneBytes =
    256e6;  // rivals with such weights race one by one: two at a time would need twice their memory
constexpr size_t kLargestGroup = 8;
constexpr double kMostDrift = 3;  // of the machine, between two groups
constexpr int kRunsAlone = 3;
constexpr double kSecondsAlone = 1;
constexpr const char* kNoTime = "not timed: the time budget is used up";

double operand_bytes(const LayerQuery& query) {
  const SymbolValues opt = query.opt_values();
  double bytes = 0;
  const auto add = [&](ValueId id) {
    if (id == kNoValue) return;
    double elements = 1;
    for (const int64_t extent : bounded_extents(query.graph.value(id).shape, opt, query.ranges))
      elements *= static_cast<double>(extent);
    bytes += elements * 4;
  };
  for (const ValueId id : query.layer().inputs) add(id);
  for (const ValueId id : query.layer().outputs) add(id);
  return bytes;
}

// Does the layer have sizes that only a run finds? Others are assumed for timing.
bool has_assumed_sizes(const LayerQuery& query) {
  const SymbolValues opt = query.opt_values();
  const auto is_assumed = [&](ValueId id) {
    return id != kNoValue && !is_known(query.graph.value(id).shape, opt);
  };
  const Node& node = query.layer();
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_assumed) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_assumed);
}

TimingCache::Key cache_key(uint64_t target, const std::string& layer, const Tactic& tactic) {
  return {target, hash_text(layer + " | " + types_signature(tactic)), tactic.id};
}

}  // namespace

uint64_t timing_target(const Target& target) {
  return hash_text(target.backend + "|" + target.key + "|" + std::to_string(target.threads));
}

Measurer::Measurer(const Backend& backend, const TuneOptions& options, const Effort& effort,
                   TimingCache& cache, Observer& observer)
    : backend_(backend),
      options_(options),
      effort_(effort),
      cache_(cache),
      observer_(observer),
      traits_(backend.tuning_traits()),
      target_(timing_target(backend.target())) {}

double Measurer::seconds_spent() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}
double Measurer::left_of(const Request& request) const {
  return std::min(layer_start_ + request.limit_seconds - seconds_spent(), seconds_left());
}
double Measurer::seconds_left() const {
  return effort_.budget_seconds - seconds_spent();
}

bool Measurer::finds_open_size(const LayerQuery& query) {
  const Node& node = query.layer();
  std::set<std::string> known;
  for (const ValueId id : node.inputs)
    if (id != kNoValue)
      for (const Dim& d : query.graph.value(id).shape) known.merge(d.data_dependent_names());
  const auto is_new = [&](const std::string& name) { return !known.contains(name); };
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    if (id == kNoValue || !has_open_size(query.graph.value(id), query.ranges)) return false;
    std::set<std::string> names;
    for (const Dim& d : query.graph.value(id).shape) names.merge(d.data_dependent_names());
    return std::any_of(names.begin(), names.end(), is_new);
  });
}

std::vector<double> Measurer::times(const LayerQuery& query, const std::vector<Tactic>& tactics,
                                    const Request& request) {
  if (finds_open_size(query)) return {};
  std::vector<Result> results(tactics.size());
  layer_start_ = seconds_spent();
  look_up(query, tactics, request.again, results);
  const bool complete = std::all_of(results.begin(), results.end(), [](const Result& r) { return r.known; });
  if (!complete) {
    if (options_.error_on_cache_miss)
      throw_input_error(
          "the timing cache has no entry for layer '" + query.layer().name +
          "' and timing is not allowed (--errorOnTimingCacheMiss); its key is: " + layer_signature(query));
    if (!out_of_time()) measure(query, tactics, request, results);
    for (size_t i = 0; i < tactics.size(); ++i)
      if (!results[i].known) leave_untimed(query, tactics[i], results[i]);
    if (has_assumed_sizes(query)) estimate_refused(query, tactics, results, request.announce);
  }
  bool any_timed = false, any_untimed = false;
  for (size_t i = 0; i < tactics.size(); ++i) {
    any_timed |= !tactics[i].is_view && results[i].failure.empty();
    any_untimed |= results[i].untimed;
  }
  if (any_untimed && !any_timed) return {};
  if (request.announce) announce(query, tactics, results);
  std::vector<double> times;
  for (const Result& r : results) times.push_back(r.failure.empty() ? r.ms : kImpossible);
  return times;
}

bool Measurer::is_known(const LayerQuery& query, const Tactic& tactic) const {
  const TimingCache::Key key = cache_key(target_, layer_signature(query), tactic);
  return tactic.is_view || finds_open_size(query) || cache_.find(key) ||
         cache_.is_untimed(key, effort_.budget_seconds);
}

double Measurer::current_ms(const LayerQuery& query, const Tactic& tactic) const {
  try {
    const auto layer = backend_.prepare_timing(query, tactic);
    const std::vector<std::function<double()>> runs = {[&] { return layer->run_ms(); }};
    return time_interleaved(runs, {.repetitions = kRunsAlone, .limit_seconds = kSecondsAlone})[0].score_ms;
  } catch (const Error&) {  // of random data, which may be no input that the operator allows
    return kImpossible;
  }
}

void Measurer::look_up(const LayerQuery& query, const std::vector<Tactic>& tactics, bool again,
                       std::vector<Result>& results) {
  const std::string layer = layer_signature(query);
  for (size_t i = 0; i < tactics.size(); ++i) {
    if (tactics[i].is_view) {
      results[i].known = true;
    } else if (const auto ms = cache_.find(cache_key(target_, layer, tactics[i]))) {
      if (!again) results[i] = {.ms = *ms, .known = true, .from_cache = true};
    } else if (cache_.is_untimed(cache_key(target_, layer, tactics[i]), effort_.budget_seconds)) {
      results[i] = {.known = true, .untimed = true, .failure = kNoTime};
    }
  }
}

std::optional<size_t> Measurer::fastest_known(const std::vector<Tactic>& tactics,
                                              const std::vector<Result>& results) {
  std::optional<size_t> fastest;
  for (size_t i = 0; i < tactics.size(); ++i) {
    const bool timed = results[i].known && results[i].failure.empty() && !tactics[i].is_view;
    if (timed && (!fastest || results[i].ms < results[*fastest].ms)) fastest = i;
  }
  return fastest;
}

void Measurer::measure(const LayerQuery& query, const std::vector<Tactic>& tactics, const Request& request,
                       std::vector<Result>& results) {
  const double bytes = std::max(1.0, operand_bytes(query));
  const bool alone = !traits_.shares_operands && bytes > kAloneBytes;
  const size_t group =
      alone ? 1
      : traits_.shares_operands
          ? kLargestGroup
          : std::clamp<size_t>(static_cast<size_t>(kGroupBytes / (3 * bytes)), 2, kLargestGroup);
  std::vector<Rival> rivals;
  if (const auto leader = fastest_known(tactics, results); leader && !alone)
    rivals.push_back({.tactic = *leader});
  size_t waiting = 0;
  auto left = static_cast<size_t>(
      std::count_if(results.begin(), results.end(), [](const Result& r) { return !r.known; }));
  const auto flush = [&] {
    // What time there is, is for all: a group that took most of it left later ones untimed.
    const double share = static_cast<double>(waiting) / static_cast<double>(left);
    left -= waiting;
    waiting = 0;
    race(query, tactics, rivals, request, share, results);
    if (alone) return rivals.clear();
    const auto leader = fastest_known(tactics, results);
    std::erase_if(rivals, [&](const Rival& r) { return r.tactic != leader; });
  };
  for (const size_t i : timing_order(tactics)) {
    if (results[i].known) continue;
    rivals.push_back({.tactic = i});
    ++waiting;
    if (rivals.size() >= group) flush();
  }
  if (waiting > 0) flush();
}

void Measurer::race(const LayerQuery& query, const std::vector<Tactic>& tactics, std::vector<Rival>& rivals,
                    const Request& request, double share, std::vector<Result>& results) {
  std::vector<std::function<double()>> runs;
  std::vector<Rival*> running;
  for (Rival& rival : rivals) {
    Result& result = results[rival.tactic];
    // One rival of the first group has to run; the rest only in time.
    if (!running.empty() && !rival.layer && left_of(request) <= 0) {
      leave_untimed(query, tactics[rival.tactic], result);
      continue;
    }
    stop_if_asked(options_.stop);
    try {
      if (!rival.layer) rival.layer = backend_.prepare_timing(query, tactics[rival.tactic]);
    } catch (const Error& error) {  // a library that promised and then refuses: the others go on
      result.failure = error.what();
      result.refuses_input = error.kind() == ErrorKind::Input;
      result.known = true;
      continue;
    }
    running.push_back(&rival);
    // Random data may be no input that the operator allows (indices): then the expectation has to do.
    runs.push_back([this, &rival] {
      stop_if_asked(options_.stop);
      try {
        return rival.refuses ? kImpossible : rival.layer->run_ms();
      } catch (const Error&) {
        rival.refuses = true;
        return kImpossible;
      }
    });
  }
  const auto leader = std::find_if(running.begin(), running.end(),
                                   [&](const Rival* rival) { return results[rival->tactic].known; });
  const auto place = leader == running.end() ? -1 : static_cast<int>(leader - running.begin());
  const auto timings = time_interleaved(runs, {.repetitions = request.repetitions,
                                               .limit_seconds = std::max(0.0, left_of(request) * share),
                                               .yardstick = place});
  double drift = 1;
  if (place >= 0) {
    const double now_ms = timings[static_cast<size_t>(place)].score_ms;
    if (now_ms > 0) drift = std::clamp(results[(*leader)->tactic].ms / now_ms, 1 / kMostDrift, kMostDrift);
  }
  const std::string layer = layer_signature(query);
  for (size_t k = 0; k < running.size(); ++k) {
    const size_t i = running[k]->tactic;
    Result& result = results[i];
    if (result.known) continue;  // the leader of the group before keeps its figure
    const double ms = running[k]->refuses ? estimated_ms(traits_, query, tactics[i], i)
                                          : std::max(timings[k].score_ms * drift, 1e-6);
    result.ms = cache_.insert(cache_key(target_, layer, tactics[i]), ms,
                              tactics[i].name + " | " + layer + " | " + types_signature(tactics[i]));
    result.seconds = timings[k].seconds;
    result.known = true;
  }
}

void Measurer::leave_untimed(const LayerQuery& query, const Tactic& tactic, Result& result) {
  const std::string layer = layer_signature(query);
  cache_.insert_untimed(cache_key(target_, layer, tactic), effort_.budget_seconds,
                        tactic.name + " | " + layer + " | " + types_signature(tactic));
  result.known = result.untimed = true;
  result.failure = kNoTime;
}

void Measurer::estimate_refused(const LayerQuery& query, const std::vector<Tactic>& tactics,
                                std::vector<Result>& results, bool tell) {
  bool any = false;
  std::string reason;
  for (size_t i = 0; i < tactics.size(); ++i) {
    if (results[i].untimed || tactics[i].is_view) continue;
    if (results[i].failure.empty()) return;  // this one can be prepared, and others could have been
    any = true;
    // What a kernel takes for granted of sizes, and those that were assumed break, explains nothing.
    if (reason.empty() && results[i].refuses_input) reason = " (" + results[i].failure + ")";
  }
  if (!any) return;
  const std::string layer = layer_signature(query);
  for (size_t i = 0; i < tactics.size(); ++i) {
    if (results[i].untimed || tactics[i].is_view) continue;
    results[i].failure.clear();
    results[i].ms =
        cache_.insert(cache_key(target_, layer, tactics[i]), estimated_ms(traits_, query, tactics[i], i),
                      tactics[i].name + " | " + layer + " | " + types_signature(tactics[i]));
  }
  if (tell)
    observer_.log(Severity::Info,
                  "Layer '" + query.layer().name +
                      "' was not timed, because sizes that only a run finds do not fit each other at the "
                      "values that were assumed for them; its tactics were chosen by estimate." +
                      reason);
}

void Measurer::announce(const LayerQuery& query, const std::vector<Tactic>& tactics,
                        const std::vector<Result>& results) {
  const std::string& layer = query.layer().name;
  observer_.on(CostsStarted{layer});
  std::vector<bool> told(tactics.size(), false);
  for (size_t first = 0; first < tactics.size(); ++first) {
    if (told[first]) continue;
    observer_.on(
        FormatsStarted{describe_inputs(query, tactics[first]), describe_outputs(query, tactics[first])});
    size_t chosen = tactics.size();
    for (size_t start = first; start < tactics.size(); ++start) {
      if (told[start] || !tactics[start].same_types(tactics[first])) continue;
      const std::string& runner = tactics[start].runner;
      observer_.on(RunnerStarted{layer, runner});
      size_t fastest = tactics.size();
      double seconds = 0;
      for (size_t i = start; i < tactics.size(); ++i) {
        if (told[i] || tactics[i].runner != runner || !tactics[i].same_types(tactics[first])) continue;
        told[i] = true;
        if (!results[i].failure.empty()) {
          observer_.on(RunnerSkipped{layer, runner, tactics[i].name + ": " + results[i].failure});
          continue;
        }
        observer_.on(
            TacticTimed{layer, tactics[i].name, tactics[i].id, results[i].ms, results[i].from_cache});
        seconds += results[i].seconds;
        if (fastest == tactics.size() || results[i].ms < results[fastest].ms) fastest = i;
      }
      if (fastest == tactics.size()) continue;
      observer_.on(RunnerFinished{layer, runner, seconds, tactics[fastest].id, results[fastest].ms});
      if (chosen == tactics.size() || results[fastest].ms < results[chosen].ms) chosen = fastest;
    }
    if (chosen == tactics.size()) continue;
    const Tactic& t = tactics[chosen];
    observer_.on(TacticChosen{layer, t.runner, t.name, t.id, results[chosen].ms});
  }
}

}  // namespace lathe
