// SPDX-License-Identifier: Apache-2.0
//
// Passes as text: every tests/passes/*.ir holds cases of
//   === name of the case: pass [pass ...] [+operator that the backend has ...]
//   graph "before" { ... }
//   --- (or "--- unchanged")
//   graph "after" { ... }
// The passes run in the given order, each until it changes nothing; the runner verifies the result and
// compares it with the oracle on random input.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "ir/text.h"
#include "ops/build.h"
#include "passes/passes.h"

namespace lathe {
namespace {

struct Case {
  std::string name, before, after;
  std::vector<std::string> passes, operators;
};

std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  bool in_after = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      Case& c = cases.emplace_back();
      const size_t colon = line.rfind(": ");
      c.name = path.stem().string() + ": " + line.substr(4, colon - 4);
      std::istringstream passes(line.substr(colon + 2));
      for (std::string word; passes >> word;)
        word[0] == '+' ? c.operators.push_back(word.substr(1)) : c.passes.push_back(word);
      in_after = false;
    } else if (line.starts_with("---")) {
      in_after = true;
      if (line == "--- unchanged") cases.back().after = cases.back().before;
    } else if (!cases.empty()) {
      (in_after ? cases.back().after : cases.back().before) += line + "\n";
    }
  }
  return cases;
}

Pass find_pass(std::string_view name) {
  for (const auto& stages : {default_stages(), optional_stages()})
    for (const Stage& stage : stages)
      for (const Pass& pass : stage.passes)
        if (pass.name == name) return pass;
  throw_input_error("there is no pass " + std::string(name));
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/passes")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    for (Case& c : read_cases(file)) cases.push_back(std::move(c));
  }
  return cases;
}

class PassFile : public testing::TestWithParam<Case> {};

TEST_P(PassFile, GivesTheGraphBelow) {
  const Case& c = GetParam();
  Graph graph = parse_graph(c.before);
  verify_graph(graph);
  NullObserver observer;
  ThreadPool pool(1);
  PassContext context(observer, pool);
  context.allowed_types = {DType::BFloat16, DType::Float16};
  context.widened_types = {DType::Float16};
  context.backend_operators = {SqueezeExcite::kName};
  context.backend_operators.insert(context.backend_operators.end(), c.operators.begin(), c.operators.end());
  context.stacks_grids = true;
  PassOptions options;
  options.verify_with_oracle = true;
  for (const std::string& name : c.passes) run_passes(graph, {{"test", {find_pass(name)}}}, options, context);
  const std::string expected = to_text(parse_graph(c.after), {.inline_constants = true});
  EXPECT_EQ(to_text(graph, {.inline_constants = true}), expected) << c.name;
}

INSTANTIATE_TEST_SUITE_P(Passes, PassFile, testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char ch) { return !std::isalnum(static_cast<unsigned char>(ch)); }, '_');
  return name;
});

}  // namespace
}  // namespace lathe
