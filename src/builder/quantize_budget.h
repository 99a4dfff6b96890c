// SPDX-License-Identifier: Apache-2.0
//
// Which products of a model may compute in integers, so that what the model gives stays within a budget: each
// group of products is quantised alone to see what it costs, the costliest stay float one after the other,
// and engines of the models so far are judged on samples that calibration has not seen, for accuracy and for
// time.
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
  size_t float_products = 0;   // of all
  bool narrow_floats = false;  // what is no integer may be FP16 or BF16, else it is float32
  bool is_float32 = false;     // the model itself, which all others are compared with
  double value = 0;            // of the budget's metric, on held-back samples
  double ms = 0;               // of its engine
  bool fits = false, is_kept = false;
  bool is_on_front = false;  // nothing is both nearer and faster
};

struct BudgetResult {
  QuantizeResult model;                  // the quantised model that is kept; without bytes where none is
  std::shared_ptr<const Engine> engine;  // that was judged and is kept
  std::vector<BudgetPoint> points;       // by the number of float products
  size_t products = 0;
  // The error (L2) of quantising this group alone, the largest first.
  struct Sensitivity {
    std::vector<std::string> nodes;
    double error = 0;
  };
  std::vector<Sensitivity> sensitivities;

  const BudgetPoint& kept() const;
  const BudgetPoint& float32() const;
};

struct BudgetOptions {
  AccuracyBudget budget;
  // Of the engines that are judged. Without profiles they are for the shapes of the samples. Where the types
  // allow FP16 or BF16 and these alone are beyond the budget, the floats of quantised models are float32.
  BuildOptions build;
  // False: what is kept has an integer product. True: it may be the model without any, in the types of
  // `build` or, where something narrower fits and float32 is faster, in float32.
  bool may_keep_floats = false;
  std::filesystem::path directory;        // of the model: where external data is
  std::function<void(Network&)> prepare;  // before an engine is built
  std::function<void(const std::string&)> progress;
};

// `held_back`: samples for judging; `seen`: one for sensitivities. Throws Input when nothing narrower than
// float32 fits, with the nearest value that was reached.
BudgetResult quantize_within(CalibratedModel& calibrated, const Network& network, Builder& builder,
                             const std::vector<Tensor>& seen,
                             const std::vector<std::vector<Tensor>>& held_back, const BudgetOptions& options);

}  // namespace lathe
