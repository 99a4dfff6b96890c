// SPDX-License-Identifier: Apache-2.0
//
// Partitioned boolean quadratic programming: each node picks one of its states; states have costs and so have
// pairs of states of neighbours. This is the choice of tactics with reformats between them.
//
// Nodes of degree 0, 1 and 2 are eliminated exactly (a chain or a series-parallel graph is solved to
// optimality, as by dynamic programming); when none is left, the node of highest degree is fixed at its
// locally best state, and a final descent repairs what that guess got wrong. (Scholz and Eckstein, "Register
// Allocation for Irregular Architectures", 2002.)
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace lathe {

// Costs from here on mean "cannot be".
inline constexpr double kImpossible = 1e12;

class Pbqp {
 public:
  // Returns the node's number. `costs` must not be empty.
  size_t add_node(std::vector<double> costs);
  // Adds cost(i, j) = costs[i * states(v) + j] to the pair; edges between the same nodes add up.
  void add_edge(size_t u, size_t v, const std::vector<double>& costs);

  size_t states(size_t node) const { return costs_[node].size(); }
  double total(const std::vector<size_t>& choice) const;
  // One state per node. Deterministic: ties go to the lower state.
  std::vector<size_t> solve() const;

 private:
  std::vector<std::vector<double>> costs_;
  std::map<std::pair<size_t, size_t>, std::vector<double>> edges_;  // first < second
};

}  // namespace lathe
