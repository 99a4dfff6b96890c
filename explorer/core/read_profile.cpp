// SPDX-License-Identifier: Apache-2.0
//
// Profiles (--exportProfile) and times (--exportTimes). Records may have more or fewer keys than a release
// writes: the name and an average are all that is needed, and an average is made from a total when only that
// is there.
#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "explorer/core/readers.h"

namespace lathe::explorer {
namespace {

std::optional<double> number_of(const JsonAt& at, std::string_view key) {
  const auto found = at.find(key);
  if (!found) return {};
  const double value = found->number();
  if (value < 0) found->fail("a time, which is not negative");
  return value;
}

}  // namespace

ProfileFile read_profile(const InputFile& input) {
  const JsonAt root(*input.json, input.name + ": ");
  ProfileFile file;
  for (size_t i = 0; i < root.size(); ++i) {
    const JsonAt at = root.item(i);
    if (!at.find("name")) {
      const auto count = at.find("count");
      if (!count) at.fail("a record with \"name\", or the record with \"count\"");
      file.iterations = count->integer();
      continue;
    }
    ProfileRecord record;
    record.name = clean_name(at.at("name").text());
    record.time.total_ms = number_of(at, "timeMs");
    record.time.median_ms = number_of(at, "medianMs");
    record.time.percent = number_of(at, "percentage");
    record.time.min_ms = number_of(at, "minMs");
    record.time.p99_ms = number_of(at, "p99Ms");
    if (const auto average = number_of(at, "averageMs")) {
      record.time.average_ms = *average;
    } else if (record.time.total_ms && file.iterations && *file.iterations > 0) {
      record.time.average_ms = *record.time.total_ms / static_cast<double>(*file.iterations);
    } else {
      throw_input_error(fmt::format(
          "{}: the key \"averageMs\" is missing, and there is no total with a count to make it from",
          at.place()));
    }
    file.records.push_back(std::move(record));
  }
  if (file.records.empty()) {
    throw_input_error(fmt::format(
        "{}: no layer has a time: the profile is empty; export it with --dumpProfile --exportProfile=FILE",
        input.name));
  }
  return file;
}

LayerRunsFile read_layer_runs(const InputFile& input) {
  const JsonAt root(*input.json, input.name + ": ");
  LayerRunsFile file;
  file.count = root.at("count").integer();
  const JsonAt layers = root.at("layers"), runs = root.at("runs");
  for (size_t i = 0; i < layers.size(); ++i) file.layers.push_back(clean_name(layers.item(i).text()));
  for (size_t i = 0; i < runs.size(); ++i) {
    const JsonAt run = runs.item(i);
    file.numbers.push_back(run.at("run").integer());
    const JsonAt times = run.at("timesMs");
    if (times.size() != file.layers.size())
      times.fail(fmt::format("{} times, one per layer", file.layers.size()));
    std::vector<double> values;
    for (size_t k = 0; k < times.size(); ++k) values.push_back(times.item(k).number());
    file.times_ms.push_back(std::move(values));
  }
  return file;
}

Iterations read_times(const InputFile& input) {
  const JsonAt root(*input.json, input.name + ": ");
  Iterations times;
  for (size_t i = 0; i < root.size(); ++i) {
    const JsonAt at = root.item(i);
    const double latency = at.at("latencyMs").number();
    times.latency_ms.push_back(latency);
    // 7.x has no computeMs: its start and end, or the latency itself.
    const auto compute = at.find("computeMs");
    times.compute_ms.push_back(compute ? compute->number() : latency);
    const auto start = at.find("startComputeMs");
    times.start_ms.push_back(start ? start->number() : 0);
    if (const auto h2d = at.find("h2dMs") ? at.find("h2dMs") : at.find("inMs"))
      times.h2d_ms.push_back(h2d->number());
    if (const auto d2h = at.find("d2hMs") ? at.find("d2hMs") : at.find("outMs"))
      times.d2h_ms.push_back(d2h->number());
    if (const auto begin = at.find("startEnqMs"), end = at.find("endEnqMs"); begin && end)
      times.enqueue_ms.push_back(end->number() - begin->number());
  }
  if (times.latency_ms.empty()) throw_input_error(input.name + ": no query was recorded");
  return times;
}

std::vector<AccuracyRecord> read_accuracy(const InputFile& input) {
  const JsonAt root(*input.json, input.name + ": ");
  const JsonAt layers = root.at("layers");
  std::vector<AccuracyRecord> records;
  for (size_t i = 0; i < layers.size(); ++i) {
    const JsonAt at = layers.item(i);
    AccuracyRecord record;
    record.layer = clean_name(at.at("layer").text());
    if (const auto local = at.find("local")) record.error.local = local->at("relative_l2").number();
    if (const auto accumulated = at.find("accumulated"))
      record.error.accumulated = accumulated->at("relative_l2").number();
    if (const auto limit = at.find("limit")) record.error.limit = limit->number();
    if (const auto bad = at.find("bad"); bad && bad->json().is_boolean() && bad->json().get<bool>())
      record.error.text = "out of tolerance";
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace lathe::explorer
