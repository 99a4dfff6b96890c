// SPDX-License-Identifier: Apache-2.0
#include "passes/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "passes/pass.h"

namespace lathe {
namespace {

TEST(Passes, AreInTheCatalogue) {
  std::set<std::string_view> run, optional;
  for (const Stage& stage : default_stages())
    for (const Pass& pass : stage.passes) run.insert(pass.name);
  for (const Stage& stage : optional_stages())
    for (const Pass& pass : stage.passes) optional.insert(pass.name);
  const std::vector<PassInfo> all = pass_catalogue();
  EXPECT_EQ(all.size(), run.size() + optional.size());
  for (const PassInfo& pass : all) {
    EXPECT_EQ((pass.is_optional ? optional : run).erase(pass.name), 1u) << pass.name;
    EXPECT_GT(pass.does.size(), 20u) << pass.name;
    EXPECT_FALSE(pass.does.ends_with('.')) << pass.name;
  }
  EXPECT_EQ(all.front().name, "remove_dead") << "in the order in which they run";
}

}  // namespace
}  // namespace lathe
