// SPDX-License-Identifier: Apache-2.0
#include "builder/quantize_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

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
    judge(groups);  // the float model: all others are compared with it
    for (const size_t floats : {size_t{0}, groups / 8, groups / 4, groups / 2, groups - groups / 4})
      judge(floats);
    refine();
    keep_fastest();
    return std::move(result_);
  }

 private:
  struct Judged {
    BudgetPoint point;
    std::optional<QuantizeResult> model;
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
    return builder_.parse_onnx(std::as_bytes(std::span(bytes.data(), bytes.size())));
  }

  // --- models with the first groups left float

  void judge(size_t floats) {
    if (judged_.contains(floats)) return;
    Judged judged;
    std::vector<std::string> left;
    for (size_t g = 0; g < floats; ++g)
      left.insert(left.end(), result_.sensitivities[g].nodes.begin(), result_.sensitivities[g].nodes.end());
    judged.point.float_products = left.size();
    const bool is_float = floats == result_.sensitivities.size();
    if (!is_float) judged.model = calibrated_.write(left);
    const auto engine = build(is_float ? network_ : parse(*judged.model));
    Results got;
    const auto context = engine->create_context(0);
    for (const auto& sample : held_back_) got.push_back(context->run(sample));
    if (is_float) expected_ = got;
    judged.point.value = value_of(options_.budget.metric, got, expected_);
    judged.point.ms = engine->variant(0).measured_ms;
    judged.point.fits = options_.budget.allows(judged.point.value);
    tell(fmt::format("{} of {} products in float32: {} {:.3g} ms", left.size(), result_.products,
                     options_.budget.value_text(judged.point.value), judged.point.ms));
    judged_.emplace(floats, std::move(judged));
  }

  std::shared_ptr<const Engine> build(const Network& network) {
    const std::vector<TensorInfo> inputs = network.inputs();
    OptimizationProfile profile;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Extents& e = held_back_[0][i].extents();
      profile.shapes[inputs[i].name] = {e, e, e};
    }
    BuildOptions build;
    build.profiles = {profile};
    build.optimization_level = options_.optimization_level;
    build.batch_part = 0;
    build.timing_cache_mode = TimingCacheMode::Local;
    build.timing_cache = cache_;
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
      judge(low + (high - low) / 2);
    }
  }

  void keep_fastest() {
    Judged *best = nullptr, *nearest = nullptr;
    const bool more_is_better = options_.budget.metric == AccuracyBudget::Metric::Cosine;
    for (auto& [floats, judged] : judged_) {
      if (!judged.model) continue;
      const bool nearer = !nearest || (more_is_better ? judged.point.value > nearest->point.value
                                                      : judged.point.value < nearest->point.value);
      if (nearer) nearest = &judged;
      if (judged.point.fits && (!best || judged.point.ms < best->point.ms)) best = &judged;
    }
    if (!best)
      throw_input_error(
          fmt::format("no quantised model keeps {}: the nearest, with {} of {} products in float32, has {}",
                      options_.budget.text, nearest->point.float_products, result_.products,
                      options_.budget.value_text(nearest->point.value)));
    best->point.is_kept = true;
    result_.model = std::move(*best->model);
    for (const auto& [floats, judged] : judged_) result_.points.push_back(judged.point);
    for (BudgetPoint& point : result_.points)
      point.is_on_front =
          std::none_of(result_.points.begin(), result_.points.end(), [&](const BudgetPoint& other) {
            const bool nearer = more_is_better ? other.value >= point.value : other.value <= point.value;
            const bool different = other.value != point.value || other.ms != point.ms;
            return nearer && other.ms <= point.ms && different;
          });
  }

  CalibratedModel& calibrated_;
  const Network& network_;
  Builder& builder_;
  const std::vector<std::vector<Tensor>>& held_back_;
  const BudgetOptions& options_;
  std::shared_ptr<TimingCache> cache_ = std::make_shared<TimingCache>();
  Results expected_;
  std::map<size_t, Judged> judged_;  // by the number of groups that stay float
  BudgetResult result_;
};

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

BudgetResult quantize_within(CalibratedModel& calibrated, const Network& network, Builder& builder,
                             const std::vector<Tensor>& seen,
                             const std::vector<std::vector<Tensor>>& held_back,
                             const BudgetOptions& options) {
  if (calibrated.products().empty())
    throw_input_error("the model has no product or convolution with constant weights to search over");
  return Search(calibrated, network, builder, held_back, options).run(seen);
}

}  // namespace lathe
