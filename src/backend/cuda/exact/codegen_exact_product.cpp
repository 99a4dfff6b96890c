// SPDX-License-Identifier: Apache-2.0
//
// MatMul of float64, with sums in double, and of integers, whose sums wrap around as in ops/matmul.cpp. Other
// families multiply what networks are made of; this one is for what is left, on plain multiply-adds: a block
// has 32 x 32 results, and each element of a and b is read once for each 32 of them.
#include "backend/cuda/exact/exact_product.h"

#include "lathe_device_text/exact_product.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kExactProductRunner = "ExactProduct";

std::vector<Tactic> list_exact_product(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<MatMul>(query.layer().op) || is_kernel_float(layer_types(query)[0])) return {};
  return {exact_product(query, kExactProductRunner)};
}

// An operand as a stack of matrices: where each begins, and strides of rows and columns.
struct Operand {
  Dim rows = 1, columns = 1, row_stride, column_stride;
  std::vector<Dim> batch_strides;  // by dim of the result's batch
};

Operand operand_of(const Shape& shape, bool transposed, bool is_left, size_t batch_rank) {
  Operand o;
  if (shape.size() == 1) {
    (is_left ? o.columns : o.rows) = shape[0];
    o.row_stride = is_left ? Dim(0) : Dim(1);
    o.column_stride = is_left ? Dim(1) : Dim(0);
  } else {
    o.rows = shape[shape.size() - 2];
    o.columns = shape.back();
    o.row_stride = o.columns;
    o.column_stride = 1;
    if (transposed) {
      std::swap(o.rows, o.columns);
      std::swap(o.row_stride, o.column_stride);
    }
  }
  const std::vector<Dim> strides = storage_strides(shape, kLinear);
  const size_t own = shape.size() > 2 ? shape.size() - 2 : 0;
  for (size_t d = 0; d < batch_rank; ++d) {
    const size_t missing = batch_rank - own;
    const bool is_broadcast = d < missing || shape[d - missing].is_constant(1);
    o.batch_strides.push_back(is_broadcast ? Dim(0) : strides[d - missing]);
  }
  return o;
}

}  // namespace

Tactic exact_product(const LayerQuery& query, std::string_view runner) {
  const DType type = layer_types(query)[0];
  Tactic t = typed_tactic(query, runner, "cuda_product_exact", {type, kLinear}, {type, kLinear});
  for (size_t i = 0; i < 2; ++i) {
    const Value& operand = query.graph.value(query.layer().inputs[i]);
    if (const Support s = computed(t.inputs[i].dtype); t.support.ok && !s.ok) t.support = s;
    if (operand.is_constant() && operand.dtype != t.inputs[i].dtype)
      t.support = Support::no("a constant operand is read as it is stored");
  }
  return t;
}

LayerSource generate_exact_product(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<MatMul>(query.layer().op);
  const Shape &x = input_shape(query, 0), &w = input_shape(query, 1), &y = output_shape(query);
  const size_t batch_rank = y.size() - (x.size() > 1 ? 1 : 0) - (w.size() > 1 ? 1 : 0);
  const Operand a = operand_of(x, op.transpose_a, true, batch_rank),
                b_side = operand_of(w, op.transpose_b, false, batch_rank);
  const DType type = tactic.outputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "product_exact", type);
  b.set_fast_math(false);
  Tail(query, tactic).emit(b, 1);
  const Dim row_tiles = ceil_div(a.rows, Dim(32)), column_tiles = ceil_div(b_side.columns, Dim(32));
  b.kernel().grid[0] = row_tiles * column_tiles * product(y, 0, batch_rank);
  b.kernel().shared_bytes = 2 * 32 * 17 * 8;
  b.global("typedef " + std::string(is_float(type) ? "double" : "unsigned long long") + " Number;");
  b.line("idx rest = blockIdx.x;\nconst idx column0 = rest % " + b.number(column_tiles) +
         " * 32;\nrest /= " + b.number(column_tiles) + ";\nconst idx row0 = rest % " + b.number(row_tiles) +
         " * 32;\nrest /= " + b.number(row_tiles) + ";\nconst idx batch = rest;\nidx a0 = 0, b0 = 0;");
  for (size_t d = batch_rank; d-- > 0;)
    b.line("a0 += rest % " + b.number(y[d]) + " * " + b.number(a.batch_strides[d]) + ";\nb0 += rest % " +
           b.number(y[d]) + " * " + b.number(b_side.batch_strides[d]) + ";\nrest /= " + b.number(y[d]) + ";");
  const auto define = [&](std::string_view name, const Dim& dim) {
    b.line("const idx " + std::string(name) + " = " + b.number(dim) + ";");
  };
  define("M", a.rows);
  define("K", a.columns);
  define("N", b_side.columns);
  define("A_ROW", a.row_stride);
  define("A_COLUMN", a.column_stride);
  define("B_ROW", b_side.row_stride);
  define("B_COLUMN", b_side.column_stride);
  b.line("const auto* A = " + b.input(0, tactic.inputs[0].dtype) +
         " + a0;\nconst auto* B = " + b.input(1, tactic.inputs[1].dtype) + " + b0;");
  b.line(device_text::exact_product::kTile);
  const std::string result(compute_name(type));
  b.line(
      "#pragma unroll\nfor (int i = 0; i < R; ++i)\n#pragma unroll\nfor (int j = 0; j < R; ++j) {\n"
      "const idx row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;\n"
      "if (row >= M || column >= N) continue;\n" +
      result + " r[1] = {(" + result + ")sum[i][j]};\nfinish1((batch * M + row) * N + column, r);\n}");
  return {{b.finish()}};
}

GeneratedFamily exact_product_family() {
  return {kExactProductRunner, list_exact_product, generate_exact_product};
}

}  // namespace lathe::cuda
