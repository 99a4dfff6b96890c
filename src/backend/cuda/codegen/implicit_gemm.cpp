// SPDX-License-Identifier: Apache-2.0
//
// From layers to implicit products, and the device text that fetches tiles and stores results; see
// implicit_gemm.h.
#include "backend/cuda/codegen/implicit_gemm.h"

#include <span>

#include "base/error.h"
#include "ir/symbol_extents.h"
#include "ops/window.h"

namespace lathe::cuda {
namespace {

// Pads before the data, that of auto_pad included.
template <class Window>
Dim pad_begin(const Window& op, size_t i, const Dim& total) {
  if (op.auto_pad == AutoPad::NotSet) return entry_or(op.pads_begin, i, 0);
  if (op.auto_pad == AutoPad::Valid) return 0;
  const Dim half = floor_div(max(total, Dim(0)), Dim(2));
  return op.auto_pad == AutoPad::SameUpper ? half : max(total, Dim(0)) - half;
}

template <class Window>
Support describe_conv(const LayerQuery& query, const Tactic& tactic, const Window& op, bool transposed,
                      ImplicitGemm& p) {
  const Node& node = query.layer();
  const Value& w = query.graph.value(node.inputs[1]);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  if (!w.is_constant() && tactic.inputs[1].dtype != DType::Undefined)
    return Support::no("the weights are computed at run time");
  if (!x[1].is_constant() || !y[1].is_constant()) return Support::no("channels are known only at run time");
  if (tactic.inputs[0].format != kChannelsLast) return Support::no("channels must be last");
  p.is_conv = true;
  p.transposed = transposed;
  p.batches = op.groups;
  p.channels = x[1].value() / op.groups;
  p.n = y[1].value() / op.groups;
  p.row_length = y[1];
  const std::vector<Dim> strides = storage_strides(x, kChannelsLast);
  p.image_stride = strides[0];
  Dim taps = 1;
  p.m = y[0];
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    ImplicitGemm::Axis a{x[i + 2],
                         y[i + 2],
                         0,
                         strides[i + 2],
                         op.kernel[i],
                         entry_or(op.strides, i, 1),
                         entry_or(op.dilations, i, 1)};
    const Dim reach((a.kernel - 1) * a.dilation + 1);
    if (!transposed) {
      a.pad_begin = pad_begin(op, i, (a.out - Dim(1)) * Dim(a.stride) + reach - a.in);
    } else {
      if (op.auto_pad != AutoPad::NotSet) return Support::no("auto_pad of a transposed convolution");
      if constexpr (requires { op.output_shape; })
        if (!op.output_shape.empty()) return Support::no("output_shape of a transposed convolution");
      a.pad_begin = entry_or(op.pads_begin, i, 0);
    }
    taps = taps * Dim(a.kernel);
    p.m = p.m * a.out;
    p.axes.push_back(a);
  }
  p.k = taps * p.channels;
  p.b_layout = ImplicitGemm::BLayout::Packed;
  if (node.has_op_input(2)) {
    p.has_bias = true;
    p.bias_type = tactic.inputs[2].dtype;
  }
  return {};
}

Support describe_matmul(const LayerQuery& query, const Tactic& tactic, const MatMul& op, ImplicitGemm& p) {
  const Shape &a = input_shape(query, 0), &b = input_shape(query, 1), &y = output_shape(query);
  if (a.size() < 2 || b.size() < 2) return Support::no("an operand is a vector");
  if (op.transpose_a) return Support::no("the left operand is transposed");
  const size_t ra = a.size(), rb = b.size();
  const Dim& rows = b[rb - (op.transpose_b ? 1 : 2)];
  p.k = rows.is_constant() ? rows : a[ra - 1];  // what constant weights have, whatever a run finds
  p.n = y.back();
  p.row_length = p.n;
  const bool packed = tactic.inputs[1].dtype == DType::Undefined;
  p.b_layout = packed           ? ImplicitGemm::BLayout::Packed
               : op.transpose_b ? ImplicitGemm::BLayout::Columns
                                : ImplicitGemm::BLayout::Rows;
  bool single = true;  // one matrix B: batches are rows
  for (size_t d = 0; d + 2 < rb; ++d) single = single && b[d].is_constant(1);
  if (single && ra == y.size()) {
    p.m = product(y, 0, y.size() - 1);
    return {};
  }
  p.m = y[y.size() - 2];
  std::vector<Dim> extents(y.begin(), y.end() - 2);
  std::vector<std::vector<Dim>> strides(2);
  Shape stored = b;
  if (packed) {
    stored[rb - 2] = p.n;
    stored[rb - 1] = ceil_div(p.k, Dim(kPackedMultiple)) * Dim(kPackedMultiple);
  }
  const Shape* operands[] = {&a, &stored};
  for (size_t o = 0; o < 2; ++o) {
    const Shape& shape = *operands[o];
    const std::vector<Dim> own = storage_strides(shape, kLinear);
    strides[o].assign(y.size() - shape.size(), Dim(0));
    for (size_t d = 0; d + 2 < shape.size(); ++d)
      strides[o].push_back(shape[d].is_constant(1) ? Dim(0) : own[d]);
  }
  // Inner batches over which B stays the same and A goes on are more rows.
  while (!extents.empty() && (extents.back().is_constant(1) ||
                              (strides[1].back().is_constant(0) && strides[0].back() == p.m * p.k))) {
    p.m = p.m * extents.back();
    extents.pop_back();
    for (auto& s : strides) s.pop_back();
  }
  p.batches = product(extents, 0, extents.size());
  p.batch_walk = merge_walk(extents, strides);
  return {};
}

}  // namespace

Support describe_gemm(const LayerQuery& query, const Tactic& tactic, ImplicitGemm& problem) {
  const Node& node = query.layer();
  problem.type = tactic.inputs[0].dtype;
  problem.on_grid = stored_grid(query, node.inputs[0], tactic.inputs[0]).has_value();
  if (const auto* op = std::get_if<Conv>(&node.op)) return describe_conv(query, tactic, *op, false, problem);
  if (const auto* op = std::get_if<ConvTranspose>(&node.op))
    return describe_conv(query, tactic, *op, true, problem);
  if (const auto* op = std::get_if<MatMul>(&node.op)) return describe_matmul(query, tactic, *op, problem);
  return Support::no("not a product");
}

void list_weights(const LayerQuery& query, DType type, Tactic& tactic) {
  const Node& node = query.layer();
  const Value& weights = query.graph.value(node.inputs[1]);
  tactic.inputs[1] = weights.is_constant() ? TensorType{} : TensorType{type, kLinear};
  if (std::holds_alternative<MatMul>(node.op) || !node.has_op_input(2)) return;
  const Value& bias = query.graph.value(node.inputs[2]);
  tactic.inputs[2] = {bias.is_constant() ? bias.dtype : type, kLinear};
  if (!is_kernel_float(tactic.inputs[2].dtype))
    tactic.support = Support::no("the bias must be a 16 or 32 bit float");
}

bool has_data_dependent_dims(const LayerQuery& query) {
  const Shape& shape = output_shape(query);
  return std::any_of(shape.begin(), shape.end(),
                     [](const Dim& d) { return !d.data_dependent_names().empty(); });
}

GemmSizes sizes_at_opt(const ImplicitGemm& p, const LayerQuery& query) {
  const SymbolValues opt = query.opt_values();
  const auto at_opt = [&](const Dim& d) { return static_cast<double>(upper_extent(d, opt)); };
  return {at_opt(p.m), at_opt(p.n), at_opt(p.k), at_opt(p.batches)};
}

int result_vector(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p, int limit,
                  int splits) {
  const int v = vector_width(limit, {p.n, p.row_length});
  return splits == 1 ? Tail(query, tactic).vector(v) : v;
}

namespace {

struct PackedGemm {
  int64_t groups = 1, n = 0, channels = 0, taps = 1;
  int64_t pitch = 0, padded = 0;  // of a tap's channels, and of all taps
  int64_t elements() const { return groups * n * padded; }
};

PackedGemm packed_gemm(const Op& op, const Extents& e, int64_t channel_multiple) {
  PackedGemm p;
  const auto* conv = std::get_if<Conv>(&op);
  const auto* transposed = std::get_if<ConvTranspose>(&op);
  if (conv || transposed) {
    p.groups = conv ? conv->groups : transposed->groups;
    p.n = conv ? e[0] / p.groups : e[1];
    p.channels = conv ? e[1] : e[0] / p.groups;
    for (size_t d = 2; d < e.size(); ++d) p.taps *= e[d];
  } else {
    const bool columns = std::get<MatMul>(op).transpose_b;
    for (size_t d = 0; d + 2 < e.size(); ++d) p.groups *= e[d];
    p.n = columns ? e[e.size() - 2] : e.back();
    p.channels = columns ? e.back() : e[e.size() - 2];
  }
  p.pitch = (p.channels + channel_multiple - 1) / channel_multiple * channel_multiple;
  p.padded = (p.taps * p.pitch + kPackedMultiple - 1) / kPackedMultiple * kPackedMultiple;
  return p;
}

std::vector<std::byte> pack_gemm_weights(const Op& op, const std::vector<double>& w, DType type,
                                         const PackedGemm& p) {
  const bool conv = std::holds_alternative<Conv>(op), transposed = std::holds_alternative<ConvTranspose>(op);
  const auto [groups, n, channels, taps, pitch, padded] = p;
  std::vector<double> out(static_cast<size_t>(p.elements()), 0.0);
  const auto source = [&, n = n, channels = channels, taps = taps](int64_t g, int64_t o, int64_t tap,
                                                                   int64_t c) {
    if (conv) return ((g * n + o) * channels + c) * taps + tap;
    if (transposed) return ((g * channels + c) * n + o) * taps + tap;
    return g * n * channels + (std::get<MatMul>(op).transpose_b ? o * channels + c : c * n + o);
  };
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t o = 0; o < n; ++o)
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t c = 0; c < channels; ++c)
          out[static_cast<size_t>((g * n + o) * padded + tap * pitch + c)] =
              w[static_cast<size_t>(source(g, o, tap, c))];
  const Tensor t = Tensor::from_doubles(type, {p.elements()}, out);
  return {t.bytes().begin(), t.bytes().end()};
}

}  // namespace

PackedBlock gemm_weights_block(const Op& op, const Tensor& weights, DType type, int64_t channel_multiple) {
  const PackedGemm p = packed_gemm(op, weights.extents(), channel_multiple);
  return {dtype_bytes(type, p.elements()),
          [=] { return pack_gemm_weights(op, weights.to_doubles(), type, p); }};
}

namespace {

constexpr int64_t kWidestTile = 256;  // columns

// How much the zero point of the left operand adds to each of `columns`' sums, taken off.
std::vector<std::byte> column_starts(const Value& weights, size_t axis, int64_t columns, int32_t zero) {
  const std::vector<int16_t> integers = integer_weights(weights, axis);
  std::vector<int32_t> starts(static_cast<size_t>(columns + kWidestTile));
  const WeightChannels channels(weights.shape, axis);
  for (size_t i = 0; i < integers.size(); ++i) starts[channels.of(i)] -= zero * integers[i];
  const auto bytes = std::as_bytes(std::span(starts));
  return {bytes.begin(), bytes.end()};
}

int32_t zero_of(const LayerQuery& query) {
  return query.graph.value(query.layer().inputs[0]).quantization->zero();
}

}  // namespace

void add_grid_blocks(const LayerQuery& query, int64_t channel_multiple, LayerSource& source) {
  const Node& node = query.layer();
  const Value weights = query.graph.value(node.inputs[1]);
  const size_t axis = weight_axis(query);
  const PackedGemm p = packed_gemm(node.op, to_extents(weights.shape), channel_multiple);
  source.blocks["w"] = {p.elements(), [=, op = node.op] {
                          require_scales(weights);
                          if (weights.quantization->has_floats())
                            return pack_gemm_weights(
                                op, quantize(weights.constant, *weights.quantization).to_doubles(),
                                DType::Float8E4M3FN, p);
                          const std::vector<int16_t> integers = integer_weights(weights, axis);
                          return pack_gemm_weights(op, {integers.begin(), integers.end()}, DType::Int8, p);
                        }};
  const int64_t columns = p.groups * p.n;
  // Of a grid that left its numbers out only the size: an engine file has them packed.
  const std::vector<float> scales = weights.quantization->scales.empty()
                                        ? std::vector<float>(static_cast<size_t>(columns))
                                        : product_scales(query, columns);
  source.blocks["scale"] = {columns * 4, [=] {
                              require_scales(weights);
                              const auto bytes = std::as_bytes(std::span(scales));
                              return std::vector<std::byte>(bytes.begin(), bytes.end());
                            }};
  const int32_t zero = zero_of(query);
  if (zero != 0)
    source.blocks["start"] = {(columns + kWidestTile) * 4,
                              [=] { return column_starts(weights, axis, columns, zero); }};
}

namespace {

bool never_pads(const Conv& op) {
  const auto none = [](const Ints& pads) {
    return std::all_of(pads.begin(), pads.end(), [](int64_t n) { return n == 0; });
  };
  return op.auto_pad == AutoPad::Valid ||
         (op.auto_pad == AutoPad::NotSet && none(op.pads_begin) && none(op.pads_end));
}

}  // namespace

Support multiplies_bytes(const LayerQuery& query, const ImplicitGemm& problem) {
  const Node& node = query.layer();
  const Value& weights = query.graph.value(node.inputs[1]);
  if (!problem.n.is_constant() || !problem.k.is_constant()) return Support::no("weights of an open size");
  if (!problem.is_conv && weights.shape.size() > 3)
    return Support::no("the weights are neither a matrix nor a stack of them");
  if (problem.transposed) return Support::no("a transposed convolution of bytes");
  // Copies fill up with bytes of 0.
  const auto* conv = std::get_if<Conv>(&node.op);
  if (conv && zero_of(query) != 0 && !never_pads(*conv))
    return Support::no("zero is not the byte 0 on the grid of the image, and the convolution pads");
  if (problem.type != DType::UInt8) return multiplies_small_floats(query, weight_axis(query));
  if (const Support s = multiplies_integers(query, weight_axis(query), problem.k.value()); !s.ok) return s;
  if (!has_byte_weights(query))
    return Support::no("the weights have zero points, so that they do not fit signed bytes");
  return {};
}

void define_start_sums(KernelBuilder& b, const LayerQuery& query, const ImplicitGemm& problem, bool dealt) {
  const bool moved = problem.on_grid && zero_of(query) != 0;
  b.line("const auto start_sums = [&](Sum (&sum)[BN / 2], idx column) { " +
         (moved ? std::string("start_sums_at<") + (dealt ? "true" : "false") + ">(" +
                      b.packed("start", "int") + " + column, split == 0, sum);"
                : std::string("clear_sums(sum);")) +
         " };");
}

GemmWriter::GemmWriter(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic,
                       const ImplicitGemm& problem, int threads, int bm, int bn, int bk, int splits)
    : b_(b),
      query_(query),
      tactic_(tactic),
      problem_(problem),
      threads_(threads),
      bm_(bm),
      bn_(bn),
      bk_(bk),
      splits_(splits) {
  if (!is_half(problem.type) && !problem.on_grid) return;
  const int chunk = 16 / static_cast<int>(dtype_size(problem.type));
  const Dim& contiguous = problem.is_conv ? problem.channels : problem.k;
  a_chunk_ = divides(chunk, contiguous) ? chunk : 1;
  switch (problem.b_layout) {
    case ImplicitGemm::BLayout::Packed:
      b_chunk_ = chunk;
      break;
    case ImplicitGemm::BLayout::Columns:
      b_chunk_ = divides(chunk, problem.k) ? chunk : 1;
      break;
    case ImplicitGemm::BLayout::Rows:
      b_chunk_ = divides(chunk, problem.n) ? chunk : 1;
      break;
  }
}

std::string GemmWriter::element() const {
  return problem_.on_grid ? "Byte" : std::string(storage_name(problem_.type));
}

void GemmWriter::define_start() {
  const bool moved = problem_.on_grid && zero_of(query_) != 0;
  b_.line("const auto start = [&](idx column) -> Sum { return " +
          (moved ? "split == 0 ? " + b_.packed("start", "int") + "[batch * " + b_.number(problem_.n) +
                       " + column] : 0"
                 : std::string("0")) +
          "; };");
}

void GemmWriter::prologue(int a_pitch, int b_pitch) {
  const Dim tiles_m = ceil_div(problem_.m, Dim(bm_)), tiles_n = ceil_div(problem_.n, Dim(bn_)),
            tiles_k = ceil_div(problem_.k, Dim(bk_));
  b_.kernel().threads = threads_;
  b_.kernel().grid = {tiles_m * tiles_n, problem_.batches, Dim(splits_)};
  const std::string tn = b_.number(tiles_n), tk = b_.number(tiles_k), ss = std::to_string(splits_);
  b_.line("const idx n0 = blockIdx.x % " + tn + " * " + std::to_string(bn_) + ", m0 = blockIdx.x / " + tn +
          " * " + std::to_string(bm_) + ", batch = blockIdx.y;");
  b_.line("const int split = blockIdx.z;\nconst idx first = " + tk + " * split / " + ss + ", last = " + tk +
          " * (split + 1) / " + ss + ";");
  rows_of_a();
  fetch_a(a_pitch);
  fetch_b(b_pitch);
}

void GemmWriter::rows_of_a() {
  const int columns = bk_ / a_chunk_, step = threads_ / columns;
  check(threads_ % columns == 0 && bm_ % step == 0, "a tile of A does not divide into its threads");
  const std::string count = std::to_string(bm_ / step), type = element();
  std::string a_offset = "0", b_offset = "0";
  if (problem_.is_conv) {
    a_offset = "batch * " + b_.number(problem_.channels);
    b_offset = "batch * " +
               b_.number(problem_.n * ceil_div(problem_.k, Dim(kPackedMultiple)) * Dim(kPackedMultiple));
  } else if (!problem_.batch_walk.extents.empty()) {
    b_.line("idx br = batch;");
    for (size_t d = problem_.batch_walk.extents.size(); d-- > 0;) {
      const std::string c = "b" + std::to_string(d), e = b_.number(problem_.batch_walk.extents[d]);
      b_.line("const idx " + c + " = br % " + e + "; br /= " + e + ";");
      a_offset += " + " + c + " * " + b_.number(problem_.batch_walk.strides[0][d]);
      b_offset += " + " + c + " * " + b_.number(problem_.batch_walk.strides[1][d]);
    }
  }
  b_.line("const " + type + "* a_from = (const " + type + "*)" + b_.input(0, problem_.type) + " + (" +
          a_offset + ");");
  const bool packed = problem_.b_layout == ImplicitGemm::BLayout::Packed;
  b_.line("const " + type + "* b_from = " + (packed ? b_.packed("w", type) : b_.input(1, problem_.type)) +
          " + (" + b_offset + ");");
  b_.line("constexpr int kRows = " + count + ";\nidx a_base[kRows]; bool a_valid[kRows];");
  for (size_t s = 0; s < problem_.axes.size(); ++s) b_.line("idx a_at" + std::to_string(s) + "[kRows];");
  b_.line("const int a_row = threadIdx.x / " + std::to_string(columns) + ", a_column = threadIdx.x % " +
          std::to_string(columns) + " * " + std::to_string(a_chunk_) +
          ";\n#pragma unroll\nfor (int i = 0; i < kRows; ++i) {");
  b_.line("idx r = m0 + a_row + i * " + std::to_string(step) + ";\na_valid[i] = r < " +
          b_.number(problem_.m) + ";\nif (!a_valid[i]) r = 0;");
  if (!problem_.is_conv) {
    b_.line("a_base[i] = r * " + b_.number(problem_.k) + ";\n}");
    return;
  }
  for (size_t s = problem_.axes.size(); s-- > 0;) {
    const ImplicitGemm::Axis& a = problem_.axes[s];
    const std::string out = b_.number(a.out), pad = b_.number(a.pad_begin);
    b_.line("a_at" + std::to_string(s) + "[i] = r % " + out +
            (problem_.transposed ? " + " + pad : " * " + std::to_string(a.stride) + " - " + pad) +
            "; r /= " + out + ";");
  }
  b_.line("a_base[i] = r * " + b_.number(problem_.image_stride) + ";\n}");
}

void GemmWriter::fetch_a(int pitch) {
  const int columns = bk_ / a_chunk_, step = threads_ / columns;
  const std::string type = element();
  b_.line("const auto fetch_a = [&](idx tile, " + type + "* to) {\nconst idx k = tile * " +
          std::to_string(bk_) + " + a_column;\nconst bool inside = k < " + b_.number(problem_.k) + ";");
  if (problem_.is_conv) {
    b_.line("idx r = inside ? k : 0;\nconst idx c = r % " + b_.number(problem_.channels) +
            "; r /= " + b_.number(problem_.channels) + ";");
    for (size_t s = problem_.axes.size(); s-- > 0;) {
      const ImplicitGemm::Axis& a = problem_.axes[s];
      const std::string ks = std::to_string(a.kernel);
      b_.line("const idx t" + std::to_string(s) + " = " + (s == 0 ? "r" : "r % " + ks + "") + " * " +
              std::to_string(a.dilation) + ";" + (s == 0 ? "" : " r /= " + ks + ";"));
    }
  }
  b_.line(
      "#pragma unroll\nfor (int i = 0; i < kRows; ++i) {\nbool valid = a_valid[i] && inside;\nidx offset = "
      "a_base[i] + " +
      std::string(problem_.is_conv ? "c" : "k") + ";");
  for (size_t s = 0; s < problem_.axes.size(); ++s) {
    const ImplicitGemm::Axis& a = problem_.axes[s];
    const std::string is = std::to_string(s), p = "p" + is;
    if (!problem_.transposed) {
      b_.line("const idx " + p + " = a_at" + is + "[i] + t" + is + ";");
    } else {  // which input meets this tap: only every stride-th
      b_.line("const idx q" + is + " = a_at" + is + "[i] - t" + is + ";\nvalid = valid && q" + is + " % " +
              std::to_string(a.stride) + " == 0;\nconst idx " + p + " = q" + is + " / " +
              std::to_string(a.stride) + ";");
      b_.line("valid = valid && q" + is + " >= 0;");
    }
    b_.line("valid = valid && " + p + " >= 0 && " + p + " < " + b_.number(a.in) + ";\noffset += " + p +
            " * " + b_.number(a.in_stride) + ";");
  }
  const std::string at =
      "to + (a_row + i * " + std::to_string(step) + ") * " + std::to_string(pitch) + " + a_column";
  if (a_chunk_ > 1)
    b_.line("copy_async(" + at + ", valid ? a_from + offset : a_from, valid ? 16 : 0);");
  else
    b_.line("*(" + at + ") = valid ? a_from[offset] : " + type + "{};");
  b_.line("}\n};");
}

void GemmWriter::fetch_b(int pitch) {
  const bool rows = b_is_rows(), packed = problem_.b_layout == ImplicitGemm::BLayout::Packed;
  const int width = rows ? bn_ : bk_, height = rows ? bk_ : bn_;  // of the tile in shared memory
  const int columns = width / b_chunk_;
  const std::string type = element(), cs = std::to_string(columns);
  const Dim padded = ceil_div(problem_.k, Dim(kPackedMultiple)) * Dim(kPackedMultiple);
  const std::string n = b_.number(problem_.n), k_extent = b_.number(packed ? padded : problem_.k);
  b_.line("const auto fetch_b = [&](idx tile, " + type +
          "* to) {\n#pragma unroll\nfor (int i = threadIdx.x; i < " + std::to_string(height * columns) +
          "; i += " + std::to_string(threads_) + ") {\nconst int row = i / " + cs + ", column = i % " + cs +
          " * " + std::to_string(b_chunk_) + ";");
  b_.line(std::string("const idx ") + (rows ? "n" : "k") + " = " +
          (rows ? "n0" : "tile * " + std::to_string(bk_)) + " + column, " + (rows ? "k" : "n") + " = " +
          (rows ? "tile * " + std::to_string(bk_) : "n0") + " + row;");
  b_.line("const bool valid = k < " + k_extent + " && n < " + n +
          ";\nconst idx offset = " + (rows ? "k * " + n + " + n;" : "n * " + k_extent + " + k;"));
  const std::string at = "to + row * " + std::to_string(pitch) + " + column";
  if (b_chunk_ > 1)
    b_.line("copy_async(" + at + ", valid ? b_from + offset : b_from, valid ? 16 : 0);");
  else
    b_.line("*(" + at + ") = valid ? b_from[offset] : " + type + "{};");
  b_.line("}\n};");
}

namespace {

// Takes v, sums of columns from `column` on (counted on from matrix to matrix), times their scales, and adds
// their biases.
std::string scale_and_bias(KernelBuilder& b, const ImplicitGemm& p, int v, const std::string& column) {
  std::string text;
  const std::string vs = std::to_string(v);
  const auto each = [&](const std::string& from, const char* op) {
    text += "{ float of[" + vs + "];\nload(" + from + " + " + column +
            ", of);\n#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) v[j] " + op + " of[j]; }\n";
  };
  if (p.on_grid) each(b.packed("scale", "float"), "*=");
  if (p.has_bias) each(b.input(2, p.bias_type), "+=");
  return text;
}

}  // namespace

void GemmWriter::result(int v) {
  const std::string vs = std::to_string(v), length = b_.number(problem_.row_length),
                    m = b_.number(problem_.m);
  const Tail tail(query_, tactic_);
  if (splits_ == 1) tail.emit(b_, v);
  b_.line("const auto result = [&](idx row, idx column, float (&v)[" + vs + "]) {\nif (row >= " + m +
          " || column >= " + b_.number(problem_.n) + ") return;");
  if (problem_.is_conv)
    b_.line("column += batch * " + b_.number(problem_.n) + ";\nconst idx at = row * " + length +
            " + column;");
  else
    b_.line("const idx at = (batch * " + m + " + row) * " + length + " + column;\ncolumn += batch * " +
            b_.number(problem_.n) + ";");
  if (splits_ == 1)
    b_.line(scale_and_bias(b_, problem_, v, "column") + "finish" + vs + "(at, v);\n};");
  else
    b_.line("store(" + b_.scratch(0, "float") + " + (size_t)split * " +
            b_.number(element_count(output_shape(query_))) + " + at, v);\n};");
}

void GemmWriter::result_in_place(int v) {
  check(splits_ == 1, "partial sums have no epilogue");
  const std::string vs = std::to_string(v), length = b_.number(problem_.row_length),
                    m = b_.number(problem_.m), n = b_.number(problem_.n);
  Tail::Columns columns{.at = "batch * " + n + " + column", .length = problem_.row_length};
  if (!problem_.is_conv) columns.matrices = problem_.batches;
  const auto each = [&](const std::string& name, const std::string& from, const char* op) {
    columns.members += "float " + name + "[" + vs + "];\n";
    columns.loads += "load(" + from + " + (" + columns.at + "), o." + name + ");\n";
    columns.steps += "v[j] " + std::string(op) + " o." + name + "[j];\n";
  };
  if (problem_.on_grid) each("scale", b_.packed("scale", "float"), "*=");
  if (problem_.has_bias) each("bias", b_.input(2, problem_.bias_type), "+=");
  Tail(query_, tactic_).emit_apply(b_, v, columns);
  b_.line("const auto place = [&](idx row, idx column) -> idx {\nif (row >= " + m + " || column >= " + n +
          ") return -1;\nreturn " +
          (problem_.is_conv ? "row * " + length + " + batch * " + n + " + column"
                            : "(batch * " + m + " + row) * " + length + " + column") +
          ";\n};");
}

Dim GemmWriter::scratch_bytes(const LayerQuery& query, int splits) {
  return splits == 1 ? Dim(0) : element_count(output_shape(query)) * Dim(4 * splits);
}

KernelSource GemmWriter::sum_kernel(const LayerQuery& query, const Tactic& tactic,
                                    const ImplicitGemm& problem, int splits) {
  KernelBuilder b = start_kernel(query, tactic, "gemm_sum", tactic.outputs[0].dtype);
  const Tail tail(query, tactic);
  const Dim total = element_count(output_shape(query));
  const int v = tail.vector(vector_width(4, {problem.row_length}));
  const std::string vs = std::to_string(v), n = b.number(total), from = b.scratch(0, "float");
  tail.emit(b, v);
  b.kernel().grid[0] = ceil_div(total, Dim(256 * v));
  b.line("const idx at = ((idx)blockIdx.x * 256 + threadIdx.x) * " + vs + ";\nif (at >= " + n +
         ") return;\nfloat x[" + std::to_string(splits) + "][" + vs + "], v[" + vs +
         "];\n#pragma unroll\nfor (int s = 0; s < " + std::to_string(splits) + "; ++s) load(" + from +
         " + (size_t)s * " + n + " + at, x[s]);\n#pragma unroll\nfor (int j = 0; j < " + vs +
         "; ++j) {\nv[j] = x[0][j];\n#pragma unroll\nfor (int s = 1; s < " + std::to_string(splits) +
         "; ++s) v[j] += x[s][j];\n}");
  std::string column = "at % " + b.number(problem.row_length);
  if (!problem.is_conv && !problem.batches.is_constant(1))
    column += " + at / " + b.number(problem.m * problem.n) + " * " + b.number(problem.n);
  b.line(scale_and_bias(b, problem, v, column) + "finish" + vs + "(at, v);");
  return b.finish();
}

}  // namespace lathe::cuda
