// SPDX-License-Identifier: Apache-2.0
//
// Times single layers with all their tactics, as the tuner times them (cold, interleaved), and holds them
// against the machine's measured ceilings. problem.h says how a problem is written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backend/all.h"
#include "base/error.h"
#include "ceilings.h"
#include "problem.h"
#include "tune/candidates.h"
#include "tune/timer.h"

namespace lathe::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    R"(Times single layers with all their tactics, as the tuner times them (cold, interleaved), against the machine's ceilings.

usage: bench_problems [--device=cpu|N] [--threads=N] [--tactics=PART] [--json=FILE] PROBLEM...
       bench_problems [--threads=N] --ceilings     only what the machine can do, as JSON

  PROBLEM         conv:n1c64h56w56k64r3s3,f32,relu   matmul:m128n768k3072,bf16,gelu   attention:b1h12s128d64,f32
                  or @FILE: one per line, # begins a comment. bench/problem.h has the grammar
  --device=N      GPU number N instead of the CPU; the ceilings are the CPU's, so that column is empty
  --threads=N     default: all CPUs
  --tactics=PART  only tactics whose name has this part
  --json=FILE     the same as data

examples:
  bench_problems --threads=2 conv:n1c256h14w14k256r3s3,f32,relu
  bench_problems --tactics=amx @bench/problems/recipes.txt
  bench_problems --device=0 --tactics=wgmma matmul:m4096n768k768,f16
)";

struct Row {
  std::string name, types, reason;  // a reason: refused
  double ms = 0, best_ms = 0, gflops = 0, share = 0;
  double expected_ms = 0;  // what level 0 goes by
};

// How much longer than the fastest the tactic takes that level 0 chooses, were the layer alone; nothing when
// one is left.
struct Regret {
  std::string name;
  double ratio = 1;
};
std::optional<Regret> regret_of(const std::vector<Row>& rows) {
  const Row *fastest = nullptr, *chosen = nullptr;
  int rivals = 0;
  for (const Row& row : rows) {
    if (!row.reason.empty()) continue;
    ++rivals;
    if (!fastest || row.ms < fastest->ms) fastest = &row;
    if (!chosen || row.expected_ms < chosen->expected_ms) chosen = &row;
  }
  if (rivals < 2) return std::nullopt;
  return Regret{chosen->name, chosen->ms / fastest->ms};
}

std::string types_of(const Tactic& tactic) {
  const std::string from = tactic.inputs.empty() ? "" : to_string(tactic.inputs[0]);
  return from + " -> " + to_string(tactic.outputs[0]);
}

std::vector<Row> time_problem(const Backend& backend, const Problem& problem, const Ceilings& ceilings,
                              const std::string& part) {
  const SymbolRanges ranges;
  const LayerQuery query{problem.graph, problem.node, ranges};
  std::vector<Row> rows;
  std::vector<std::unique_ptr<TimedLayer>> layers;
  std::vector<std::function<double()>> rivals;
  std::vector<size_t> timed;
  std::vector<bool> in_bf16;
  size_t rank = 0;
  for (const Tactic& tactic : backend.tactics(query)) {
    if (tactic.last_resort || tactic.name.find(part) == std::string::npos) continue;
    rows.push_back({.name = tactic.name, .types = types_of(tactic), .reason = tactic.support.reason});
    in_bf16.push_back(!tactic.inputs.empty() && tactic.inputs[0].dtype == DType::BFloat16);
    if (!tactic.support.ok) continue;
    rows.back().expected_ms = estimated_ms(backend.tuning_traits(), query, tactic, rank++);
    layers.push_back(backend.prepare_timing(query, tactic));
    rivals.emplace_back([layer = layers.back().get()] { return layer->run_ms(); });
    timed.push_back(rows.size() - 1);
  }
  const auto times = time_interleaved(rivals, {.repetitions = 20, .limit_seconds = 5, .clearly_ahead = 1e9});
  for (size_t i = 0; i < timed.size(); ++i) {
    Row& row = rows[timed[i]];
    row.ms = times[i].score_ms;
    row.best_ms = times[i].best_ms;
    row.gflops = problem.operations / row.ms / 1e6;
    const double ceiling =
        in_bf16[timed[i]] && ceilings.bf16_gflops > 0 ? ceilings.bf16_gflops : ceilings.f32_gflops;
    row.share = ceiling > 0 ? row.gflops / ceiling : 0;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(!a.reason.empty(), a.ms) < std::pair(!b.reason.empty(), b.ms);
  });
  return rows;
}

Json to_json(const Ceilings& c, int threads) {
  return {{"threads", threads},
          {"isa", c.isa},
          {"f32_gflops", c.f32_gflops},
          {"bf16_gflops", c.bf16_gflops},
          {"cache_copy_gbs", c.cache_copy_gbs},
          {"memory_copy_gbs", c.memory_copy_gbs},
          {"memory_read_gbs", c.memory_read_gbs}};
}

Json report(const Problem& problem, const std::vector<Row>& rows) {
  fmt::print("\n{}   {:.1f} MFLOP\n{:>10}{:>10}{:>9}  tactic\n", problem.text, problem.operations / 1e6, "ms",
             "GFLOP/s", "ceiling");
  Json tactics = Json::array();
  for (const Row& row : rows) {
    if (row.reason.empty())
      fmt::print("{:>10.4f}{:>10.1f}{:>8.0f}%  {}  {}\n", row.ms, row.gflops, 100 * row.share, row.name,
                 row.types);
    else
      fmt::print("{:>29}  {}  {}: {}\n", "-", row.name, row.types, row.reason);
    tactics.push_back({{"name", row.name},
                       {"types", row.types},
                       {"ms", row.ms},
                       {"best_ms", row.best_ms},
                       {"gflops", row.gflops},
                       {"share_of_ceiling", row.share},
                       {"refused", row.reason}});
  }
  Json json = {{"problem", problem.text}, {"operations", problem.operations}, {"tactics", tactics}};
  if (const auto regret = regret_of(rows)) {
    fmt::print("{:>10.2f} times the fastest's time takes what level 0 chooses, {}\n", regret->ratio,
               regret->name);
    json["level_0"] = {{"name", regret->name}, {"regret", regret->ratio}};
  }
  return json;
}

void add_problems(const std::string& argument, std::vector<std::string>& problems) {
  if (argument.empty() || argument[0] != '@') return problems.push_back(argument);
  std::ifstream file(argument.substr(1));
  if (!file) throw_input_error(fmt::format("cannot read the list of problems '{}'", argument.substr(1)));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) problems.push_back(word);
  }
}

int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> problems;
  std::string json_path, part, device = "cpu";
  int threads = 0;
  bool only_ceilings = false;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("--threads="))
      threads = std::atoi(argument.c_str() + 10);
    else if (argument.starts_with("--device="))
      device = argument.substr(9);
    else if (argument.starts_with("--json="))
      json_path = argument.substr(7);
    else if (argument.starts_with("--tactics="))
      part = argument.substr(10);
    else if (argument == "--ceilings")
      only_ceilings = true;
    else if (argument == "--help")
      return fmt::print("{}", kHelp), 0;
    else if (argument.starts_with("--"))
      throw_input_error(
          fmt::format("unknown flag '{}': there are --device=cpu|N, --threads=N, --tactics=PART, "
                      "--json=FILE, --ceilings and --help",
                      argument));
    else
      add_problems(argument, problems);
  }
  if (problems.empty() && !only_ceilings)
    throw_input_error("no problem given, such as conv:n1c64h56w56k64r3s3,f32 or @bench/problems/recipes.txt");
  const auto pool = std::make_shared<ThreadPool>(threads);
  const Ceilings ceilings = device == "cpu" ? measure_ceilings(*pool) : Ceilings{};
  Json out = {{"ceilings", to_json(ceilings, pool->size())}, {"problems", Json::array()}};
  if (only_ceilings) {
    fmt::print("{}\n", out["ceilings"].dump());
    return 0;
  }
  if (device == "cpu")
    fmt::print(
        "{} thread(s), {}: {:.0f} GFLOP/s FP32, {:.0f} BF16; copies {:.0f} GB/s in cache, {:.0f} in memory, "
        "reads {:.0f}\n",
        pool->size(), ceilings.isa, ceilings.f32_gflops, ceilings.bf16_gflops, ceilings.cache_copy_gbs,
        ceilings.memory_copy_gbs, ceilings.memory_read_gbs);
  const auto backend = open_backend({.device = device, .threads = pool->size(), .pool = pool});
  double logarithms = 0;
  int chosen = 0;
  for (const std::string& text : problems) {
    const Problem problem = parse_problem(text);
    out["problems"].push_back(report(problem, time_problem(*backend, problem, ceilings, part)));
    std::fflush(stdout);
    const Json& json = out["problems"].back();
    if (!json.contains("level_0")) continue;
    logarithms += std::log(json["level_0"]["regret"].get<double>());
    ++chosen;
  }
  if (chosen > 1) {
    out["level_0_regret"] = std::exp(logarithms / chosen);
    fmt::print("\nregret of level 0, geometric mean of {} problems: {:.3f}\n", chosen,
               out["level_0_regret"].get<double>());
  }
  if (!json_path.empty()) std::ofstream(json_path) << out.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  try {
    return lathe::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_problems: {}\n", error.what());
    return 1;
  }
}
