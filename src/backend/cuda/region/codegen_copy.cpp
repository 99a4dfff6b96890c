// SPDX-License-Identifier: Apache-2.0
//
// Layers that move elements: Reformat, Transpose, Concat, Split, Slice, Expand, Tile, DepthToSpace and
// Reshape where they are not views. Each is one or more boxes: a loop nest with strides on both sides. The
// nest is put into the order of the output and merged; then a box is
//   - rows:  the innermost dim is contiguous on both sides: vectors of up to 16 bytes;
//   - tiles: another dim is contiguous in the input (a transpose): squares go through shared memory, so that
//            both sides are read and written in whole lines;
//   - single elements otherwise.
// Bytes are the floor: every element is read once and written once.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/view.h"
#include "base/error.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kCopyRunner = "Copy";
constexpr int kCopyTile = 32;

struct Box {
  size_t input = 0, output = 0;
  std::vector<Dim> extents, in_strides, out_strides;  // in any order
  Dim in_offset = 0, out_offset = 0;                  // elements
};

// Logical strides of an operand as the tactic stores it.
std::vector<Dim> strides_of(const LayerQuery& query, ValueId value, const TensorType& type) {
  return storage_strides(query.graph.value(value).shape, type.format);
}

std::vector<Box> concat_boxes(const LayerQuery& query, const Tactic& t, int64_t axis_attribute, bool split) {
  const Node& node = query.layer();
  const ValueId whole = split ? node.inputs[0] : node.outputs[0];
  const std::vector<Dim> strides = strides_of(query, whole, split ? t.inputs[0] : t.outputs[0]);
  const auto axis = static_cast<size_t>(normalize_axis(axis_attribute, static_cast<int64_t>(strides.size()),
                                                       split ? "Split axis" : "Concat axis"));
  std::vector<Box> boxes;
  Dim offset = 0;
  const auto& parts = split ? node.outputs : node.inputs;
  for (size_t i = 0; i < parts.size(); ++i) {
    Dim size = 0;
    if (split)
      size = std::get<Split>(node.op).sizes[i];
    else
      size = query.graph.value(parts[i]).shape[axis];
    if (parts[i] != kNoValue && !size.is_constant(0)) {
      const TensorType& type = split ? t.outputs[i] : t.inputs[i];
      const std::vector<Dim> own = strides_of(query, parts[i], type);
      Box box{.extents = query.graph.value(parts[i]).shape};
      box.input = split ? 0 : i;
      box.output = split ? i : 0;
      box.in_strides = split ? strides : own;
      box.out_strides = split ? own : strides;
      (split ? box.in_offset : box.out_offset) = offset * strides[axis];
      boxes.push_back(std::move(box));
    }
    offset = offset + size;
  }
  return boxes;
}

Box slice_box(const LayerQuery& query, const Tactic& t, const Slice& op) {
  const Node& node = query.layer();
  Box box{.extents = output_shape(query)};
  box.in_strides = strides_of(query, node.inputs[0], t.inputs[0]);
  box.out_strides = strides_of(query, node.outputs[0], t.outputs[0]);
  const std::vector<Dim> base = box.in_strides;
  for (size_t i = 0; i < op.starts->size(); ++i) {
    const auto axis =
        op.axes.empty()
            ? i
            : static_cast<size_t>(normalize_axis(op.axes[i], static_cast<int64_t>(base.size()), "axis"));
    box.in_offset = box.in_offset + (*op.starts)[i] * base[axis];
    box.in_strides[axis] = base[axis] * Dim(op.steps.empty() ? 1 : op.steps[i]);
  }
  return box;
}

Box expand_box(const LayerQuery& query, const Tactic& t) {
  const Node& node = query.layer();
  Box box{.extents = output_shape(query)};
  box.out_strides = strides_of(query, node.outputs[0], t.outputs[0]);
  const Shape& in = input_shape(query, 0);
  const std::vector<Dim> own = strides_of(query, node.inputs[0], t.inputs[0]);
  box.in_strides.assign(box.extents.size() - in.size(), Dim(0));
  for (size_t d = 0; d < in.size(); ++d) {
    const Dim& to = box.extents[box.in_strides.size()];
    if (in[d].is_constant(1) && !to.is_constant(1))
      box.in_strides.push_back(0);
    else if (in[d].is_constant() || in[d] == to)
      box.in_strides.push_back(own[d]);
    else  // 0 where the run has a dim of 1
      box.in_strides.push_back(own[d] * min(max(in[d] - Dim(1), Dim(0)), Dim(1)));
  }
  return box;
}

// Every dim of the input, repeated: (repeats, extent).
Box tile_box(const LayerQuery& query, const Tactic& t, const Tile& op) {
  const Node& node = query.layer();
  Box box;
  const std::vector<Dim> in = strides_of(query, node.inputs[0], t.inputs[0]);
  const std::vector<Dim> out = strides_of(query, node.outputs[0], t.outputs[0]);
  const Shape& shape = input_shape(query, 0);
  for (size_t d = 0; d < in.size(); ++d) {
    // What only values say follows from the result, whose size is known when the layer is prepared.
    const Dim repeats =
        op.repeats ? (*op.repeats)[d] : floor_div(output_shape(query)[d], max(shape[d], Dim(1)));
    box.extents.insert(box.extents.end(), {repeats, shape[d]});
    box.in_strides.insert(box.in_strides.end(), {Dim(0), in[d]});
    box.out_strides.insert(box.out_strides.end(), {out[d] * shape[d], out[d]});
  }
  return box;
}

// Channels (b, b, C) [DCR] or (C, b, b) [CRD] of an image (H, W) become (C, H b, W b). Inverse: back.
Box depth_to_space_box(const LayerQuery& query, const DepthToSpace& op) {
  const Shape& deep = op.inverse ? output_shape(query) : input_shape(query, 0);  // (N, C b b, H, W)
  const Shape& flat = op.inverse ? input_shape(query, 0) : output_shape(query);
  const Dim b = op.block, n = deep[0], channels = flat[1], h = deep[2], w = deep[3], plane = h * w;
  Box box{.extents = {n, channels, h, b, w, b}};  // i, j inside a block
  const Dim i_deep = op.crd ? b * plane : b * channels * plane, j_deep = op.crd ? plane : channels * plane;
  const std::vector<Dim> deep_strides = {deep[1] * plane, op.crd ? b * b * plane : plane, w, i_deep, 1,
                                         j_deep};
  const std::vector<Dim> flat_strides = {channels * plane * b * b, plane * b * b, w * b * b, w * b, b, 1};
  box.in_strides = op.inverse ? flat_strides : deep_strides;
  box.out_strides = op.inverse ? deep_strides : flat_strides;
  return box;
}

// The elements in their order: what has a new shape from values of the run is no view.
Box flat_box(const LayerQuery& query) {
  const Dim elements = min(element_count(input_shape(query, 0)), element_count(output_shape(query)));
  Box box{.extents = {elements}};
  box.in_strides = box.out_strides = {Dim(1)};
  return box;
}

std::vector<Box> boxes_of(const LayerQuery& query, const Tactic& t) {
  const Node& node = query.layer();
  if (std::holds_alternative<ReshapeOp>(node.op)) return {flat_box(query)};
  if (const auto* op = std::get_if<Concat>(&node.op)) return concat_boxes(query, t, op->axis, false);
  if (const auto* op = std::get_if<Split>(&node.op)) return concat_boxes(query, t, op->axis, true);
  if (const auto* op = std::get_if<Slice>(&node.op)) return {slice_box(query, t, *op)};
  if (const auto* op = std::get_if<Tile>(&node.op)) return {tile_box(query, t, *op)};
  if (const auto* op = std::get_if<DepthToSpace>(&node.op)) return {depth_to_space_box(query, *op)};
  if (std::holds_alternative<Expand>(node.op)) return {expand_box(query, t)};
  Box box{.extents = output_shape(query)};
  box.out_strides = strides_of(query, node.outputs[0], t.outputs[0]);
  box.in_strides = strides_of(query, node.inputs[0], t.inputs[0]);
  if (const auto* op = std::get_if<Transpose>(&node.op)) {
    const std::vector<Dim> in = box.in_strides;
    for (size_t d = 0; d < in.size(); ++d) box.in_strides[d] = in[static_cast<size_t>(op->perm[d])];
  }
  return {box};
}

// Dims by falling stride in the output; strides whose order is not known (symbolic) keep their place.
void sort_by_output(Box& box, const SymbolRanges& ranges) {
  std::vector<size_t> order;
  for (size_t d = 0; d < box.extents.size(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return upper_bound(box.out_strides[a], ranges) > upper_bound(box.out_strides[b], ranges);
  });
  Box sorted = box;
  for (size_t i = 0; i < order.size(); ++i) {
    sorted.extents[i] = box.extents[order[i]];
    sorted.in_strides[i] = box.in_strides[order[i]];
    sorted.out_strides[i] = box.out_strides[order[i]];
  }
  box = std::move(sorted);
}

// Elements of one type are moved as integers of their size, whatever they mean.
DType carrier(DType type) {
  switch (dtype_size(type)) {
    case 1:
      return DType::UInt8;
    case 2:
      return DType::UInt16;
    case 4:
      return DType::UInt32;
    default:
      return DType::Int64;
  }
}

// Nothing is converted.
bool carries(const LayerQuery& query, const Tactic& tactic) {
  const bool parts = std::holds_alternative<Concat>(query.layer().op);
  bool same = query.layer().epilogue.empty();
  for (size_t i = 0; i < (parts ? tactic.inputs.size() : 1); ++i)
    for (const TensorType& to : tactic.outputs)
      same = same && (to.dtype == tactic.inputs[i].dtype || to.dtype == DType::Undefined);
  return same;
}

class CopyWriter {
 public:
  CopyWriter(const LayerQuery& query, const Tactic& tactic, KernelBuilder& b)
      : query_(query),
        tactic_(tactic),
        b_(b),
        computes_(!query.layer().epilogue.empty()),
        carries_(carries(query, tactic)) {
    if (!carries_) grid_ = stored_grid(query, query.layer().outputs[0], tactic.outputs[0]);
  }

  // Emits the copy of one box; returns how many blocks it takes.
  Dim write(Box box, bool tiles) {
    sort_by_output(box, query_.ranges);
    const Walk walk = merge_walk(box.extents, {box.in_strides, box.out_strides});
    const size_t dims = walk.extents.size();
    const DType stored_in = tactic_.inputs[box.input].dtype, stored_out = tactic_.outputs[box.output].dtype;
    const DType in = carries_ ? carrier(stored_in) : stored_in,
                out = carries_ ? carrier(stored_out) : stored_out;
    const std::string from = "(" + b_.input(box.input, in) + " + " + b_.number(box.in_offset) + ")";
    const std::string to = "(" + b_.output(box.output, out) + " + " + b_.number(box.out_offset) + ")";
    const std::string type(grid_ ? "float" : compute_name(carries_ ? in : stored_out));
    if (dims == 0) {
      b_.line("if (blockIdx.x == 0 && threadIdx.x == 0) {\n" + type + " v[1];\nload(" + from + ", v);");
      finish(to, "0", 1);
      b_.line("}");
      return 1;
    }
    const std::optional<size_t> across = tiles ? tile_dim(walk) : std::nullopt;
    if (across) return write_tiles(walk, *across, b_.input_type(box.input, in), from, to, type);
    const bool rows = walk.strides[0].back().is_constant(1) && walk.strides[1].back().is_constant(1);
    int v = 1;
    if (rows) {
      std::vector<Dim> multiples = {walk.extents.back(), box.in_offset, box.out_offset};
      for (size_t d = 0; d + 1 < dims; ++d) {
        multiples.push_back(walk.strides[0][d]);
        multiples.push_back(walk.strides[1][d]);
      }
      v = vector_width(std::min(full_vector(in), full_vector(out)), multiples);
      if (computes_) v = Tail(query_, tactic_).vector(v);
    }
    const std::string vs = std::to_string(v);
    const Dim count = product(walk.extents, 0, dims);
    b_.line("{\nidx r = ((idx)blockIdx.x * 256 + threadIdx.x) * " + vs + ";\nif (r < " + b_.number(count) +
            ") {");
    std::string in_at = "0", out_at = "0";
    for (size_t d = dims; d-- > 0;) {
      const std::string c = "c" + std::to_string(d), e = b_.number(walk.extents[d]);
      b_.line(d == 0 ? "const idx c0 = r;" : "const idx " + c + " = r % " + e + "; r /= " + e + ";");
      in_at += " + " + c + " * " + b_.number(walk.strides[0][d]);
      out_at += " + " + c + " * " + b_.number(walk.strides[1][d]);
    }
    b_.line(type + " v[" + vs + "];\nload(" + from + " + (" + in_at + "), v);");
    finish(to, out_at, v);
    b_.line("}\n}");
    return ceil_div(count, Dim(256 * v));
  }

 private:
  void finish(const std::string& to, const std::string& at, int v) {
    if (computes_)
      b_.line("finish" + std::to_string(v) + "(" + at + ", v);");
    else
      b_.line((grid_ ? "#pragma unroll\nfor (int j = 0; j < " + std::to_string(v) +
                           "; ++j) v[j] = " + number_as_quantum("v[j]", *grid_) + ";\n"
                     : "") +
              "store(" + to + " + (" + at + "), v);");
  }

  // The dim that is contiguous in the input, when it is not the last one and both are long enough for tiles.
  std::optional<size_t> tile_dim(const Walk& walk) const {
    const size_t last = walk.extents.size() - 1;
    if (!walk.strides[1][last].is_constant(1) || walk.strides[0][last].is_constant(1)) return std::nullopt;
    if (walk.strides[0][last].is_constant(0)) return std::nullopt;
    const auto is_long = [&](size_t d) { return upper_bound(walk.extents[d], query_.ranges) >= 16; };
    for (size_t d = 0; d < last; ++d)
      if (walk.strides[0][d].is_constant(1) && is_long(d) && is_long(last)) return d;
    return std::nullopt;
  }

  // Blocks of 32 x 8 threads move 32 x 32 elements: rows of the tile along `across` are read, rows along the
  // last dim written.
  Dim write_tiles(const Walk& walk, size_t across, const std::string& stored, const std::string& from,
                  const std::string& to, const std::string& type) {
    const size_t last = walk.extents.size() - 1;
    const std::string ea = b_.number(walk.extents[across]), el = b_.number(walk.extents[last]);
    const Dim tiles_a = ceil_div(walk.extents[across], Dim(kCopyTile)),
              tiles_l = ceil_div(walk.extents[last], Dim(kCopyTile));
    Dim batch = 1;
    b_.line("{\nidx r = blockIdx.x;");
    b_.line("const idx ta = r % " + b_.number(tiles_a) + " * 32; r /= " + b_.number(tiles_a) + ";");
    b_.line("const idx tl = r % " + b_.number(tiles_l) + " * 32; r /= " + b_.number(tiles_l) + ";");
    std::string in_at = "0", out_at = "0";
    for (size_t d = last; d-- > 0;) {
      if (d == across) continue;
      batch = batch * walk.extents[d];
      const std::string c = "c" + std::to_string(d), e = b_.number(walk.extents[d]);
      b_.line("const idx " + c + " = r % " + e + "; r /= " + e + ";");
      in_at += " + " + c + " * " + b_.number(walk.strides[0][d]);
      out_at += " + " + c + " * " + b_.number(walk.strides[1][d]);
    }
    b_.line("__shared__ " + stored + " tile[32][33];");
    b_.line(
        "const int lane = threadIdx.x % 32, row = threadIdx.x / 32;\n#pragma unroll\nfor (int i = row; i < "
        "32; i += 8)");
    b_.line("if (ta + lane < " + ea + " && tl + i < " + el + ") tile[i][lane] = " + from + "[" + in_at +
            " + (ta + lane) + (tl + i) * " + b_.number(walk.strides[0][last]) + "];");
    b_.line("__syncthreads();\n#pragma unroll\nfor (int i = row; i < 32; i += 8)\nif (ta + i < " + ea +
            " && tl + lane < " + el + ") {\n" + type + " v[1] = {(" + type + ")widen(tile[lane][i])};");
    finish(to, out_at + " + (ta + i) * " + b_.number(walk.strides[1][across]) + " + tl + lane", 1);
    b_.line("}\n}");
    return batch * tiles_a * tiles_l;
  }

  const LayerQuery& query_;
  const Tactic& tactic_;
  KernelBuilder& b_;
  bool computes_;
  bool carries_;
  std::optional<ByteGrid> grid_;  // on which numbers become bytes
};

LayerSource generate_copy(const LayerQuery& query, const Tactic& tactic, const Device&) {
  KernelBuilder b =
      start_kernel(query, carries(query, tactic) ? Tactic() : tactic, "copy", tactic.outputs[0].dtype);
  const std::vector<Box> boxes = boxes_of(query, tactic);
  // What is put behind a cache of keys comes late, the cache does not.
  const bool by_input = std::holds_alternative<Concat>(query.layer().op);
  b.overlaps({.takes_order = true, .waits_by_input = by_input});
  if (!query.layer().epilogue.empty()) {
    const Tail tail(query, tactic);
    for (int v = 1; v <= 8; v *= 2)
      if (tail.vector(v) == v) tail.emit(b, v);
  }
  CopyWriter writer(query, tactic, b);
  // The parts of a Concat or Split share a launch: blockIdx.y says which.
  Dim blocks = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (boxes.size() > 1) b.line("if (blockIdx.y == " + std::to_string(i) + ") {");
    if (by_input && i < LaunchOrder::kMostLateInputs) b.line("wait_for_input(" + std::to_string(i) + ");");
    const Dim own = writer.write(boxes[i], boxes.size() == 1);
    if (boxes.size() > 1) b.line("}");
    blocks = i == 0 ? own : max(blocks, own);
  }
  b.kernel().grid = {blocks, Dim(static_cast<int64_t>(boxes.size())), 1};
  return {{b.finish()}};
}

Support supports_copy(const LayerQuery& query, const Tactic& t) {
  const Node& node = query.layer();
  const auto* slice = std::get_if<Slice>(&node.op);
  const bool parts = std::holds_alternative<Concat>(node.op) || std::holds_alternative<Split>(node.op);
  if (parts && !node.epilogue.empty()) return Support::no("a copy in parts applies no epilogue");
  if (slice && !slice->starts) return Support::no("starts and ends are known only at run time");
  if (parts && node.inputs.size() + node.outputs.size() > 200) return Support::no("more than 200 parts");
  for (const TensorType& type : t.inputs)
    if (type.dtype != DType::Undefined && dtype_info(type.dtype).bits < 8)
      return Support::no("elements are smaller than a byte");
  return {};
}

std::vector<Tactic> list_reformat(const LayerQuery& query) {
  const Node& node = query.layer();
  const Value &in = query.graph.value(node.inputs[0]), &out = query.graph.value(node.outputs[0]);
  Tactic t = linear_tactic(query, kCopyRunner, "cuda_reformat");
  t.inputs[0] = {in.dtype, in.format};
  t.outputs[0] = {out.dtype, out.format};
  const auto is_blocked = [](const Format& format) { return format.kind == Format::Kind::ChannelBlocked; };
  if (is_blocked(in.format) || is_blocked(out.format))
    t.support = Support::no("blocked formats are the CPU's");
  else if (in.dtype != out.dtype && !(stores_numbers(query, node.inputs[0], t.inputs[0]) &&
                                      stores_numbers(query, node.outputs[0], t.outputs[0])))
    t.support = Support::no("no conversion from " + std::string(dtype_name(in.dtype)) + " to " +
                            std::string(dtype_name(out.dtype)) + " (a Cast does that)");
  else if (dtype_info(in.dtype).bits < 8)
    t.support = Support::no("elements are smaller than a byte");
  return {t};
}

bool is_reshape_by_values(const Node& node) {
  const auto* reshape = std::get_if<ReshapeOp>(&node.op);
  return reshape != nullptr && !reshape->shape;
}

std::vector<Tactic> list_copy(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (std::holds_alternative<Reformat>(node.op)) return list_reformat(query);
  const bool parts = std::holds_alternative<Concat>(node.op) || std::holds_alternative<Split>(node.op);
  const bool any_format = parts || std::holds_alternative<Slice>(node.op);
  const bool linear = std::holds_alternative<Transpose>(node.op) || std::holds_alternative<Expand>(node.op) ||
                      std::holds_alternative<Tile>(node.op) ||
                      std::holds_alternative<DepthToSpace>(node.op) || is_reshape_by_values(node);
  if (!any_format && !linear) return {};
  const Value& out = query.graph.value(node.outputs[0] == kNoValue ? node.inputs[0] : node.outputs[0]);
  std::vector<Format> formats = {kLinear};
  if (any_format && out.shape.size() >= 3) formats.push_back(kChannelsLast);
  std::vector<Tactic> tactics;
  std::vector<DType> types = {out.dtype};
  if (node.outputs[0] != kNoValue) types = allowed_types_first(query);
  // Bytes of one grid are moved as they are.
  if (node.outputs[0] != kNoValue && node.epilogue.empty())
    if (const std::vector<DType> moved = moved_types(query, true); moved.size() > types.size())
      types.insert(types.begin(), moved.back());
  for (const DType type : types)
    for (const Format& format : formats) {
      Tactic t = typed_tactic(query, kCopyRunner, "cuda_copy", {type, format}, {type, format});
      if (node.epilogue.empty()) t.support = {};  // any type of a whole number of bytes
      for (size_t i = 0; i < (parts ? node.op_input_count() : 1); ++i) {
        const Value& value = query.graph.value(node.inputs[i]);
        t.inputs[i] = {type, format};
        if (!value.is_constant()) continue;
        t.inputs[i] = {value.dtype, kLinear};
        // A graph with one is not well typed, and does not load.
        if (value.dtype != type) t.support = Support::no("a constant of another type");
      }
      for (size_t i = 0; i < node.outputs.size(); ++i)
        t.outputs[i] = node.outputs[i] == kNoValue ? TensorType{} : TensorType{type, format};
      if (const Support s = supports_copy(query, t); !s.ok) t.support = s;
      tactics.push_back(std::move(t));
    }
  return tactics;
}

}  // namespace

GeneratedFamily copy_family() {
  return {kCopyRunner, list_copy, generate_copy};
}

}  // namespace lathe::cuda
