// SPDX-License-Identifier: Apache-2.0
//
// Det and Inverse: a warp for each matrix, which lies in shared memory as double; the pivots and sums of
// ops/det.cpp. For the small matrices of geometry: the columns of a matrix are shared out over lanes.
#include "backend/cuda/codegen/own_tactic.h"
#include "lathe_device_text/matrices.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kMatricesRunner = "Matrices";
constexpr int64_t kMostMatrixRows = 64;

int64_t shared_bytes(int64_t n, bool inverse) {
  return 8 * n * n * (inverse ? 2 : 1);
}

std::vector<Tactic> list_matrices(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const bool inverse = std::holds_alternative<Inverse>(node.op);
  if (!inverse && !std::holds_alternative<Det>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kMatricesRunner, inverse ? "cuda_inverse" : "cuda_det", {type, kLinear},
                            {type, kLinear});
    const Dim& n = input_shape(query, 0).back();
    if (t.support.ok && !is_kernel_float(type))
      t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    if (!n.is_constant())
      t.support = Support::no("the rows of a matrix are known only at run time");
    else if (n.value() > kMostMatrixRows ||
             shared_bytes(n.value(), inverse) > device.properties.shared_bytes_per_block)
      t.support = Support::no("matrices of more than " + std::to_string(kMostMatrixRows) + " rows");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_matrices(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const bool inverse = std::holds_alternative<Inverse>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  const int64_t n = x.back().value();
  KernelBuilder b = start_kernel(query, tactic, inverse ? "inverse" : "det", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().threads = 32;
  // Matrices without rows have determinant 1, and no inverse to store.
  b.kernel().grid[0] = inverse && n == 0 ? Dim(0) : product(x, 0, x.size() - 2);
  b.kernel().shared_bytes = static_cast<int>(shared_bytes(n, inverse));
  b.global("constexpr int N = " + std::to_string(n) + ";");
  b.global(device_text::matrices::kPivot);
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype));
  b.line(device_text::matrices::kLoad);
  b.line(inverse ? device_text::matrices::kInverse : device_text::matrices::kDet);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily matrices_family() {
  return {kMatricesRunner, list_matrices, generate_matrices};
}

}  // namespace lathe::cuda
