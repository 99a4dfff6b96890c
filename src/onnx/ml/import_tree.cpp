// SPDX-License-Identifier: Apache-2.0
//
// ai.onnx.ml: tree ensembles in their old form (nodes and leaves in one list, weights by tree and node) and
// that of version 5 (leaves apart). Both are read into a list of nodes that is written again with parents
// before their children, as the core operator wants it.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "onnx/importers.h"
#include "onnx/ml/scores.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;
using Doubles = std::vector<double>;

constexpr int64_t kMember = 6;  // a comparison with a set, written as a chain of comparisons

struct Node {
  int64_t mode = 0, feature = 0;
  double threshold = 0;
  bool missing_is_true = false;
  int64_t yes = 0, no = 0;  // another node, or -1 - a leaf
  Doubles members;
};

struct Weight {
  int64_t target = 0;
  double weight = 0;
};

struct Forest {
  std::vector<Node> nodes;
  std::vector<int64_t> roots;               // a node, or -1 - a leaf
  std::vector<std::vector<Weight>> leaves;  // what each counts for
};

// Writes nodes with parents first.
class ForestWriter {
 public:
  ForestWriter(NodeImport& node, const Forest& forest)
      : node_(node), forest_(forest), seen_(forest.nodes.size()) {}

  ValueId write(ValueId x, int64_t targets, TreeAggregate aggregate) {
    for (const int64_t root : forest_.roots) {
      roots_.push_back(0);
      place_all({root, {{true, roots_.size() - 1}}});
    }
    for (size_t i = 0; i < seen_.size(); ++i)
      if (!seen_[i])
        node_.fail("no root leads to node " + std::to_string(i) + " of its trees: is there a cycle?");
    const DType type = node_.dtype_of(x);
    std::vector<int32_t> begins = {0}, leaf_targets;
    Doubles weights;
    for (const auto& leaf : forest_.leaves) {
      for (const Weight& w : leaf) {
        leaf_targets.push_back(static_cast<int32_t>(w.target));
        weights.push_back(w.weight);
      }
      begins.push_back(static_cast<int32_t>(weights.size()));
    }
    const Values tables = {
        x,
        numbers(features_, "features"),
        reals(thresholds_, type, "thresholds"),
        node_.constant(Tensor::from<uint8_t>({static_cast<int64_t>(modes_.size())}, modes_), "modes"),
        numbers(children_, "children"),
        numbers(roots_, "roots"),
        numbers(begins, "leaf_begins"),
        numbers(leaf_targets, "leaf_targets"),
        reals(weights, type, "leaf_weights")};
    return node_.add(TreeEnsemble{.targets = targets, .aggregate = aggregate}, tables, "trees");
  }

 private:
  struct Slot {  // where the number of a node that is about to be placed is wanted
    bool of_root = false;
    size_t index = 0;
  };
  struct Open {
    int64_t node;
    std::vector<Slot> slots;
  };

  ValueId numbers(const std::vector<int32_t>& values, std::string_view name) {
    return node_.constant(Tensor::from<int32_t>({static_cast<int64_t>(values.size())}, values), name);
  }
  ValueId reals(const Doubles& values, DType type, std::string_view name) {
    return node_.constant(Tensor::from_doubles(type, {static_cast<int64_t>(values.size())}, values), name);
  }

  void fill(const std::vector<Slot>& slots, int64_t number) {
    for (const Slot& slot : slots)
      (slot.of_root ? roots_ : children_)[slot.index] = static_cast<int32_t>(number);
  }

  size_t append(const Node& n, int64_t mode, double threshold) {
    features_.push_back(static_cast<int32_t>(n.feature));
    thresholds_.push_back(threshold);
    modes_.push_back(static_cast<uint8_t>(mode | (n.missing_is_true ? TreeEnsemble::kMissingIsTrue : 0)));
    children_.resize(children_.size() + 2);
    return features_.size() - 1;
  }

  void place_all(Open first) {
    std::vector<Open> stack = {std::move(first)};
    while (!stack.empty()) {
      const Open open = std::move(stack.back());
      stack.pop_back();
      if (open.node < 0) {
        fill(open.slots, open.node);
        continue;
      }
      if (seen_.at(static_cast<size_t>(open.node)))
        node_.fail("node " + std::to_string(open.node) + " of its trees is the child of two nodes");
      seen_[static_cast<size_t>(open.node)] = true;
      place(forest_.nodes[static_cast<size_t>(open.node)], open.slots, stack);
    }
  }

  void place(const Node& n, const std::vector<Slot>& slots, std::vector<Open>& stack) {
    if (n.mode != kMember) {
      const size_t number = append(n, n.mode, n.threshold);
      fill(slots, static_cast<int64_t>(number));
      stack.push_back({n.no, {{false, 2 * number + 1}}});
      stack.push_back({n.yes, {{false, 2 * number}}});
      return;
    }
    std::vector<Slot> yes, before = slots;
    for (const double member : n.members) {
      const size_t number = append(n, TreeEnsemble::kEqual, member);
      fill(before, static_cast<int64_t>(number));
      yes.push_back({false, 2 * number});
      before = {{false, 2 * number + 1}};
    }
    stack.push_back({n.no, before});
    if (!yes.empty()) stack.push_back({n.yes, yes});
  }

  NodeImport& node_;
  const Forest& forest_;
  std::vector<bool> seen_;
  std::vector<int32_t> features_, children_, roots_;
  std::vector<uint8_t> modes_;
  Doubles thresholds_;
};

// Numbers from an attribute, or from one that is a tensor.
Doubles numbers_of(const NodeImport& node, const std::string& name) {
  if (const auto t = node.tensor(name + "_as_tensor")) return t->to_doubles();
  const auto values = node.reals(name).value_or(std::vector<float>());
  return {values.begin(), values.end()};
}

Ints list(const NodeImport& node, std::string_view name, size_t count) {
  const Ints values = node.ints(name).value_or(Ints());
  if (values.size() != count)
    node.fail("attribute '" + std::string(name) + "' has " + std::to_string(values.size()) +
              " entries instead of " + std::to_string(count));
  return values;
}

int64_t mode_number(const NodeImport& node, std::string_view name) {
  constexpr std::array kNames = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                 "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  const auto it = std::find(kNames.begin(), kNames.end(), name);
  if (it == kNames.end()) node.fail("a node of its trees has mode '" + std::string(name) + "'");
  return it - kNames.begin();
}

// Versions 1 and 3.
class OldForest {
 public:
  // `weights`: the attributes begin with it, "class" or "target".
  OldForest(const NodeImport& node, std::string weights) : node_(node), weights_(std::move(weights)) {}

  Forest read(int64_t targets) {
    read_nodes();
    read_weights(targets);
    find_roots();
    return std::move(forest_);
  }

 private:
  using Place = std::pair<int64_t, int64_t>;  // tree, node

  void read_nodes() {
    const auto modes = node_.texts("nodes_modes");
    const size_t count = modes.size();
    const Ints trees = list(node_, "nodes_treeids", count), ids = list(node_, "nodes_nodeids", count);
    for (size_t i = 0; i < count; ++i) {
      const int64_t own =
          modes[i] == "LEAF" ? -1 - static_cast<int64_t>(leaf_count_++) : static_cast<int64_t>(node_count_++);
      if (!places_.emplace(Place{trees[i], ids[i]}, own).second)
        node_.fail("tree " + std::to_string(trees[i]) + " has node " + std::to_string(ids[i]) + " twice");
      order_.emplace_back(trees[i], ids[i]);
    }
    forest_.leaves.resize(leaf_count_);
    const Ints yes = list(node_, "nodes_truenodeids", count), no = list(node_, "nodes_falsenodeids", count),
               features = list(node_, "nodes_featureids", count);
    const Ints missing = node_.ints("nodes_missing_value_tracks_true").value_or(Ints());
    const Doubles thresholds = numbers_of(node_, "nodes_values");
    if (thresholds.size() != count)
      node_.fail("its trees have " + std::to_string(thresholds.size()) + " thresholds for " +
                 std::to_string(count) + " nodes");
    for (size_t i = 0; i < count; ++i) {
      if (modes[i] == "LEAF") continue;
      forest_.nodes.push_back({.mode = mode_number(node_, modes[i]),
                               .feature = features[i],
                               .threshold = thresholds[i],
                               .missing_is_true = i < missing.size() && missing[i] != 0,
                               .yes = child(trees[i], yes[i]),
                               .no = child(trees[i], no[i])});
    }
  }

  int64_t place_of(int64_t tree, int64_t id) const {
    const auto it = places_.find({tree, id});
    if (it == places_.end())
      node_.fail("tree " + std::to_string(tree) + " has no node " + std::to_string(id));
    return it->second;
  }
  int64_t child(int64_t tree, int64_t id) {
    children_.insert({tree, id});
    return place_of(tree, id);
  }

  void read_weights(int64_t targets) {
    const Doubles weights = numbers_of(node_, weights_ + "_weights");
    const Ints trees = list(node_, weights_ + "_treeids", weights.size()),
               ids = list(node_, weights_ + "_nodeids", weights.size()),
               which = list(node_, weights_ + "_ids", weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      if (which[i] < 0 || which[i] >= targets)
        node_.fail("a leaf counts for number " + std::to_string(which[i]) + " of " + std::to_string(targets));
      const int64_t place = place_of(trees[i], ids[i]);
      if (place < 0) forest_.leaves[static_cast<size_t>(-1 - place)].push_back({which[i], weights[i]});
    }
  }

  // A tree has one node that is no child.
  void find_roots() {
    std::set<int64_t> rooted;
    for (const Place& place : order_) {
      if (children_.contains(place)) continue;
      if (!rooted.insert(place.first).second)
        node_.fail("tree " + std::to_string(place.first) + " has two roots");
      forest_.roots.push_back(places_.at(place));
    }
  }

  const NodeImport& node_;
  std::string weights_;
  Forest forest_;
  std::map<Place, int64_t> places_;
  std::set<Place> children_;
  std::vector<Place> order_;
  size_t node_count_ = 0, leaf_count_ = 0;
};

// Trees compare in double where the rows are; whole numbers are compared as FP32.
ValueId rows_of(NodeImport& node) {
  return as_rows(node, node.dtype(0) == DType::Float64 ? node.in(0) : as_float(node, 0));
}

// One base value for each column.
ValueId with_base(NodeImport& node, ValueId scores, const Doubles& base) {
  if (base.empty()) return scores;
  const Dim columns = node.shape_of(scores)[1];
  if (columns != Dim(static_cast<int64_t>(base.size())))
    node.fail("it has " + std::to_string(base.size()) + " base values for " + columns.to_string() +
              " scores");
  const ValueId values = node.constant(
      Tensor::from_doubles(node.dtype_of(scores), {1, static_cast<int64_t>(base.size())}, base), "base");
  return node.pointwise(C::Add, {scores, values}, "with_base");
}

TreeAggregate aggregate_of(const NodeImport& node, std::string_view name) {
  if (name == "SUM") return TreeAggregate::Sum;
  if (name == "AVERAGE") return TreeAggregate::Average;
  if (name == "MIN") return TreeAggregate::Min;
  if (name == "MAX") return TreeAggregate::Max;
  node.fail("aggregate_function is '" + std::string(name) + "', not SUM, AVERAGE, MIN or MAX");
}

Values import_tree_regressor(NodeImport& node) {
  const int64_t targets = node.integer("n_targets", 1);
  const Forest forest = OldForest(node, "target").read(targets);
  const TreeAggregate aggregate = aggregate_of(node, node.text("aggregate_function", "SUM"));
  ValueId scores = ForestWriter(node, forest).write(rows_of(node), targets, aggregate);
  scores = node.cast(with_base(node, scores, numbers_of(node, "base_values")), DType::Float32, "scores");
  return {transform_scores(node, scores, post_transform(node))};
}

// What ONNX leaves open is as ONNX Runtime does it: where all leaves count for the first of two classes,
// their sum is the score of the second class and stands for both; where all count for the second, the first
// has score 0.
class TreeClassifier {
 public:
  explicit TreeClassifier(NodeImport& node)
      : node_(node), labels_(class_labels(node)), post_(post_transform(node)) {}

  Values run() {
    const auto classes = static_cast<int64_t>(labels_.size());
    if (classes < 2) throw_unsupported("it has one class label; write both labels of the two classes");
    const Forest forest = OldForest(node_, "class").read(classes);
    const Ints ids = node_.ints("class_ids").value_or(Ints());
    const std::set<int64_t> used(ids.begin(), ids.end());
    const bool single = classes == 2 && used.size() == 1;
    base_ = numbers_of(node_, "base_values");
    const ValueId sums = ForestWriter(node_, forest).write(rows_of(node_), classes, TreeAggregate::Sum);
    if (!single) return several(sums);
    const int64_t id = *used.begin();
    const ValueId one = node_.slice(sums, 1, id, id + 1, "score");
    return id == 0 ? one_for_both(one) : second_only(sums, one);
  }

 private:
  Values several(ValueId sums) {
    const ValueId scores = node_.cast(with_base(node_, sums, base_), DType::Float32, "scores");
    const ValueId best = node_.add(ArgReduce{.max = true, .axis = 1, .keepdims = false}, {scores}, "best");
    return {labels_at(node_, best, labels_), transform_scores(node_, scores, post_)};
  }

  // A score is a probability when no weight is negative, else a number around zero.
  bool probability() const {
    const Doubles weights = numbers_of(node_, "class_weights");
    return std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; });
  }
  // `score` (N, 1): of the second class
  ValueId label(ValueId score) {
    const ValueId limit = node_.scalar(probability() ? 0.5 : 0, DType::Float32);
    return label_choice(node_, node_.pointwise(C::Greater, {score, limit}, "is_positive"), labels_[1],
                        labels_[0]);
  }

  Values one_for_both(ValueId score) {
    if (base_.size() == 2)
      throw_unsupported(
          "its leaves count for one of two classes and it has two base values, of which ONNX does not say "
          "which one counts; "
          "give it one base value");
    score = node_.cast(with_base(node_, score, base_), DType::Float32, "positive_score");
    return {label(score), transform_binary(node_, score, !probability(), post_)};
  }

  Values second_only(ValueId sums, ValueId score) {
    if (!base_.empty())
      throw_unsupported(
          "its leaves count for the second of two classes only and it has base values; write the leaves for "
          "class 0");
    const ValueId scores = node_.cast(sums, DType::Float32, "scores");
    return {label(node_.cast(score, DType::Float32, "second_score")), transform_scores(node_, scores, post_)};
  }

  NodeImport& node_;
  Ints labels_;
  std::string post_;
  Doubles base_;
};

Values import_tree_classifier(NodeImport& node) {
  return TreeClassifier(node).run();
}

// Version 5. A set's members stand in one list for all nodes, each set closed by NaN.
std::vector<Doubles> read_sets(const NodeImport& node) {
  std::vector<Doubles> sets;
  Doubles open;
  if (const auto t = node.tensor("membership_values"))
    for (const double value : t->to_doubles()) {
      if (!std::isnan(value)) {
        open.push_back(value);
        continue;
      }
      sets.push_back(open);
      open.clear();
    }
  if (!open.empty()) sets.push_back(open);
  return sets;
}

Tensor required_tensor(const NodeImport& node, const std::string& name) {
  const auto t = node.tensor(name);
  if (!t) node.fail("attribute '" + name + "' is missing");
  return *t;
}

Forest read_forest(const NodeImport& node, int64_t targets) {
  const Doubles thresholds = required_tensor(node, "nodes_splits").to_doubles(),
                weights = required_tensor(node, "leaf_weights").to_doubles();
  const Ints modes = required_tensor(node, "nodes_modes").to_int64s();
  const size_t count = modes.size();
  const Ints features = list(node, "nodes_featureids", count), yes = list(node, "nodes_truenodeids", count),
             no = list(node, "nodes_falsenodeids", count), yes_leaf = list(node, "nodes_trueleafs", count),
             no_leaf = list(node, "nodes_falseleafs", count),
             which = list(node, "leaf_targetids", weights.size());
  const Ints missing = node.ints("nodes_missing_value_tracks_true").value_or(Ints());
  const std::vector<Doubles> sets = read_sets(node);
  if (thresholds.size() != count)
    node.fail("its trees have " + std::to_string(thresholds.size()) + " thresholds for " +
              std::to_string(count) + " nodes");
  const auto step = [&](int64_t to, bool leaf) {
    if (to < 0 || to >= static_cast<int64_t>(leaf ? weights.size() : count))
      node.fail("a node of its trees leads to " + std::to_string(to));
    return leaf ? -1 - to : to;
  };
  Forest forest;
  size_t set = 0;
  for (size_t i = 0; i < count; ++i) {
    if (modes[i] < 0 || modes[i] > kMember)
      node.fail("a node of its trees has mode " + std::to_string(modes[i]));
    forest.nodes.push_back({.mode = modes[i],
                            .feature = features[i],
                            .threshold = thresholds[i],
                            .missing_is_true = i < missing.size() && missing[i] != 0,
                            .yes = step(yes[i], yes_leaf[i] != 0),
                            .no = step(no[i], no_leaf[i] != 0)});
    if (modes[i] != kMember) continue;
    if (set == sets.size()) node.fail("membership_values has fewer sets than nodes that want one");
    forest.nodes.back().members = sets[set++];
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (which[i] < 0 || which[i] >= targets)
      node.fail("a leaf counts for number " + std::to_string(which[i]) + " of " + std::to_string(targets));
    forest.leaves.push_back({{which[i], weights[i]}});
  }
  for (const int64_t root : node.ints("tree_roots").value_or(Ints())) {
    const int64_t at = step(root, false);
    // One leaf is written as a node with two equal leaves.
    const Node& n = forest.nodes[static_cast<size_t>(at)];
    forest.roots.push_back(n.yes < 0 && n.yes == n.no ? n.yes : at);
  }
  return forest;
}

Values import_tree_ensemble(NodeImport& node) {
  const int64_t targets = node.integer("n_targets", 1), aggregate = node.integer("aggregate_function", 1);
  constexpr std::array kAggregates = {TreeAggregate::Average, TreeAggregate::Sum, TreeAggregate::Min,
                                      TreeAggregate::Max};
  if (aggregate < 0 || aggregate > 3) node.fail("aggregate_function is " + std::to_string(aggregate));
  const DType type = node.dtype(0);
  const ValueId sums = ForestWriter(node, read_forest(node, targets))
                           .write(rows_of(node), targets, kAggregates[static_cast<size_t>(aggregate)]);
  const ValueId scores =
      post_transform(node) == "NONE"
          ? sums
          : transform_scores(node, node.cast(sums, DType::Float32, "scores"), post_transform(node));
  return {
      node.cast(scores, type == DType::Float64 || type == DType::Float16 ? type : DType::Float32, "result")};
}

}  // namespace

std::vector<Importer> ml_tree_importers() {
  return {{"TreeEnsemble", 5, kLatestOpset, import_tree_ensemble, kMlDomain},
          {"TreeEnsembleClassifier", 1, kLatestOpset, classify<import_tree_classifier>, kMlDomain},
          {"TreeEnsembleRegressor", 1, kLatestOpset, import_tree_regressor, kMlDomain}};
}

}  // namespace lathe::onnx
