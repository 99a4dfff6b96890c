// SPDX-License-Identifier: Apache-2.0
//
// Softmax, LayerNorm and RMS norm on contiguous rows, and softmax over any other axis.
//
// Bytes: a row that fits is read once into registers, worked on there in FP32, and written once. How many
// threads share a row is part of the tactic: a warp, with several rows per block and no barrier, or a block
// of 128, 256 or 1024. Rows that are longer are read again for each pass (they are in L2 then). Over another
// axis each thread walks its own vector of columns.
#include "backend/cuda/codegen/own_tactic.h"
#include "base/error.h"

namespace lathe::cuda {

namespace {

constexpr int64_t kRegisters = 64;  // elements of a row that a thread keeps

struct Rows {
  Dim outer = 1, n = 1, inner = 1;
};

Rows rows_of(const Shape& shape, int64_t axis_attribute, bool to_the_end) {
  if (shape.empty()) return {};
  const auto axis =
      static_cast<size_t>(normalize_axis(axis_attribute, static_cast<int64_t>(shape.size()), "axis"));
  if (to_the_end) return {product(shape, 0, axis), product(shape, axis, shape.size()), 1};
  return {product(shape, 0, axis), shape[axis], product(shape, axis + 1, shape.size())};
}

// Threads that a row of up to `n` elements is shared by, best guess first.
std::vector<int> thread_choices(int64_t n, int v) {
  const int64_t vectors = (n + v - 1) / v;
  if (vectors <= 32) return {32};
  if (vectors <= 128) return {32, 128};
  if (vectors <= 512) return {128, 256};
  if (vectors <= 2048) return {256, 1024};
  return {1024};
}

// The text that the kernels of this file share: where the row is, how it is read, and how its elements are
// visited.
class RowWriter {
 public:
  RowWriter(KernelBuilder& b, const Rows& rows, DType type, int threads, int v, int64_t n_max)
      : b_(b), v_(v), threads_(threads) {
    per_thread_ = (n_max + int64_t{threads} * v - 1) / (int64_t{threads} * v);
    kept_ = per_thread_ * v <= kRegisters;
    const int rows_per_block = threads == 32 ? 4 : 1;
    b.kernel().threads = threads * rows_per_block;
    b.kernel().grid[0] = ceil_div(rows.outer, Dim(rows_per_block));
    n_ = b.number(rows.n);
    const std::string in = b.input(0, type), ts = std::to_string(threads);
    if (threads == 32) {
      b.line("const idx row = (idx)blockIdx.x * 4 + threadIdx.x / 32;\nif (row >= " + b.number(rows.outer) +
             ") return;\nconst int lane = threadIdx.x % 32;\nfloat* buffer = nullptr;");
    } else {
      b.line("const idx row = blockIdx.x;\nconst int lane = threadIdx.x;\n__shared__ float buffer[" + ts +
             " / 32];");
    }
    b.line("const auto* from = " + in + " + row * " + n_ + ";");
  }

  void load_row() {
    if (!kept_) return;
    b_.line("float x[" + std::to_string(per_thread_) + "][" + std::to_string(v_) + "];");
    loop("load(from + i, x[k]);");
  }
  // Elements of other rows that a thread can keep beside this one without losing occupancy.
  bool keeps_more() const { return kept_ && per_thread_ * v_ <= 8; }
  int64_t per_thread() const { return per_thread_; }

  // Runs `body` for every vector of the row: `i` is its first element, `x[k]` (or `y`) its values.
  void loop(const std::string& body) {
    const std::string step = std::to_string(threads_ * v_), v = std::to_string(v_);
    if (kept_) {
      b_.line("#pragma unroll\nfor (int k = 0; k < " + std::to_string(per_thread_) +
              "; ++k) {\nconst idx i = k * " + step + " + lane * " + v + ";\nif (i < " + n_ + ") {\n" + body +
              "\n}\n}");
    } else {
      b_.line("for (idx i = lane * " + v + "; i < " + n_ + "; i += " + step + ") {\nfloat x[1][" + v +
              "]; constexpr int k = 0;\nload(from + i, x[0]);\n" + body + "\n}");
    }
  }
  void each(const std::string& statement) {
    loop("#pragma unroll\nfor (int j = 0; j < " + std::to_string(v_) + "; ++j) " + statement);
  }
  std::string reduced(const std::string& value, const std::string& op) {
    return "block_reduce<" + std::to_string(threads_) + ">(" + value + ", buffer, " + op + "{})";
  }
  const std::string& n() const { return n_; }

 private:
  KernelBuilder& b_;
  int v_, threads_;
  int64_t per_thread_ = 1;
  bool kept_ = true;
  std::string n_;
};

int row_vector(const LayerQuery& query, const Tactic& tactic, const Rows& rows) {
  const DType type = tactic.inputs[0].dtype;
  return Tail(query, tactic).vector(vector_width(full_vector(type), {rows.n}));
}

std::vector<Tactic> row_tactics(const LayerQuery& query, std::string_view runner, const std::string& name,
                                const Rows& rows) {
  std::vector<Tactic> tactics;
  for (const auto& [type, to] : stored_types(query, false)) {
    const int64_t n_max = upper_bound(rows.n, query.ranges);
    Tactic probe = typed_tactic(query, runner, name, {type, kLinear}, {to, kLinear});
    if (probe.support.ok && !is_kernel_float(type))
      probe.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    if (probe.support.ok && n_max <= 0) probe.support = Support::no("rows without elements");
    if (!reads_twice(query, 0) && type == to) probe.in_place_inputs = {0};
    if (!probe.support.ok) {
      tactics.push_back(probe);
      continue;
    }
    for (const int threads : thread_choices(n_max, row_vector(query, probe, rows))) {
      tactics.push_back(with_variant(probe, name + "_t" + std::to_string(threads), {{"threads", threads}}));
    }
  }
  return tactics;
}

int threads_of(const Tactic& tactic) {
  return tactic.params.get_int("threads");
}

// --- LayerNorm --------------------------------------------------------------------------------------------
constexpr std::string_view kNormRunner = "LayerNorm";

// Scale or bias as the kernel reads it: a constant in its own type, else the layer's.
TensorType parameter_type(const Value& value, DType type) {
  return {value.is_constant() || !is_float(value.dtype) ? value.dtype : type, kLinear};
}

// Constant scale and bias, rows of which a lane has at most 24 elements, and no mean or deviation.
bool may_take_two_rows(const LayerQuery& query, const Rows& rows) {
  const Node& node = query.layer();
  if (!rows.n.is_constant() || rows.n.value() > 24 * 32 || upper_bound(rows.outer, query.ranges) < 1024)
    return false;
  for (size_t i = 1; i < node.op_input_count(); ++i)
    if (node.inputs[i] != kNoValue && !query.graph.value(node.inputs[i]).is_constant()) return false;
  return !node.has_output(1) && !node.has_output(2);
}

std::vector<Tactic> list_layer_norm(const LayerQuery& query, const Device&) {
  const auto* op = std::get_if<LayerNorm>(&query.layer().op);
  if (!op) return {};
  const Shape& x = input_shape(query, 0);
  const Rows rows = rows_of(x, op->axis, true);
  std::vector<Tactic> tactics =
      row_tactics(query, kNormRunner, op->rms ? "cuda_rms_norm" : "cuda_layer_norm", rows);
  if (may_take_two_rows(query, rows))
    for (size_t i = 0; i < tactics.size(); ++i)
      if (tactics[i].support.ok && is_half(tactics[i].inputs[0].dtype) && threads_of(tactics[i]) == 32) {
        Tactic t = with_variant(tactics[i], op->rms ? "cuda_rms_norm_two_rows" : "cuda_layer_norm_two_rows",
                                {{"threads", 32}, {"rows", 2}});
        tactics.insert(tactics.begin() + static_cast<std::ptrdiff_t>(i++), std::move(t));
      }
  const auto axis = static_cast<size_t>(normalize_axis(op->axis, static_cast<int64_t>(x.size()), "axis"));
  for (Tactic& t : tactics) {
    if (query.layer().has_output(LayerNorm::kPlainResult))
      t.outputs[LayerNorm::kPlainResult] = {t.inputs[0].dtype, kLinear};
    for (size_t i = 1; i < query.layer().op_input_count(); ++i) {
      if (query.layer().inputs[i] == kNoValue) continue;
      const Value& value = query.graph.value(query.layer().inputs[i]);
      t.inputs[i] = parameter_type(value, t.inputs[0].dtype);
      if (!is_kernel_float(t.inputs[i].dtype))
        t.support = Support::no("scale and bias must be 16 or 32 bit floats");
      if (value.shape != Shape(x.begin() + static_cast<int64_t>(axis), x.end()))
        t.support = Support::no("scale or bias is broadcast inside the normalized dims");
    }
  }
  return tactics;
}

// Stores the vector `y` that lies `at` so many elements behind the beginning, and finishes it.
std::string store_row_part(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, int v,
                           const std::string& at) {
  const std::string plain =
      query.layer().has_output(LayerNorm::kPlainResult)
          ? "store(" + b.output(LayerNorm::kPlainResult, tactic.outputs[LayerNorm::kPlainResult].dtype) +
                " + " + at + ", y);\n"
          : "";
  return plain + "finish" + std::to_string(v) + "(" + at + ", y);";
}

// Two rows for each warp: both are on their way at once, and scale and bias, as wide in FP32 as two rows in
// 16 bits, are read once for both, before the previous kernel has ended.
LayerSource generate_two_rows(const LayerQuery& query, const Tactic& tactic) {
  const auto& op = std::get<LayerNorm>(query.layer().op);
  const Rows rows = rows_of(input_shape(query, 0), op.axis, true);
  const int v = row_vector(query, tactic, rows);
  KernelBuilder b = start_kernel(query, tactic, op.rms ? "rms_norm" : "layer_norm", tactic.outputs[0].dtype);
  b.waits_itself();
  b.overlaps({.takes_order = true});
  Tail(query, tactic).emit(b, v);
  b.kernel().threads = 128;
  b.kernel().grid[0] = ceil_div(rows.outer, Dim(8));
  const std::string n = b.number(rows.n), last = b.number(rows.outer) + " - 1";
  b.global("constexpr int V = " + std::to_string(v) +
           ", K = " + std::to_string((rows.n.value() + 32 * v - 1) / (32 * v)) + ";");
  b.line(
      "const int lane = threadIdx.x % 32;\nconst idx first = ((idx)blockIdx.x * 4 + threadIdx.x / 32) * 2;");
  const auto loop = [&](const std::string& body) {
    b.line("#pragma unroll\nfor (int k = 0; k < K; ++k) {\nconst idx i = (k * 32 + lane) * V;\nif (i < " + n +
           ") {\n" + body + "\n}\n}");
  };
  const auto both = [&](const std::string& body) {
    loop("#pragma unroll\nfor (int r = 0; r < 2; ++r)\n#pragma unroll\nfor (int j = 0; j < V; ++j) {\n" +
         body + "\n}");
  };
  const bool scale = query.layer().has_op_input(1), bias = query.layer().has_op_input(2);
  b.line("float scale[K][V], bias[K][V], x[2][K][V], mean[2] = {}, square[2] = {}, factor[2];");
  if (scale) loop("load(" + b.input(1, tactic.inputs[1].dtype) + " + i, scale[k]);");
  if (bias) loop("load(" + b.input(2, tactic.inputs[2].dtype) + " + i, bias[k]);");
  b.line("wait_for_operands();\nif (first > " + last + ") return;");
  loop("#pragma unroll\nfor (int r = 0; r < 2; ++r) load(" + b.input(0, tactic.inputs[0].dtype) +
       " + min(first + r, (idx)" + last + ") * " + n + " + i, x[r][k]);");
  if (!op.rms) {
    both("mean[r] += x[r][k][j];");
    b.line("for (int r = 0; r < 2; ++r) mean[r] = warp_reduce(mean[r], SumOp{}) / (float)" + n + ";");
  }
  // About the mean, in a second pass: a large mean must not cancel.
  both("square[r] += (x[r][k][j] - mean[r]) * (x[r][k][j] - mean[r]);");
  b.line("for (int r = 0; r < 2; ++r) factor[r] = 1.f / sqrtf(warp_reduce(square[r], SumOp{}) / (float)" + n +
         " + " + float_literal(op.epsilon) + ");");
  b.line("#pragma unroll\nfor (int r = 0; r < 2; ++r) {\nif (first + r > " + last + ") break;");
  loop("float y[V];\n#pragma unroll\nfor (int j = 0; j < V; ++j) y[j] = (x[r][k][j] - mean[r]) * factor[r]" +
       std::string(scale ? " * scale[k][j]" : "") + (bias ? " + bias[k][j]" : "") + ";\n" +
       store_row_part(b, query, tactic, v, "(first + r) * " + n + " + i"));
  b.line("}");
  return {{b.finish()}};
}

LayerSource generate_layer_norm(const LayerQuery& query, const Tactic& tactic, const Device&) {
  if (tactic.params.get("rows", 1) == 2) return generate_two_rows(query, tactic);
  const auto& op = std::get<LayerNorm>(query.layer().op);
  const Node& node = query.layer();
  const Rows rows = rows_of(input_shape(query, 0), op.axis, true);
  const int v = row_vector(query, tactic, rows), threads = threads_of(tactic);
  const std::string vs = std::to_string(v);
  KernelBuilder b = start_kernel(query, tactic, op.rms ? "rms_norm" : "layer_norm", tactic.outputs[0].dtype);
  b.waits_itself();
  b.overlaps({.takes_order = true});
  Tail(query, tactic).emit(b, v);
  RowWriter row(b, rows, tactic.inputs[0].dtype, threads, v, upper_bound(rows.n, query.ranges));
  // Scale and bias are on their way before the previous kernel has ended.
  const auto is_early = [&](size_t i) {
    return row.keeps_more() && node.has_op_input(i) && query.graph.value(node.inputs[i]).is_constant();
  };
  const char* const names[] = {"", "scale", "bias"};
  for (const size_t i : {1, 2}) {
    if (!is_early(i)) continue;
    b.line("float early_" + std::string(names[i]) + "[" + std::to_string(row.per_thread()) + "][" + vs +
           "];");
    row.loop("load(" + b.input(i, tactic.inputs[i].dtype) + " + i, early_" + names[i] + "[k]);");
  }
  b.line("wait_for_operands();");
  row.load_row();
  b.line("float mean = 0, square = 0;");
  if (!op.rms) {
    row.each("mean += x[k][j];");
    b.line("mean = " + row.reduced("mean", "SumOp") + " / (float)" + row.n() + ";");
  }
  // About the mean, in a second pass: a large mean must not cancel.
  row.each("square += (x[k][j] - mean) * (x[k][j] - mean);");
  b.line("square = " + row.reduced("square", "SumOp") + " / (float)" + row.n() + ";");
  b.line("const float factor = 1.f / sqrtf(square + " + float_literal(op.epsilon) + ");");
  std::string body = "float y[" + vs + "];\n";
  for (const size_t i : {1, 2}) {
    const std::string name = names[i];
    if (!node.has_op_input(i)) continue;
    body += is_early(i) ? "const auto& " + name + " = early_" + name + "[k];\n"
                        : "float " + name + "[" + vs + "];\nload(" + b.input(i, tactic.inputs[i].dtype) +
                              " + i, " + name + ");\n";
  }
  const bool scale = node.has_op_input(1), bias = node.has_op_input(2);
  body += "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) y[j] = (x[k][j] - mean) * factor" +
          (scale ? " * scale[j]" : "") + (bias ? " + bias[j]" : "") + ";\n";
  row.loop(body + store_row_part(b, query, tactic, v, "row * " + row.n() + " + i"));
  for (const size_t o : {1, 2})
    if (node.has_output(o))
      b.line("if (lane == 0) " + b.output(o, DType::Float32) + "[row] = " + (o == 1 ? "mean;" : "factor;"));
  return {{b.finish()}};
}

// --- Softmax ----------------------------------------------------------------------------------------------
constexpr std::string_view kSoftmaxRunner = "SoftMax";

std::vector<Tactic> list_columns(const LayerQuery& query) {
  std::vector<Tactic> tactics;
  for (const auto& [type, to] : stored_types(query, false)) {
    Tactic t = typed_tactic(query, kSoftmaxRunner, "cuda_softmax_columns", {type, kLinear}, {to, kLinear});
    if (t.support.ok && !is_kernel_float(type))
      t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::vector<Tactic> list_softmax(const LayerQuery& query, const Device&) {
  const auto* op = std::get_if<Softmax>(&query.layer().op);
  if (!op) return {};
  const Rows rows = rows_of(input_shape(query, 0), op->axis, false);
  if (!rows.inner.is_constant(1)) return list_columns(query);
  return row_tactics(query, kSoftmaxRunner, op->log ? "cuda_log_softmax" : "cuda_softmax", rows);
}

// Each thread walks `v` neighbouring columns three times; a warp's accesses are contiguous.
LayerSource generate_columns(const LayerQuery& query, const Tactic& tactic, const Rows& rows, bool log) {
  const int v = Tail(query, tactic).vector(vector_width(2, {rows.inner}));
  const std::string vs = std::to_string(v);
  KernelBuilder b = start_kernel(query, tactic, "softmax_columns", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, v);
  const std::string in = b.input(0, tactic.inputs[0].dtype), n = b.number(rows.n),
                    inner = b.number(rows.inner);
  const Dim count = rows.outer * rows.inner;
  b.kernel().threads = 128;
  b.kernel().grid[0] = ceil_div(count, Dim(128 * v));
  b.line("const idx column = ((idx)blockIdx.x * 128 + threadIdx.x) * " + vs +
         ";\nif (column >= " + b.number(count) + ") return;");
  b.line("const idx base = column / " + inner + " * " + n + " * " + inner + " + column % " + inner + ";");
  b.line("float top[" + vs + "], sum[" + vs + "], x[" + vs + "];");
  const std::string each = "#pragma unroll\nfor (int j = 0; j < " + vs + "; ++j) ";
  const std::string walk =
      "for (idx i = 0; i < " + n + "; ++i) {\nload(" + in + " + base + i * " + inner + ", x);\n";
  b.line(each + "{ top[j] = -infinity(); sum[j] = 0; }\n" + walk + each +
         "top[j] = pw_Max(x[j], top[j]);\n}");
  b.line(walk + each + "sum[j] += exp_(x[j] - top[j]);\n}");
  b.line(each + "sum[j] = " + (log ? "logf(sum[j]);" : "1.f / sum[j];"));
  b.line(walk + each + (log ? "x[j] = x[j] - top[j] - sum[j];\n" : "x[j] = exp_(x[j] - top[j]) * sum[j];\n") +
         "finish" + vs + "(base + i * " + inner + ", x);\n}");
  return {{b.finish()}};
}

LayerSource generate_softmax(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Softmax>(query.layer().op);
  const Rows rows = rows_of(input_shape(query, 0), op.axis, false);
  if (!rows.inner.is_constant(1)) return generate_columns(query, tactic, rows, op.log);
  const int v = row_vector(query, tactic, rows), threads = threads_of(tactic);
  KernelBuilder b = start_kernel(query, tactic, "softmax", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, v);
  RowWriter row(b, rows, tactic.inputs[0].dtype, threads, v, upper_bound(rows.n, query.ranges));
  row.load_row();
  b.line("float top = -infinity(), sum = 0;");
  row.each("top = pw_Max(x[k][j], top);");
  b.line("top = " + row.reduced("top", "MaxOp") + ";");
  row.each("sum += exp_(x[k][j] - top);");
  b.line("sum = " + row.reduced("sum", "SumOp") + ";");
  // Not x - (top + log): that sum would lose the logarithm's digits where the values are large.
  b.line(op.log ? "const float shift = logf(sum);" : "const float factor = 1.f / sum;");
  row.loop("#pragma unroll\nfor (int j = 0; j < " + std::to_string(v) +
           "; ++j) x[k][j] = " + (op.log ? "x[k][j] - top - shift;\n" : "exp_(x[k][j] - top) * factor;\n") +
           "finish" + std::to_string(v) + "(row * " + row.n() + " + i, x[k]);");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily layer_norm_family() {
  return {kNormRunner, list_layer_norm, generate_layer_norm};
}
GeneratedFamily softmax_family() {
  return {kSoftmaxRunner, list_softmax, generate_softmax};
}

}  // namespace lathe::cuda
