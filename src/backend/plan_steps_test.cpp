// SPDX-License-Identifier: Apache-2.0
#include "backend/plan_steps.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lathe {
namespace {

// What share_steps() reads of a program and of a plan.
struct FakeLayer {
  std::optional<std::vector<std::string>> symbols;
};
struct FakeSegments {
  std::vector<std::vector<std::string>> new_symbols;
};
struct FakeProgram {
  std::vector<FakeLayer> all;
  FakeSegments found;
  const std::vector<FakeLayer>& layers() const { return all; }
  const FakeSegments& segments() const { return found; }
};
struct FakePlan {
  SymbolValues values;
  const SymbolValues& symbols() const { return values; }
};

// "0-2" for a run of fresh steps, "2" for a shared one.
std::vector<std::string> steps_of(const FakeProgram& program, size_t first, const FakePlan* like) {
  std::vector<std::string> steps;
  share_steps(
      program, first, program.all.size() - first, {{"past", 5}, {"batch", 1}}, like,
      [&](size_t begin, size_t end) { steps.push_back(std::to_string(begin) + "-" + std::to_string(end)); },
      [&](size_t i) { steps.push_back(std::to_string(i)); });
  return steps;
}

TEST(PlanSteps, OnlyWhatKnowsTheChangeIsFresh) {
  using Steps = std::vector<std::string>;
  FakeProgram program;
  program.all = {{Steps{"batch"}}, {Steps{"past"}}, {Steps{"batch", "past"}}, {std::nullopt}, {Steps{}}};
  program.found.new_symbols.resize(5);
  const FakePlan shorter{{{"past", 4}, {"batch", 1}}};
  EXPECT_EQ(steps_of(program, 0, nullptr), (Steps{"0-5"}));
  EXPECT_EQ(steps_of(program, 0, &shorter), (Steps{"0", "1-4", "4"}));
  EXPECT_EQ(steps_of(program, 1, &shorter), (Steps{"0-3", "3"}));  // steps count from the plan's first layer
  program.found.new_symbols[4] = {"count"};
  EXPECT_EQ(steps_of(program, 0, &shorter), (Steps{"0", "1-5"}));
}

}  // namespace
}  // namespace lathe
