// SPDX-License-Identifier: Apache-2.0
#include "budget_build.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments/arguments.h"
#include "base/file.h"
#include "base/json.h"
#include "base/interrupted.h"
#include "budget_search.h"

namespace lathe::cli {
namespace {

// Of inputs with open dims, for random samples and pictures: those that are tuned for.
NamedShapes tuned_shapes(const BuildOptions& build, const std::vector<TensorInfo>& inputs) {
  NamedShapes shapes;
  if (build.profiles.empty()) return shapes;
  for (const TensorInfo& input : inputs)
    if (const auto found = build.profiles[0].shapes.find(input.name); found != build.profiles[0].shapes.end())
      shapes.emplace_back(input.name, found->second.opt);
  return shapes;
}

void log_lines(Log& log, const std::string& text) {
  for (const std::string& line : split_list(text, '\n')) log.info(line);
}

}  // namespace

void check_budget(const Options& options) {
  AccuracyBudget::parse(options.build.budget);
  const std::string& source = options.build.calibration;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(source, ignored)) return;
  const auto file = MappedFile::open(source);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  if (is_calibration_cache(text))
    throw_input_error(source +
                      " is a calibration cache: it has scales and no samples that --budget could judge by. "
                      "Name a folder of samples with --calib, or leave --budget out");
}

std::shared_ptr<const Engine> build_within_budget(const Options& options, const Network& network,
                                                  Builder& builder, const BuildOptions& build,
                                                  const std::function<void(Network&)>& prepare, Json& found,
                                                  Log& log) {
  BudgetOptions search{.budget = AccuracyBudget::parse(options.build.budget),
                       .build = build,
                       .may_keep_floats = options.build.best,
                       .directory = std::filesystem::path(options.model.onnx).parent_path(),
                       .prepare = prepare};
  const auto tell = [&](const std::string& text) {
    if (build.stop.stop_requested()) throw Interrupted();
    log.set_status(text);
  };
  search.progress = [&](const std::string& text) {
    tell(text);
    log.library(Severity::Verbose, text);
  };
  CalibrationData data(options.build.calibration, network.inputs(), tuned_shapes(build, network.inputs()), -1,
                       options.inference.preprocess);
  if (data.is_random()) log.warning(std::string("--calib=random: ") + kRandomSamplesWarning);
  BudgetResult result = search_within(
      options.model.onnx, network, builder, data, {}, search,
      [&](int64_t done) { tell(fmt::format("calibration: sample {} of {}", done, data.count())); });
  log.set_status("");
  log.info("Accuracy against the float32 model, on samples that calibration has not seen; times of engines:");
  log_lines(log, front_text(result, search.budget));
  log.info("Budget: " + choice_text(result, search.budget));
  found = front_json(result, search.budget);
  return result.engine;
}

}  // namespace lathe::cli
