// SPDX-License-Identifier: Apache-2.0
//
// "Outermost" is meant in memory: all dims stored before the axis must be 1. Axis 0 is outermost in every
// format; channels follow when N is 1, in linear and, by whole blocks, in blocked formats.
#include "backend/view.h"

#include <algorithm>
#include <set>

#include "backend/appending.h"
#include "backend/open_size.h"
#include "base/hash.h"

namespace lathe {
namespace {

struct Case {
  Format input, output;
  std::vector<Dim> begins = {};  // where pieces begin, in elements of the storage that holds them
};

bool all_one(const Shape& shape, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i)
    if (!shape[i].is_constant(1)) return false;
  return true;
}

bool whole_blocks(const Dim& dim, const Format& format) {
  return format.block == 1 || (dim.is_constant() && dim.value() % format.block == 0);
}

// The elements lie as in linear format.
bool lies_linear(const Shape& shape, const Format& format) {
  if (format.is_linear()) return true;
  if (shape.size() < 3 || !all_one(shape, 2, shape.size())) return false;
  return whole_blocks(shape[1], format);
}

// Formats that a tensor of this rank can have here.
std::vector<Format> formats_for(const Shape& shape, const ViewRules& rules) {
  if (shape.size() < 3) return {kLinear};
  return rules.formats;
}

// The shape is cut along `axis` at `offset`s: are the pieces contiguous in `format`? Offsets and sizes in
// blocks.
bool cuts_contiguously(const Shape& shape, int64_t axis, const Format& format,
                       const std::vector<Dim>& offsets) {
  if (axis == 0) return true;
  const auto at = static_cast<size_t>(axis);
  switch (format.kind) {
    case Format::Kind::Linear:
      return all_one(shape, 0, at);
    case Format::Kind::ChannelsLast:
      return axis != 1 && shape[0].is_constant(1) && all_one(shape, 2, at);
    case Format::Kind::ChannelBlocked: {
      if (axis != 1 || !shape[0].is_constant(1)) return false;
      for (const Dim& offset : offsets)
        if (!whole_blocks(offset, format)) return false;
      return true;
    }
  }
  return false;
}

// Elements from one index of `axis` to the next, for an axis along which pieces are contiguous.
Dim elements_per_index(const Shape& shape, int64_t axis, const Format& format) {
  Dim count(1);
  const auto at = static_cast<size_t>(axis);
  for (size_t i = at + 1; i < shape.size(); ++i) count = count * shape[i];
  if (format.kind == Format::Kind::ChannelsLast && axis >= 2) count = count * shape[1];
  return count;
}

std::vector<Case> same_format_cases(const Shape& shape, int64_t axis, const std::vector<Dim>& offsets,
                                    const ViewRules& rules) {
  std::vector<Case> cases;
  for (const Format& format : formats_for(shape, rules)) {
    if (!cuts_contiguously(shape, axis, format, offsets)) continue;
    cases.push_back({format, format});
    const Dim step = elements_per_index(shape, axis, format);
    for (const Dim& offset : offsets) cases.back().begins.push_back(offset * step);
  }
  return cases;
}

std::vector<Case> reshape_cases(const Shape& from, const Shape& to, const ViewRules& rules) {
  std::vector<Case> cases;
  for (const Format& a : formats_for(from, rules))
    for (const Format& b : formats_for(to, rules)) {
      const bool same = from == to && a == b;
      if (same || (lies_linear(from, a) && lies_linear(to, b))) cases.push_back({a, b});
    }
  return cases;
}

// The axis that a slice cuts when it cuts just one with step 1, else -1. `cuts` are the places where it does.
int64_t cut_axis(const Slice& slice, const Shape& shape, std::vector<Dim>& cuts) {
  if (!slice.starts || !slice.ends) return -1;
  int64_t axis = -1;
  for (size_t i = 0; i < slice.axes.size(); ++i) {
    if (!slice.steps.empty() && slice.steps[i] != 1) return -1;
    const auto at = static_cast<size_t>(slice.axes[i]);
    if ((*slice.starts)[i].is_constant(0) && (*slice.ends)[i] == shape[at]) continue;
    if (axis >= 0) return -1;
    axis = slice.axes[i];
    cuts = {(*slice.starts)[i]};
    if (!((*slice.ends)[i] == shape[at])) cuts.push_back((*slice.ends)[i]);
  }
  return axis;
}

// A transpose that only moves dims of 1.
bool keeps_order(const Ints& perm, const Shape& shape) {
  int64_t last = -1;
  for (const int64_t axis : perm) {
    if (shape[static_cast<size_t>(axis)].is_constant(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

std::vector<Case> transpose_cases(const Ints& perm, const Shape& shape, const ViewRules& rules) {
  std::vector<Case> cases;
  const bool has_last = std::count(rules.formats.begin(), rules.formats.end(), kChannelsLast) > 0;
  if (has_last && puts_channels_last(perm)) cases.push_back({kChannelsLast, kLinear});
  if (has_last && puts_channels_second(perm)) cases.push_back({kLinear, kChannelsLast});
  if (keeps_order(perm, shape)) cases.push_back({kLinear, kLinear});
  return cases;
}

std::vector<Case> cases_of(const LayerQuery& query, const ViewRules& rules) {
  const Node& node = query.layer();
  const Graph& graph = query.graph;
  if (!node.epilogue.empty() || node.inputs.empty()) return {};
  const Shape& in = graph.value(node.inputs[0]).shape;
  const ValueId first = node.outputs[0];
  if (const auto* pointwise = std::get_if<Pointwise>(&node.op)) {
    if (pointwise->code != PointwiseCode::Identity) return {};
    return reshape_cases(in, in, rules);
  }
  if (const auto* cast = std::get_if<BitCast>(&node.op)) {
    // In memory true is 1 and nothing else; integers of a grid are no bits of the model.
    const bool is_free = cast->to != DType::Bool || graph.value(node.inputs[0]).dtype == DType::Bool;
    if (!is_free || graph.value(node.inputs[0]).quantization || graph.value(first).quantization) return {};
    return reshape_cases(in, in, rules);
  }
  if (const auto* reshape = std::get_if<ReshapeOp>(&node.op)) {
    if (!reshape->shape) return {};  // dims come out of the input: somebody has to read them
    return reshape_cases(in, graph.value(first).shape, rules);
  }
  if (const auto* transpose = std::get_if<Transpose>(&node.op)) {
    return transpose_cases(transpose->perm, in, rules);
  }
  if (const auto* slice = std::get_if<Slice>(&node.op)) {
    std::vector<Dim> cuts;
    const int64_t axis = cut_axis(*slice, in, cuts);
    if (axis < 0) return {};
    return same_format_cases(in, axis, cuts, rules);
  }
  if (const auto* gather = std::get_if<Gather>(&node.op)) {
    const Value& indices = graph.value(node.inputs[1]);
    if (!indices.is_constant() || indices.constant.size() != 1) return {};
    if (!all_one(in, 0, static_cast<size_t>(gather->axis))) return {};
    const auto axis = static_cast<size_t>(gather->axis);
    const int64_t index = indices.constant.to_int64s()[0];
    const Dim first_index = index < 0 ? in[axis] + Dim(index) : Dim(index);
    return {{kLinear, kLinear, {first_index * elements_per_index(in, gather->axis, kLinear)}}};
  }
  if (const auto* split = std::get_if<Split>(&node.op)) {
    std::vector<Dim> offsets;
    Dim at;
    for (const Dim& size : split->sizes) {
      offsets.push_back(at);
      at = at + size;
    }
    return same_format_cases(in, split->axis, offsets, rules);
  }
  if (const auto* concat = std::get_if<Concat>(&node.op)) {
    std::set<ValueId> distinct(node.inputs.begin(), node.inputs.end());
    if (distinct.size() != node.inputs.size()) return {};  // one value cannot lie in two places
    // Inputs are written before the run knows where the others end.
    if (has_open_size(graph.value(node.outputs[0]), query.ranges)) return {};
    std::vector<Dim> offsets;
    Dim at;
    for (const ValueId input : node.inputs) {
      offsets.push_back(at);
      at = at + graph.value(input).shape[static_cast<size_t>(concat->axis)];
    }
    return same_format_cases(graph.value(first).shape, concat->axis, offsets, rules);
  }
  return {};
}

// Every piece begins at a multiple of the alignment, whatever the symbols are.
bool is_aligned(const Case& c, DType dtype, int64_t alignment_bytes) {
  if (alignment_bytes == 1) return true;
  for (const Dim& begin : c.begins)
    if (!(begin * Dim(dtype_info(dtype).bits)).exact_div(Dim(8 * alignment_bytes))) return false;
  return true;
}

}  // namespace

std::vector<DType> moved_types(const LayerQuery& query, bool small_floats) {
  const Node& node = query.layer();
  std::vector<DType> types = layer_types(query);
  const std::optional<Quantization>& grid = query.graph.value(node.outputs[0]).quantization;
  const bool is_known = grid && (grid->dtype == DType::UInt8 || (small_floats && grid->has_floats()));
  if (!is_known || !grid->is_per_tensor()) return types;
  const size_t data = std::holds_alternative<Concat>(node.op) ? node.inputs.size() : 1;
  const auto on_grid = [&](ValueId v) {
    return v == kNoValue ||
           (!query.graph.value(v).is_constant() && query.graph.value(v).quantization == grid);
  };
  const auto inputs = node.inputs.begin();
  if (std::all_of(inputs, inputs + static_cast<std::ptrdiff_t>(data), on_grid) &&
      std::all_of(node.outputs.begin(), node.outputs.end(), on_grid))
    types.push_back(grid->dtype);
  return types;
}

bool may_lie(const LayerQuery& query, DType type, const Format& format) {
  const ValueId result = query.layer().outputs[0];
  if (format.kind != Format::Kind::ChannelBlocked || result == kNoValue) return true;
  const std::optional<Quantization>& grid = query.graph.value(result).quantization;
  return !grid || grid->dtype != type;
}

std::vector<Tactic> list_views(const LayerQuery& query, const ViewRules& rules) {
  const Node& node = query.layer();
  const bool changes_type = std::holds_alternative<BitCast>(node.op);
  std::vector<DType> types = moved_types(query, rules.small_floats);
  if (changes_type) types.resize(1);
  std::vector<Tactic> tactics;
  for (const Case& c : cases_of(query, rules))
    for (const DType dtype : types) {
      if (!may_lie(query, dtype, c.input) || !may_lie(query, dtype, c.output)) continue;
      Tactic tactic{.runner = std::string(kViewRunner), .name = "view", .is_view = true};
      tactic.id = hash_text(tactic.name);
      tactic.support = may_convert(query, c.input);
      if (!is_aligned(c, dtype, rules.alignment_bytes))
        tactic.support =
            Support::no("a piece would begin at an address that kernels cannot read in wide steps");
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId input = node.inputs[i];
        const bool is_data = i == 0 || std::holds_alternative<Concat>(node.op);
        if (input == kNoValue || !is_data)
          tactic.inputs.push_back({});
        else
          tactic.inputs.push_back({changes_type ? query.graph.value(input).dtype : dtype, c.input});
        // A constant lies among the weights, not inside the output, and is kept in linear format.
        if (input != kNoValue && is_data && query.graph.value(input).is_constant() &&
            (std::holds_alternative<Concat>(node.op) || !c.input.is_linear() ||
             tactic.inputs[i].dtype != query.graph.value(input).dtype))
          tactic.support = Support::no("the input is a constant, which lies among the weights");
      }
      for (const ValueId output : node.outputs)
        tactic.outputs.push_back(output == kNoValue ? TensorType{} : TensorType{dtype, c.output});
      tactics.push_back(std::move(tactic));
    }
  return tactics;
}

}  // namespace lathe
