// SPDX-License-Identifier: Apache-2.0
//
// Convolutions (any rank, groups, transposed too; channels-last) and matrix products of ours: no library is
// needed for any of them. 16-bit types run on tensor cores (mma.sync): tiles of A and B arrive in shared
// memory by asynchronous copies, three stages deep; results pass through shared memory once more so that the
// epilogue works on whole vectors. FP32 runs on plain multiply-adds, exactly. Tile sizes and the split of K
// over blocks are the tactic: a small batch fills the machine only with small tiles and a split K. Partial
// sums are added in a fixed order by a second kernel.
#include <cmath>

#include "backend/cuda/codegen/implicit_gemm.h"
#include "base/error.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kRunner = "ImplicitGemm";
constexpr int kStages = 3;

struct Tile {
  int bm, bn, warps_m, warps_n;
};
constexpr Tile kTiles[] = {{128, 128, 2, 4}, {128, 64, 4, 2}, {64, 128, 2, 4}, {64, 64, 2, 2},
                           {128, 32, 4, 1},  {64, 32, 2, 2},  {32, 64, 2, 2},  {32, 32, 2, 2}};

struct Variant {
  Tile tile;
  int bk = 32, splits = 1;

  // Nothing for plain multiply-adds, which have no parameters.
  static std::optional<Variant> of(const TacticParams& params) {
    if (params.empty()) return std::nullopt;
    for (const Tile& t : kTiles)
      if (t.bm == params.get("rows") && t.bn == params.get("columns"))
        return Variant{t, params.get_int("step"), params.get_int("splits")};
    throw Error(ErrorKind::Internal, "a product of tiles that there are not");
  }
  TacticParams params() const {
    return {{"rows", tile.bm}, {"columns", tile.bn}, {"step", bk}, {"splits", splits}};
  }
  std::string name() const {
    return "cuda_gemm_mma_" + std::to_string(tile.bm) + "x" + std::to_string(tile.bn) + "x" +
           std::to_string(bk) + "_s" + std::to_string(splits);
  }
  int warps() const { return tile.warps_m * tile.warps_n; }
  // Of a row of a tile in shared memory, in elements: rows begin in different banks.
  int a_pitch() const { return bk + 8; }
  int b_pitch(bool b_is_rows) const { return (b_is_rows ? tile.bn : bk) + 8; }
  int a_stage() const { return tile.bm * a_pitch(); }
  int b_stage(bool b_is_rows) const { return (b_is_rows ? bk : tile.bn) * b_pitch(b_is_rows); }
  // Stages of both tiles, and later, in the same place, the results of each warp as vectors.
  int shared_bytes(bool b_is_rows) const {
    const int strips = warps() * 16 * (tile.bn / tile.warps_n + 4) * 4;
    return std::max(kStages * 2 * (a_stage() + b_stage(b_is_rows)), strips);
  }
};

// What mma.sync reaches on a multiprocessor: on Hopper, whose tensor cores it cannot fill, three sevenths.
double mma_ops_per_us(const DeviceProperties& gpu) {
  return gpu.tensor_ops_per_us() * (gpu.is_hopper() ? 0.4316 : 0.8);
}

// A rough time in microseconds, to order variants and to leave out hopeless ones.
double estimate(const Variant& v, const DeviceProperties& gpu, double m, double n, double k, double batches) {
  const double blocks = std::ceil(m / v.tile.bm) * std::ceil(n / v.tile.bn) * batches * v.splits;
  const double steps = std::ceil(k / v.bk) / v.splits;
  // A multiprocessor holds several blocks; one alone cannot hide the latency of a step.
  const double shared = kStages * 2.0 * (v.tile.bm + v.tile.bn) * (v.bk + 8), units = gpu.multiprocessors;
  const double resident = std::max(
      1.0, std::min({static_cast<double>(gpu.shared_bytes_per_block) / shared, 48.0 / v.warps(), 8.0}));
  const double products = 2.0 * v.tile.bm * v.tile.bn * v.bk / mma_ops_per_us(gpu);
  const double per_step = std::max(products, 0.12 + v.bk * 0.0015);
  const double together = std::min(resident, std::max(1.0, blocks / units));
  const double step_time = std::max(per_step, together * products);
  const double waves = std::ceil(blocks / (units * resident));
  const double sum = v.splits > 1 ? 1.2 + v.splits * m * n * batches * 8 / 5e6 : 0;
  return 1.5 + waves * (steps + 2) * step_time + sum;
}

std::vector<Variant> variants(const ImplicitGemm& p, const LayerQuery& query, const DeviceProperties& gpu) {
  const auto [m, n, k, batches] = sizes_at_opt(p, query);
  std::vector<std::pair<double, Variant>> timed;
  for (const Tile& tile : kTiles)
    for (const int splits : {1, 2, 3, 4, 6, 8, 12}) {
      const Variant v{tile, k <= 32 ? 32 : 64, splits};
      const double steps = std::ceil(k / v.bk);
      const double blocks = std::ceil(m / tile.bm) * std::ceil(n / tile.bn) * batches * splits;
      if (v.shared_bytes(p.b_layout == ImplicitGemm::BLayout::Rows) > gpu.shared_bytes_per_block) continue;
      if (splits > 1 && (steps / splits < 2 || blocks > 4.0 * gpu.multiprocessors)) continue;
      timed.emplace_back(estimate(v, gpu, m, n, k, batches), v);
    }
  return most_promising(std::move(timed));
}

std::vector<Tactic> list(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const bool conv = std::holds_alternative<Conv>(node.op) || std::holds_alternative<ConvTranspose>(node.op);
  if (!conv && !std::holds_alternative<MatMul>(node.op)) return {};
  const Format format = conv ? kChannelsLast : kLinear;
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic base = typed_tactic(query, kRunner, "cuda_gemm_fma", {type, format}, {type, format});
    if (base.support.ok && !is_kernel_float(type))
      base.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    if (query.graph.value(node.inputs[0]).is_constant() && query.graph.value(node.inputs[0]).dtype != type)
      base.support = Support::no("a constant operand is read as it is stored");
    list_weights(query, type, base);
    ImplicitGemm p;
    if (base.support.ok && has_data_dependent_dims(query))
      base.support = Support::no("the size of the result depends on data");
    if (base.support.ok)
      if (const Support s = describe_gemm(query, base, p); !s.ok) base.support = s;
    if (base.support.ok && upper_bound(p.batches, query.ranges) > 65535)
      base.support = Support::no("more than 65535 batches or groups");
    if (!base.support.ok || !is_half(type)) {
      tactics.push_back(std::move(base));
      continue;
    }
    for (const Variant& v : variants(p, query, device.properties))
      tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

KernelSource mma_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                        const Variant& variant) {
  const Tile& tile = variant.tile;
  const int threads = 32 * variant.warps(), wm = tile.bm / tile.warps_m, wn = tile.bn / tile.warps_n;
  KernelBuilder b = start_kernel(query, tactic, "gemm_mma", tactic.outputs[0].dtype);
  GemmWriter writer(b, query, tactic, p, threads, tile.bm, tile.bn, variant.bk, variant.splits);
  const bool b_is_rows = writer.b_is_rows();
  const int a_pitch = variant.a_pitch(), b_pitch = variant.b_pitch(b_is_rows);
  b.kernel().shared_bytes = variant.shared_bytes(b_is_rows);
  const bool f16 = p.type == DType::Float16;
  b.global(std::string("#define MULTIPLY ") + (f16 ? "multiply_f16" : "multiply_bf16"));
  b.global("constexpr int kStages = " + std::to_string(kStages) + ", WM = " + std::to_string(wm) + ", WN = " +
           std::to_string(wn) + ", BK = " + std::to_string(variant.bk) + ", AP = " + std::to_string(a_pitch) +
           ", BP = " + std::to_string(b_pitch) + ", AS = " + std::to_string(variant.a_stage()) +
           ", BS = " + std::to_string(variant.b_stage(b_is_rows)) + ";");
  // Weights are there before the previous layer's result is.
  const bool early = p.b_layout == ImplicitGemm::BLayout::Packed;
  b.global(std::string("#define LATE_WAIT ") + (early ? "wait_for_previous_kernel();" : ""));
  if (early) b.waits_itself();
  const int v = result_vector(query, tactic, p, std::min(8, wn), variant.splits);
  const std::string type(storage_name(p.type)), vs = std::to_string(v),
                                                warps_n = std::to_string(tile.warps_n);
  writer.prologue(a_pitch, b_pitch);
  writer.result(v);
  b.line(type + "* as = (" + type + "*)shared_memory();\n" + type + "* bs = as + kStages * AS;");
  b.line(
      "const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = lane / 8, g = lane / 4, t = lane % "
      "4;\n"
      "const int wm0 = warp / " +
      warps_n + " * WM, wn0 = warp % " + warps_n + " * WN;");
  b.line(R"(float sum[WM / 16][WN / 8][4] = {};
const idx tiles = last - first;
#pragma unroll
for (int s = 0; s < kStages - 1; ++s)
if (s < tiles) fetch_b(first + s, bs + s * BS);
LATE_WAIT
#pragma unroll
for (int s = 0; s < kStages - 1; ++s) {
if (s < tiles) fetch_a(first + s, as + s * AS);
copy_commit();
}
for (idx i = 0; i < tiles; ++i) {
copy_wait<kStages - 2>();
__syncthreads();
const idx ahead = i + kStages - 1;
if (ahead < tiles) {
fetch_b(first + ahead, bs + ahead % kStages * BS);
fetch_a(first + ahead, as + ahead % kStages * AS);
}
copy_commit();
const auto* a_tile = as + i % kStages * AS;
const auto* b_tile = bs + i % kStages * BS;
#pragma unroll
for (int k = 0; k < BK; k += 16) {
u32 a[WM / 16][4], b[WN / 16][4];
#pragma unroll
for (int r = 0; r < WM / 16; ++r)
load_matrix(a[r], a_tile + (wm0 + r * 16 + m % 2 * 8 + lane % 8) * AP + k + m / 2 * 8);
#pragma unroll
for (int c = 0; c < WN / 16; ++c))");
  if (writer.b_is_rows())
    b.line(
        "load_matrix_transposed(b[c], b_tile + (k + m % 2 * 8 + lane % 8) * BP + wn0 + c * 16 + m / 2 * 8);");
  else
    b.line("load_matrix(b[c], b_tile + (wn0 + c * 16 + m / 2 * 8 + lane % 8) * BP + k + m % 2 * 8);");
  b.line(R"(#pragma unroll
for (int r = 0; r < WM / 16; ++r)
#pragma unroll
for (int c = 0; c < WN / 16; ++c) {
MULTIPLY(sum[r][2 * c], a[r], b[c][0], b[c][1]);
MULTIPLY(sum[r][2 * c + 1], a[r], b[c][2], b[c][3]);
}
}
}
copy_wait<0>();
__syncthreads();
// Sixteen rows of the warp's tile at a time, turned into vectors.
float* strip = (float*)shared_memory() + warp * 16 * (WN + 4);
#pragma unroll
for (int r = 0; r < WM / 16; ++r) {
#pragma unroll
for (int c = 0; c < WN / 8; ++c)
#pragma unroll
for (int e = 0; e < 4; ++e)
strip[(g + e / 2 * 8) * (WN + 4) + c * 8 + t * 2 + e % 2] = sum[r][c][e];
__syncwarp();)");
  b.line("#pragma unroll\nfor (int i = lane; i < 16 * WN / " + vs +
         "; i += 32) {\nconst int row = i / (WN / " + vs + "), column = i % (WN / " + vs + ") * " + vs +
         ";\nfloat v[" + vs + "];\n#pragma unroll\nfor (int j = 0; j < " + vs +
         "; ++j) v[j] = strip[row * (WN + 4) + column + j];\nresult(m0 + wm0 + r * 16 + row, n0 + wn0 + "
         "column, v);\n}\n"
         "__syncwarp();\n}");
  return b.finish();
}

// 256 threads, each 4 x 4 results of a 64 x 64 tile.
KernelSource fma_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p) {
  KernelBuilder b = start_kernel(query, tactic, "gemm_fma", DType::Float32);
  GemmWriter writer(b, query, tactic, p, 256, 64, 64, 16, 1);
  const std::string type(storage_name(p.type));
  writer.prologue(17, writer.b_is_rows() ? 65 : 17);
  writer.result(1);
  b.line("__shared__ " + type + " as[64 * 17];\n__shared__ " + type + " bs[64 * 17];");
  b.line(R"(const int x = threadIdx.x % 16, y = threadIdx.x / 16;
float sum[4][4] = {};
for (idx i = first; i < last; ++i) {
__syncthreads();
fetch_a(i, as);
fetch_b(i, bs);
__syncthreads();
#pragma unroll
for (int k = 0; k < 16; ++k) {
float a[4], b[4];
#pragma unroll
for (int r = 0; r < 4; ++r) a[r] = widen(as[(y + r * 16) * 17 + k]);
#pragma unroll)");
  b.line(std::string("for (int c = 0; c < 4; ++c) b[c] = widen(") +
         (writer.b_is_rows() ? "bs[k * 65 + x + c * 16]" : "bs[(x + c * 16) * 17 + k]") + ");");
  b.line(R"(#pragma unroll
for (int r = 0; r < 4; ++r)
#pragma unroll
for (int c = 0; c < 4; ++c) sum[r][c] += a[r] * b[c];
}
}
#pragma unroll
for (int r = 0; r < 4; ++r)
#pragma unroll
for (int c = 0; c < 4; ++c) {
float v[1] = {sum[r][c]};
result(m0 + y + r * 16, n0 + x + c * 16, v);
})");
  return b.finish();
}

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
  ImplicitGemm p;
  const Support support = describe_gemm(query, tactic, p);
  check(support.ok, "a refused product is generated: " + support.reason);
  LayerSource source;
  const auto variant = Variant::of(tactic.params);
  source.kernels.push_back(variant ? mma_kernel(query, tactic, p, *variant) : fma_kernel(query, tactic, p));
  if (variant && variant->splits > 1) {
    source.kernels.push_back(GemmWriter::sum_kernel(query, tactic, p, variant->splits));
    source.scratch_bytes = GemmWriter::scratch_bytes(query, variant->splits);
  }
  if (p.b_layout == ImplicitGemm::BLayout::Packed) {
    const Tensor weights = query.graph.value(query.layer().inputs[1]).constant;
    source.blocks["w"] = gemm_weights_block(query.layer().op, weights, p.type);
  }
  return source;
}

}  // namespace

GeneratedFamily gemm_family() {
  return {kRunner, list, generate, packs_alike};
}

}  // namespace lathe::cuda
