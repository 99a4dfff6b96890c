// SPDX-License-Identifier: Apache-2.0
//
// Attention as one kernel: softmax(q k^T * scale + mask) v without the matrix of scores. A query row keeps
// the largest score so far, the sum of exponentials and the unnormalized result in FP32 (online softmax).
//
// 16-bit types: tensor cores (mma.sync). A warp has 16 query rows; the block's warps share tiles of keys and
// values, which arrive in shared memory by asynchronous copies, one tile ahead. The scores of a tile, as
// accumulators, already have the layout of the left operand of the product with v. How many warps (rows) a
// block has is part of the tactic: few rows give many blocks, which is what a small batch needs. FP32: a warp
// has four rows, a lane a key; plain multiply-adds.
//
// Keys behind the end, masked and later ones (causal) score -infinity; a row without any key gives zeros.
#include "backend/cuda/attention/attention_text.h"
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kRunner = "Attention";
// Of the kernel that keeps all scores of its rows in registers.
constexpr int64_t kWholeRowKeys = 256, kWholeRowHead = 64;

// How the rows of a block are computed: all scores of a row in registers by groups of four warps (wgmma),
// tiles of keys by warps (mma), or neither (plain multiply-adds).
struct Variant {
  int groups = 0, warps = 0;

  static Variant of(const TacticParams& params) {
    return {params.get_int("groups", 0), params.get_int("warps", 0)};
  }
  TacticParams params() const {
    if (groups > 0) return {{"groups", groups}};
    return warps > 0 ? TacticParams{{"warps", warps}} : TacticParams();
  }
  std::string name() const {
    if (groups > 0) return "cuda_attention_wgmma_g" + std::to_string(groups);
    return warps > 0 ? "cuda_attention_mma_w" + std::to_string(warps) : "cuda_attention_fma";
  }
};

using Sizes = AttentionSizes;
using Names = AttentionNames;

// Tiles of keys and values, and the block's rows, of the kernel for tensor cores; heads are padded to 16.
struct MmaTiles {
  int64_t width = 0, value_width = 0, keys = 64;
};
MmaTiles mma_tiles(const Sizes& s) {
  const int64_t width = (s.width + 15) / 16 * 16, value_width = (s.value_width + 15) / 16 * 16;
  return {width, value_width, std::max(width, value_width) > 128 ? 32 : 64};
}
int64_t mma_shared_bytes(const Sizes& s, int warps) {
  const MmaTiles t = mma_tiles(s);
  return 2 * (warps * 16 * (t.width + 8) + 2 * t.keys * (t.width + 8 + t.value_width + 8));
}

std::vector<Tactic> list(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Attention>(&node.op);
  if (!op) return {};
  const Sizes s = attention_sizes(query, *op);
  std::vector<Tactic> tactics;
  for (const auto& [type, to] : stored_types(query, false)) {
    Tactic base = typed_tactic(query, kRunner, Variant().name(), {type, kLinear}, {to, kLinear});
    list_attention_operands(query, type, s, base);
    const bool whole = s.width % 8 == 0 && s.value_width % 8 == 0;
    if (base.support.ok && is_half(type) && whole) {
      std::vector<Variant> variants;
      const int64_t heads = upper_bound(s.batch * s.heads, query.ranges);
      const int64_t rows = upper_bound(s.queries, query.ranges);
      if (s.width == kWholeRowHead && s.value_width == kWholeRowHead &&
          upper_bound(s.keys, query.ranges) <= kWholeRowKeys && device.properties.is_hopper())
        for (const int groups : {2, 1}) variants.push_back({.groups = groups});
      // Few rows per block when larger blocks would leave multiprocessors idle.
      std::vector<int> warps = {4, 2, 1};
      if (heads * ((rows + 63) / 64) < device.properties.multiprocessors) warps = {1, 2, 4};
      for (const int w : warps)
        if (mma_shared_bytes(s, w) <= device.properties.shared_bytes_per_block)
          variants.push_back({.warps = w});
      for (const Variant& v : variants) tactics.push_back(with_variant(base, v.name(), v.params()));
    } else {
      tactics.push_back(std::move(base));
    }
  }
  return tactics;
}

// Block geometry, pointers and strides; `rows` query rows per block. Defines b, h, q0, bh, and masked() or
// mask_pair() as AttentionNames has them.
Names begin(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const Attention& op, int rows,
            bool pointers = true) {
  const Sizes s = attention_sizes(query, op);
  Names n = attention_names(b, query, op);
  const Dim tiles = ceil_div(s.queries, Dim(rows));
  b.kernel().grid[0] = tiles * s.batch * s.heads;
  b.line("const idx q0 = blockIdx.x % " + b.number(tiles) + " * " + std::to_string(rows) +
         ", bh = blockIdx.x / " + b.number(tiles) + ", h = bh % " + n.heads + ", b = bh / " + n.heads + ";");
  const char* names[] = {"query", "key", "value"};
  for (size_t i = 0; i < 3 && pointers; ++i)
    b.line("const auto* " + std::string(names[i]) + " = " + b.input(i, tactic.inputs[i].dtype) + " + b * " +
           n.batch[i] + " + " + (i == 0 ? "h" : n.key_head) + " * " + n.head[i] + ";");
  define_masked(b, query, tactic, op, n);
  return n;
}

LayerSource generate_fma(const LayerQuery& query, const Tactic& tactic) {
  const auto& op = std::get<Attention>(query.layer().op);
  const Sizes s = attention_sizes(query, op);
  KernelBuilder b = start_kernel(query, tactic, "attention_fma", DType::Float32);
  const Tail tail(query, tactic);
  tail.emit(b, 1);
  b.kernel().threads = 256;
  const int64_t d = s.width, dv = s.value_width, per_lane = (dv + 31) / 32;
  b.kernel().shared_bytes = static_cast<int>(4 * (32 * d + 32 * (d + 1) + 32 * dv));
  b.global("constexpr int D = " + std::to_string(d) + ", DV = " + std::to_string(dv) +
           ", L = " + std::to_string(per_lane) + ";");
  const Names n = begin(b, query, tactic, op, 32);
  b.line(R"(float* qs = (float*)shared_memory();
float* ks = qs + 32 * D;
float* vs = ks + 32 * (D + 1);
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;)");
  b.line("for (int i = threadIdx.x; i < 32 * D; i += 256)\nqs[i] = q0 + i / D < " + n.queries +
         " ? widen(query[(q0 + i / D) * " + n.row[0] + " + i % D]) * " +
         float_literal(op.scale * 1.4426950408889634) + " : 0.f;");
  b.line(R"(float top[4], sum[4], out[4][L];
#pragma unroll
for (int r = 0; r < 4; ++r) {
top[r] = -infinity(); sum[r] = 0;
#pragma unroll
for (int l = 0; l < L; ++l) out[r][l] = 0;
})");
  b.line("const idx end = " + std::string(op.causal ? "min((idx)" + n.keys + ", q0 + 32)" : n.keys) + ";");
  b.line(
      "for (idx k0 = 0; k0 < end; k0 += 32) {\n__syncthreads();\nfor (int i = threadIdx.x; i < 32 * D; i += "
      "256)\n"
      "ks[i / D * (D + 1) + i % D] = k0 + i / D < " +
      n.keys + " ? widen(key[(k0 + i / D) * " + n.row[1] +
      " + i % D]) : 0.f;\n"
      "for (int i = threadIdx.x; i < 32 * DV; i += 256)\nvs[i] = k0 + i / DV < " +
      n.keys + " ? widen(value[(k0 + i / DV) * " + n.row[2] + " + i % DV]) : 0.f;\n__syncthreads();");
  b.line(R"(float score[4] = {};
for (int i = 0; i < D; ++i) {
const float k = ks[lane * (D + 1) + i];
#pragma unroll
for (int r = 0; r < 4; ++r) score[r] += qs[(warp * 4 + r) * D + i] * k;
}
#pragma unroll
for (int r = 0; r < 4; ++r) {
score[r] = masked(score[r], q0 + warp * 4 + r, k0 + lane);
const float next = fmaxf(top[r], warp_reduce(score[r], MaxOp{}));
const float base = next == -infinity() ? 0.f : next;
const float shrink = exp2f(top[r] - base);
top[r] = next;
score[r] = exp2f(score[r] - base);
sum[r] = sum[r] * shrink + warp_reduce(score[r], SumOp{});
#pragma unroll
for (int l = 0; l < L; ++l) out[r][l] *= shrink;
}
for (int j = 0; j < 32; ++j) {
float p[4];
#pragma unroll
for (int r = 0; r < 4; ++r) p[r] = shuffle(score[r], j);
#pragma unroll
for (int l = 0; l < L; ++l) {
const float v = lane + l * 32 < DV ? vs[j * DV + lane + l * 32] : 0.f;
#pragma unroll
for (int r = 0; r < 4; ++r) out[r][l] += p[r] * v;
}
}
})");
  b.line(
      "#pragma unroll\nfor (int r = 0; r < 4; ++r) {\nconst idx row = q0 + warp * 4 + r;\n#pragma unroll\n"
      "for (int l = 0; l < L; ++l)\nif (row < " +
      n.queries +
      " && lane + l * 32 < DV) {\n"
      "const float v[1] = {sum[r] == 0 ? 0.f : out[r][l] / sum[r]};\nfinish1(b * " +
      n.batch[3] + " + h * " + n.head[3] + " + row * " + n.row[3] + " + lane + l * 32, v);\n}\n}");
  return {{b.finish()}};
}

LayerSource generate_mma(const LayerQuery& query, const Tactic& tactic, int warps) {
  const auto& op = std::get<Attention>(query.layer().op);
  const Sizes s = attention_sizes(query, op);
  const DType type = tactic.inputs[0].dtype;
  KernelBuilder b = start_kernel(query, tactic, "attention_mma", type);
  const Tail tail(query, tactic);
  const int v = tail.vector(2);
  tail.emit(b, v);
  b.kernel().threads = warps * 32;
  const auto [dp, dvp, keys] = mma_tiles(s);
  const bool kept = dp <= 128;  // query fragments stay in registers
  b.kernel().shared_bytes = static_cast<int>(mma_shared_bytes(s, warps));
  b.global("constexpr int D = " + std::to_string(s.width) + ", DV = " + std::to_string(s.value_width) +
           ", DP = " + std::to_string(dp) + ", DVP = " + std::to_string(dvp) + ", W = " +
           std::to_string(warps) + ", BK = " + std::to_string(keys) + ", KS = DP + 8, VS = DVP + 8;");
  const bool f16 = type == DType::Float16;
  b.global(std::string("#define MULTIPLY ") + (f16 ? "multiply_f16" : "multiply_bf16") + "\n#define PACK " +
           (f16 ? "f32_to_f16x2" : "f32_to_bf16x2"));
  // Rows of `width` elements into shared memory with `pitch`; rows behind the end and padding become zeros.
  b.global(R"(template <int WIDTH, int PADDED, int COUNT, class T>
DEV void copy_rows(u16* to, const T* from, idx first, idx count, idx stride) {
constexpr int kChunks = PADDED / 8;
#pragma unroll
for (int i = threadIdx.x; i < COUNT * kChunks; i += W * 32) {
const int row = i / kChunks, column = i % kChunks * 8;
const bool inside = first + row < count && column < WIDTH;
copy_async(to + row * (PADDED + 8) + column, inside ? (const void*)(from + (first + row) * stride + column) : (const void*)from,
inside ? 16 : 0);
}
})");
  const Names n = begin(b, query, tactic, op, warps * 16);
  b.line(R"(u16* qs = (u16*)shared_memory();
u16* ks = qs + W * 16 * KS;
u16* vs = ks + 2 * BK * KS;
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = lane / 8, g = lane / 4, t = lane % 4;)");
  b.line("const idx end = " + std::string(op.causal ? "min((idx)" + n.keys + ", q0 + W * 16)" : n.keys) +
         ", tiles = (end + BK - 1) / BK;");
  b.line(
      "const auto fetch = [&](idx tile) {\ncopy_rows<D, DP, BK>(ks + (tile & 1) * BK * KS, key, tile * BK, " +
      n.keys + ", " + n.row[1] + ");\ncopy_rows<DV, DVP, BK>(vs + (tile & 1) * BK * VS, value, tile * BK, " +
      n.keys + ", " + n.row[2] + ");\ncopy_commit();\n};");
  b.line("copy_rows<D, DP, W * 16>(qs, query, q0, " + n.queries + ", " + n.row[0] + ");\nfetch(0);");
  b.line(R"(float out[DVP / 8][4] = {};
float top[2] = {-infinity(), -infinity()}, sum[2] = {};
const u16* q_row = qs + (warp * 16 + m % 2 * 8 + lane % 8) * KS + m / 2 * 8;)");
  if (kept) b.line("u32 q[DP / 16][4];");
  b.line(R"(for (idx tile = 0; tile < tiles; ++tile) {
if (tile + 1 < tiles) {
fetch(tile + 1);
copy_wait<1>();
} else {
copy_wait<0>();
}
__syncthreads();)");
  if (kept)
    b.line(
        "if (tile == 0) {\n#pragma unroll\nfor (int i = 0; i < DP / 16; ++i) load_matrix(q[i], q_row + i * "
        "16);\n}");
  // A mask that is the same for all rows is read once a tile, in front of the product that hides the wait.
  const bool whole_tiles = s.keys.is_constant() && s.keys.value() % keys == 0;
  const bool plain = !n.has_mask && !n.mask_has_rows && whole_tiles, once = !plain && !n.mask_has_rows;
  const bool pairs = n.mask_has_rows && n.mask_pairs;
  if (pairs)
    b.line(R"(float bias[2][BK / 8][2];
#pragma unroll
for (int half = 0; half < 2; ++half)
#pragma unroll
for (int j = 0; j < BK / 8; ++j)
mask_pair(q0 + warp * 16 + g + half * 8, tile * BK + j * 8 + t * 2, bias[half][j]);)");
  if (once)
    b.line(R"(float bias[BK / 8][2];
#pragma unroll
for (int j = 0; j < BK / 8; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) bias[j][c] = masked(0.f, 0, tile * BK + j * 8 + t * 2 + c);)");
  b.line(R"(const u16* k_row = ks + (tile & 1) * BK * KS + (m / 2 * 8 + lane % 8) * KS + m % 2 * 8;
float score[BK / 8][4] = {};
#pragma unroll
for (int i = 0; i < DP / 16; ++i) {)");
  b.line(kept ? "const auto& a = q[i];" : "u32 a[4];\nload_matrix(a, q_row + i * 16);");
  b.line(R"(#pragma unroll
for (int j = 0; j < BK / 16; ++j) {
u32 r[4];
load_matrix(r, k_row + j * 16 * KS + i * 16);
MULTIPLY(score[2 * j], a, r[0], r[1]);
MULTIPLY(score[2 * j + 1], a, r[2], r[3]);
}
}
#pragma unroll
for (int half = 0; half < 2; ++half) {
const idx row = q0 + warp * 16 + g + half * 8;
float next = top[half];
#pragma unroll
for (int j = 0; j < BK / 8; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {)");
  const std::string scaled = "x * " + float_literal(op.scale * 1.4426950408889634);
  b.line("float& x = score[j][half * 2 + c];\nx = " +
         (pairs ? (whole_tiles ? "" : "tile * BK + j * 8 + t * 2 + c >= " + n.keys + " ? -infinity() : ") +
                      scaled + " + mask_exponent(bias[half][j][c])"
          : plain ? scaled
          : once  ? scaled + " + bias[j][c]"
                  : "masked(" + scaled + ", row, tile * BK + j * 8 + t * 2 + c)") +
         ";\nnext = fmaxf(next, x);\n}");
  b.line(R"(next = fmaxf(next, shuffle_xor(next, 1));
next = fmaxf(next, shuffle_xor(next, 2));
const float base = next == -infinity() ? 0.f : next, shrink = power_of_two(top[half] - base);
top[half] = next;
float part = 0;
#pragma unroll
for (int j = 0; j < BK / 8; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {
float& x = score[j][half * 2 + c];
x = power_of_two(x - base);
part += x;
}
sum[half] = sum[half] * shrink + part;
#pragma unroll
for (int j = 0; j < DVP / 8; ++j) {
out[j][half * 2] *= shrink;
out[j][half * 2 + 1] *= shrink;
}
}
const u16* v_row = vs + (tile & 1) * BK * VS + (m % 2 * 8 + lane % 8) * VS + m / 2 * 8;
#pragma unroll
for (int i = 0; i < BK / 16; ++i) {
const u32 a[4] = {PACK(score[2 * i][0], score[2 * i][1]), PACK(score[2 * i][2], score[2 * i][3]),
PACK(score[2 * i + 1][0], score[2 * i + 1][1]), PACK(score[2 * i + 1][2], score[2 * i + 1][3])};
#pragma unroll
for (int j = 0; j < DVP / 16; ++j) {
u32 r[4];
load_matrix_transposed(r, v_row + i * 16 * VS + j * 16);
MULTIPLY(out[2 * j], a, r[0], r[1]);
MULTIPLY(out[2 * j + 1], a, r[2], r[3]);
}
}
__syncthreads();
}
#pragma unroll
for (int half = 0; half < 2; ++half) {
sum[half] += shuffle_xor(sum[half], 1);
sum[half] += shuffle_xor(sum[half], 2);
const float factor = sum[half] == 0 ? 0.f : 1.f / sum[half];
const idx row = q0 + warp * 16 + g + half * 8;
#pragma unroll
for (int j = 0; j < DVP / 8; ++j) {
const float r[2] = {out[j][half * 2] * factor, out[j][half * 2 + 1] * factor};
const int column = j * 8 + t * 2;)");
  const std::string at = "b * " + n.batch[3] + " + h * " + n.head[3] + " + row * " + n.row[3] + " + column";
  b.line("if (row < " + n.queries + " && column < DV) {");
  if (v == 2)
    b.line("finish2(" + at + ", r);");
  else
    b.line("#pragma unroll\nfor (int c = 0; c < 2; ++c) { const float one[1] = {r[c]}; finish1(" + at +
           " + c, one); }");
  b.line("}\n}\n}");
  return {{b.finish()}};
}

// Hopper: 64 rows for a warpgroup, whose scores with all keys are one product and stay in registers. Queries,
// keys and values come by the copy engine; results leave through the memory that held the queries.
constexpr std::string_view kWholeRowProducts = R"(barrier_wait(arrived, 0);
float score[KEYS / 2] = {};
multiply_begin();
#pragma unroll
for (int k = 0; k < 4; ++k) MULTIPLY_TILE(score, tile_operand(qs + warp / 4 * 8192) + 2 * k, tile_operand(ks) + 2 * k);
multiply_commit();
multiply_wait<0>();
multiply_done(score);
float sum[2] = {}, top[2];
#pragma unroll
for (int half = 0; half < 2; ++half) {
float next = -infinity();
#pragma unroll
for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {
float& x = score[4 * j + 2 * half + c];
const idx row = q0 + warp * 16 + g + half * 8, key = 8 * j + 2 * t + c;
x = SCORE;
next = fmaxf(next, x);
}
next = fmaxf(next, shuffle_xor(next, 1));
top[half] = fmaxf(next, shuffle_xor(next, 2));
const float base = top[half] == -infinity() ? 0.f : top[half];
#pragma unroll
for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {
float& x = score[4 * j + 2 * half + c];
x = power_of_two(x - base);
sum[half] += x;
}
}
u32 part[KEYS / 16][4];
#pragma unroll
for (int i = 0; i < KEYS / 16; ++i)
#pragma unroll
for (int r = 0; r < 4; ++r) part[i][r] = PACK(score[8 * i + 2 * r], score[8 * i + 2 * r + 1]);
barrier_wait(arrived + 1, 0);
float out[32] = {};
multiply_begin();
#pragma unroll
for (int i = 0; i < KEYS / 16; ++i) MULTIPLY_ROWS(out, part[i], tile_operand(vs) + 128 * i);
multiply_commit();
#pragma unroll
for (int half = 0; half < 2; ++half) {
sum[half] += shuffle_xor(sum[half], 1);
sum[half] += shuffle_xor(sum[half], 2);
sum[half] = sum[half] == 0 ? 0.f : 1.f / sum[half];
}
multiply_wait<0>();
multiply_done(out);
)";
// Sixteen rows of a warp, 16 bytes at a time, in an order that has them in different banks.
constexpr std::string_view kWholeRowResults = R"(char* strip = qs + warp * 2048;
const int r = lane % 16;
#pragma unroll
for (int j = 0; j < 8; j += 2) {
u32 pair[4];
#pragma unroll
for (int h = 0; h < 4; ++h) pair[h] = PACK(out[4 * j + 2 * h] * sum[h % 2], out[4 * j + 2 * h + 1] * sum[h % 2]);
store_matrix(strip + r * 128 + ((j + lane / 16) ^ r % 8) * 16, pair);
}
__syncwarp();
#pragma unroll
for (int i = 0; i < 4; ++i) {
const int n = i * 32 + lane, row = n / 8, column = n % 8;
float v[8];
load((const T*)(strip + row * 128 + (column ^ row % 8) * 16), v);
if (q0 + warp * 16 + row < QUERIES) finish8(RESULT + (q0 + warp * 16 + row) * PITCH + column * 8, v);
})";
constexpr std::string_view kWholeRowPairs = R"(#pragma unroll
for (int half = 0; half < 2; ++half) {
const idx row = q0 + warp * 16 + g + half * 8;
#pragma unroll
for (int j = 0; j < 8; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) {
const float v[1] = {out[4 * j + 2 * half + c] * sum[half]};
if (row < QUERIES) finish1(RESULT + row * PITCH + 8 * j + 2 * t + c, v);
}
})";

// As the copy engine sees an operand: rows of a head, or of all heads, one after the other.
TensorView rows_view(const Shape& shape, DType type, bool bhsd, int rows) {
  if (bhsd)
    return {
        type, {shape[3], shape[2], shape[0] * shape[1]}, {1, shape[3], shape[2] * shape[3]}, {64, rows, 1}};
  const Dim row = shape[2] * shape[3];
  return {type, {row, shape[1], shape[0]}, {1, row, shape[1] * row}, {64, rows, 1}};
}

LayerSource generate_whole_rows(const LayerQuery& query, const Tactic& tactic, int groups,
                                const Device& device) {
  const auto& op = std::get<Attention>(query.layer().op);
  const Sizes s = attention_sizes(query, op);
  const DType type = tactic.inputs[0].dtype;
  const bool bhsd = op.layout == AttentionLayout::BHSD;
  const int keys = static_cast<int>((upper_bound(s.keys, query.ranges) + 15) / 16 * 16);
  KernelBuilder b = start_kernel(query, tactic, "attention_wgmma", type);
  b.hardware(hopper_primitives(type, keys) + hopper_rows_primitive(type, 64));
  const Tail tail(query, tactic);
  // A tail takes the sums as they are, but for bytes, whose steps are wider than a rounding to 16 bits.
  const bool vectors = (tail.identity() || tactic.outputs[0].dtype == DType::UInt8) && tail.vector(8) == 8;
  tail.emit(b, vectors ? 8 : 1);
  b.kernel().threads = 128 * groups;
  b.kernel().resident =
      device.properties.registers_per_multiprocessor / (128 * groups * (keys <= 128 ? 128 : 168));
  b.kernel().shared_bytes = 1024 + groups * 8192 + 2 * keys * 128 + 16;
  b.waits_itself();
  const std::string kind = type == DType::Float16 ? "f16" : "bf16";
  b.global("constexpr int GROUPS = " + std::to_string(groups) + ", KEYS = " + std::to_string(keys) +
           ";\n#define MULTIPLY_TILE multiply_tile_" + kind + "\n#define MULTIPLY_ROWS multiply_rows_" +
           kind + "\n#define PACK f32_to_" + kind + "x2\ntypedef " + std::string(storage_name(type)) + " T;");
  const Names n = begin(b, query, tactic, op, 64 * groups, false);
  std::string maps[3];
  for (size_t i = 0; i < 3; ++i)
    maps[i] = b.input_map(i, rows_view(input_shape(query, i), type, bhsd, i == 0 ? 64 : keys));
  const std::string column = bhsd ? "0" : "h * 64", outer = bhsd ? "bh" : "b",
                    key_column = bhsd ? "0" : n.key_head + " * 64",
                    key_outer = bhsd ? "b * " + b.number(s.shared_heads) + " + " + n.key_head : "b";
  b.line(R"(char* qs = shared_memory();
qs += (1024 - shared_address(qs) % 1024) % 1024;
char *ks = qs + GROUPS * 8192, *vs = ks + KEYS * 128;
u64* arrived = (u64*)(vs + KEYS * 128);
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
if (threadIdx.x == 0) {
barrier_init(arrived, 1);
barrier_init(arrived + 1, 1);
barriers_ready();
wait_for_previous_kernel();
stored_before_copies();
barrier_expect(arrived, GROUPS * 8192 + KEYS * 128);)");
  b.line("for (int i = 0; i < GROUPS; ++i) copy_box(qs + i * 8192, &" + maps[0] + ", " + column +
         ", q0 + 64 * i, " + outer + ", arrived);\ncopy_box(ks, &" + maps[1] + ", " + key_column + ", 0, " +
         key_outer + ", arrived);\nbarrier_expect(arrived + 1, KEYS * 128);\ncopy_box(vs, &" + maps[2] +
         ", " + key_column + ", 0, " + key_outer +
         ", arrived + 1);\n}\nwait_for_previous_kernel();\n__syncthreads();");
  const bool whole = s.keys.is_constant(), once = n.has_mask && !n.mask_has_rows;
  // A mask that is the same for all rows is read while the operands are under way.
  if (once)
    b.line(R"(float bias[KEYS / 8][2];
#pragma unroll
for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
for (int c = 0; c < 2; ++c) bias[j][c] = masked(0.f, 0, 8 * j + 2 * t + c);)");
  const std::string scaled = "x * " + float_literal(op.scale * 1.4426950408889634);
  b.line("#define SCORE " +
         (once              ? scaled + " + bias[j][c]"
          : n.mask_has_rows ? "masked(" + scaled + ", row, key)"
          : whole ? "8 * j + 8 <= " + n.keys + " || key < " + n.keys + " ? " + scaled + " : -infinity()"
                  : "key < " + n.keys + " ? " + scaled + " : -infinity()"));
  b.line("#define QUERIES " + n.queries + "\n#define PITCH " + n.row[3] + "\n#define RESULT b * " +
         n.batch[3] + " + h * " + n.head[3]);
  b.line(kWholeRowProducts);
  b.line(vectors ? kWholeRowResults : kWholeRowPairs);
  return {{b.finish()}};
}

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const Variant v = Variant::of(tactic.params);
  if (v.groups > 0) return generate_whole_rows(query, tactic, v.groups, device);
  return v.warps > 0 ? generate_mma(query, tactic, v.warps) : generate_fma(query, tactic);
}

}  // namespace

GeneratedFamily attention_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
