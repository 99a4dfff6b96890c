// SPDX-License-Identifier: Apache-2.0
//
// Which products of a model may compute in integers, so that what the model gives stays within a budget: each group of products
// is quantised alone to see what it costs, the costliest stay float one after the other, and engines of the models so far are
// judged on samples that calibration has not seen, for accuracy and for time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "builder/quantize.h"

namespace lathe {

struct AccuracyBudget {
  enum class Metric : uint8_t {
    Top1,   // share of rows whose largest element is another one than the float model's
    L2,     // |result - float result| / |float result|, of the worst output
    Cosine  // of the angle between both, of the worst output
  };
  Metric metric = Metric::L2;
  double limit = 0;
  std::string text;

  // "top1<0.5%", "l2<1e-2", "cosine>0.999". Throws Input.
  static AccuracyBudget parse(const std::string& text);
  bool allows(double value) const { return metric == Metric::Cosine ? value > limit : value < limit; }
  std::string value_text(double value) const;
};

struct BudgetPoint {
  size_t float_products = 0;  // of all; all of them: the float model
  double value = 0;           // of the budget's metric, on held-back samples
  double ms = 0;              // of its engine
  bool fits = false, is_kept = false;
  bool is_on_front = false;  // nothing is both nearer and faster
};

struct BudgetResult {
  QuantizeResult model;
  std::vector<BudgetPoint> points;  // by the number of float products
  size_t products = 0;
  // The error (L2) of quantising this group alone, the largest first.
  struct Sensitivity {
    std::vector<std::string> nodes;
    double error = 0;
  };
  std::vector<Sensitivity> sensitivities;
};

struct BudgetOptions {
  AccuracyBudget budget;
  int optimization_level = 2;  // of the engines that are timed
  std::function<void(const std::string&)> progress;
};

// `held_back`: samples for judging; `seen`: one for sensitivities. Throws Input when no quantised model fits.
BudgetResult quantize_within(CalibratedModel& calibrated, const Network& network, Builder& builder,
                             const std::vector<Tensor>& seen,
                             const std::vector<std::vector<Tensor>>& held_back, const BudgetOptions& options);

}  // namespace lathe
