// SPDX-License-Identifier: Apache-2.0
//
// MatMul, Det and Gemm: y = alpha * a' b' + beta * c. Factors of one and a missing c leave no node.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

Values import_matmul(NodeImport& node) {
  return {node.add(MatMul{}, {node.in(0), node.in(1)})};
}

ValueId scaled(NodeImport& node, ValueId v, float factor, std::string_view suffix) {
  if (factor == 1) return v;
  return node.pointwise(PointwiseCode::Mul, {v, node.scalar(factor, node.dtype_of(v))}, 0, 0, suffix);
}

Values import_gemm(NodeImport& node) {
  if (node.rank(0) != 2 || node.rank(1) != 2) node.fail("Gemm multiplies matrices (two dimensions each)");
  const MatMul op{.transpose_a = node.integer("transA", 0) != 0,
                  .transpose_b = node.integer("transB", 0) != 0};
  ValueId y = scaled(node, node.add(op, {node.in(0), node.in(1)}), node.real("alpha", 1), "alpha");
  const float beta = node.real("beta", 1);
  if (!node.has(2) || beta == 0) return {y};
  return {node.pointwise(PointwiseCode::Add, {y, scaled(node, node.in(2), beta, "beta")}, 0, 0, "bias")};
}

Values import_det(NodeImport& node) {
  return {node.add(Det{}, {node.in(0)})};
}

}  // namespace

std::vector<Importer> matmul_importers() {
  return {{"Det", 11, kLatestOpset, import_det},
          {"Gemm", 1, kLatestOpset, import_gemm},
          {"MatMul", 1, kLatestOpset, import_matmul}};
}

}  // namespace lathe::onnx
