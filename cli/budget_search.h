// SPDX-License-Identifier: Apache-2.0
//
// --budget, of `lathe quantize` and of trtexec: samples that are held back, the search, and what it found as
// text and JSON.
#pragma once

#include <string>

#include "base/json_value.h"
#include "builder/quantize_budget.h"
#include "calibration_data.h"

namespace lathe::cli {

// Calibrates `model`, which `network` was read from, with all samples but a quarter (64 at most), and judges
// with these. Throws Input for fewer than two samples, and where nothing fits.
BudgetResult search_within(const std::string& model, const Network& network, Builder& builder,
                           CalibrationData& data, const QuantizeOptions& quantize,
                           const BudgetOptions& search, const std::function<void(int64_t)>& progress);

// The accuracy and time of everything that was judged, one line each.
std::string front_text(const BudgetResult& result, const AccuracyBudget& budget);
// What is kept and why it, in one sentence.
std::string choice_text(const BudgetResult& result, const AccuracyBudget& budget);
Json front_json(const BudgetResult& result, const AccuracyBudget& budget);

}  // namespace lathe::cli
