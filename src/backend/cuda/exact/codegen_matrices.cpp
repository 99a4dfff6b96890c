// SPDX-License-Identifier: Apache-2.0
//
// Det and Inverse: a warp for each matrix, which lies in shared memory as double; the pivots and sums of
// ops/det.cpp. For the small matrices of geometry: the columns of a matrix are shared out over lanes.
#include "backend/cuda/codegen/own_tactic.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "Matrices";
constexpr int64_t kMostRows = 64;

int64_t shared_bytes(int64_t n, bool inverse) {
  return 8 * n * n * (inverse ? 2 : 1);
}

std::vector<Tactic> list(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const bool inverse = std::holds_alternative<Inverse>(node.op);
  if (!inverse && !std::holds_alternative<Det>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t =
        typed_tactic(query, kRunner, inverse ? "cuda_inverse" : "cuda_det", {type, kLinear}, {type, kLinear});
    const Dim& n = input_shape(query, 0).back();
    if (t.support.ok && !is_kernel_float(type))
      t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    if (!n.is_constant())
      t.support = Support::no("the rows of a matrix are known only at run time");
    else if (n.value() > kMostRows ||
             shared_bytes(n.value(), inverse) > device.properties.shared_bytes_per_block)
      t.support = Support::no("matrices of more than " + std::to_string(kMostRows) + " rows");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// The row, from k on, whose element in column k is the largest, the first of equals.
constexpr std::string_view kPivot = R"(DEV int pivot_of(const double* m, int k) {
int pivot = k;
for (int i = k + 1; i < N; ++i)
if (fabs(m[i * N + k]) > fabs(m[pivot * N + k])) pivot = i;
return pivot;
}
)";

constexpr std::string_view kLoad = R"(const idx matrix = blockIdx.x;
const int lane = threadIdx.x;
double* m = (double*)shared_memory();
for (int i = lane; i < N * N; i += 32) m[i] = (double)widen(FROM[matrix * (N * N) + i]);
__syncwarp();
)";

// Every lane finds the same pivot; row k is read by all while the columns behind k change.
constexpr std::string_view kDet = R"(double result = 1;
for (int k = 0; k < N; ++k) {
const int pivot = pivot_of(m, k);
const double top = m[pivot * N + k];
if (top == 0) {
result = 0;
break;
}
__syncwarp();
if (pivot != k) {
for (int j = lane; j < N; j += 32) {
const double x = m[k * N + j];
m[k * N + j] = m[pivot * N + j];
m[pivot * N + j] = x;
}
result = -result;
}
result *= top;
__syncwarp();
for (int i = k + 1; i < N; ++i) {
const double factor = m[i * N + k] / top;
for (int j = k + 1 + lane; j < N; j += 32) m[i * N + j] -= factor * m[k * N + j];
}
__syncwarp();
}
if (lane == 0) {
float v[1] = {(float)result};
finish1(matrix, v);
})";

constexpr std::string_view kInverse = R"(double* inverse = m + N * N;
for (int i = lane; i < N * N; i += 32) inverse[i] = i / N == i % N ? 1 : 0;
__syncwarp();
for (int k = 0; k < N; ++k) {
const int pivot = pivot_of(m, k);
__syncwarp();
const double scale = 1 / m[pivot * N + k];
__syncwarp();
for (int j = lane; j < N; j += 32) {
const double x = m[k * N + j], y = inverse[k * N + j];
m[k * N + j] = m[pivot * N + j] * scale;
inverse[k * N + j] = inverse[pivot * N + j] * scale;
if (pivot != k) {
m[pivot * N + j] = x;
inverse[pivot * N + j] = y;
}
}
__syncwarp();
for (int i = 0; i < N; ++i) {
const double factor = i == k ? 0 : m[i * N + k];
__syncwarp();
if (factor == 0) continue;
for (int j = lane; j < N; j += 32) {
m[i * N + j] -= factor * m[k * N + j];
inverse[i * N + j] -= factor * inverse[k * N + j];
}
__syncwarp();
}
}
for (int i = lane; i < N * N; i += 32) {
float v[1] = {(float)inverse[i]};
finish1(matrix * (N * N) + i, v);
})";

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
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
  b.global(kPivot);
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype));
  b.line(kLoad);
  b.line(inverse ? kInverse : kDet);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily matrices_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
