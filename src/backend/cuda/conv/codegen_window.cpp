// SPDX-License-Identifier: Apache-2.0
//
// Sliding windows without products over channels: max (with indices, too), average and Lp pooling, and
// depthwise convolution.
//
// Channels-last: a thread has a vector of channels (16 bytes) at one position, or, for depthwise convolution,
// at several neighbouring positions of a row, so that an input column is loaded once for all windows that it
// belongs to; neighbouring threads have neighbouring channels, and a window's rows are shared through L1 and
// L2. Linear: a thread has one position, or a few, of one plane. Depthwise weights are packed
// [taps][channels] in the layer's type. Bytes are the floor.
#include <cstring>

#include "backend/cuda/codegen/own_tactic.h"
#include "base/error.h"
#include "base/floats.h"
#include "ops/window.h"

namespace lathe::cuda {

namespace {

// One spatial axis; pads that auto_pad stands for are dims too.
struct Axis {
  Dim in, out, pad_begin, pad_end;
  int64_t kernel = 1, stride = 1, dilation = 1;
};

template <class Window>
std::vector<Axis> axes_of(const Window& op, const Shape& x, const Shape& y, const Ints& kernel) {
  std::vector<Axis> axes;
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    Axis a{x[i + 2], y[i + 2], 0, 0, kernel[i], entry_or(op.strides, i, 1), entry_or(op.dilations, i, 1)};
    if (op.auto_pad == AutoPad::NotSet) {
      a.pad_begin = entry_or(op.pads_begin, i, 0);
      a.pad_end = entry_or(op.pads_end, i, 0);
    } else if (op.auto_pad != AutoPad::Valid) {
      const Dim reach((a.kernel - 1) * a.dilation + 1);
      const Dim total = max((a.out - Dim(1)) * Dim(a.stride) + reach - a.in, Dim(0));
      const Dim half = floor_div(total, Dim(2));
      a.pad_begin = op.auto_pad == AutoPad::SameUpper ? half : total - half;
      a.pad_end = total - a.pad_begin;
    }
    axes.push_back(a);
  }
  return axes;
}

std::string multiple(const std::string& x, int64_t factor) {
  return factor == 1 ? x : x + " * " + std::to_string(factor);
}

// --- pooling ----------------------------------------------------------------------------------------------
constexpr std::string_view kPoolRunner = "Pooling";

bool wants_indices(const Node& node) {
  return node.has_output(1);
}

std::vector<Tactic> list_pool(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Pool>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  for (const auto& [from, to] : stored_types(query, true))
    for (const Format& format : {kChannelsLast, kLinear}) {
      const bool is_grid = !is_kernel_float(from) && stores_numbers(query, node.inputs[0], {from, format});
      if (wants_indices(node) && (is_grid || from != to || !format.is_linear())) continue;
      Tactic t = typed_tactic(query, kPoolRunner, "cuda_pool", {from, format}, {to, format});
      if (t.support.ok && !is_kernel_float(from) && !is_grid)
        t.support = is_float(from) || op->kind == PoolKind::Max
                        ? computed(from)
                        : Support::no("no means of " + std::string(dtype_name(from)));
      if (from == DType::Bool) t.support = Support::no("no kernel for bool");
      tactics.push_back(std::move(t));
    }
  return tactics;
}

// What a window starts with, what an element does to it, and what becomes of it. C: the type of numbers.
struct Fold {
  std::string start, step, finish;
};

Fold fold_of(const Pool& op, DType type) {
  const std::string p = "(C)" + std::to_string(op.p), f = type == DType::Float64 ? "" : "f";
  switch (op.kind) {
    case PoolKind::Max:
      return {is_float(type) ? "-(C)infinity()" : "(C)kLeast<" + std::string(storage_name(type)) + ">",
              "pw_Max(e, v[j])", "v[j]"};
    case PoolKind::Average:
      return {"0", "v[j] + e", "count == 0 ? 0 : v[j] / (C)count"};
    case PoolKind::Lp:
      if (op.p == 2) return {"0", "v[j] + e * e", "sqrt" + f + "(v[j])"};
      return {"0", "v[j] + pow" + f + "(fabs" + f + "(e), " + p + ")", "pow" + f + "(v[j], 1 / " + p + ")"};
  }
  return {};
}

// Where the element of a tap lies in its plane, as indices count: along the last axis first, or along the
// first.
std::string index_in_plane(KernelBuilder& b, const std::vector<Axis>& axes, bool column_major) {
  std::string index = "0ll";
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t d = column_major ? axes.size() - 1 - i : i;
    index = "(" + index + " * " + b.number(axes[d].in) + " + p" + std::to_string(d) + ")";
  }
  return index;
}

LayerSource generate_pool(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Pool>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const bool last = tactic.inputs[0].format == kChannelsLast;
  const std::vector<Axis> axes = axes_of(op, x, y, op.kernel);
  const std::vector<Dim> strides = storage_strides(x, tactic.inputs[0].format);
  const int v =
      last ? Tail(query, tactic).vector(vector_width(full_vector(tactic.inputs[0].dtype), {x[1]})) : 1;
  const std::string vs = std::to_string(v), each = "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) ";
  KernelBuilder b = start_kernel(query, tactic, "pool", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, v);
  const std::string in = b.input(0, tactic.inputs[0].dtype);
  const Dim total = element_count(y);
  b.kernel().threads = 128;
  b.kernel().grid[0] = ceil_div(total, Dim(128 * v));
  b.line("const idx at = ((idx)blockIdx.x * 128 + threadIdx.x) * " + vs + ";\nif (at >= " + b.number(total) +
         ") return;\nidx r = at;");
  // Coordinates in storage order: c0, c1 are image and channel, o0.. positions.
  const std::vector<size_t> order = storage_order(y.size(), tactic.outputs[0].format);
  for (size_t i = order.size(); i-- > 0;) {
    const size_t d = order[i];
    const std::string name = d < 2 ? "c" + std::to_string(d) : "o" + std::to_string(d - 2);
    b.line(i == 0 ? "const idx " + name + " = r;"
                  : "const idx " + name + " = r % " + b.number(y[d]) + "; r /= " + b.number(y[d]) + ";");
  }
  const DType number =
      stored_grid(query, query.layer().inputs[0], tactic.inputs[0]) || is_kernel_float(tactic.inputs[0].dtype)
          ? DType::Float32
          : tactic.inputs[0].dtype;
  const Fold fold = fold_of(op, number);
  const bool indices = wants_indices(query.layer());
  b.global("typedef " + std::string(compute_name(number)) + " C;");
  b.line("const auto* from = " + in + " + c0 * " + b.number(strides[0]) + " + c1 * " + b.number(strides[1]) +
         ";");
  b.line("C v[" + vs + "];\n" + each + "v[j] = " + fold.start + ";\nint count = " +
         (op.count_include_pad ? "1;" : "0;") + (indices ? "\nlong long best = -1;" : ""));
  std::string offset, close;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];
    const std::string is = std::to_string(i), k = "k" + is, p = "p" + is, in_extent = b.number(a.in);
    b.line("const idx s" + is + " = " + multiple("o" + is, a.stride) + " - " + b.number(a.pad_begin) + ";");
    if (op.count_include_pad)  // taps that meet data or declared padding
      b.line("{ int n = 0;\nfor (int k = 0; k < " + std::to_string(a.kernel) + "; ++k) n += s" + is + " + " +
             multiple("k", a.dilation) + " < " + b.number(a.in + a.pad_end) + ";\ncount *= n; }");
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];
    const std::string is = std::to_string(i), k = "k" + is, p = "p" + is;
    b.line(std::string(a.kernel <= 8 ? "#pragma unroll\n" : "") + "for (int " + k + " = 0; " + k + " < " +
           std::to_string(a.kernel) + "; ++" + k + ") {\nconst idx " + p + " = s" + is + " + " +
           multiple(k, a.dilation) + ";\nif (" + p + " < 0 || " + p + " >= " + b.number(a.in) +
           ") continue;");
    offset += " + " + p + " * " + b.number(strides[i + 2]);
    close += "}";
  }
  b.line("C x[" + vs + "];\nload(from" + offset + ", x);\n" + (op.count_include_pad ? "" : "++count;\n"));
  if (indices)  // the first of equal elements, and the first that is not a number
    b.line("if (best < 0 || x[0] > v[0] || (x[0] != x[0] && v[0] == v[0])) {\nv[0] = x[0];\nbest = " +
           index_in_plane(b, axes, op.column_major) + ";\n}\n" + close);
  else
    b.line(each + "{ const C e = x[j]; v[j] = " + fold.step + "; }\n" + close);
  b.line(each + "v[j] = " + fold.finish + ";\nfinish" + vs + "(at, v);");
  if (indices)
    b.line(b.output(1, DType::Int64) + "[at] = (long long)(c0 * " + b.number(x[1]) + " + c1) * " +
           b.number(product(x, 2, x.size())) + " + best;");
  return {{b.finish()}};
}

// --- depthwise convolution --------------------------------------------------------------------------------
constexpr std::string_view kDepthwiseRunner = "DepthwiseConvolution";

std::vector<Tactic> list_depthwise(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Conv>(&node.op);
  if (!op || op->groups == 1) return {};
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  Support support;
  if (x.shape.size() != 4)
    support = Support::no("not an image with two spatial dims");
  else if (!x.shape[1].is_constant(op->groups) || !w.shape[0].is_constant(op->groups))
    support = Support::no("not one filter per channel");
  else if (!w.is_constant())
    support = Support::no("the weights are computed at run time");
  else if (op->kernel[0] * op->kernel[1] > 121)
    support = Support::no("more than 121 taps");
  std::vector<Tactic> tactics;
  for (const auto& [from, to] : stored_types(query, true))
    for (const Format& format : {kChannelsLast, kLinear})
      for (const int columns : {4, 2, 1}) {
        Tactic t = with_variant(
            typed_tactic(query, kDepthwiseRunner, "cuda_depthwise", {from, format}, {to, format}),
            "cuda_depthwise_w" + std::to_string(columns), {{"columns", columns}});
        t.inputs[1] = {};
        if (node.has_op_input(2)) {
          const Value& bias = query.graph.value(node.inputs[2]);
          t.inputs[2] = {bias.is_constant() ? bias.dtype : number_beside(query, to), kLinear};
        }
        if (!stores_numbers(query, node.inputs[0], t.inputs[0]))
          t.support = Support::no("no kernel for " + std::string(dtype_name(from)));
        if (!support.ok) t.support = support;
        tactics.push_back(std::move(t));
      }
  return tactics;
}

// [taps][channels], in the type of the image; beside bytes they are floats.
std::vector<std::byte> pack_depthwise(const Tensor& weights, DType type) {
  const std::vector<double> values = weights.to_doubles();
  const int64_t channels = weights.extents()[0], taps = weights.size() / channels;
  std::vector<double> packed(values.size());
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < taps; ++k)
      packed[static_cast<size_t>(k * channels + c)] = values[static_cast<size_t>(c * taps + k)];
  const Tensor t = Tensor::from_doubles(type, {weights.size()}, packed);
  return {t.bytes().begin(), t.bytes().end()};
}

LayerSource generate_depthwise(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Node& node = query.layer();
  const auto& op = std::get<Conv>(node.op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const DType type = tactic.inputs[0].dtype, weight_type = is_kernel_float(type) ? type : DType::Float32;
  const bool last = tactic.inputs[0].format == kChannelsLast;
  const std::vector<Axis> axes = axes_of(op, x, y, op.kernel);
  const Axis &h = axes[0], &w = axes[1];
  const std::vector<Dim> in_strides = storage_strides(x, tactic.inputs[0].format),
                         out_strides = storage_strides(y, tactic.outputs[0].format);
  const Tail tail(query, tactic);
  const int v = last ? tail.vector(vector_width(full_vector(type), {x[1]})) : 1;
  const int columns = tactic.params.get_int("columns");
  const std::string vs = std::to_string(v), cs = std::to_string(columns);
  const std::string each = "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) ";
  KernelBuilder b = start_kernel(query, tactic, "depthwise", type);
  tail.emit(b, v);
  const std::string in = b.input(0, type), weights = b.packed("w", storage_name(weight_type));
  const Dim tiles = ceil_div(w.out, Dim(columns)), vectors = floor_div(x[1], Dim(v));
  const Dim total = x[0] * h.out * tiles * vectors;
  b.kernel().threads = 128;
  b.kernel().grid[0] = ceil_div(total, Dim(128));
  b.line("idx r = (idx)blockIdx.x * 128 + threadIdx.x;\nif (r >= " + b.number(total) + ") return;");
  // Neighbouring threads: channels in channels-last, else columns of one plane.
  const auto digit = [&](const std::string& name, const Dim& extent, const std::string& scale) {
    b.line("const idx " + name + " = r % " + b.number(extent) + scale + "; r /= " + b.number(extent) + ";");
  };
  if (last) digit("c", vectors, " * " + vs);
  digit("column", tiles, " * " + cs);
  digit("row", h.out, "");
  if (!last) digit("c", vectors, "");
  b.line("const idx image = r;");
  b.line("const auto* from = " + in + " + image * " + b.number(in_strides[0]) + " + c * " +
         b.number(in_strides[1]) + ";\nfloat sum[" + cs + "][" + vs + "];");
  if (node.has_op_input(2))
    b.line("float bias[" + vs + "];\nload(" + b.input(2, tactic.inputs[2].dtype) + " + c, bias);");
  else
    b.line("const float bias[" + vs + "] = {};");
  b.line("#pragma unroll\nfor (int t = 0; t < " + cs + "; ++t)\n" + each + "sum[t][j] = bias[j];");
  const std::string kw = std::to_string(w.kernel);
  const int64_t span = (columns - 1) * w.stride + (w.kernel - 1) * w.dilation + 1;
  b.line("const idx top = " + multiple("row", h.stride) + " - " + b.number(h.pad_begin) +
         ", left = " + multiple("column", w.stride) + " - " + b.number(w.pad_begin) + ";");
  b.line(std::string(h.kernel <= 7 ? "#pragma unroll\n" : "") + "for (int kh = 0; kh < " +
         std::to_string(h.kernel) + "; ++kh) {\nconst idx ih = top + " + multiple("kh", h.dilation) +
         ";\nif (ih < 0 || ih >= " + b.number(h.in) + ") continue;");
  b.line("float f[" + kw + "][" + vs + "];\n#pragma unroll\nfor (int k = 0; k < " + kw + "; ++k) load(" +
         weights + " + (kh * " + kw + " + k) * " + b.number(x[1]) + " + c, f[k]);");
  b.line("#pragma unroll\nfor (int s = 0; s < " + std::to_string(span) +
         "; ++s) {\nconst idx iw = left + s;\nfloat e[" + vs + "];\nif (iw >= 0 && iw < " + b.number(w.in) +
         ")\nload(from + ih * " + b.number(in_strides[2]) + " + iw * " + b.number(in_strides[3]) +
         ", e);\nelse\n" + each + "e[j] = 0;");
  // Which tap of which window column s is: all known when the loops are unrolled.
  b.line("#pragma unroll\nfor (int t = 0; t < " + cs + "; ++t)\n#pragma unroll\nfor (int k = 0; k < " + kw +
         "; ++k)\nif (t * " + std::to_string(w.stride) + " + k * " + std::to_string(w.dilation) +
         " == s) {\n" + each + "sum[t][j] += f[k][j] * e[j];\n}\n}\n}");
  b.line("#pragma unroll\nfor (int t = 0; t < " + cs + "; ++t)\nif (column + t < " + b.number(w.out) +
         ") finish" + vs + "(image * " + b.number(out_strides[0]) + " + c * " + b.number(out_strides[1]) +
         " + row * " + b.number(out_strides[2]) + " + (column + t) * " + b.number(out_strides[3]) +
         ", sum[t]);");
  LayerSource source{{b.finish()}};
  const Tensor constant = query.graph.value(node.inputs[1]).constant;
  source.blocks["w"] = {dtype_bytes(weight_type, constant.size()),
                        [constant, weight_type] { return pack_depthwise(constant, weight_type); }};
  return source;
}

}  // namespace

GeneratedFamily pool_family() {
  return {kPoolRunner, list_pool, generate_pool};
}
GeneratedFamily depthwise_family() {
  return {kDepthwiseRunner, list_depthwise, generate_depthwise, packs_alike};
}

}  // namespace lathe::cuda
