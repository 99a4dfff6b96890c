// SPDX-License-Identifier: Apache-2.0
//
// Layers are timed in graph order, each with a share of the time budget that its expected cost deserves, so
// that a short budget still reaches every layer. What it does not reach is estimated: the result is a correct
// engine at any time.
#include "tune/tune.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/hash.h"
#include "ir/edit.h"
#include "tune/alternatives.h"
#include "tune/candidates.h"
#include "tune/insert_reformats.h"
#include "tune/pbqp.h"
#include "tune/quantized_layers.h"
#include "tune/signature.h"
#include "tune/tune_bodies.h"

namespace lathe {
namespace {

// To prepare and run a handful of rivals of a layer that computes next to nothing on large tensors (pooling).
constexpr double kLeastSeconds = 0.15;

// A slow phase makes a layer slower than this; noise of a race's winner stays below.
constexpr double kSlowPhase = 1.25;
// Of the sum of all layers.
constexpr double kWorthAnotherLook = 0.005;
// Between the times of one tactic in two formats of the same types, which move the same bytes.
constexpr double kStrangeRatio = 3;

class Tuner {
 public:
  Tuner(const Graph& graph, const SymbolRanges& ranges, const Backend& backend, const TuneOptions& options,
        TimingCache& cache, Observer& observer, const Graph* fused, const TunedBodies& bodies)
      : graph_(graph),
        fused_(fused ? *fused : graph),
        ranges_(ranges),
        backend_(backend),
        options_(options),
        bodies_(bodies),
        observer_(observer),
        traits_(backend.tuning_traits()),
        effort_(effort_of(options)),
        measurer_(backend, options, effort_, cache, observer),
        workspace_(backend, options.workspace_limit_bytes),
        reformats_(graph, ranges, backend, options, effort_, measurer_, workspace_) {
    for (const NodeId id : graph_.order()) queries_.push_back({graph_, id, ranges_});
  }

  TunedGraph run() {
    list_tactics();
    auto ahead = prepare_ahead();
    std::vector<size_t> measured;  // by this build
    report_progress(0);
    for (size_t i = 0; i < tactics_.size(); ++i) {
      if (shares_[i] > 0 && !is_known(i)) measured.push_back(i);
      times_.push_back(times(i));
      report_progress(i + 1);
    }
    ahead.reset();
    if (traits_.has_slow_phases) time_slow_phases_again(measured);
    std::vector<LayerState> chosen = choose();
    while (refuse_over_limit(chosen)) chosen = choose();
    if (workspace_.unknown())
      observer_.log(Severity::Warning,
                    "The workspace limit has no effect: tactics of this device do not say how much scratch "
                    "memory they need.");
    const ChosenGraph taken = take_alternatives(graph_, fused_, alternatives_, fused_states_, chosen);
    report_alternatives(chosen);
    report_quantization(chosen);
    TunedGraph result =
        insert_reformats(taken.graph, taken.chosen, reformats_, ranges_, observer_, options_.in_body);
    result.timed = effort_.timed;
    if (effort_.timed) result.tried = record(result);
    if (skipped_ > 0)
      observer_.log(Severity::Info, "The time budget for tuning ended before " + std::to_string(skipped_) +
                                        " of " + std::to_string(layers()) +
                                        " layers were timed; their tactics were chosen by estimate.");
    if (open_ > 0)
      observer_.log(Severity::Info, std::to_string(open_) + " of " + std::to_string(layers()) +
                                        " layers find a size that little bounds; their tactics were "
                                        "chosen by estimate.");
    return result;
  }

 private:
  // What was tried for the layers of the result, the fused ones that were taken among them.
  TuningRecord record(const TunedGraph& result) {
    std::map<std::string_view, size_t> numbers;
    for (size_t i = 0; i < tactics_.size(); ++i) numbers.emplace(query(i).layer().name, i);
    TuningRecord tried = bodies_.tried;
    for (size_t k = 0; k < result.choices.size(); ++k) {
      const Node& node = result.graph.node(result.graph.order()[k]);
      const auto found = numbers.find(node.name);
      if (found == numbers.end() || result.choices[k].tactic.is_view) continue;
      const size_t i = found->second;
      LayerTuning tuning{.timed = {}, .refused = refused_[i]};
      TriedTactic chosen;
      for (size_t t = 0; t < tactics_[i].size(); ++t) {
        const Tactic& tactic = tactics_[i][t];
        const bool known = measured_[i] && times_[i][t] < kImpossible;
        tuning.timed.push_back({tactic.name, tactic.runner, types_text(tactic), known ? times_[i][t] : -1});
        if (tactic.name == result.choices[k].tactic.name && tactic.same_types(result.choices[k].tactic))
          chosen = tuning.timed.back();
      }
      tried[node.name] = shortened(std::move(tuning), chosen);
    }
    return tried;
  }

  // The graph's layers, then the fused layers of the alternatives.
  const LayerQuery& query(size_t i) const { return queries_[i]; }
  size_t layers() const { return graph_.order().size(); }

  void list_tactics() {
    std::map<std::string, size_t> first;
    for (size_t i = 0; i < layers(); ++i)
      add_tactics(with_bodies(i, considered_tactics(backend_, query(i), options_, effort_, refusals_)),
                  first);
    if (!effort_.timed) return;
    for (Alternative& alternative : find_alternatives(graph_, fused_)) {
      const LayerQuery fused{fused_, alternative.fused, ranges_};
      if (options_.layer_types.of(fused.layer()).any()) continue;  // its parts have the types demanded
      const std::vector<Tactic> all = backend_.tactics(fused);
      if (std::none_of(all.begin(), all.end(),
                       [](const Tactic& t) { return t.support.ok && !t.last_resort; }))
        continue;
      queries_.push_back(fused);
      alternatives_.push_back(std::move(alternative));
      add_tactics(considered_tactics(backend_, fused, options_, effort_, refusals_), first);
    }
  }

  std::vector<Tactic> with_bodies(size_t i, std::vector<Tactic> tactics) const {
    const auto found = bodies_.tactics.find(query(i).node);
    if (found != bodies_.tactics.end())
      for (Tactic& tactic : tactics) tactic.bodies = found->second;
    return tactics;
  }

  // Identical layers are timed once: only the first has a share of the budget.
  void add_tactics(std::vector<Tactic> tactics, std::map<std::string, size_t>& first) {
    const size_t i = tactics_.size();
    const bool is_new = effort_.timed && first.emplace(layer_signature(query(i)), i).second;
    const bool worth =
        !Measurer::finds_open_size(query(i)) &&
        std::any_of(tactics.begin(), tactics.end(), [](const Tactic& t) { return !t.is_view; });
    shares_.push_back(is_new && worth ? 0.3 + estimated_ms(traits_, query(i), tactics[0], 0) : 0);
    tactics_.push_back(std::move(tactics));
    refused_.push_back(refusals_.take());
    measured_.push_back(false);
  }

  bool is_known(size_t i) const {
    return std::all_of(tactics_[i].begin(), tactics_[i].end(),
                       [&](const Tactic& t) { return measurer_.is_known(query(i), t); });
  }

  size_t winner(size_t i) const {
    return static_cast<size_t>(std::min_element(times_[i].begin(), times_[i].end()) - times_[i].begin());
  }

  static bool same_dtypes(const Tactic& a, const Tactic& b) {
    const auto same = [](const TensorType& x, const TensorType& y) { return x.dtype == y.dtype; };
    return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same) &&
           std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(), same);
  }

  // Tactics whose time may be one of another process: the winner, and those that are far slower than they are
  // in another format. Such a time puts reformats around a layer.
  std::vector<size_t> suspects(size_t i) const {
    const std::vector<Tactic>& tactics = tactics_[i];
    std::vector<size_t> result = {winner(i)};
    for (size_t t = 0; t < tactics.size(); ++t) {
      const auto is_faster_twin = [&](const Tactic& other) {
        const double ms = times_[i][static_cast<size_t>(&other - tactics.data())];
        return other.name == tactics[t].name && same_dtypes(other, tactics[t]) &&
               times_[i][t] > kStrangeRatio * ms;
      };
      if (!tactics[t].is_view && std::any_of(tactics.begin(), tactics.end(), is_faster_twin))
        result.push_back(t);
    }
    return result;
  }

  // How many times slower than now the layer's suspects were, at most; they run a few times more.
  double slowness(size_t i, double least_ms) const {
    double most = 1;
    for (const size_t t : suspects(i)) {
      const double then_ms = times_[i][t];
      if (then_ms < least_ms || then_ms >= kImpossible || measurer_.out_of_time()) continue;
      most = std::max(most, then_ms / measurer_.current_ms(query(i), tactics_[i][t]));
    }
    return most;
  }

  // Where a suspect of a layer that this build timed is faster now by more than noise, all rivals race anew:
  // a slow phase need not hit them alike.
  void time_slow_phases_again(const std::vector<size_t>& measured) {
    double layers_ms = 0;
    for (size_t i = 0; i < layers(); ++i) layers_ms += times_[i][winner(i)];
    int again = 0;
    double most = 1;
    for (const size_t i : measured) {
      const double slower = slowness(i, kWorthAnotherLook * layers_ms);
      if (slower < kSlowPhase) continue;
      measurer_.times(query(i), tactics_[i],
                      {.repetitions = effort_.repetitions,
                       .limit_seconds = std::max(kLeastSeconds, measurer_.seconds_left() * 0.5),
                       .again = true});
      most = std::max(most, slower);
      ++again;
    }
    if (again == 0) return;
    skipped_ = open_ = 0;
    for (size_t i = 0; i < tactics_.size(); ++i) times_[i] = times(i, false);  // from the cache
    char text[160];
    snprintf(
        text, sizeof text,
        "%d of %zu layers were timed in a slow phase of the machine, up to %.2g times slower than now; they "
        "were timed again.",
        again, measured.size(), most);
    observer_.log(Severity::Info, text);
  }

  // Lets the backend compile what is not in the timing cache while the first layers are timed.
  std::unique_ptr<BackgroundWork> prepare_ahead() const {
    std::vector<TimingTask> tasks;
    for (size_t i = 0; i < tactics_.size(); ++i) {
      if (shares_[i] == 0) continue;
      for (const size_t k : timing_order(tactics_[i]))
        if (!measurer_.is_known(query(i), tactics_[i][k])) tasks.push_back({query(i), tactics_[i][k]});
    }
    return tasks.empty() ? nullptr : backend_.prepare_ahead(std::move(tasks));
  }

  std::vector<double> times(size_t i, bool announce = true) {
    std::vector<double> result;
    if (effort_.timed) {
      double ahead = 0;
      for (size_t k = i; k < shares_.size(); ++k) ahead += shares_[k];
      // A part is left for the reformats.
      const double share = ahead > 0 ? measurer_.seconds_left() * 0.85 * shares_[i] / ahead : 0;
      result = measurer_.times(query(i), tactics_[i],
                               {.repetitions = effort_.repetitions,
                                .limit_seconds = std::max(kLeastSeconds, share) + traits_.first_use_seconds,
                                .announce = announce});
    }
    measured_[i] = !result.empty();
    if (!result.empty()) return result;
    // An estimate is not enough to take a fused layer instead of layers that were timed.
    if (i >= layers()) return std::vector<double>(tactics_[i].size(), kImpossible);
    if (effort_.timed) ++(Measurer::finds_open_size(query(i)) ? open_ : skipped_);
    for (size_t k = 0; k < tactics_[i].size(); ++k)
      result.push_back(estimated_ms(traits_, query(i), tactics_[i][k], k));
    return result;
  }

  std::vector<LayerState> choose() {
    std::vector<std::vector<LayerState>> states;
    for (size_t i = 0; i < layers(); ++i) {
      states.push_back(undominated(tactics_[i], times_[i]));
      if (states.back().empty())
        throw_input_error("no tactic of layer '" + graph_.node(graph_.order()[i]).name +
                          "' could be prepared on " + backend_.target().description);
    }
    const std::vector<std::vector<LayerState>> apart = states;
    fused_states_.clear();
    for (size_t i = 0; i < alternatives_.size(); ++i) {
      fused_states_.push_back(undominated(tactics_[layers() + i], times_[layers() + i]));
      // A boundary that goes costs no barrier any more and keeps data in the caches, as one without a
      // reformat.
      add_states(graph_, fused_, alternatives_[i], static_cast<int>(i), traits_.reformat_surcharge_ms,
                 fused_states_.back(), states);
    }
    const std::vector<LayerState> chosen = choose(states);
    // Where the solver had to guess, parts may have disagreed; without alternatives there is nothing to
    // disagree on.
    return is_consistent(alternatives_, chosen) ? chosen : choose(apart);
  }
  std::vector<LayerState> choose(std::vector<std::vector<LayerState>> states) {
    const std::vector<size_t> choice = choose_states(graph_, states, reformats_, traits_);
    std::vector<LayerState> chosen;
    for (size_t i = 0; i < choice.size(); ++i) chosen.push_back(states[i][choice[i]]);
    return chosen;
  }

  void report_alternatives(const std::vector<LayerState>& chosen) {
    for (size_t number = 0; number < alternatives_.size(); ++number) {
      const auto best = [&](size_t i) { return *std::min_element(times_[i].begin(), times_[i].end()); };
      const double fused_ms = best(layers() + number);
      if (fused_ms >= kImpossible) continue;
      double parts_ms = 0;
      for (const size_t part : alternatives_[number].parts) parts_ms += best(part);
      const bool taken = chosen[alternatives_[number].parts.back()].alternative == static_cast<int>(number);
      char times[80];
      snprintf(times, sizeof times, "%.6g ms as one layer, %.6g ms apart: ", fused_ms, parts_ms);
      observer_.log(Severity::Verbose, "'" + query(layers() + number).layer().name + "' takes " + times +
                                           (taken ? "fused." : "not fused."));
    }
  }

  void report_quantization(const std::vector<LayerState>& chosen) {
    std::vector<TunedLayer> all;
    for (size_t i = 0; i < layers(); ++i)
      if (chosen[i].alternative < 0)
        all.push_back({query(i), tactics_[i], times_[i], refused_[i], chosen[i].tactic});
    report_quantized_layers(graph_, all, effort_.timed, observer_);
  }

  // Takes chosen tactics that need too much scratch memory out of the race; true when there was one.
  bool refuse_over_limit(const std::vector<LayerState>& chosen) {
    bool refused = false;
    for (size_t k = 0; k < chosen.size(); ++k) {
      const LayerState& state = chosen[k];
      const bool fused = state.alternative >= 0;
      const auto number = static_cast<size_t>(state.alternative);
      if (fused && alternatives_[number].parts.back() != k) continue;
      const size_t i = fused ? layers() + number : k;
      const Tactic& tactic =
          fused ? fused_states_[number][static_cast<size_t>(state.variant)].tactic : state.tactic;
      const std::string reason = workspace_.refusal(query(i), tactic);
      if (reason.empty()) continue;
      const std::string& layer = query(i).layer().name;
      observer_.on(RunnerSkipped{layer, tactic.runner, tactic.name + ": " + reason});
      for (size_t t = 0; t < tactics_[i].size(); ++t)
        if (tactics_[i][t].id == tactic.id && tactics_[i][t].same_types(tactic)) times_[i][t] = kImpossible;
      const bool none_left = !fused && std::all_of(times_[i].begin(), times_[i].end(),
                                                   [](double ms) { return ms >= kImpossible; });
      if (none_left && !add_last_resorts(i))
        throw_input_error("no tactic of layer '" + layer + "' is left within the workspace limit: " +
                          tactic.name + " was the last, and " + reason + ". Raise --memPoolSize=workspace");
      refused = true;
    }
    return refused;
  }

  // Slow tactics that were not considered while there were others; false when there are none within the
  // limit.
  bool add_last_resorts(size_t i) {
    bool added = false;
    for (Tactic& tactic : with_bodies(i, backend_.tactics(query(i)))) {
      if (!tactic.support.ok || !tactic.last_resort || options_.disabled_runners.contains(tactic.runner) ||
          !workspace_.refusal(query(i), tactic).empty() ||
          (options_.in_body && !body_refusal(query(i), tactic).empty()))
        continue;
      times_[i].push_back(estimated_ms(traits_, query(i), tactic, tactics_[i].size()));
      tactics_[i].push_back(std::move(tactic));
      measured_[i] = false;
      added = true;
    }
    return added;
  }

  void report_progress(size_t done) {
    if (shares_before_.empty()) {
      shares_before_.push_back(0);
      for (const double share : shares_) shares_before_.push_back(shares_before_.back() + share);
    }
    const double before = shares_before_[done], all = shares_before_.back();
    const double spent = measurer_.seconds_spent();
    const double remaining =
        before > 0 ? std::min(spent * (all - before) / before, effort_.budget_seconds) : -1;
    observer_.on(
        Progress{"Tuning", static_cast<int64_t>(done), static_cast<int64_t>(shares_.size()), remaining});
  }

  const Graph &graph_, &fused_;
  const SymbolRanges& ranges_;
  const Backend& backend_;
  const TuneOptions& options_;
  const TunedBodies& bodies_;
  Observer& observer_;
  const TuningTraits traits_;
  const Effort effort_;
  Measurer measurer_;
  WorkspaceLimit workspace_;
  ReformatCosts reformats_;
  std::vector<LayerQuery> queries_;
  std::vector<Alternative> alternatives_;
  std::vector<std::vector<LayerState>> fused_states_;  // by alternative
  RefusalCollector refusals_{observer_};
  std::vector<std::vector<Tactic>> tactics_;  // by query
  std::vector<std::vector<UnusableTactic>> refused_;
  std::vector<bool> measured_;  // its times are no estimates
  std::vector<std::vector<double>> times_;
  std::vector<double> shares_;
  std::vector<double> shares_before_;  // sums of those in front
  // Layers that were not timed: for want of time, and because they find an open size.
  int skipped_ = 0, open_ = 0;
};

}  // namespace

TunedGraph tune_graph(const Graph& graph, const SymbolRanges& ranges, const Backend& backend,
                      const TuneOptions& options, TimingCache& cache, Observer& observer,
                      const Graph* fused) {
  Graph around = graph;
  const TunedBodies bodies = tune_bodies(around, ranges, backend, options, cache, observer);
  if (bodies.tactics.empty())
    return Tuner(graph, ranges, backend, options, cache, observer, fused, bodies).run();
  TuneOptions own = options;
  own.budget_seconds = effort_of(options).budget_seconds * (1 - bodies.share);
  std::optional<Graph> around_fused;
  if (fused != nullptr) {
    around_fused = *fused;
    GraphEditor editor(*around_fused);
    for (const auto& [id, tactics] : bodies.tactics) editor.set_op(id, around.node(id).op);
  }
  return Tuner(around, ranges, backend, own, cache, observer, around_fused ? &*around_fused : nullptr, bodies)
      .run();
}

}  // namespace lathe
