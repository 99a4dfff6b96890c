// SPDX-License-Identifier: Apache-2.0
//
// Transpose, Concat, Split, Slice, Expand, Tile and DepthToSpace where they are not views: strided copies of
// ours.
//
// Bytes: each element read once and written once. Concat, Split and Slice also run in channels-last, and in
// blocked formats when the channel dim is cut at whole blocks only; dims are then those of the storage.
#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/strided_copy.h"
#include "backend/view.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kMovementRunner = "Copy";

struct Part {  // one copy between an input and an output of the node
  size_t input = 0, output = 0;
  int64_t in_offset = 0, out_offset = 0;  // elements
  StridedCopy copy;
};

class PreparedMovement final : public PreparedLayer {
 public:
  PreparedMovement(std::vector<Part> parts, int64_t bytes) : parts_(std::move(parts)), bytes_(bytes) {}
  int members(int available) const override {
    double nanoseconds = 0;
    for (const Part& p : parts_) nanoseconds += p.copy.nanoseconds();
    return members_for(nanoseconds, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    for (const Part& p : parts_) {
      if (args.outputs[p.output] == nullptr) continue;
      p.copy.run(static_cast<const std::byte*>(args.inputs[p.input]) + p.in_offset * bytes_,
                 static_cast<std::byte*>(args.outputs[p.output]) + p.out_offset * bytes_, worker);
    }
  }

 private:
  std::vector<Part> parts_;
  int64_t bytes_;
};

// Position of a logical axis among the dims of the storage; in a blocked tensor axis 1 counts blocks.
size_t storage_axis(int64_t axis, const Format& format, size_t rank) {
  if (format.is_linear() || axis == 0) return static_cast<size_t>(axis);
  if (format.kind == Format::Kind::ChannelBlocked) return static_cast<size_t>(axis);
  return axis == 1 ? rank - 1 : static_cast<size_t>(axis) - 1;
}

Part box_part(size_t input, size_t output, int64_t in_offset, int64_t out_offset, int64_t bytes,
              const Extents& extents, const Extents& in_strides, const Extents& out_strides) {
  return {input, output, in_offset, out_offset, StridedCopy(bytes, extents, in_strides, out_strides)};
}

using Parts = std::vector<Part>;

Parts transpose_parts(const Transpose& op, const ShapeContext& c, int64_t bytes) {
  const Extents in = row_major_strides(c.inputs[0]);
  Extents permuted;
  for (const int64_t p : op.perm) permuted.push_back(in[static_cast<size_t>(p)]);
  Parts parts;
  parts.push_back(box_part(0, 0, 0, 0, bytes, c.outputs[0], permuted, row_major_strides(c.outputs[0])));
  return parts;
}

Parts concat_parts(const Concat& op, const ShapeContext& c, int64_t bytes, const Format& format) {
  const Extents out = storage_walk(c.stored_output(0), format).extents;
  const Extents out_strides = row_major_strides(out);
  const int64_t logical = normalize_axis(op.axis, static_cast<int64_t>(c.outputs[0].size()), "Concat axis");
  const size_t axis = storage_axis(logical, format, c.outputs[0].size());
  const bool appends = !c.output_rooms.empty() && c.output_rooms[0].rows > 0;
  Parts parts;
  int64_t offset = 0;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Extents e = storage_walk(c.inputs[i], format).extents;
    if (i > 0 || !appends)
      parts.push_back(box_part(i, 0, 0, offset, bytes, e, row_major_strides(e), out_strides));
    offset += e[axis] * out_strides[axis];
  }
  return parts;
}

Parts split_parts(const Split& op, const ShapeContext& c, int64_t bytes, const Format& format) {
  const Extents in_strides = row_major_strides(storage_walk(c.inputs[0], format).extents);
  const int64_t logical = normalize_axis(op.axis, static_cast<int64_t>(c.inputs[0].size()), "Split axis");
  const size_t axis = storage_axis(logical, format, c.inputs[0].size());
  const int64_t unit = format.kind == Format::Kind::ChannelBlocked && logical == 1 ? format.block : 1;
  Parts parts;
  int64_t offset = 0;
  for (size_t i = 0; i < op.sizes.size(); ++i) {
    const int64_t size = op.sizes[i].evaluate(c.symbols);
    if (i < c.outputs.size() && !c.outputs[i].empty()) {
      const Extents e = storage_walk(c.outputs[i], format).extents;
      parts.push_back(box_part(0, i, offset, 0, bytes, e, in_strides, row_major_strides(e)));
    }
    offset += size / unit * in_strides[axis];
  }
  return parts;
}

Parts slice_parts(const Slice& op, const ShapeContext& c, int64_t bytes, const Format& format) {
  const size_t rank = c.inputs[0].size();
  const Extents base = row_major_strides(storage_walk(c.inputs[0], format).extents);
  Extents strides = base;
  int64_t offset = 0;
  for (size_t i = 0; i < op.starts->size(); ++i) {
    const int64_t logical = op.axes.empty()
                                ? static_cast<int64_t>(i)
                                : normalize_axis(op.axes[i], static_cast<int64_t>(rank), "Slice axis");
    const size_t axis = storage_axis(logical, format, rank);
    const int64_t unit = format.kind == Format::Kind::ChannelBlocked && logical == 1 ? format.block : 1;
    offset += (*op.starts)[i].evaluate(c.symbols) / unit * base[axis];
    strides[axis] = base[axis] * (op.steps.empty() ? 1 : op.steps[i]);
  }
  const Extents e = storage_walk(c.outputs[0], format).extents;
  Parts parts;
  parts.push_back(box_part(0, 0, offset, 0, bytes, e, strides, row_major_strides(e)));
  return parts;
}

Parts expand_parts(const ShapeContext& c, int64_t bytes) {
  Parts parts;
  parts.push_back(box_part(0, 0, 0, 0, bytes, c.outputs[0],
                           operand_strides(c.inputs[0], kLinear, c.outputs[0], kLinear),
                           row_major_strides(c.outputs[0])));
  return parts;
}

// Each dim is walked as (repeats, extent).
Parts tile_parts(const ShapeContext& c, int64_t bytes) {
  const Extents in = row_major_strides(c.inputs[0]), out = row_major_strides(c.outputs[0]);
  Extents extents, in_strides, out_strides;
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t extent = c.inputs[0][d];
    extents.insert(extents.end(), {c.outputs[0][d] / std::max<int64_t>(1, extent), extent});
    in_strides.insert(in_strides.end(), {0, in[d]});
    out_strides.insert(out_strides.end(), {out[d] * extent, out[d]});
  }
  Parts parts;
  parts.push_back(box_part(0, 0, 0, 0, bytes, extents, in_strides, out_strides));
  return parts;
}

// DepthToSpace: channels (b, b, C) [DCR] or (C, b, b) [CRD] of an image (H, W) become (C, H b, W b). Inverse:
// back.
Parts depth_to_space_parts(const DepthToSpace& op, const ShapeContext& c, int64_t bytes) {
  const Extents& deep = op.inverse ? c.outputs[0] : c.inputs[0];  // (N, C b b, H, W)
  const int64_t b = op.block, n = deep[0], channels = deep[1] / (b * b), h = deep[2], w = deep[3];
  // Walk (n, c, h, i, w, j): i, j inside a block.
  const Extents extents = {n, channels, h, b, w, b};
  const int64_t plane = h * w;
  const int64_t c_deep = op.crd ? b * b * plane : plane;
  const int64_t i_deep = op.crd ? b * plane : b * channels * plane,
                j_deep = op.crd ? plane : channels * plane;
  const Extents deep_strides = {deep[1] * plane, c_deep, w, i_deep, 1, j_deep};
  const Extents flat_strides = {channels * plane * b * b, plane * b * b, w * b * b, w * b, b, 1};
  Parts parts;
  parts.push_back(op.inverse ? box_part(0, 0, 0, 0, bytes, extents, flat_strides, deep_strides)
                             : box_part(0, 0, 0, 0, bytes, extents, deep_strides, flat_strides));
  return parts;
}

class MovementKernel final : public LayerKernel {
 public:
  MovementKernel(Op op, TensorType type) : op_(std::move(op)), type_(type) {}
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const int64_t bytes = dtype_bytes(type_.dtype, 1);
    return std::make_unique<PreparedMovement>(parts(context, bytes), bytes);
  }
  bool appends() const override { return std::holds_alternative<Concat>(op_) && type_.format.is_linear(); }

 private:
  Parts parts(const ShapeContext& c, int64_t bytes) const {
    if (const auto* op = std::get_if<Transpose>(&op_)) return transpose_parts(*op, c, bytes);
    if (const auto* op = std::get_if<Concat>(&op_)) return concat_parts(*op, c, bytes, type_.format);
    if (const auto* op = std::get_if<Split>(&op_)) return split_parts(*op, c, bytes, type_.format);
    if (const auto* op = std::get_if<Slice>(&op_)) return slice_parts(*op, c, bytes, type_.format);
    if (const auto* op = std::get_if<DepthToSpace>(&op_)) return depth_to_space_parts(*op, c, bytes);
    if (std::holds_alternative<Tile>(op_)) return tile_parts(c, bytes);
    return expand_parts(c, bytes);
  }
  Op op_;
  TensorType type_;
};

// Whether the channel dim is cut at whole blocks only.
bool whole_blocks(const LayerQuery& query, int64_t block) {
  const auto whole = [&](const Dim& d) { return d.is_constant() && d.value() % block == 0; };
  const Node& node = query.layer();
  const auto rank = static_cast<int64_t>(query.graph.value(node.inputs[0]).shape.size());
  const auto on_channels = [&](int64_t axis) { return axis == 1 || axis + rank == 1; };
  const auto channels = [&](ValueId v) { return whole(query.graph.value(v).shape[1]); };
  if (const auto* op = std::get_if<Split>(&node.op)) {
    if (!on_channels(op->axis)) return true;
    return std::all_of(op->sizes.begin(), op->sizes.end(), whole);
  }
  if (const auto* op = std::get_if<Concat>(&node.op))
    return !on_channels(op->axis) || std::all_of(node.inputs.begin(), node.inputs.end(), channels);
  if (const auto* op = std::get_if<Slice>(&node.op)) {
    for (size_t i = 0; i < op->starts->size(); ++i) {
      if (!on_channels(op->axes.empty() ? static_cast<int64_t>(i) : op->axes[i])) continue;
      if (!whole((*op->starts)[i]) || !whole((*op->ends)[i]) || (!op->steps.empty() && op->steps[i] != 1))
        return false;
    }
    return true;
  }
  return false;
}

std::vector<Tactic> list_movement(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const bool any_format = std::holds_alternative<Concat>(node.op) || std::holds_alternative<Split>(node.op) ||
                          std::holds_alternative<Slice>(node.op);
  const bool linear = std::holds_alternative<Transpose>(node.op) || std::holds_alternative<Expand>(node.op) ||
                      std::holds_alternative<Tile>(node.op) || std::holds_alternative<DepthToSpace>(node.op);
  if (!any_format && !linear) return {};
  const Value& out = query.graph.value(node.outputs[0] == kNoValue ? node.inputs[0] : node.outputs[0]);
  std::vector<Format> formats = {kLinear};
  if (any_format && out.shape.size() >= 3) {
    formats.push_back(kChannelsLast);
    formats.push_back({Format::Kind::ChannelBlocked, vector_block(machine)});
  }
  std::vector<Tactic> tactics;
  const auto types = node.outputs[0] == kNoValue ? std::vector<DType>{out.dtype} : moved_types(query);
  for (const DType type : types)
    for (const Format& format : formats) {
      if (!may_lie(query, type, format)) continue;
      Tactic t = linear_tactic(query, kMovementRunner, "strided_copy");
      const bool several = std::holds_alternative<Concat>(node.op);
      bool constant_input = false;
      for (size_t i = 0; i < (several ? node.inputs.size() : 1); ++i) {
        t.inputs[i] = {type, format};
        constant_input = constant_input || query.graph.value(node.inputs[i]).is_constant();
      }
      for (size_t i = 0; i < node.outputs.size(); ++i)
        if (node.outputs[i] != kNoValue) t.outputs[i] = {type, format};
      const auto* slice = std::get_if<Slice>(&node.op);
      if (!node.epilogue.empty())
        t.support = Support::no("a copy applies no epilogue");
      else if (dtype_info(type).bits < 8)
        t.support = Support::no("elements are smaller than a byte");
      else if (slice && !slice->starts)
        t.support = Support::no("starts and ends are known only at run time");
      else if (constant_input && (!format.is_linear() || type != out.dtype))
        t.support = Support::no("a constant operand is read as it is stored");
      else if (const Support converts = may_convert(query, format); !converts.ok)
        t.support = converts;
      else if (format.block > 1 && !whole_blocks(query, format.block))
        t.support = Support::no("the channels are not cut at whole blocks");
      tactics.push_back(std::move(t));
    }
  return tactics;
}

std::unique_ptr<LayerKernel> make_movement(const LayerQuery& query, const Tactic& tactic, const Machine&,
                                           const PackContext&) {
  const Node& node = query.layer();
  // An absent first output (a Split with unused parts) has no type; the input has the same.
  return std::make_unique<MovementKernel>(node.op, tactic.inputs[0]);
}

}  // namespace

TacticFamily movement_tactics() {
  return {kMovementRunner, list_movement, make_movement};
}

}  // namespace lathe::cpu
