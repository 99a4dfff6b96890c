// SPDX-License-Identifier: Apache-2.0
//
// Which layers of two engines belong together.
//
//   1. ONNX nodes: layers of both sides that share a node are one row, transitively (union-find over nodes).
//      This is the finest partition in which both sides do the same work, it needs no order, and it is many
//      to many.
//   2. Layers without nodes (reformats, inserted copies) by name, then by the tensors that they write.
//   3. What is left between two matched rows by signature (type and shapes), in order: the longest common
//      subsequence of the two gaps, so that a pair never crosses another.
//
// Rows come in the baseline's execution order; a layer that only the candidate has stands where it runs
// there.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "explorer/core/comparison.h"

namespace lathe::explorer {
namespace {

class UnionFind {
 public:
  explicit UnionFind(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) {
    a = root(a), b = root(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parent_;
};

struct Sides {
  const std::vector<Layer>& a;
  const std::vector<Layer>& b;
  std::vector<bool> used_a, used_b;
};

void add_origins(MatchedRow& row, const Layer& layer) {
  for (const auto& origin : layer.origins) {
    if (std::find(row.origins.begin(), row.origins.end(), origin.name) == row.origins.end())
      row.origins.push_back(origin.name);
  }
}

std::vector<MatchedRow> match_by_origins(Sides& sides) {
  const size_t total = sides.a.size() + sides.b.size();
  UnionFind sets(total);
  std::unordered_map<std::string, size_t> owner;
  std::unordered_map<std::string, bool> in_a, in_b;
  for (size_t i = 0; i < total; ++i) {
    const bool first = i < sides.a.size();
    const Layer& layer = first ? sides.a[i] : sides.b[i - sides.a.size()];
    for (const auto& origin : layer.origins) {
      (first ? in_a : in_b)[origin.name] = true;
      const auto [found, added] = owner.emplace(origin.name, i);
      if (!added) sets.join(found->second, i);
    }
  }
  std::map<size_t, MatchedRow> rows;
  for (size_t i = 0; i < total; ++i) {
    const bool first = i < sides.a.size();
    const Layer& layer = first ? sides.a[i] : sides.b[i - sides.a.size()];
    if (layer.origins.empty()) continue;
    MatchedRow& row = rows[sets.root(i)];
    (first ? row.baseline_layers : row.candidate_layers).push_back(layer.index);
    add_origins(row, layer);
  }
  std::vector<MatchedRow> matched;
  for (auto& [root, row] : rows) {
    if (row.baseline_layers.empty() || row.candidate_layers.empty()) continue;
    row.match = "origins";
    for (const int i : row.baseline_layers) sides.used_a[static_cast<size_t>(i)] = true;
    for (const int i : row.candidate_layers) sides.used_b[static_cast<size_t>(i)] = true;
    matched.push_back(std::move(row));
  }
  return matched;
}

MatchedRow pair_of(Sides& sides, size_t a, size_t b, const char* match) {
  sides.used_a[a] = sides.used_b[b] = true;
  MatchedRow row;
  row.match = match;
  row.baseline_layers = {static_cast<int>(a)};
  row.candidate_layers = {static_cast<int>(b)};
  add_origins(row, sides.a[a]);
  add_origins(row, sides.b[b]);
  return row;
}

// Layers with the same key, when the key is unique among what is left on both sides.
template <class Key>
void match_by_key(Sides& sides, std::vector<MatchedRow>& rows, const char* match, Key key_of) {
  std::unordered_map<std::string, std::vector<size_t>> of_a, of_b;
  for (size_t i = 0; i < sides.a.size(); ++i) {
    if (!sides.used_a[i]) of_a[key_of(sides.a[i])].push_back(i);
  }
  for (size_t i = 0; i < sides.b.size(); ++i) {
    if (!sides.used_b[i]) of_b[key_of(sides.b[i])].push_back(i);
  }
  for (const auto& [key, list] : of_a) {
    const auto other = of_b.find(key);
    if (key.empty() || other == of_b.end() || list.size() != 1 || other->second.size() != 1) continue;
    rows.push_back(pair_of(sides, list[0], other->second[0], match));
  }
}

std::string outputs_key(const Layer& layer) {
  std::string key;
  for (const auto& output : layer.outputs) key += output.name + "\n";
  return key;
}

std::string signature_of(const Layer& layer) {
  std::string key = layer.type;
  for (const auto* side : {&layer.inputs, &layer.outputs}) {
    key += '|';
    for (const auto& use : *side) key += use.is_weights ? "" : fmt::format("[{}]", fmt::join(use.shape, ","));
  }
  return key;
}

// Longest common subsequence of what is left in two gaps. Gaps are short; a huge one (unrelated engines) is
// left alone.
void match_gap(Sides& sides, const std::vector<size_t>& a, const std::vector<size_t>& b,
               std::vector<MatchedRow>& rows) {
  constexpr size_t kLargest = 4'000'000;
  if (a.empty() || b.empty() || a.size() * b.size() > kLargest) return;
  std::vector<std::string> key_a, key_b;
  for (const size_t i : a) key_a.push_back(signature_of(sides.a[i]));
  for (const size_t i : b) key_b.push_back(signature_of(sides.b[i]));
  const size_t width = b.size() + 1;
  std::vector<int> best((a.size() + 1) * width, 0);
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      best[i * width + j] = key_a[i] == key_b[j]
                                ? best[(i + 1) * width + j + 1] + 1
                                : std::max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (key_a[i] == key_b[j]) {
      rows.push_back(pair_of(sides, a[i++], b[j++], "signature"));
    } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
}

// The gaps between matched rows, both sides in step: a matched row whose layers would go backwards opens no
// gap.
void match_by_signature(Sides& sides, std::vector<MatchedRow>& rows) {
  std::vector<std::pair<int, int>> anchors;
  for (const auto& row : rows)
    anchors.emplace_back(row.baseline_layers.front(), row.candidate_layers.front());
  std::sort(anchors.begin(), anchors.end());
  anchors.emplace_back(static_cast<int>(sides.a.size()), static_cast<int>(sides.b.size()));
  int from_a = 0, from_b = 0;
  for (const auto& [at_a, at_b] : anchors) {
    if (at_b < from_b) continue;
    std::vector<size_t> gap_a, gap_b;
    for (int i = from_a; i < at_a; ++i) {
      if (!sides.used_a[static_cast<size_t>(i)]) gap_a.push_back(static_cast<size_t>(i));
    }
    for (int i = from_b; i < at_b; ++i) {
      if (!sides.used_b[static_cast<size_t>(i)]) gap_b.push_back(static_cast<size_t>(i));
    }
    match_gap(sides, gap_a, gap_b, rows);
    from_a = at_a;
    from_b = at_b;
  }
}

// Rows in the baseline's order; what only the candidate has follows the row of the candidate's layer before
// it.
void sort_rows(std::vector<MatchedRow>& rows, size_t candidate_count) {
  std::vector<double> place_of_candidate(candidate_count, -1);
  for (const auto& row : rows) {
    if (row.baseline_layers.empty()) continue;
    for (const int i : row.candidate_layers)
      place_of_candidate[static_cast<size_t>(i)] = row.baseline_layers.front();
  }
  double last = -0.5;
  for (auto& place : place_of_candidate) place = place < 0 ? last : last = place;
  const auto place = [&](const MatchedRow& row) {
    return row.baseline_layers.empty()
               ? place_of_candidate[static_cast<size_t>(row.candidate_layers.front())] + 0.25
               : static_cast<double>(row.baseline_layers.front());
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const MatchedRow& x, const MatchedRow& y) {
    if (place(x) != place(y)) return place(x) < place(y);
    const int cx = x.candidate_layers.empty() ? -1 : x.candidate_layers.front(),
              cy = y.candidate_layers.empty() ? -1 : y.candidate_layers.front();
    return cx < cy;
  });
}

}  // namespace

std::vector<MatchedRow> align_layers(const EngineData& baseline, const EngineData& candidate) {
  Sides sides{baseline.layers, candidate.layers, std::vector<bool>(baseline.layers.size()),
              std::vector<bool>(candidate.layers.size())};
  std::vector<MatchedRow> rows = match_by_origins(sides);
  match_by_key(sides, rows, "name", [](const Layer& layer) { return layer.name; });
  match_by_key(sides, rows, "tensors", outputs_key);
  match_by_signature(sides, rows);
  for (size_t i = 0; i < sides.a.size(); ++i) {
    if (sides.used_a[i]) continue;
    MatchedRow row;
    row.baseline_layers = {static_cast<int>(i)};
    add_origins(row, sides.a[i]);
    rows.push_back(std::move(row));
  }
  for (size_t i = 0; i < sides.b.size(); ++i) {
    if (sides.used_b[i]) continue;
    MatchedRow row;
    row.candidate_layers = {static_cast<int>(i)};
    add_origins(row, sides.b[i]);
    rows.push_back(std::move(row));
  }
  sort_rows(rows, sides.b.size());
  return rows;
}

}  // namespace lathe::explorer
