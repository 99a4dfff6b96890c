// SPDX-License-Identifier: Apache-2.0
#include "passes/shuffle.h"

#include <algorithm>
#include <numeric>

namespace lathe {
namespace {

bool is_identity(const Ints& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

Shape permuted(const Shape& shape, const Ints& perm) {
  Shape result;
  for (int64_t axis : perm) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}

std::vector<size_t> flattened(const std::vector<std::vector<size_t>>& groups) {
  std::vector<size_t> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace

Shuffle::Shuffle(const Shape& input) : input_(input), output_(input), from_(input.size()) {
  for (size_t i = 0; i < input.size(); ++i) {
    if (input[i].is_constant(1)) continue;
    from_[i].push_back(atoms_.size());
    atoms_.push_back(input[i]);
  }
  to_ = from_;
}

void Shuffle::split_atom(size_t atom, const Dim& outer, const Dim& inner) {
  atoms_[atom] = outer;
  atoms_.insert(atoms_.begin() + static_cast<std::ptrdiff_t>(atom) + 1, inner);
  for (auto* groups : {&from_, &to_}) {
    for (auto& group : *groups) {
      std::vector<size_t> renumbered;
      for (size_t a : group) {
        renumbered.push_back(a > atom ? a + 1 : a);
        if (a == atom) renumbered.push_back(atom + 1);
      }
      group = std::move(renumbered);
    }
  }
}

bool Shuffle::reshape(const Shape& shape) {
  const auto is_zero = [](const Dim& d) { return d.is_constant(0); };
  if (std::any_of(output_.begin(), output_.end(), is_zero)) return false;
  if (element_count(output_) != element_count(shape)) return false;
  return refine_to(shape);
}

bool Shuffle::refine_to(const Shape& shape) {
  std::vector<std::vector<size_t>> groups(shape.size());
  size_t position =
      0;  // in the flattened order of atoms, which splitting only makes longer behind this place
  for (size_t i = 0; i < shape.size(); ++i) {
    Dim rest = shape[i];
    size_t taken = 0;
    while (!rest.is_constant(1)) {
      const std::vector<size_t> order = flattened(to_);
      if (position + taken >= order.size()) return false;
      const size_t atom = order[position + taken];
      const Dim size = atoms_[atom];
      if (const auto quotient = rest.exact_div(size)) {
        rest = *quotient;
      } else if (const auto inner = size.exact_div(rest)) {
        split_atom(atom, rest, *inner);
        rest = 1;
      } else {
        return false;
      }
      ++taken;
    }
    position += taken;
    groups[i].resize(taken);
  }
  const std::vector<size_t> order = flattened(to_);
  if (position != order.size()) return false;
  position = 0;
  for (auto& group : groups) {
    for (size_t& atom : group) atom = order[position++];
  }
  to_ = std::move(groups);
  output_ = shape;
  return true;
}

void Shuffle::transpose(const Ints& perm) {
  std::vector<std::vector<size_t>> groups;
  for (int64_t axis : perm) groups.push_back(to_[static_cast<size_t>(axis)]);
  to_ = std::move(groups);
  output_ = permuted(output_, perm);
}

bool Shuffle::apply(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.epilogue.empty()) return false;
  if (const auto* op = std::get_if<Transpose>(&node.op)) {
    transpose(op->perm);
    return true;
  }
  const auto* op = std::get_if<ReshapeOp>(&node.op);
  return op && op->shape && reshape(graph.value(node.outputs[0]).shape);
}

std::optional<Shuffle::Part> Shuffle::select(int64_t axis, int64_t index, bool drop) {
  const auto place = static_cast<size_t>(axis);
  Part part;
  if (to_[place].size() > 1) return std::nullopt;
  if (to_[place].size() == 1) {
    const size_t atom = to_[place][0];
    const auto from = std::find_if(from_.begin(), from_.end(), [&](const auto& group) {
      return std::find(group.begin(), group.end(), atom) != group.end();
    });
    // Only an outermost factor of a dim selects a contiguous part of it.
    if ((*from)[0] != atom) return std::nullopt;
    part.axis = from - from_.begin();
    part.length = 1;
    for (size_t i = 1; i < from->size(); ++i) part.length = part.length * atoms_[(*from)[i]];
    part.start = part.length * Dim(index);
    input_[static_cast<size_t>(part.axis)] = part.length;
    // The atom is 1 from now on: take it out.
    atoms_.erase(atoms_.begin() + static_cast<std::ptrdiff_t>(atom));
    for (auto* groups : {&from_, &to_}) {
      for (auto& group : *groups) {
        std::erase(group, atom);
        for (size_t& a : group) a -= a > atom ? 1 : 0;
      }
    }
  } else {
    return std::nullopt;
  }
  if (drop) {
    to_.erase(to_.begin() + axis);
    output_.erase(output_.begin() + axis);
  } else {
    output_[place] = 1;
  }
  return part;
}

// Reshape to `before` when needed, Transpose, Reshape to the output when needed.
std::vector<Op> Shuffle::assemble(const Shape& before, const Ints& perm) const {
  if (is_identity(perm)) {
    if (input_ == output_) return {};
    return {ReshapeOp{.shape = output_}};
  }
  std::vector<Op> ops;
  if (before != input_) ops.emplace_back(ReshapeOp{.shape = before});
  ops.emplace_back(Transpose{perm});
  if (permuted(before, perm) != output_) ops.emplace_back(ReshapeOp{.shape = output_});
  return ops;
}

// Neighbours that stay neighbours are one.
std::vector<Op> Shuffle::through_merged_atoms() const {
  const std::vector<size_t> order = flattened(to_);
  std::vector<size_t> place(order.size());  // of an atom in the output's order
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  Shape merged;
  std::vector<size_t> first_place;
  for (size_t atom = 0; atom < atoms_.size(); ++atom) {
    if (atom > 0 && place[atom] == place[atom - 1] + 1) {
      merged.back() = merged.back() * atoms_[atom];
    } else {
      merged.push_back(atoms_[atom]);
      first_place.push_back(place[atom]);
    }
  }
  Ints perm(merged.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::sort(perm.begin(), perm.end(), [&](int64_t a, int64_t b) {
    return first_place[static_cast<size_t>(a)] < first_place[static_cast<size_t>(b)];
  });
  return assemble(merged, perm);
}

// A Transpose of the input as it is; dims of 1 go last.
std::optional<std::vector<Op>> Shuffle::through_input_dims() const {
  const std::vector<size_t> order = flattened(to_);
  Ints perm;
  for (size_t i = 0; i < order.size();) {
    const auto from = std::find_if(from_.begin(), from_.end(),
                                   [&](const auto& g) { return !g.empty() && g[0] == order[i]; });
    if (from == from_.end()) return std::nullopt;
    if (i + from->size() > order.size() ||
        !std::equal(from->begin(), from->end(), order.begin() + static_cast<std::ptrdiff_t>(i))) {
      return std::nullopt;
    }
    perm.push_back(from - from_.begin());
    i += from->size();
  }
  for (size_t i = 0; i < from_.size(); ++i) {
    if (from_[i].empty()) perm.push_back(static_cast<int64_t>(i));
  }
  return assemble(input_, perm);
}

// A Reshape, so that a Transpose gives the output's dims at once; dims of 1 stand first.
std::optional<std::vector<Op>> Shuffle::through_output_dims() const {
  std::vector<size_t> dims(to_.size());
  std::iota(dims.begin(), dims.end(), 0);
  for (const auto& group : to_) {
    for (size_t i = 1; i < group.size(); ++i) {
      if (group[i] != group[i - 1] + 1) return std::nullopt;
    }
  }
  std::stable_sort(dims.begin(), dims.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t d) { return to_[d].empty() ? 0 : to_[d][0] + 1; };
    return key(a) < key(b);
  });
  Shape before;
  Ints perm(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    before.push_back(output_[dims[i]]);
    perm[dims[i]] = static_cast<int64_t>(i);
  }
  return assemble(before, perm);
}

std::vector<Op> Shuffle::shortest() const {
  std::vector<Op> best = through_merged_atoms();
  for (const auto& other : {through_input_dims(), through_output_dims()}) {
    if (other && shuffle_cost(*other) < shuffle_cost(best)) best = *other;
  }
  return best;
}

int shuffle_cost(const std::vector<Op>& ops) {
  int cost = 0;
  for (const Op& op : ops) cost += std::holds_alternative<Transpose>(op) ? 10 : 1;
  return cost;
}

}  // namespace lathe
