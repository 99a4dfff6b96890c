// SPDX-License-Identifier: Apache-2.0
//
// What x gives to the gates: one product over all steps, before the first step. 16-bit types run on tensor
// cores, FP32 on plain multiply-adds, exactly. Tiles are small where the layer has few rows, so that all
// multiprocessors have one.
#include "backend/cuda/recurrent/recurrent_plan.h"

#include <cmath>

namespace lathe::cuda {
namespace {

constexpr int kColumns = 64;  // w is filled up to whole tiles

int64_t round_up(int64_t a, int64_t b) {
  return (a + b - 1) / b * b;
}
int64_t padded_width(const RecurrentSizes& s) {
  return round_up(std::max<int64_t>(s.width, 1), 64);
}

// Shared: the constants of both kernels, and the bias of a column.
void begin(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const RecurrentSizes& s, int rows,
           int columns) {
  const DType type = tactic.inputs[kX].dtype;
  const int64_t n = s.gates * s.hidden;
  const bool biased = tactic.inputs.size() > kBias && tactic.inputs[kBias].dtype != DType::Undefined;
  // The bias of the state is added here, too, but for the gate whose product with the state is scaled first.
  const auto* gru = std::get_if<GRU>(&query.layer().op);
  const int64_t added = gru != nullptr && gru->linear_before_reset ? 2 * s.hidden : n;
  b.kernel().grid = {ceil_div(s.steps * s.batch, Dim(rows)), Dim(round_up(n, kColumns) / columns), 1};
  b.global("typedef " + std::string(storage_name(type)) + " T;\nconstexpr int TM = " + std::to_string(rows) +
           ", TN = " + std::to_string(columns) + ", N = " + std::to_string(n) +
           ", I = " + std::to_string(s.width) + ", KP = " + std::to_string(padded_width(s)) +
           ", ADDED = " + std::to_string(added) + ";\nconstexpr bool VECTORS = " +
           (s.width % full_vector(type) == 0 && s.width > 0 ? "true" : "false") + ";");
  b.line("#define X_ROWS " + b.input(kX, type) + "\n#define W_ROWS " + b.packed("w", storage_name(type)) +
         "\n#define GIVEN " + b.scratch(0, "float") + "\nconst idx M = " + b.number(s.steps * s.batch) +
         ", row0 = (idx)blockIdx.x * TM;\n"
         "const int column0 = blockIdx.y * TN;");
  if (biased) {
    const std::string bias = b.input(kBias, tactic.inputs[kBias].dtype);
    b.line("const auto bias = [&](int n) { return widen(" + bias + "[n]) + (n < ADDED ? widen(" + bias +
           "[N + n]) : 0.f); };");
  } else {
    b.line("const auto bias = [](int) { return 0.f; };");
  }
}

// 256 threads, (TM / 16) x (TN / 16) results each; the next tiles are on their way during the products.
constexpr std::string_view kPlain = R"(constexpr int R = TM / 16, P = 36, EACH = TM * 8 / 256;
float* xs = (float*)shared_memory();
float* ws = xs + TM * P;
const int column = threadIdx.x % 16, row = threadIdx.x / 16;
float sum[R][R] = {}, next_x[EACH][4], next_w[EACH][4];
const auto fetch = [&](int k0) {
#pragma unroll
for (int i = 0; i < EACH; ++i) {
const int r = (threadIdx.x + i * 256) / 8, k = k0 + (threadIdx.x + i * 256) % 8 * 4;
#pragma unroll
for (int j = 0; j < 4; ++j) next_x[i][j] = 0;
if (row0 + r < M) {
const float* from = X_ROWS + (row0 + r) * I + k;
if constexpr (VECTORS) {
if (k < I) load(from, next_x[i]);
} else {
#pragma unroll
for (int j = 0; j < 4; ++j)
if (k + j < I) next_x[i][j] = from[j];
}
}
load(W_ROWS + (idx)(column0 + r) * KP + k, next_w[i]);
}
};
fetch(0);
for (int k0 = 0; k0 < I; k0 += 32) {
__syncthreads();
#pragma unroll
for (int i = 0; i < EACH; ++i) {
const int r = (threadIdx.x + i * 256) / 8, k = (threadIdx.x + i * 256) % 8 * 4;
store(xs + r * P + k, next_x[i]);
store(ws + r * P + k, next_w[i]);
}
__syncthreads();
if (k0 + 32 < I) fetch(k0 + 32);
#pragma unroll
for (int k = 0; k < 32; k += 4) {
float a[R][4], b[R][4];
#pragma unroll
for (int i = 0; i < R; ++i) {
load(xs + (row + i * 16) * P + k, a[i]);
load(ws + (column + i * 16) * P + k, b[i]);
}
#pragma unroll
for (int i = 0; i < R; ++i)
#pragma unroll
for (int j = 0; j < R; ++j)
#pragma unroll
for (int e = 0; e < 4; ++e) sum[i][j] += a[i][e] * b[j][e];
}
}
#pragma unroll
for (int j = 0; j < R; ++j) {
const int n = column0 + column + j * 16;
const float start = n < N ? bias(n) : 0.f;
#pragma unroll
for (int i = 0; i < R; ++i)
if (n < N && row0 + row + i * 16 < M) GIVEN[(row0 + row + i * 16) * N + n] = sum[i][j] + start;
})";

// Four warps, each TM / 2 x TN / 2; three stages of 64 columns of x.
constexpr std::string_view kTensor = R"(constexpr int P = 72, STAGES = 3, WM = TM / 2, WN = TN / 2;
T* xs = (T*)shared_memory();
T* ws = xs + STAGES * TM * P;
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = lane / 8, g = lane / 4, t = lane % 4;
const int wm0 = warp / 2 * WM, wn0 = warp % 2 * WN;
constexpr int STEPS = (I + 63) / 64;
const auto fetch = [&](int step) {
const int k0 = step * 64;
T* to = xs + step % STAGES * TM * P;
T* to_w = ws + step % STAGES * TN * P;
for (int i = threadIdx.x; i < TM * 8; i += 128) {
const int r = i / 8, k = k0 + i % 8 * 8;
const bool inside = row0 + r < M && k < I;
if constexpr (VECTORS) {
copy_async(to + r * P + i % 8 * 8, inside ? X_ROWS + (row0 + r) * I + k : X_ROWS, inside ? 16 : 0);
} else {
for (int j = 0; j < 8; ++j) {
T x = {};
if (inside && k + j < I) x = X_ROWS[(row0 + r) * I + k + j];
to[r * P + i % 8 * 8 + j] = x;
}
}
}
for (int i = threadIdx.x; i < TN * 8; i += 128)
copy_async(to_w + i / 8 * P + i % 8 * 8, W_ROWS + (idx)(column0 + i / 8) * KP + k0 + i % 8 * 8, 16);
};
float sum[WM / 16][WN / 8][4] = {};
#pragma unroll
for (int s = 0; s < STAGES - 1; ++s) {
if (s < STEPS) fetch(s);
copy_commit();
}
for (int i = 0; i < STEPS; ++i) {
copy_wait<STAGES - 2>();
__syncthreads();
if (i + STAGES - 1 < STEPS) fetch(i + STAGES - 1);
copy_commit();
const T* a_tile = xs + i % STAGES * TM * P;
const T* b_tile = ws + i % STAGES * TN * P;
#pragma unroll
for (int k = 0; k < 64; k += 16) {
u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
for (int r = 0; r < WM / 16; ++r)
load_matrix(a[r], a_tile + (wm0 + r * 16 + m % 2 * 8 + lane % 8) * P + k + m / 2 * 8);
#pragma unroll
for (int c = 0; c < WN / 16; ++c)
load_matrix(b[c], b_tile + (wn0 + c * 16 + m / 2 * 8 + lane % 8) * P + k + m % 2 * 8);
#pragma unroll
for (int r = 0; r < WM / 16; ++r)
#pragma unroll
for (int c = 0; c < WN / 16; ++c) {
MULTIPLY(sum[r][2 * c], a[r], b[c][0], b[c][1]);
MULTIPLY(sum[r][2 * c + 1], a[r], b[c][2], b[c][3]);
}
}
}
copy_wait<0>();
#pragma unroll
for (int c = 0; c < WN / 8; ++c)
#pragma unroll
for (int e = 0; e < 2; ++e) {
const int n = column0 + wn0 + c * 8 + t * 2 + e;
const float start = n < N ? bias(n) : 0.f;
#pragma unroll
for (int r = 0; r < WM / 16; ++r)
#pragma unroll
for (int h = 0; h < 2; ++h) {
const idx at = row0 + wm0 + r * 16 + g + 8 * h;
if (n < N && at < M) GIVEN[at * N + n] = sum[r][c][2 * h + e] + start;
}
})";

}  // namespace

KernelSource recurrent_inputs_kernel(const LayerQuery& query, const Tactic& tactic, const RecurrentSizes& s,
                                     const Device& device) {
  const DType type = tactic.inputs[kX].dtype;
  const SymbolValues opt = query.opt_values();
  const auto rows = static_cast<double>((s.steps * s.batch).evaluate(opt));
  const double large = std::ceil(rows / 64) * static_cast<double>(s.gates * s.hidden) / 64;
  const int tile = large < device.properties.multiprocessors ? 32 : 64;
  KernelBuilder b = start_kernel(query, tactic, "recurrent_inputs", type);
  if (is_half(type)) {
    b.kernel().threads = 128;
    b.kernel().shared_bytes = 3 * (tile + kColumns) * 72 * 2;
    b.global(std::string("#define MULTIPLY ") + (type == DType::Float16 ? "multiply_f16" : "multiply_bf16"));
    begin(b, query, tactic, s, tile, kColumns);
    b.line(kTensor);
  } else {
    b.kernel().shared_bytes = 2 * tile * 36 * 4;
    begin(b, query, tactic, s, tile, tile);
    b.line(kPlain);
  }
  return b.finish();
}

PackedBlock recurrent_inputs_block(const RecurrentSizes& s, DType type, const Tensor& w) {
  const int64_t n = s.gates * s.hidden, rows = round_up(n, kColumns), pitch = padded_width(s);
  return {dtype_bytes(type, rows * pitch), [=] {
            const std::vector<double> values = w.to_doubles();
            std::vector<double> packed(static_cast<size_t>(rows * pitch), 0.0);
            for (int64_t i = 0; i < n; ++i)
              std::copy_n(values.begin() + i * s.width, s.width, packed.begin() + i * pitch);
            const Tensor t = Tensor::from_doubles(type, {rows * pitch}, packed);
            return std::vector<std::byte>(t.bytes().begin(), t.bytes().end());
          }};
}

}  // namespace lathe::cuda
