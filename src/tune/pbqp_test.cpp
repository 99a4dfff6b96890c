// SPDX-License-Identifier: Apache-2.0
#include "tune/pbqp.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace lathe {
namespace {

double brute_force(const Pbqp& problem, size_t nodes) {
  std::vector<size_t> choice(nodes, 0);
  double least = problem.total(choice);
  for (size_t n = 0; n < nodes;) {
    if (++choice[n] == problem.states(n)) {
      choice[n++] = 0;
      continue;
    }
    n = 0;
    least = std::min(least, problem.total(choice));
  }
  return least;
}

std::vector<double> random_costs(std::mt19937& random, size_t count) {
  std::vector<double> costs(count);
  for (double& c : costs) c = static_cast<double>(random() % 100);
  return costs;
}

// A graph by its edges; every node has two or three states.
Pbqp random_problem(std::mt19937& random, size_t nodes, const std::vector<std::pair<size_t, size_t>>& edges) {
  Pbqp problem;
  for (size_t n = 0; n < nodes; ++n) problem.add_node(random_costs(random, 2 + random() % 2));
  for (const auto& [u, v] : edges)
    problem.add_edge(u, v, random_costs(random, problem.states(u) * problem.states(v)));
  return problem;
}

TEST(Pbqp, ReformatsDecideAgainstTheFastestLayers) {
  Pbqp problem;  // linear 10, blocked 8; but two reformats of 3 around the one layer that is faster blocked
  const size_t a = problem.add_node({10, 1000}), b = problem.add_node({10, 8}),
               c = problem.add_node({10, 1000});
  problem.add_edge(a, b, {0, 3, 3, 0});
  problem.add_edge(b, c, {0, 3, 3, 0});
  EXPECT_EQ(problem.solve(), (std::vector<size_t>{0, 0, 0}));
}

TEST(Pbqp, ExactOnChainsAndResidualBlocks) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Pbqp chain = random_problem(random, 6, {{0, 1}, {1, 2}, {3, 2}, {3, 4}, {4, 5}});
    EXPECT_EQ(chain.total(chain.solve()), brute_force(chain, 6));
    // x -> a -> b -> add, x -> add, twice
    const Pbqp blocks =
        random_problem(random, 7, {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}, {4, 5}, {5, 6}, {3, 6}});
    EXPECT_EQ(blocks.total(blocks.solve()), brute_force(blocks, 7));
  }
}

TEST(Pbqp, CloseOnDenseGraphs) {
  std::mt19937 random(2);
  double found = 0, best = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::pair<size_t, size_t>> edges;
    for (size_t u = 0; u < 6; ++u)
      for (size_t v = u + 1; v < 6; ++v) edges.push_back({u, v});
    const Pbqp problem = random_problem(random, 6, edges);
    found += problem.total(problem.solve());
    best += brute_force(problem, 6);
  }
  EXPECT_LE(found, best * 1.1);
}

TEST(Pbqp, ParallelEdgesAddUpAndTiesGoToTheFirst) {
  Pbqp problem;
  const size_t a = problem.add_node({0, 0}), b = problem.add_node({0, 0});
  problem.add_edge(a, b, {5, 0, 0, 5});
  problem.add_edge(b, a, {0, 6, 0, 0});  // (b 0, a 1)
  EXPECT_EQ(problem.total({0, 1}), 0);
  EXPECT_EQ(problem.total({1, 0}), 6);
  EXPECT_EQ(problem.solve(), (std::vector<size_t>{0, 1}));
  Pbqp ties;
  ties.add_node({3, 3});
  EXPECT_EQ(ties.solve(), (std::vector<size_t>{0}));
}

TEST(Pbqp, CostsMayBeNegative) {
  Pbqp problem;
  const size_t a = problem.add_node({-1, -3}), b = problem.add_node({2, 1});
  problem.add_edge(a, b, {0, 0, 0, 1});
  EXPECT_EQ(problem.total(problem.solve()), -1);
}

TEST(Pbqp, RefusesNonsense) {
  Pbqp problem;
  EXPECT_THROW(problem.add_node({}), Error);
  const size_t a = problem.add_node({1});
  EXPECT_THROW(problem.add_edge(a, a, {1}), Error);
}

}  // namespace
}  // namespace lathe
