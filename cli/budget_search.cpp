// SPDX-License-Identifier: Apache-2.0
#include "budget_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "report/table.h"

namespace lathe::cli {
namespace {

// The share of samples that a budget is judged on, and no more than memory has room for.
constexpr int64_t kHeldBackShare = 4, kMostHeldBack = 64;

std::string floats_of(const BudgetPoint& point) {
  return point.narrow_floats ? "FP16, BF16 or float32" : "float32";
}

// "3 of 8 products in integers, 0.52 ms, l2 8.1e-03"
std::string point_text(const BudgetPoint& point, const BudgetResult& result, const AccuracyBudget& budget) {
  const size_t integers = result.products - point.float_products;
  const std::string types = integers == 0 ? floats_of(point)
                                          : fmt::format("{} of {} products in integers and the rest in {}",
                                                        integers, result.products, floats_of(point));
  return fmt::format("{}, {:.3g} ms, {}", types, point.ms, budget.value_text(point.value));
}

}  // namespace

BudgetResult search_within(const std::string& model, const Network& network, Builder& builder,
                           CalibrationData& data, const QuantizeOptions& quantize,
                           const BudgetOptions& search, const std::function<void(int64_t)>& progress) {
  if (data.count() < 2)
    throw_input_error("--budget wants two samples at least: some are held back to judge it");
  const int64_t held = std::min(std::max<int64_t>(1, data.count() / kHeldBackShare), kMostHeldBack);
  std::vector<Tensor> seen;
  int64_t taken = 0;
  CalibratedModel calibrated(
      model, network, builder,
      [&](std::vector<Tensor>& sample) {
        if (taken == data.count() - held || !data.next(sample)) return false;
        if (taken++ == 0) seen = sample;
        return true;
      },
      quantize, progress);
  std::vector<std::vector<Tensor>> held_back(static_cast<size_t>(held));
  for (auto& sample : held_back) data.next(sample);
  return quantize_within(calibrated, network, builder, seen, held_back, search);
}

std::string front_text(const BudgetResult& result, const AccuracyBudget& budget) {
  Table table({{"products in floats", Table::Align::Right},
               {"floats"},
               {"accuracy", Table::Align::Right},
               {"ms", Table::Align::Right},
               {""},
               {""}});
  for (const BudgetPoint& point : result.points)
    table.add({fmt::format("{} of {}", point.float_products, result.products), floats_of(point),
               budget.value_text(point.value), fmt::format("{:.3g}", point.ms),
               point.is_on_front ? "front" : "",
               point.is_kept ? "kept"
               : point.fits  ? "fits"
                             : "does not fit"});
  return table.text();
}

std::string choice_text(const BudgetResult& result, const AccuracyBudget& budget) {
  const BudgetPoint &kept = result.kept(), &floats = result.float32();
  const BudgetPoint *faster = nullptr, *narrow = nullptr;  // of what does not fit; of what fits
  size_t fitting = 0;
  for (const BudgetPoint& point : result.points) {
    if (!point.fits && (!faster || point.ms < faster->ms)) faster = &point;
    if (!point.fits || point.is_float32) continue;
    ++fitting;
    if (!narrow || point.ms < narrow->ms) narrow = &point;
  }
  std::string text =
      kept.is_float32
          ? fmt::format(
                "kept float32, {:.3g} ms, which is faster than all that is narrower and fits {}; the "
                "fastest of these: {}",
                kept.ms, budget.text, point_text(*narrow, result, budget))
          : fmt::format(
                "kept the fastest of {} that are narrower than float32 and fit {}: {}; float32 takes "
                "{:.3g} ms",
                fitting, budget.text, point_text(kept, result, budget), floats.ms);
  if (faster && faster->ms < kept.ms)
    text += fmt::format("; the fastest that does not fit: {}", point_text(*faster, result, budget));
  return text;
}

Json front_json(const BudgetResult& result, const AccuracyBudget& budget) {
  Json points = Json::array(), sensitivities = Json::array();
  for (const BudgetPoint& point : result.points)
    points.push_back({{"float_products", point.float_products},
                      {"narrow_floats", point.narrow_floats},
                      {"value", point.value},
                      {"ms", point.ms},
                      {"fits", point.fits},
                      {"front", point.is_on_front},
                      {"kept", point.is_kept}});
  for (const auto& group : result.sensitivities)
    sensitivities.push_back({{"nodes", group.nodes}, {"l2", group.error}});
  return {{"budget", budget.text},
          {"products", result.products},
          {"points", points},
          {"sensitivities", sensitivities}};
}

}  // namespace lathe::cli
