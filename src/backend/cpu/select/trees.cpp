// SPDX-License-Identifier: Apache-2.0
//
// Decision trees with constant tables. A walk is a chain of loads that depend on each other, so eight walks
// go together and the processor overlaps their loads: eight rows in one tree, or with fewer rows eight trees
// for one row. A leaf is a node whose children are itself, so that no walk has a branch of its own. Blocks of
// rows go through one tree after the other, whose nodes stay in the cache.
//
// Bytes: rows read once per block, tables once per block of rows. With few rows the trees are divided among
// the team, and each member has sums of its own.
#include <array>
#include <cstring>
#include <limits>

#include "backend/cpu/vector/own_tactic.h"
#include "base/error.h"
#include "ops/tree.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kTreeRunner = "Trees";
constexpr int64_t kWalks = 8;
constexpr int64_t kTreeBlockRows = 64;

using Op = TreeEnsemble;

template <class T>
struct TreeNode {
  T threshold;
  int32_t feature;
  std::array<int32_t, 2> next;  // when the comparison holds, and when it does not
  int32_t mode;
};

// The tables as they are packed, one behind the other: nodes, then leaves as nodes.
template <class T>
class TreeBlock {
 public:
  struct Sizes {
    int64_t nodes = 0, leaves = 0, trees = 0, weights = 0;
    int64_t bytes() const {
      return (nodes + leaves) * static_cast<int64_t>(sizeof(TreeNode<T>)) +
             weights * static_cast<int64_t>(sizeof(T)) + (trees + leaves + 1 + weights) * 4;
    }
  };

  TreeBlock() = default;
  TreeBlock(const Sizes& s, std::span<const std::byte> bytes)
      : sizes(s),
        nodes(reinterpret_cast<const TreeNode<T>*>(bytes.data())),
        leaf_weights(reinterpret_cast<const T*>(nodes + s.nodes + s.leaves)),
        roots(reinterpret_cast<const int32_t*>(leaf_weights + s.weights)),
        leaf_begins(roots + s.trees),
        leaf_targets(leaf_begins + s.leaves + 1) {}

  // A file may hold anything: every number is in range and every walk ends.
  void check(int64_t targets) const {
    const int64_t all = sizes.nodes + sizes.leaves;
    for (int64_t i = 0; i < all; ++i) {
      bool good = nodes[i].feature >= 0;
      for (const int32_t next : nodes[i].next) good &= i < sizes.nodes ? next > i && next < all : next == i;
      if (!good) throw_input_error("the packed trees are damaged at node " + std::to_string(i));
    }
    bool good = leaf_begins[0] == 0 && leaf_begins[sizes.leaves] == sizes.weights;
    for (int64_t i = 0; i < sizes.trees; ++i) good &= roots[i] >= 0 && roots[i] < all;
    for (int64_t i = 0; i < sizes.leaves; ++i) good &= leaf_begins[i] <= leaf_begins[i + 1];
    for (int64_t i = 0; i < sizes.weights; ++i) good &= leaf_targets[i] >= 0 && leaf_targets[i] < targets;
    if (!good) throw_input_error("the packed trees are damaged");
  }
  int64_t highest_feature() const {
    int32_t highest = -1;
    for (int64_t i = 0; i < sizes.nodes; ++i) highest = std::max(highest, nodes[i].feature);
    return highest;
  }
  // All comparisons are `mode`, and NaN goes to the second child.
  bool all_are(int32_t mode) const {
    return std::all_of(nodes, nodes + sizes.nodes, [mode](const TreeNode<T>& n) { return n.mode == mode; });
  }

  Sizes sizes;
  const TreeNode<T>* nodes = nullptr;
  const T* leaf_weights = nullptr;
  const int32_t *roots = nullptr, *leaf_begins = nullptr, *leaf_targets = nullptr;
};

template <class T>
void append(std::vector<std::byte>& to, const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  to.insert(to.end(), bytes, bytes + values.size() * sizeof(T));
}

template <class T>
std::vector<int32_t> whole(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class T>
std::vector<std::byte> pack_trees(const TreeTables& t) {
  const auto count = static_cast<int32_t>(t.node_count());
  const auto step = [&](int64_t to) { return static_cast<int32_t>(to >= 0 ? to : count - 1 - to); };
  std::vector<TreeNode<T>> nodes;
  for (size_t i = 0; i < t.features.size(); ++i)
    nodes.push_back({static_cast<T>(t.thresholds[i]),
                     static_cast<int32_t>(t.features[i]),
                     {step(t.children[2 * i]), step(t.children[2 * i + 1])},
                     static_cast<int32_t>(t.modes[i])});
  for (int64_t i = 0; i < t.leaf_count(); ++i) {
    const int32_t self = step(-1 - i);
    nodes.push_back({T(0), 0, {self, self}, Op::kLessEqual});
  }
  std::vector<int32_t> roots;
  for (const int64_t root : t.roots) roots.push_back(step(root));
  std::vector<std::byte> packed;
  append(packed, nodes);
  append(packed, std::vector<T>(t.leaf_weights.begin(), t.leaf_weights.end()));
  append(packed, roots);
  append(packed, whole(t.leaf_begins));
  append(packed, whole(t.leaf_targets));
  return packed;
}

template <class T>
struct LessEqual {
  static bool holds(const TreeNode<T>& node, T x) { return x <= node.threshold; }
};
template <class T>
struct Less {
  static bool holds(const TreeNode<T>& node, T x) { return x < node.threshold; }
};
template <class T>
struct AnyMode {
  static bool holds(const TreeNode<T>& node, T x) { return goes_to_first(node.mode, x, node.threshold); }
};

template <class T>
using TreeRows = std::array<const T*, kWalks>;
using Places = std::array<int32_t, kWalks>;

template <class T, class Compare>
void walk(const TreeNode<T>* nodes, const TreeRows<T>& rows, Places& at) {
  int32_t moved = 1;
  while (moved != 0) {
    moved = 0;
    for (size_t i = 0; i < kWalks; ++i) {
      const TreeNode<T>& node = nodes[at[i]];
      const int32_t next = node.next[Compare::holds(node, rows[i][node.feature]) ? 0 : 1];
      moved |= next ^ at[i];
      at[i] = next;
    }
  }
}

template <class T>
class PreparedTrees final : public PreparedLayer {
 public:
  using Walk = void (*)(const TreeNode<T>*, const TreeRows<T>&, Places&);

  PreparedTrees(const TreeBlock<T>& block, const Op& op, Walk walk, const ShapeContext& context)
      : block_(block),
        op_(op),
        walk_(walk),
        rows_(context.inputs[0][0]),
        width_(context.inputs[0][1]),
        threads_(context.threads) {}

  // Few rows are too few pieces for a team.
  bool by_trees() const { return rows_ < 2 * kWalks; }
  size_t scratch_bytes() const override {
    return by_trees() ? static_cast<size_t>(threads_ * rows_ * op_.targets) * (sizeof(T) + 1) : 0;
  }
  bool meets(int count) const override { return by_trees() && count > 1; }
  int members(int available) const override {
    const double depth = 8;  // a guess; a step is about a nanosecond when eight walks overlap
    const double ns = depth * static_cast<double>(rows_ * block_.sizes.trees);
    available = std::min(available, threads_);
    return by_trees() ? all_or_one(ns, available) : members_for(ns, available);
  }

  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto* x = static_cast<const T*>(args.inputs[0]);
    auto* y = static_cast<T*>(args.outputs[0]);
    if (by_trees()) return run_trees(x, y, args.scratch, worker);
    const int64_t blocks = (rows_ + kTreeBlockRows - 1) / kTreeBlockRows;
    const Worker::Range part = worker.slice(blocks);
    for (int64_t b = part.begin; b < part.end; ++b) {
      const int64_t from = b * kTreeBlockRows, count = std::min(kTreeBlockRows, rows_ - from);
      run_block(x + from * width_, y + from * op_.targets, count);
    }
  }

 private:
  T first_value() const {
    if (op_.aggregate == TreeAggregate::Min) return std::numeric_limits<T>::infinity();
    if (op_.aggregate == TreeAggregate::Max) return -std::numeric_limits<T>::infinity();
    return 0;
  }
  void combine(T& sum, T weight) const {
    if (op_.aggregate == TreeAggregate::Min) {
      sum = std::min(sum, weight);
    } else if (op_.aggregate == TreeAggregate::Max) {
      sum = std::max(sum, weight);
    } else {
      sum += weight;
    }
  }
  void add_leaf(int32_t place, T* sums, uint8_t* counted) const {
    const int64_t leaf = place - block_.sizes.nodes;
    for (int32_t i = block_.leaf_begins[leaf]; i < block_.leaf_begins[leaf + 1]; ++i) {
      combine(sums[block_.leaf_targets[i]], block_.leaf_weights[i]);
      counted[block_.leaf_targets[i]] = 1;
    }
  }
  // A target that no leaf counted for is 0.
  void finish(T* sums, const uint8_t* counted, int64_t count) const {
    const T divisor = op_.aggregate == TreeAggregate::Average ? static_cast<T>(block_.sizes.trees) : 1;
    for (int64_t i = 0; i < count; ++i) sums[i] = counted[i] == 0 ? 0 : sums[i] / divisor;
  }

  void run_block(const T* x, T* y, int64_t count) const {
    std::vector<uint8_t> counted(static_cast<size_t>(count * op_.targets));
    std::fill(y, y + count * op_.targets, first_value());
    for (int64_t tree = 0; tree < block_.sizes.trees; ++tree)
      for (int64_t from = 0; from < count; from += kWalks) {
        const int64_t used = std::min(kWalks, count - from);
        TreeRows<T> rows;
        Places at;
        at.fill(block_.roots[tree]);
        for (int64_t i = 0; i < kWalks; ++i)
          rows[static_cast<size_t>(i)] = x + (from + std::min(i, used - 1)) * width_;
        walk_(block_.nodes, rows, at);
        for (int64_t i = 0; i < used; ++i)
          add_leaf(at[static_cast<size_t>(i)], y + (from + i) * op_.targets,
                   counted.data() + (from + i) * op_.targets);
      }
    finish(y, counted.data(), count * op_.targets);
  }

  // Trees `begin` to `end` for one row.
  void run_row(const T* row, int64_t begin, int64_t end, T* sums, uint8_t* counted) const {
    TreeRows<T> rows;
    rows.fill(row);
    for (int64_t tree = begin; tree < end; tree += kWalks) {
      const int64_t used = std::min(kWalks, end - tree);
      Places at;
      for (int64_t i = 0; i < kWalks; ++i)
        at[static_cast<size_t>(i)] = block_.roots[tree + std::min(i, used - 1)];
      walk_(block_.nodes, rows, at);
      for (int64_t i = 0; i < used; ++i) add_leaf(at[static_cast<size_t>(i)], sums, counted);
    }
  }

  void run_trees(const T* x, T* y, std::byte* scratch, const Worker& worker) const {
    const int64_t size = rows_ * op_.targets;
    auto* sums = reinterpret_cast<T*>(scratch);
    auto* counted = reinterpret_cast<uint8_t*>(sums + threads_ * size);
    const int parts = worker.count;
    worker.share(parts, [&](const Worker& w) {
      const Worker::Range pieces = w.slice(parts);
      for (int64_t p = pieces.begin; p < pieces.end; ++p) {
        const int64_t begin = p * block_.sizes.trees / parts, end = (p + 1) * block_.sizes.trees / parts;
        std::fill(sums + p * size, sums + (p + 1) * size, first_value());
        std::fill(counted + p * size, counted + (p + 1) * size, uint8_t{0});
        for (int64_t r = 0; r < rows_; ++r)
          run_row(x + r * width_, begin, end, sums + p * size + r * op_.targets,
                  counted + p * size + r * op_.targets);
      }
    });
    worker.share(1, [&](const Worker& w) {
      if (w.slice(1).begin >= w.slice(1).end) return;
      std::copy(sums, sums + size, y);
      for (int64_t p = 1; p < parts; ++p)
        for (int64_t i = 0; i < size; ++i) {
          combine(y[i], sums[p * size + i]);
          counted[i] |= counted[p * size + i];
        }
      finish(y, counted, size);
    });
  }

  TreeBlock<T> block_;
  Op op_;
  Walk walk_;
  int64_t rows_, width_;
  int threads_;
};

template <class T>
class TreeKernel final : public LayerKernel {
 public:
  TreeKernel(const LayerQuery& query, const PackContext& pack) : op_(std::get<Op>(query.layer().op)) {
    const auto value = [&](size_t i) -> const Value& { return query.graph.value(query.layer().inputs[i]); };
    const auto size = [&](size_t i) { return value(i).shape[0].value(); };
    const typename TreeBlock<T>::Sizes sizes = {size(Op::kFeatures), size(Op::kLeafBegins) - 1,
                                                size(Op::kRoots), size(Op::kLeafWeights)};
    if (sizes.leaves < 0) throw_input_error("leaf_begins is empty");
    const auto block = pack.packed("trees", sizes.bytes(), [&] {
      std::vector<Tensor> tables(1);
      for (size_t i = 1; i < Op::kInputs; ++i) tables.push_back(value(i).constant);
      return pack_trees<T>(read_tree_tables(op_, tables));
    });
    block_ = TreeBlock<T>(sizes, block);
    block_.check(op_.targets);
    highest_ = block_.highest_feature();
    walk_ = block_.all_are(Op::kLessEqual) ? walk<T, LessEqual<T>>
            : block_.all_are(Op::kLess)    ? walk<T, Less<T>>
                                           : walk<T, AnyMode<T>>;
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents& x = context.inputs[0];
    // A leaf reads feature 0 of its row, too.
    if (x[0] > 0 && std::max<int64_t>(highest_, 0) >= x[1])
      throw_input_error("a node compares feature " + std::to_string(highest_) + " of rows of " +
                        std::to_string(x[1]));
    return std::make_unique<PreparedTrees<T>>(block_, op_, walk_, context);
  }

 private:
  Op op_;
  TreeBlock<T> block_;
  int64_t highest_ = -1;
  typename PreparedTrees<T>::Walk walk_ = nullptr;
};

std::vector<Tactic> list_tree(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Op>(node.op)) return {};
  Tactic t = linear_tactic(query, kTreeRunner, "trees_eight_walks");
  for (size_t i = 1; i < Op::kInputs; ++i) {
    const Value& table = query.graph.value(node.inputs[i]);
    t.inputs[i] = {};
    if (!table.is_constant() || !is_static(table.shape))
      t.support = Support::no("the trees are known only at run time");
  }
  const DType type = t.inputs[0].dtype;
  if (!node.epilogue.empty()) t.support = Support::no("trees apply no epilogue");
  if (type != DType::Float32 && type != DType::Float64)
    t.support = Support::no("rows of " + std::string(dtype_name(type)) + " instead of 32 or 64 bit floats");
  return {t};
}

std::unique_ptr<LayerKernel> make_tree(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                       const PackContext& pack) {
  if (tactic.inputs[0].dtype == DType::Float64) return std::make_unique<TreeKernel<double>>(query, pack);
  return std::make_unique<TreeKernel<float>>(query, pack);
}

}  // namespace

TacticFamily tree_tactics() {
  return {kTreeRunner, list_tree, make_tree};
}

}  // namespace lathe::cpu
