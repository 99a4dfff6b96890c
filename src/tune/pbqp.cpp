// SPDX-License-Identifier: Apache-2.0
#include "tune/pbqp.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/error.h"

namespace lathe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The state of one solution: nodes leave one by one, and `decisions` remembers how each follows from its
// neighbours.
class Reducer {
 public:
  Reducer(std::vector<std::vector<double>> costs,
          const std::map<std::pair<size_t, size_t>, std::vector<double>>& edges)
      : costs_(std::move(costs)),
        neighbours_(costs_.size()),
        left_(costs_.size(), true),
        choice_(costs_.size(), 0) {
    for (const auto& [pair, matrix] : edges) {
      const auto [u, v] = pair;
      edges_[{u, v}] = matrix;
      neighbours_[u].insert(v);
      neighbours_[v].insert(u);
    }
    for (size_t n = 0; n < costs_.size(); ++n) by_degree_.insert({neighbours_[n].size(), n});
  }

  std::vector<size_t> run() {
    while (!by_degree_.empty()) {
      const auto [degree, node] = *by_degree_.begin();
      if (degree == 0)
        eliminate_alone(node);
      else if (degree == 1)
        eliminate_leaf(node);
      else if (degree == 2)
        eliminate_bridge(node);
      else
        fix(std::prev(by_degree_.end())->second);
    }
    for (size_t i = decisions_.size(); i-- > 0;) decisions_[i]();
    return std::move(choice_);
  }

 private:
  size_t states(size_t n) const { return costs_[n].size(); }
  double edge(size_t u, size_t v, size_t i, size_t j) const {
    if (u < v) return edges_.at({u, v})[i * states(v) + j];
    return edges_.at({v, u})[j * states(u) + i];
  }
  void remove(size_t n) {
    by_degree_.erase({neighbours_[n].size(), n});
    left_[n] = false;
    for (const size_t m : neighbours_[n]) {
      by_degree_.erase({neighbours_[m].size(), m});
      neighbours_[m].erase(n);
      by_degree_.insert({neighbours_[m].size(), m});
    }
  }
  void connect(size_t u, size_t v) {
    if (neighbours_[u].contains(v)) return;
    for (const auto& [a, b] : {std::pair{u, v}, std::pair{v, u}}) {
      by_degree_.erase({neighbours_[a].size(), a});
      neighbours_[a].insert(b);
      by_degree_.insert({neighbours_[a].size(), a});
    }
    edges_[{std::min(u, v), std::max(u, v)}].assign(states(u) * states(v), 0.0);
  }

  // The state with the least cost(i), the first of equals.
  size_t best_state(size_t n, const std::function<double(size_t)>& cost) const {
    size_t best = 0;
    double least = kInfinity;
    for (size_t i = 0; i < states(n); ++i)
      if (const double c = cost(i); c < least) best = i, least = c;
    return best;
  }

  void eliminate_alone(size_t n) {
    decisions_.push_back([this, n] { choice_[n] = best_state(n, [&](size_t i) { return costs_[n][i]; }); });
    remove(n);
  }

  void eliminate_leaf(size_t n) {
    const size_t v = *neighbours_[n].begin();
    const auto cost = [this, n, v](size_t i, size_t j) { return costs_[n][i] + edge(n, v, i, j); };
    for (size_t j = 0; j < states(v); ++j) {
      double least = kInfinity;
      for (size_t i = 0; i < states(n); ++i) least = std::min(least, cost(i, j));
      costs_[v][j] += least;
    }
    decisions_.push_back(
        [this, n, v, cost] { choice_[n] = best_state(n, [&](size_t i) { return cost(i, choice_[v]); }); });
    remove(n);
  }

  void eliminate_bridge(size_t n) {
    const size_t v = *neighbours_[n].begin(), w = *std::next(neighbours_[n].begin());
    const auto cost = [this, n, v, w](size_t i, size_t j, size_t k) {
      return costs_[n][i] + edge(n, v, i, j) + edge(n, w, i, k);
    };
    connect(v, w);
    auto& matrix = edges_[{v, w}];  // v < w: the set is sorted
    for (size_t j = 0; j < states(v); ++j)
      for (size_t k = 0; k < states(w); ++k) {
        double least = kInfinity;
        for (size_t i = 0; i < states(n); ++i) least = std::min(least, cost(i, j, k));
        matrix[j * states(w) + k] += least;
      }
    decisions_.push_back([this, n, v, w, cost] {
      choice_[n] = best_state(n, [&](size_t i) { return cost(i, choice_[v], choice_[w]); });
    });
    remove(n);
  }

  // No exact step is left: the state that is best when every neighbour answers as it likes.
  void fix(size_t n) {
    const size_t chosen = best_state(n, [&](size_t i) {
      double sum = costs_[n][i];
      for (const size_t v : neighbours_[n]) {
        double least = kInfinity;
        for (size_t j = 0; j < states(v); ++j) least = std::min(least, edge(n, v, i, j) + costs_[v][j]);
        sum += least;
      }
      return sum;
    });
    for (const size_t v : neighbours_[n])
      for (size_t j = 0; j < states(v); ++j) costs_[v][j] += edge(n, v, chosen, j);
    decisions_.push_back([this, n, chosen] { choice_[n] = chosen; });
    remove(n);
  }

  std::vector<std::vector<double>> costs_;
  std::map<std::pair<size_t, size_t>, std::vector<double>> edges_;
  std::vector<std::set<size_t>> neighbours_;
  std::set<std::pair<size_t, size_t>> by_degree_;  // (degree, node) of those left
  std::vector<bool> left_;
  std::vector<size_t> choice_;
  std::vector<std::function<void()>> decisions_;
};

}  // namespace

size_t Pbqp::add_node(std::vector<double> costs) {
  check(!costs.empty(), "a PBQP node needs a state");
  costs_.push_back(std::move(costs));
  return costs_.size() - 1;
}

void Pbqp::add_edge(size_t u, size_t v, const std::vector<double>& costs) {
  check(u != v && costs.size() == states(u) * states(v), "a PBQP edge has one cost per pair of states");
  auto& matrix = edges_[{std::min(u, v), std::max(u, v)}];
  matrix.resize(costs.size(), 0.0);
  for (size_t i = 0; i < states(u); ++i)
    for (size_t j = 0; j < states(v); ++j)
      matrix[u < v ? i * states(v) + j : j * states(u) + i] += costs[i * states(v) + j];
}

double Pbqp::total(const std::vector<size_t>& choice) const {
  double sum = 0;
  for (size_t n = 0; n < costs_.size(); ++n) sum += costs_[n][choice[n]];
  for (const auto& [pair, matrix] : edges_)
    sum += matrix[choice[pair.first] * states(pair.second) + choice[pair.second]];
  return sum;
}

std::vector<size_t> Pbqp::solve() const {
  std::vector<size_t> choice = Reducer(costs_, edges_).run();

  // Descent: any node may still improve alone, given its neighbours.
  std::vector<std::vector<std::pair<size_t, bool>>> around(
      costs_.size());  // edge number, node is its first end
  std::vector<std::pair<std::pair<size_t, size_t>, const std::vector<double>*>> edges;
  for (const auto& [pair, matrix] : edges_) {
    around[pair.first].push_back({edges.size(), true});
    around[pair.second].push_back({edges.size(), false});
    edges.push_back({pair, &matrix});
  }
  const auto cost = [&](size_t n, size_t i) {
    double sum = costs_[n][i];
    for (const auto& [e, first] : around[n]) {
      const auto& [pair, matrix] = edges[e];
      sum += first ? (*matrix)[i * states(pair.second) + choice[pair.second]]
                   : (*matrix)[choice[pair.first] * states(pair.second) + i];
    }
    return sum;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t n = 0; n < costs_.size(); ++n)
      for (size_t i = 0; i < states(n); ++i)
        // By more than rounding; costs may be negative.
        if (const double now = cost(n, choice[n]); cost(n, i) < now - 1e-12 * std::abs(now))
          choice[n] = i, changed = true;
  }
  return choice;
}

}  // namespace lathe
