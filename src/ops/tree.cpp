// SPDX-License-Identifier: Apache-2.0
#include "ops/tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "ir/elements.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

using T = TreeEnsemble;

std::vector<ResultInfo> infer_trees(const TreeEnsemble& op, const InferContext& context) {
  expect_real(context, 0, "x");
  expect_rank(context, 0, "x", 2);
  const DType type = context.input(0).dtype;
  if (op.targets < 1) throw_input_error("it has " + std::to_string(op.targets) + " targets");
  const auto expect = [&](size_t input, std::string_view name, DType dtype) {
    expect_dtype(context, input, name, dtype);
    expect_rank(context, input, name, 1);
  };
  expect(T::kFeatures, "features", DType::Int32);
  expect(T::kThresholds, "thresholds", type);
  expect(T::kModes, "modes", DType::UInt8);
  expect(T::kChildren, "children", DType::Int32);
  expect(T::kRoots, "roots", DType::Int32);
  expect(T::kLeafBegins, "leaf_begins", DType::Int32);
  expect(T::kLeafTargets, "leaf_targets", DType::Int32);
  expect(T::kLeafWeights, "leaf_weights", type);
  const Dim nodes = context.input(T::kFeatures).shape[0];
  expect_shape(context, T::kThresholds, "thresholds", {nodes});
  expect_shape(context, T::kModes, "modes", {nodes});
  expect_shape(context, T::kChildren, "children", {nodes * 2});
  expect_shape(context, T::kLeafWeights, "leaf_weights", context.input(T::kLeafTargets).shape);
  return {{type, {context.input(0).shape[0], Dim(op.targets)}}};
}

// A number of a node behind `after`, or of a leaf.
void check_step(const TreeTables& t, int64_t to, int64_t after, const std::string& of) {
  if (to < -t.leaf_count() || to >= t.node_count() || (to >= 0 && to <= after))
    throw_input_error(of + " leads to " + std::to_string(to) + ", which is no leaf and no later one of the " +
                      std::to_string(t.node_count()) + " nodes");
}

void check_tables(const TreeTables& t, int64_t targets) {
  for (size_t i = 0; i < t.features.size(); ++i) {
    if (t.features[i] < 0)
      throw_input_error("node " + std::to_string(i) + " compares feature " + std::to_string(t.features[i]));
    if ((t.modes[i] & ~int64_t{T::kMissingIsTrue}) > T::kNotEqual)
      throw_input_error("node " + std::to_string(i) + " has mode " + std::to_string(t.modes[i]));
  }
  for (size_t i = 0; i < t.children.size(); ++i)
    check_step(t, t.children[i], static_cast<int64_t>(i / 2), "node " + std::to_string(i / 2));
  for (const int64_t root : t.roots) check_step(t, root, -1, "a root");
  const auto weights = static_cast<int64_t>(t.leaf_weights.size());
  if (t.leaf_begins.empty() || t.leaf_begins.front() != 0 || t.leaf_begins.back() != weights ||
      !std::is_sorted(t.leaf_begins.begin(), t.leaf_begins.end()))
    throw_input_error("leaf_begins does not divide the " + std::to_string(weights) + " weights");
  for (const int64_t target : t.leaf_targets)
    if (target < 0 || target >= targets)
      throw_input_error("a leaf counts for target " + std::to_string(target) + " of " +
                        std::to_string(targets));
}

class Walker {
 public:
  Walker(const TreeTables& tables, const TreeEnsemble& op) : t_(tables), op_(op) {}

  void sum(const double* row, double* out) const {
    std::vector<bool> counted(static_cast<size_t>(op_.targets));
    std::fill(out, out + op_.targets, 0);
    for (const int64_t root : t_.roots) {
      int64_t at = root;
      while (at >= 0) {
        const auto i = static_cast<size_t>(at);
        const bool first = goes_to_first(t_.modes[i], row[t_.features[i]], t_.thresholds[i]);
        at = t_.children[2 * i + (first ? 0 : 1)];
      }
      add_leaf(static_cast<size_t>(-1 - at), out, counted);
    }
    if (op_.aggregate != TreeAggregate::Average) return;
    for (int64_t i = 0; i < op_.targets; ++i) out[i] /= static_cast<double>(t_.roots.size());
  }

 private:
  void add_leaf(size_t leaf, double* out, std::vector<bool>& counted) const {
    for (auto i = static_cast<size_t>(t_.leaf_begins[leaf]);
         i < static_cast<size_t>(t_.leaf_begins[leaf + 1]); ++i) {
      const auto target = static_cast<size_t>(t_.leaf_targets[i]);
      const double weight = t_.leaf_weights[i];
      if (!counted[target]) {
        out[target] = weight;
      } else if (op_.aggregate == TreeAggregate::Min) {
        out[target] = std::min(out[target], weight);
      } else if (op_.aggregate == TreeAggregate::Max) {
        out[target] = std::max(out[target], weight);
      } else {
        out[target] += weight;
      }
      counted[target] = true;
    }
  }

  const TreeTables& t_;
  const TreeEnsemble& op_;
};

std::vector<Tensor> evaluate_trees(const TreeEnsemble& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_trees);
  const TreeTables tables = read_tree_tables(op, context.inputs);
  const Tensor& x = context.input(0);
  const int64_t rows = x.extents()[0], width = x.extents()[1];
  if (rows > 0 && tables.highest_feature() >= width)
    throw_input_error("a node compares feature " + std::to_string(tables.highest_feature()) + " of rows of " +
                      std::to_string(width));
  const std::vector<double> data = x.to_doubles();
  std::vector<double> out(static_cast<size_t>(results[0].size()));
  const Walker walker(tables, op);
  context.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) walker.sum(data.data() + i * width, out.data() + i * op.targets);
  });
  ElementWriter(results[0]).store_doubles(0, results[0].size(), out.data());
  return results;
}

// A comparison per level, if the trees are balanced.
double tree_flops(const Op&, const CostContext& context) {
  const auto nodes = static_cast<double>(context.inputs[T::kFeatures][0]),
             trees = static_cast<double>(context.inputs[T::kRoots][0]);
  if (trees == 0) return 0;
  return static_cast<double>(context.outputs[0][0]) * trees * std::log2(nodes / trees + 2);
}

}  // namespace

int64_t TreeTables::highest_feature() const {
  return features.empty() ? -1 : *std::max_element(features.begin(), features.end());
}

TreeTables read_tree_tables(const TreeEnsemble& op, std::span<const Tensor> inputs) {
  TreeTables t{.features = inputs[T::kFeatures].to_int64s(),
               .modes = inputs[T::kModes].to_int64s(),
               .children = inputs[T::kChildren].to_int64s(),
               .thresholds = inputs[T::kThresholds].to_doubles(),
               .roots = inputs[T::kRoots].to_int64s(),
               .leaf_begins = inputs[T::kLeafBegins].to_int64s(),
               .leaf_targets = inputs[T::kLeafTargets].to_int64s(),
               .leaf_weights = inputs[T::kLeafWeights].to_doubles()};
  check_tables(t, op.targets);
  return t;
}

bool goes_to_first(int64_t mode, double x, double threshold) {
  if (std::isnan(x) && (mode & T::kMissingIsTrue) != 0) return true;
  switch (mode & ~int64_t{T::kMissingIsTrue}) {
    case T::kLessEqual:
      return x <= threshold;
    case T::kLess:
      return x < threshold;
    case T::kGreaterEqual:
      return x >= threshold;
    case T::kGreater:
      return x > threshold;
    case T::kEqual:
      return x == threshold;
    default:
      return x != threshold;
  }
}

std::vector<OpDef> tree_ops() {
  return {op_def<TreeEnsemble, infer_trees, evaluate_trees>(tree_flops)};
}

}  // namespace lathe
