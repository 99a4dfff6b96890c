// SPDX-License-Identifier: Apache-2.0
#include "passes/shuffle_map.h"

#include <algorithm>
#include <numeric>

#include "backend/view.h"
#include "base/error.h"
#include "ops/build.h"

namespace lathe {
namespace {

// Inserts `added` behind `atom` wherever it stands.
void insert_after(std::vector<std::vector<int>>& dims, int atom, int added) {
  for (auto& dim : dims) {
    const auto at = std::find(dim.begin(), dim.end(), atom);
    if (at != dim.end()) dim.insert(at + 1, added);
  }
}

std::vector<int> flatten(const std::vector<std::vector<int>>& dims) {
  std::vector<int> all;
  for (const auto& dim : dims) all.insert(all.end(), dim.begin(), dim.end());
  return all;
}

}  // namespace

Dim atoms_size(const std::vector<int>& atoms, const std::vector<Dim>& sizes) {
  Dim product = 1;
  for (const int atom : atoms) product = product * sizes[static_cast<size_t>(atom)];
  return product;
}

ShuffleMap::ShuffleMap(const Shape& source) : source_shape_(source), result_shape_(source) {
  for (const Dim& dim : source) {
    source_.emplace_back();
    if (dim.is_constant(1)) continue;
    source_.back().push_back(static_cast<int>(sizes_.size()));
    sizes_.push_back(dim);
  }
  result_ = source_;
}

void ShuffleMap::transpose(const Ints& perm) {
  std::vector<std::vector<int>> atoms;
  Shape shape;
  for (const int64_t axis : perm) {
    atoms.push_back(result_[static_cast<size_t>(axis)]);
    shape.push_back(result_shape_[static_cast<size_t>(axis)]);
  }
  result_ = std::move(atoms);
  result_shape_ = std::move(shape);
}

void ShuffleMap::split_atom(int atom, const Dim& outer, const Dim& inner) {
  const int added = static_cast<int>(sizes_.size());
  sizes_[static_cast<size_t>(atom)] = outer;
  sizes_.push_back(inner);
  insert_after(source_, atom, added);
  insert_after(result_, atom, added);
}

bool ShuffleMap::reshape(const Shape& target) {
  std::vector<std::vector<int>> dims;
  size_t next = 0;  // in the flattened result, which grows when atoms are split
  for (const Dim& dim : target) {
    dims.emplace_back();
    Dim rest = dim;
    while (!rest.is_constant(1)) {
      const std::vector<int> atoms = flatten(result_);
      if (next == atoms.size()) return false;
      const int atom = atoms[next];
      const Dim size = sizes_[static_cast<size_t>(atom)];
      if (const auto quotient = rest.exact_div(size)) {
        rest = *quotient;
      } else if (const auto inner = size.exact_div(rest)) {
        split_atom(atom, rest, *inner);
        rest = 1;
      } else {
        return false;
      }
      dims.back().push_back(atom);
      ++next;
    }
  }
  if (next != flatten(result_).size()) return false;
  result_ = std::move(dims);
  result_shape_ = target;
  return true;
}

bool ShuffleMap::apply(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (const auto* op = std::get_if<Transpose>(&node.op)) {
    transpose(op->perm);
    return true;
  }
  const auto* op = std::get_if<ReshapeOp>(&node.op);
  return op != nullptr && op->shape && reshape(*op->shape);
}

std::vector<int> ShuffleMap::source_positions() const {
  std::vector<int> positions(sizes_.size());
  int next = 0;
  for (const int atom : flatten(source_)) positions[static_cast<size_t>(atom)] = next++;
  return positions;
}

// Runs of atoms that follow each other in source and result alike.
std::vector<std::vector<int>> ShuffleMap::merged_groups(const std::vector<int>& positions) const {
  std::vector<std::vector<int>> groups;
  int expected = -1;
  for (const int atom : flatten(result_)) {
    const int position = positions[static_cast<size_t>(atom)];
    if (position != expected) groups.emplace_back();
    groups.back().push_back(atom);
    expected = position + 1;
  }
  return groups;
}

// The chain that moves `groups` (in result order) as a whole; nullopt when a group is no run in the source.
std::optional<ShuffleMap::Chain> ShuffleMap::chain_of(const std::vector<std::vector<int>>& groups,
                                                      const std::vector<int>& positions) const {
  for (const auto& group : groups)
    for (size_t i = 1; i < group.size(); ++i)
      if (positions[static_cast<size_t>(group[i])] != positions[static_cast<size_t>(group[i - 1])] + 1)
        return std::nullopt;
  std::vector<int64_t> order(groups.size());  // groups in source order; those without atoms keep to the front
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int64_t g) {
    const auto& group = groups[static_cast<size_t>(g)];
    return group.empty() ? -1 : positions[static_cast<size_t>(group.front())];
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
  Shape before, moved;
  for (const int64_t g : order) before.push_back(atoms_size(groups[static_cast<size_t>(g)], sizes_));
  Ints perm(groups.size());
  for (size_t i = 0; i < order.size(); ++i) perm[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  for (const auto& group : groups) moved.push_back(atoms_size(group, sizes_));

  Chain chain;
  if (std::is_sorted(perm.begin(), perm.end())) {
    chain.after = source_shape_ != result_shape_;
    return chain;
  }
  if (before != source_shape_) chain.before = before;
  chain.perm = perm;
  chain.after = moved != result_shape_;
  return chain;
}

ShuffleMap::Chain ShuffleMap::shortest() const {
  const std::vector<int> positions = source_positions();
  // Moving the result's own dims needs no reshape afterwards, the source's own none before; the merged runs
  // always work.
  Chain best = *chain_of(merged_groups(positions), positions);
  std::vector<std::vector<int>> by_source = source_;
  const std::vector<int> order = flatten(result_);
  const auto rank = [&](const std::vector<int>& dim) {
    return dim.empty() ? -1
                       : static_cast<int>(std::find(order.begin(), order.end(), dim.front()) - order.begin());
  };
  std::stable_sort(by_source.begin(), by_source.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (flatten(by_source) == order)
    if (const auto chain = chain_of(by_source, positions); chain && chain->length() <= best.length())
      best = *chain;
  const bool image = best.perm && best.perm->size() >= 4 && !best.before && puts_channels_last(*best.perm);
  if (const auto chain = chain_of(result_, positions);
      chain && chain->length() <= best.length() - (image ? 1 : 0))
    best = *chain;
  return best;
}

ValueId ShuffleMap::emit(GraphEditor& editor, ValueId source, std::string name, std::vector<Origin> origins,
                         NodeId before) const {
  const Chain chain = shortest();
  ValueId value = source;
  const auto append = [&](Op op, const std::string& suffix) {
    value = append_node(editor, name + suffix, std::move(op), {value}, origins, {}, 1, before)[0];
  };
  if (chain.before) append(ReshapeOp{.shape = chain.before}, chain.perm ? "/reshape_before" : "");
  if (chain.perm) append(Transpose{.perm = *chain.perm}, "");
  if (chain.after) append(ReshapeOp{.shape = result_shape_}, chain.perm ? "/reshape_after" : "");
  return value;
}

std::optional<ShuffleMap::Part> ShuffleMap::select(int64_t axis, int64_t index, bool drop) {
  auto& taken = result_[static_cast<size_t>(axis)];
  if (taken.size() != 1) return std::nullopt;
  const int atom = taken[0];
  // Only an outermost factor of a source dim selects a contiguous part of it.
  const auto from = std::find_if(source_.begin(), source_.end(),
                                 [&](const auto& d) { return !d.empty() && d.front() == atom; });
  if (from == source_.end()) return std::nullopt;
  from->erase(from->begin());
  taken.clear();
  Part part{.axis = from - source_.begin(), .length = atoms_size(*from, sizes_)};
  part.start = part.length * Dim(index);
  source_shape_[static_cast<size_t>(part.axis)] = part.length;
  // Atoms are numbers into sizes_: the last one takes the free place.
  const int last = static_cast<int>(sizes_.size()) - 1;
  sizes_[static_cast<size_t>(atom)] = sizes_.back();
  sizes_.pop_back();
  for (auto* dims : {&source_, &result_}) {
    for (auto& dim : *dims) std::replace(dim.begin(), dim.end(), last, atom);
  }
  if (drop) {
    result_.erase(result_.begin() + axis);
    result_shape_.erase(result_shape_.begin() + axis);
  } else {
    result_shape_[static_cast<size_t>(axis)] = 1;
  }
  return part;
}

bool is_shuffle(const Node& node) {
  if (!node.epilogue.empty() || node.inputs.size() != 1) return false;
  if (const auto* reshape = std::get_if<ReshapeOp>(&node.op)) return reshape->shape.has_value();
  return std::holds_alternative<Transpose>(node.op);
}

std::vector<NodeId> shuffle_chain(const Graph& graph, ValueId value) {
  std::vector<NodeId> chain;
  for (;;) {
    const NodeId producer = graph.value(value).producer;
    if (producer == kNoNode || !is_shuffle(graph.node(producer))) break;
    if (!chain.empty() && (graph.users(value).size() != 1 || graph.is_output(value))) break;
    chain.insert(chain.begin(), producer);
    value = graph.node(producer).inputs[0];
  }
  return chain;
}

}  // namespace lathe
