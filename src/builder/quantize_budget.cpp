// SPDX-License-Identifier: Apache-2.0
#include "builder/quantize_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "builder/precision.h"
#include "ops/interpreter.h"
#include "reference/compare.h"

namespace lathe {
namespace {

constexpr size_t kMostGroups = 32;  // each costs a run of the network in the reference interpreter
constexpr int kRefinements = 3;

// Sums over the elements of one output, of all samples.
struct Sums {
  double error = 0, expected = 0, actual = 0, product = 0;
  void add(const Tensor& got, const Tensor& wanted) {
    const std::vector<double> a = got.to_doubles(), e = wanted.to_doubles();
    for (size_t i = 0; i < std::min(a.size(), e.size()); ++i) {
      error += (a[i] - e[i]) * (a[i] - e[i]);
      expected += e[i] * e[i];
      actual += a[i] * a[i];
      product += a[i] * e[i];
    }
  }
  double l2() const { return expected > 0 ? std::sqrt(error / expected) : std::sqrt(error); }
  double cosine() const {
    return actual > 0 && expected > 0 ? product / std::sqrt(actual * expected) : (actual == expected ? 1 : 0);
  }
};

struct Rows {
  int64_t count = 0, changed = 0;
  void add(const Tensor& got, const Tensor& wanted) {
    if (wanted.rank() == 0) return;
    const auto width = static_cast<size_t>(wanted.extents().back());
    const std::vector<double> a = got.to_doubles(), e = wanted.to_doubles();
    for (size_t i = 0; width > 0 && i + width <= e.size(); i += width) {
      const auto best = [&](const std::vector<double>& all) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
        return std::max_element(begin, begin + static_cast<std::ptrdiff_t>(width)) - begin;
      };
      ++count;
      changed += best(a) != best(e);
    }
  }
};

using Results = std::vector<std::vector<Tensor>>;  // by sample, then output

double value_of(AccuracyBudget::Metric metric, const Results& got, const Results& wanted) {
  if (metric == AccuracyBudget::Metric::Top1) {
    Rows rows;
    for (size_t s = 0; s < wanted.size(); ++s) rows.add(got[s][0], wanted[s][0]);
    if (rows.count == 0) throw_input_error("top1 wants an output with rows of scores");
    return static_cast<double>(rows.changed) / static_cast<double>(rows.count);
  }
  const bool cosine = metric == AccuracyBudget::Metric::Cosine;
  double worst = cosine ? 1 : 0;
  for (size_t o = 0; o < wanted[0].size(); ++o) {
    Sums sums;
    for (size_t s = 0; s < wanted.size(); ++s) sums.add(got[s][o], wanted[s][o]);
    worst = cosine ? std::min(worst, sums.cosine()) : std::max(worst, sums.l2());
  }
  return worst;
}

class Search {
 public:
  Search(CalibratedModel& calibrated, const Network& network, Builder& builder,
         const std::vector<std::vector<Tensor>>& held_back, const BudgetOptions& options)
      : calibrated_(calibrated),
        network_(network),
        builder_(builder),
        held_back_(held_back),
        options_(options) {
    result_.products = calibrated.products().size();
  }

  BudgetResult run(const std::vector<Tensor>& seen) {
    measure_sensitivities(seen);
    const size_t groups = result_.sensitivities.size();
    judge_floats();
    for (const size_t floats : {size_t{0}, groups / 8, groups / 4, groups / 2, groups - groups / 4})
      judge_quantized(floats);
    refine();
    keep_fastest();
    return std::move(result_);
  }

 private:
  struct Judged {
    BudgetPoint point;
    std::shared_ptr<const Engine> engine;  // of the float32 model and of the fastest that fits
  };

  void tell(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  // --- what each group costs alone

  void measure_sensitivities(const std::vector<Tensor>& seen) {
    const std::vector<std::string> products = calibrated_.products();
    const size_t each = (products.size() + kMostGroups - 1) / kMostGroups;
    ThreadPool pool;
    const std::vector<Tensor> expected = interpret(*network_.graph, seen, {.pool = &pool});
    for (size_t begin = 0; begin < products.size(); begin += each) {
      const auto first = products.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last =
          products.begin() + static_cast<std::ptrdiff_t>(std::min(begin + each, products.size()));
      std::vector<std::string> others(products.begin(), first);
      others.insert(others.end(), last, products.end());
      const QuantizeResult alone = calibrated_.write(others);
      const std::vector<Tensor> got = interpret(*parse(alone).graph, seen, {.pool = &pool});
      const double error = value_of(AccuracyBudget::Metric::L2, {got}, {expected});
      result_.sensitivities.push_back({{first, last}, error});
      tell(fmt::format("sensitivity of product {} of {}", std::min(begin + each, products.size()),
                       products.size()));
    }
    std::stable_sort(result_.sensitivities.begin(), result_.sensitivities.end(),
                     [](const auto& a, const auto& b) { return a.error > b.error; });
  }

  Network parse(const QuantizeResult& model) {
    const std::string& bytes = model.model.bytes;
    return builder_.parse_onnx(std::as_bytes(std::span(bytes.data(), bytes.size())), options_.directory);
  }

  // --- engines

  // The float32 model, then the same in the types of the build where an engine uses them.
  void judge_floats() {
    const size_t groups = result_.sensitivities.size();
    const BuildOptions& types = options_.build;
    Judged float32 = judge(network_, groups, false);
    if (types.best || types.fp16 || types.bf16) {
      Judged narrow = judge(network_, groups, true);
      if (uses_type(narrow.engine->variant(0), {DType::Float16, DType::BFloat16})) {
        narrow_ = narrow.point.fits;
        aside_ = std::move(narrow);
      }
    }
    if (narrow_) std::swap(float32, *aside_);
    judged_.emplace(groups, std::move(float32));
  }

  // With the first groups left float.
  void judge_quantized(size_t floats) {
    if (judged_.contains(floats)) return;
    Judged judged = judge(parse(calibrated_.write(left_float(floats))), floats, narrow_);
    const bool keeps = judged.point.fits && (!fastest_ || judged.point.ms < fastest_->point.ms);
    if (!keeps) judged.engine = nullptr;
    Judged& kept = judged_.emplace(floats, std::move(judged)).first->second;
    if (!keeps) return;
    if (fastest_) fastest_->engine = nullptr;
    fastest_ = &kept;
  }

  std::vector<std::string> left_float(size_t groups) const {
    std::vector<std::string> left;
    for (size_t g = 0; g < groups; ++g)
      left.insert(left.end(), result_.sensitivities[g].nodes.begin(), result_.sensitivities[g].nodes.end());
    return left;
  }

  Judged judge(const Network& network, size_t floats, bool narrow) {
    Judged judged;
    BudgetPoint& point = judged.point;
    point.float_products = left_float(floats).size();
    point.narrow_floats = narrow;
    point.is_float32 = floats == result_.sensitivities.size() && !narrow;
    judged.engine = build(network, narrow);
    Results got;
    const auto context = judged.engine->create_context(0);
    try {
      for (const auto& sample : held_back_) got.push_back(context->run(sample));
    } catch (Error& error) {
      error.add_context(
          "a sample that judges the budget (the engine's shapes have to allow those of the samples)");
      throw;
    }
    if (point.is_float32) expected_ = got;
    point.value = value_of(options_.budget.metric, got, expected_);
    point.ms = judged.engine->variant(0).measured_ms;
    point.fits = options_.budget.allows(point.value);
    tell(fmt::format("{} of {} products in floats: {}, {:.3g} ms", point.float_products, result_.products,
                     options_.budget.value_text(point.value), point.ms));
    return judged;
  }

  std::shared_ptr<const Engine> build(Network network, bool narrow) {
    BuildOptions build = options_.build;
    if (!narrow) build.best = build.fp16 = build.bf16 = false;
    if (options_.prepare) options_.prepare(network);
    if (build.profiles.empty()) {
      const std::vector<TensorInfo> inputs = network.inputs();
      OptimizationProfile& profile = build.profiles.emplace_back();
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Extents& e = held_back_[0][i].extents();
        profile.shapes[inputs[i].name] = {e, e, e};
      }
    }
    if (build.timing_cache_mode == TimingCacheMode::Local) build.timing_cache = cache_;
    return builder_.build(network, build);
  }

  // Between the last model that does not fit and the first that does.
  void refine() {
    for (int i = 0; i < kRefinements; ++i) {
      const auto fits = std::find_if(judged_.begin(), judged_.end(),
                                     [](const auto& entry) { return entry.second.point.fits; });
      if (fits == judged_.begin() || fits == judged_.end()) return;
      const size_t low = std::prev(fits)->first, high = fits->first;
      if (high - low < 2) return;
      judge_quantized(low + (high - low) / 2);
    }
  }

  // --- the choice

  std::vector<Judged*> all() {
    std::vector<Judged*> all;
    for (auto& [floats, judged] : judged_) all.push_back(&judged);
    if (aside_) all.push_back(&*aside_);
    return all;
  }

  bool is_nearer(double a, double b) const {
    return options_.budget.metric == AccuracyBudget::Metric::Cosine ? a > b : a < b;
  }

  void keep_fastest() {
    Judged *best = nullptr, *nearest = nullptr, *float32 = nullptr;
    for (Judged* judged : all()) {
      if (judged->point.is_float32) {
        float32 = judged;
        continue;
      }
      if (!options_.may_keep_floats && judged->point.float_products == result_.products) continue;
      if (!nearest || is_nearer(judged->point.value, nearest->point.value)) nearest = judged;
      if (judged->point.fits && (!best || judged->point.ms < best->point.ms)) best = judged;
    }
    if (!best)
      throw_input_error(
          fmt::format("no {} keeps {}: the nearest, with {} of {} products in {}, has {}. A wider budget, "
                      "more samples for "
                      "calibration or another method for the ranges may help",
                      options_.may_keep_floats ? "engine in types narrower than float32" : "quantised model",
                      options_.budget.text, nearest->point.float_products, result_.products,
                      nearest->point.narrow_floats ? "FP16 or BF16" : "float32",
                      options_.budget.value_text(nearest->point.value)));
    if (options_.may_keep_floats && float32->point.ms < best->point.ms) best = float32;
    best->point.is_kept = true;
    result_.engine = best->engine;
    if (best->point.float_products < result_.products)
      result_.model = calibrated_.write(left_float(groups_of(*best)));
    for (const Judged* judged : all()) result_.points.push_back(judged->point);
    for (BudgetPoint& point : result_.points)
      point.is_on_front =
          std::none_of(result_.points.begin(), result_.points.end(), [&](const BudgetPoint& other) {
            const bool different = other.value != point.value || other.ms != point.ms;
            return !is_nearer(point.value, other.value) && other.ms <= point.ms && different;
          });
  }

  size_t groups_of(const Judged& wanted) const {
    for (const auto& [floats, judged] : judged_)
      if (&judged == &wanted) return floats;
    return result_.sensitivities.size();
  }

  CalibratedModel& calibrated_;
  const Network& network_;
  Builder& builder_;
  const std::vector<std::vector<Tensor>>& held_back_;
  const BudgetOptions& options_;
  std::shared_ptr<TimingCache> cache_ = std::make_shared<TimingCache>();
  Results expected_;
  bool narrow_ = false;              // quantised models may have FP16 or BF16 where they are no integers
  std::map<size_t, Judged> judged_;  // by the number of groups that stay float; entries stay where they are
  std::optional<Judged> aside_;      // all in floats, of the other types than the last of judged_
  Judged* fastest_ = nullptr;        // quantised model that fits
  BudgetResult result_;
};

const BudgetPoint& find_point(const std::vector<BudgetPoint>& points, bool BudgetPoint::*is) {
  const auto found = std::find_if(points.begin(), points.end(), [&](const auto& point) { return point.*is; });
  check(found != points.end(), "a search without its point");
  return *found;
}

}  // namespace

AccuracyBudget AccuracyBudget::parse(const std::string& text) {
  const auto fail = [&] {
    throw_input_error(
        "--budget is top1<SHARE, l2<X or cosine>X, as in 'top1<0.5%', 'l2<1e-2', 'cosine>0.999'; not '" +
        text + "'");
  };
  AccuracyBudget budget{.text = text};
  const size_t sign = text.find_first_of("<>");
  if (sign == std::string::npos) fail();
  const std::string name = text.substr(0, sign);
  std::string number = text.substr(sign + 1);
  const bool percent = !number.empty() && number.back() == '%';
  if (percent) number.pop_back();
  size_t used = 0;
  try {
    budget.limit = std::stod(number, &used) / (percent ? 100 : 1);
  } catch (const std::exception&) {
    fail();
  }
  budget.metric = name == "top1" ? Metric::Top1 : name == "l2" ? Metric::L2 : Metric::Cosine;
  const bool known = name == "top1" || name == "l2" || name == "cosine";
  const bool right_sign = text[sign] == (budget.metric == Metric::Cosine ? '>' : '<');
  if (!known || !right_sign || used != number.size() || !(budget.limit > 0) || !std::isfinite(budget.limit))
    fail();
  return budget;
}

std::string AccuracyBudget::value_text(double value) const {
  if (metric == Metric::Top1) return fmt::format("top1 {:.2f}%", 100 * value);
  return metric == Metric::L2 ? fmt::format("l2 {:.2e}", value) : fmt::format("cosine {:.6f}", value);
}

const BudgetPoint& BudgetResult::kept() const {
  return find_point(points, &BudgetPoint::is_kept);
}

const BudgetPoint& BudgetResult::float32() const {
  return find_point(points, &BudgetPoint::is_float32);
}

BudgetResult quantize_within(CalibratedModel& calibrated, const Network& network, Builder& builder,
                             const std::vector<Tensor>& seen,
                             const std::vector<std::vector<Tensor>>& held_back,
                             const BudgetOptions& options) {
  if (calibrated.products().empty())
    throw_input_error("the model has no product or convolution with constant weights to search over");
  return Search(calibrated, network, builder, held_back, options).run(seen);
}

}  // namespace lathe
