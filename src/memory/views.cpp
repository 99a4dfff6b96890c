// SPDX-License-Identifier: Apache-2.0
#include "memory/views.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "ir/new_names.h"

namespace lathe {
namespace {

Dim bytes_of(const Dim& elements, DType dtype) {
  const int bits = dtype_info(dtype).bits;
  return bits >= 8 ? elements * Dim(bits / 8) : ceil_div(elements * Dim(bits), Dim(8));
}

// Elements between neighbours along each logical dim. Along a blocked channel: of whole blocks, so only right
// for multiples of the block, which is all that a view may start at.
std::vector<Dim> storage_strides(const Value& value) {
  const size_t rank = value.shape.size();
  std::vector<Dim> strides(rank, Dim(1));
  if (rank < 2 || value.format.is_linear()) {
    Dim step = 1;
    for (size_t d = rank; d-- > 0;) strides[d] = step, step = step * value.shape[d];
    return strides;
  }
  const bool last = value.format.kind == Format::Kind::ChannelsLast;
  const Dim& channels = value.shape[1];
  const Dim block = value.format.block;
  Dim step = last ? ceil_div(channels, block) * block : block;
  for (size_t d = rank; d-- > 2;) strides[d] = step, step = step * value.shape[d];
  strides[1] = 1;
  if (!last)  // step is block * spatial elements here, and a channel is a block's share of it
    strides[1] = *step.exact_div(block);
  strides[0] = last ? step : strides[1] * ceil_div(channels, block) * block;
  return strides;
}

Dim slice_offset(const Slice& op, const Value& whole, const std::vector<Dim>& strides) {
  Dim offset = 0;
  if (!op.starts) return offset;
  for (size_t i = 0; i < op.starts->size(); ++i) {
    const int64_t axis = op.axes.empty() ? static_cast<int64_t>(i) : op.axes[i];
    const auto rank = static_cast<int64_t>(whole.shape.size());
    offset =
        offset + (*op.starts)[i] * strides[static_cast<size_t>(normalize_axis(axis, rank, "Slice axis"))];
  }
  return offset;
}

Dim gather_offset(const Graph& graph, const Node& node, const Gather& op, const std::vector<Dim>& strides) {
  const Value& whole = graph.value(node.inputs[0]);
  const Value& indices = graph.value(node.inputs[1]);
  check(indices.is_constant() && indices.constant.size() == 1,
        "a Gather view needs one constant index: " + node.name);
  const auto axis =
      static_cast<size_t>(normalize_axis(op.axis, static_cast<int64_t>(whole.shape.size()), "Gather axis"));
  const int64_t index = indices.constant.to_int64s()[0];
  return (index < 0 ? whole.shape[axis] + Dim(index) : Dim(index)) * strides[axis];
}

class Analyzer {
 public:
  Analyzer(const Graph& graph, std::span<const Choice> choices) : graph_(graph), choices_(choices) {
    const size_t values = graph.value_count();
    check(choices.size() == graph.order().size(), "one choice per layer expected");
    result_.storage.resize(values);
    members_.resize(values);
    group_last_use_.assign(values, -1);
    group_first_write_.assign(values, kNever);
    fixed_.assign(values, false);
    is_output_.assign(values, false);
    group_has_output_.assign(values, false);
    for (size_t v = 0; v < values; ++v) {
      result_.storage[v] = {static_cast<ValueId>(v), 0};
      members_[v] = {static_cast<ValueId>(v)};
      const Value& value = graph.value(static_cast<ValueId>(v));
      fixed_[v] = value.is_constant();
    }
    for (const ValueId v : graph.inputs()) fixed_[at(v)] = true;
    for (const ValueId v : graph.outputs()) is_output_[at(v)] = group_has_output_[at(v)] = true;
    for (size_t i = 0; i < graph.order().size(); ++i)
      for (const ValueId v : graph.node(graph.order()[i]).inputs)
        if (v != kNoValue) group_last_use_[at(v)] = static_cast<int>(i);
    for (size_t i = 0; i < graph.order().size(); ++i)
      for (const ValueId v : graph.node(graph.order()[i]).outputs)
        if (v != kNoValue && !choices[i].tactic.is_view) group_first_write_[at(v)] = static_cast<int>(i);
  }

  ViewAnalysis run() {
    for (size_t i = 0; i < graph_.order().size(); ++i) {
      const NodeId id = graph_.order()[i];
      if (!choices_[i].tactic.is_view)
        write_in_place(static_cast<int>(i), id);
      else if (std::holds_alternative<Concat>(graph_.node(id).op))
        embed_inputs(id);
      else
        embed_outputs(id);
    }
    place_outputs();
    return std::move(result_);
  }

 private:
  static size_t at(ValueId v) { return static_cast<size_t>(v); }
  ValueId root(ValueId v) const { return result_.storage[at(v)].root; }
  bool covers_root(ValueId v) const {
    return result_.storage[at(v)].offset == Dim(0) &&
           storage_bytes(graph_.value(v)) == storage_bytes(graph_.value(root(v)));
  }
  bool group_has_output(ValueId root) const { return group_has_output_[at(root)]; }
  // The group of `from` moves into the group of `to`, its root `offset` bytes behind `to`.
  void merge(ValueId from, ValueId to, const Dim& offset) {
    const ValueId target = root(to);
    const Dim base = result_.storage[at(to)].offset + offset;
    std::vector<ValueId> moved = std::move(members_[at(from)]);
    members_[at(from)].clear();
    for (const ValueId m : moved) {
      result_.storage[at(m)] = {target, base + result_.storage[at(m)].offset};
      members_[at(target)].push_back(m);
    }
    group_has_output_[at(target)] = group_has_output_[at(target)] || group_has_output_[at(from)];
    group_last_use_[at(target)] = std::max(group_last_use_[at(target)], group_last_use_[at(from)]);
    group_first_write_[at(target)] = std::min(group_first_write_[at(target)], group_first_write_[at(from)]);
  }

  // Whether a run knows the offset before it writes the first value of the group: a part may be made before
  // the layer that finds how long the part in front of it is.
  bool is_known_in_time(ValueId group, const Dim& offset) {
    for (const std::string& name : offset.data_dependent_names()) {
      const auto found = found_at().find(name);
      if (found != found_at().end() && found->second >= group_first_write_[at(group)]) return false;
    }
    return true;
  }
  // By name of a size that only a run finds: the layer that does. Those of inputs are known before.
  const std::map<std::string, int>& found_at() {
    if (found_at_) return *found_at_;
    found_at_.emplace();
    for (size_t i = 0; i < graph_.order().size(); ++i)
      for (const std::string& name : new_names(graph_, graph_.node(graph_.order()[i])))
        found_at_->emplace(name, static_cast<int>(i));
    return *found_at_;
  }

  void embed_inputs(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId whole = node.outputs[0];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId part = node.inputs[k], group = root(part);
      const Dim offset = view_offset_bytes(graph_, id, k);
      // A fixed place, a place in another Concat, a reader outside who wants it elsewhere, or an offset that
      // is found too late: copy.
      if (fixed_[at(group)] || group == root(whole) || !covers_root(part) || group_has_output(group) ||
          !is_known_in_time(group, result_.storage[at(whole)].offset + offset)) {
        result_.conflicts.push_back({ViewConflict::Kind::Input, id, k});
        continue;
      }
      merge(group, whole, offset);
    }
  }

  void embed_outputs(NodeId id) {
    const Node& node = graph_.node(id);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (node.outputs[k] != kNoValue)
        merge(node.outputs[k], node.inputs[0], view_offset_bytes(graph_, id, k));
  }

  void write_in_place(int step, NodeId id) {
    const Node& node = graph_.node(id);
    if (node.outputs.empty() || node.outputs[0] == kNoValue) return;
    for (const int k : choices_[static_cast<size_t>(step)].tactic.in_place_inputs) {
      const auto index = static_cast<size_t>(k);
      if (index >= node.inputs.size() || node.inputs[index] == kNoValue) continue;
      if (!may_overwrite(step, node, index)) continue;
      merge(node.outputs[0], node.inputs[index], 0);
      return;
    }
  }

  bool may_overwrite(int step, const Node& node, size_t index) const {
    const ValueId in = node.inputs[index], out = node.outputs[0], group = root(in);
    if (fixed_[at(group)] || group_has_output(group)) return false;
    if (!(storage_bytes(graph_.value(in)) == storage_bytes(graph_.value(out)))) return false;
    if (is_output_[at(out)] && !covers_root(in)) return false;
    if (group_last_use_[at(group)] > step) return false;  // somebody reads this memory later
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (k != index && node.inputs[k] != kNoValue && root(node.inputs[k]) == group)
        return false;  // or now, through another operand
    return true;
  }

  void place_outputs() {
    std::vector<bool> taken(graph_.value_count(), false);
    for (size_t k = 0; k < graph_.outputs().size(); ++k) {
      const ValueId v = graph_.outputs()[k], group = root(v);
      if (fixed_[at(group)] || taken[at(group)] || !covers_root(v))
        result_.conflicts.push_back({ViewConflict::Kind::Output, kNoNode, k});
      else
        taken[at(group)] = true;
    }
  }

  const Graph& graph_;
  std::span<const Choice> choices_;
  ViewAnalysis result_;
  std::vector<std::vector<ValueId>> members_;  // by root
  std::vector<int> group_last_use_;            // position of the last reader of any member, by root, -1: none
  static constexpr int kNever = std::numeric_limits<int>::max();
  std::vector<int> group_first_write_;  // position of the first layer that writes a member, by root
  std::optional<std::map<std::string, int>> found_at_;  // when it was asked for
  std::vector<bool> group_has_output_;                  // by root
  std::vector<bool> fixed_;                             // graph inputs and constants: their place is given
  std::vector<bool> is_output_;
};

}  // namespace

Dim storage_bytes(const Value& value) {
  Dim elements = 1;
  for (size_t d = 0; d < value.shape.size(); ++d) {
    const bool padded = d == 1 && value.format.block > 1;
    const Dim block = value.format.block;
    elements = elements * (padded ? ceil_div(value.shape[d], block) * block : value.shape[d]);
  }
  return bytes_of(elements, value.dtype);
}

Dim view_offset_bytes(const Graph& graph, NodeId id, size_t part) {
  const Node& node = graph.node(id);
  const bool concat = std::holds_alternative<Concat>(node.op);
  const Value& whole = graph.value(concat ? node.outputs[0] : node.inputs[0]);
  const auto rank = static_cast<int64_t>(whole.shape.size());
  const std::vector<Dim> strides = storage_strides(whole);
  Dim offset = 0;
  if (concat) {
    const auto axis =
        static_cast<size_t>(normalize_axis(std::get<Concat>(node.op).axis, rank, "Concat axis"));
    for (size_t k = 0; k < part; ++k) offset = offset + graph.value(node.inputs[k]).shape[axis];
    offset = offset * strides[axis];
  } else if (const auto* split = std::get_if<Split>(&node.op)) {
    const auto axis = static_cast<size_t>(normalize_axis(split->axis, rank, "Split axis"));
    for (size_t k = 0; k < part; ++k) offset = offset + split->sizes[k];
    offset = offset * strides[axis];
  } else if (const auto* slice = std::get_if<Slice>(&node.op)) {
    offset = slice_offset(*slice, whole, strides);
  } else if (const auto* gather = std::get_if<Gather>(&node.op)) {
    offset = gather_offset(graph, node, *gather, strides);
  }
  return bytes_of(offset, whole.dtype);
}

ViewAnalysis analyze_views(const Graph& graph, std::span<const Choice> choices) {
  return Analyzer(graph, choices).run();
}

}  // namespace lathe
