// SPDX-License-Identifier: Apache-2.0
//
// Layers whose elements come from computed places: Gather, GatherElements, Pad and Trilu. A thread
// has one vector of the result, whose last storage dim moves through unchanged where that is so (channels of
// a resized image, rows of an embedding).
//
// An index outside its dim cannot be reported from a kernel: such elements are zero, and no memory outside is
// read.
#include "backend/cuda/codegen/element_kernel.h"
#include "base/error.h"

namespace lathe::cuda {

namespace {

// --- Gather -----------------------------------------------------------------------------------------------
constexpr std::string_view kGatherRunner = "Gather";

std::vector<Tactic> list_gather(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const bool rows = std::holds_alternative<Gather>(node.op);
  if (!rows && !std::holds_alternative<GatherElements>(node.op)) return {};
  const Value& table = query.graph.value(node.inputs[0]);
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    const DType from = table.is_constant() ? table.dtype : type;
    Tactic t = typed_tactic(query, kGatherRunner, rows ? "cuda_gather" : "cuda_gather_elements",
                            {from, kLinear}, {type, kLinear});
    const DType index = t.inputs[1].dtype;
    if (const Support s = stored(t); !s.ok) t.support = s;
    if (index != DType::Int64 && index != DType::Int32)
      t.support = Support::no("indices must be int32 or int64");
    if (input_shape(query, 0).empty()) t.support = Support::no("the data is a scalar");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_gather(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Node& node = query.layer();
  const Shape &x = input_shape(query, 0), &indices = input_shape(query, 1);
  const bool rows = std::holds_alternative<Gather>(node.op);
  const size_t axis =
      axis_of(rows ? std::get<Gather>(node.op).axis : std::get<GatherElements>(node.op).axis, x.size());
  const Dim inner = product(x, axis + 1, x.size());
  const int v = rows ? own_vector(query, tactic, inner) : 1;
  KernelBuilder b = start_kernel(query, tactic, "gather", tactic.outputs[0].dtype);
  begin_elements(b, query, tactic, v);
  const std::string in = b.input(0, tactic.inputs[0].dtype), index = b.input(1, tactic.inputs[1].dtype),
                    extent = b.number(x[axis]);
  if (rows) {
    const std::string n = b.number(inner), count = b.number(element_count(indices));
    b.line("const idx inner = at % " + n + ", outer = at / " + n + " / " + count +
           ";\nlong long row = widen(" + index + "[at / " + n + " % " + count + "]);");
    b.line("if (row < 0) row += " + extent + ";\nif (row >= 0 && row < " + extent + ") load(" + in +
           " + (outer * " + extent + " + (idx)row) * " + n + " + inner, v);");
  } else {
    const std::vector<Dim> strides = storage_strides(x, kLinear);
    std::string offset;
    for (size_t d = 0; d < x.size(); ++d)
      offset += " + " + (d == axis ? std::string("(idx)row") : "c" + std::to_string(d)) + " * " +
                b.number(strides[d]);
    b.line("long long row = widen(" + index + "[at]);\nif (row < 0) row += " + extent +
           ";\nif (row >= 0 && row < " + extent + ") load(" + in + offset + ", v);");
  }
  return {{end_elements(b, v)}};
}

// --- Pad --------------------------------------------------------------------------------------------------
constexpr std::string_view kPadRunner = "Pad";

std::vector<Tactic> list_pad(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Pad>(&node.op);
  if (!op) return {};
  Support support;
  if (!op->pads || op->pads->size() != 2 * input_shape(query, 0).size() || node.has_op_input(3))
    support = Support::no("the pads are known only at run time, or for some axes");
  std::vector<Tactic> tactics = element_tactics(query, kPadRunner, "cuda_pad");
  for (Tactic& t : tactics) {
    if (!support.ok) t.support = support;
    if (node.has_op_input(2)) {
      const Value& value = query.graph.value(node.inputs[2]);
      t.inputs[2] = {value.is_constant() || !is_float(value.dtype) ? value.dtype : t.inputs[0].dtype,
                     kLinear};
    }
  }
  return tactics;
}

// The source position of `c` after `pad` elements of padding, in `extent` elements, or outside.
std::string pad_source(PadMode mode, const std::string& c, const std::string& extent) {
  switch (mode) {
    case PadMode::Constant:
      return c;
    case PadMode::Edge:
      return "min(max(" + c + ", (idx)0), (idx)" + extent + " - 1)";
    case PadMode::Wrap:
      return "((" + c + ") % " + extent + " + " + extent + ") % " + extent;
    case PadMode::Reflect:
      return "reflect(" + c + ", " + extent + ")";
  }
  return c;
}

LayerSource generate_pad(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Node& node = query.layer();
  const auto& op = std::get<Pad>(node.op);
  const Shape& x = input_shape(query, 0);
  const std::vector<Dim> strides = storage_strides(x, tactic.inputs[0].format);
  const std::vector<size_t> order = storage_order(x.size(), tactic.inputs[0].format);
  const auto touched = [&](size_t d) {
    return !(*op.pads)[d].is_constant(0) || !(*op.pads)[d + x.size()].is_constant(0);
  };
  const int v = touched(order.back()) ? 1 : own_vector(query, tactic, x[order.back()]);
  KernelBuilder b = start_kernel(query, tactic, "pad", tactic.outputs[0].dtype);
  b.global(
      "DEV idx reflect(idx i, idx n) {\nconst idx period = n > 1 ? 2 * (n - 1) : 1;\ni = (i % period + "
      "period) % period;\n"
      "return i < n ? i : period - i;\n}");
  begin_elements(b, query, tactic, v);
  std::string inside = "true", offset;
  for (size_t d = 0; d < x.size(); ++d) {
    std::string c = "c" + std::to_string(d);
    if (touched(d)) {
      // A mode is applied to what negative pads have left.
      const Dim begin = (*op.pads)[d], end = (*op.pads)[d + x.size()], cut = max(Dim(0) - begin, Dim(0));
      const std::string left = b.number(x[d] - cut - max(Dim(0) - end, Dim(0))), p = "p" + std::to_string(d);
      b.line("const idx " + p + " = " + pad_source(op.mode, c + " - " + b.number(max(begin, Dim(0))), left) +
             ";");
      inside += " && " + p + " >= 0 && " + p + " < " + left;
      c = "(" + p + " + " + b.number(cut) + ")";
    }
    offset += " + " + c + " * " + b.number(strides[d]);
  }
  b.line("if (" + inside + ") load(" + b.input(0, tactic.inputs[0].dtype) + offset + ", v);");
  if (op.mode == PadMode::Constant && node.has_op_input(2))
    b.line("else\n#pragma unroll\nfor (int j = 0; j < " + std::to_string(v) + "; ++j) v[j] = widen(" +
           b.input(2, tactic.inputs[2].dtype) + "[0]);");
  return {{end_elements(b, v)}};
}

// --- Trilu ------------------------------------------------------------------------------------------------
constexpr std::string_view kTriluRunner = "Trilu";

std::vector<Tactic> list_trilu(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Trilu>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kTriluRunner, "cuda_trilu", {type, kLinear}, {type, kLinear});
    if (const Support s = stored(t); !s.ok) t.support = s;
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_trilu(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Node& node = query.layer();
  const size_t rank = output_shape(query).size();
  KernelBuilder b = start_kernel(query, tactic, "trilu", tactic.outputs[0].dtype);
  begin_elements(b, query, tactic, 1);
  const bool given = node.has_op_input(1);
  const std::string k = given ? "widen(*" + b.input(1, tactic.inputs[1].dtype) + ")" : "0ll";
  const std::string distance = "(long long)c" + std::to_string(rank - 1) + " - c" + std::to_string(rank - 2);
  b.line("if (" + distance + (std::get<Trilu>(node.op).upper ? " >= " : " <= ") + k + ") load(" +
         b.input(0, tactic.inputs[0].dtype) + " + at, v);");
  return {{end_elements(b, 1)}};
}

}  // namespace

GeneratedFamily gather_family() {
  return {kGatherRunner, list_gather, generate_gather};
}
GeneratedFamily pad_family() {
  return {kPadRunner, list_pad, generate_pad};
}
GeneratedFamily trilu_family() {
  return {kTriluRunner, list_trilu, generate_trilu};
}

}  // namespace lathe::cuda
