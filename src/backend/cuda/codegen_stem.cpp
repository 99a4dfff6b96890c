// SPDX-License-Identifier: Apache-2.0
//
// The first convolution of an image network: few channels (planes of FP32 or 16 bits, as images arrive), windows that move two
// columns at a time. One kernel reads the planes and writes channels-last, where libraries want a copy of the image with its
// channels padded and then spend most of their products on padding.
//
// K runs over channels, rows of the window and, inside, its columns, padded to 4 or 8 and shifted so that windows begin at even
// columns. A block keeps the rows of the image that its windows see in shared memory as 16-bit pairs: two neighbouring operands
// of the tensor cores (mma.sync) are then one word, windows side by side are one word apart, and a warp's 32 words lie in
// different banks or are the same. A pad that meets an infinite pixel gives NaN (0 * inf) one column further than the window.
//
// ResNet-50's (7x7, 3 to 64 channels): bytes give 15 us at batch 32, the 9 GFLOP with pads 18 us at the 500 TFLOP/s of mma.sync.
#include <cstdio>

#include "backend/cuda/generated_layer.h"
#include "backend/cuda/implicit_gemm.h"
#include "base/error.h"
#include "base/hash.h"

namespace lathe::cuda {

GeneratedFamily stem_family();

namespace {

constexpr std::string_view kRunner = "StemConvolution";

struct Stem {
  ImplicitGemm::Axis h, w;
  Dim images, channels_out;
  int64_t channels = 3;
  int64_t shift = 0;    // columns in front of the window, so that it begins at an even one
  int64_t columns = 8;  // of a padded window
  bool bias = false;

  int64_t rows() const { return channels * h.kernel; }  // of a window, over all channels
  int64_t k() const { return (rows() * columns + 15) / 16 * 16; }
};

Support describe(const LayerQuery& query, const Tactic& tactic, Stem& s, ImplicitGemm& p) {
  Tactic as_pixels = tactic;
  as_pixels.inputs[0] = tactic.outputs[0];
  if (const Support support = describe_gemm(query, as_pixels, p); !support.ok) return support;
  if (p.axes.size() != 2) return Support::no("not a convolution of images");
  if (!p.batches.is_constant(1)) return Support::no("groups");
  s.h = p.axes[0];
  s.w = p.axes[1];
  s.images = input_shape(query, 0)[0];
  s.channels = p.channels.value();
  if (s.channels > 4) return Support::no("more than 4 channels");
  if (s.w.stride != 2 || s.h.dilation != 1 || s.w.dilation != 1)
    return Support::no("windows that do not move by two columns, or dilated ones");
  if (!s.w.pad_begin.is_constant()) return Support::no("pads that depend on the size");
  s.shift = s.w.pad_begin.value() % 2;
  if (s.w.kernel + s.shift > 8 || s.h.kernel > 16)
    return Support::no("windows of more than 8 columns or 16 rows");
  s.columns = s.w.kernel + s.shift > 4 ? 8 : 4;
  return {};
}

struct Variant {
  int rows = 1;   // of the result, for each block
  int warps = 8;  // 16 columns each

  static Variant parse(const std::string& name) {
    Variant v;
    check(std::sscanf(name.c_str(), "cuda_stem_%dx%d", &v.rows, &v.warps) == 2,
          "not a tactic of this family: " + name);
    return v;
  }
  std::string name() const { return "cuda_stem_" + std::to_string(rows) + "x" + std::to_string(warps); }
};

std::vector<Tactic> list(const LayerQuery& query) {
  if (!std::holds_alternative<Conv>(query.layer().op)) return {};
  const Value &x = query.graph.value(query.layer().inputs[0]),
              &weights = query.graph.value(query.layer().inputs[1]);
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    if (!is_half(type)) continue;
    Tactic base = typed_tactic(query, kRunner, "cuda_stem", {x.dtype, kLinear}, {type, kChannelsLast});
    list_weights(query, type, base);
    Stem s;
    ImplicitGemm p;
    if (base.support.ok && !is_kernel_float(x.dtype)) base.support = Support::no("not an image of floats");
    if (base.support.ok && x.is_constant()) base.support = Support::no("the image is constant");
    if (base.support.ok && !weights.is_constant())
      base.support = Support::no("the weights are computed at run time");
    if (base.support.ok && has_data_dependent_dims(query))
      base.support = Support::no("the size of the result depends on data");
    if (base.support.ok) base.support = describe(query, base, s, p);
    if (!base.support.ok) {
      tactics.push_back(std::move(base));
      continue;
    }
    // Warps whose columns waste least of a row; blocks of more rows where there are enough of them.
    int warps = 8;
    if (s.w.out.is_constant()) {
      const int64_t tiles = (s.w.out.value() + 15) / 16, blocks = (tiles + 7) / 8;
      warps = static_cast<int>((tiles + blocks - 1) / blocks);
    }
    const GemmSizes sizes = sizes_at_opt(p, query);
    std::vector<int> rows = {1, 2, 4};
    if (sizes.m / 16 / warps > 4 * 132) rows = {4, 2, 1};
    for (const int r : rows) {
      Tactic t = base;
      t.name = Variant{r, warps}.name();
      t.id = hash_text(t.name);
      tactics.push_back(std::move(t));
    }
  }
  return tactics;
}

// [channels of the result][channel, row, column of the padded window], K padded with zeros.
std::vector<std::byte> pack_stem(const Tensor& weights, const Stem& s, DType type) {
  const std::vector<double> w = weights.to_doubles();
  const auto k = static_cast<size_t>(s.k()), rows = static_cast<size_t>(s.rows()),
             columns = static_cast<size_t>(s.columns), width = static_cast<size_t>(s.w.kernel),
             shift = static_cast<size_t>(s.shift);
  const size_t n = w.size() / (rows * width);
  std::vector<double> packed(n * k, 0.0);
  for (size_t o = 0; o < n; ++o)
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < width; ++c)
        packed[o * k + r * columns + c + shift] = w[(o * rows + r) * width + c];
  const Tensor t = Tensor::from_doubles(type, {static_cast<int64_t>(packed.size())}, packed);
  return {t.bytes().begin(), t.bytes().end()};
}

constexpr std::string_view kLoad = R"(const idx n0 = blockIdx.y * BN;
T* bs = (T*)shared_memory();
u32* xs = (u32*)(bs + BN * BP);
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = lane / 8, g = lane / 4, t = lane % 4;
for (int i = threadIdx.x; i < BN * (KP / 8); i += THREADS) {
const int row = i / (KP / 8), column = i % (KP / 8) * 8;
const bool valid = n0 + row < N;
copy_async(bs + row * BP + column, WEIGHTS + (valid ? (n0 + row) * KP + column : 0), valid ? 16 : 0);
}
copy_commit();
wait_for_previous_kernel();
#pragma unroll 4
for (int i = threadIdx.x; i < CHANNELS * ROWS_IN * WORDS; i += THREADS) {
const int row = i / WORDS;
const idx y = y0 + row % ROWS_IN, x = x0 + i % WORDS * 2;
float e[2] = {0.f, 0.f};
if (y >= 0 && y < H) {
const auto* from = IMAGE + ((image * CHANNELS + row / ROWS_IN) * H + y) * W + x;
if constexpr (PAIRS) {
if (x >= 0 && x < W) load(from, e);
} else {
if (x >= 0 && x < W) e[0] = widen(from[0]);
if (x + 1 >= 0 && x + 1 < W) e[1] = widen(from[1]);
}
}
xs[i] = PAIR(e[0], e[1]);
}
copy_wait<0>();
__syncthreads();
)";

constexpr std::string_view kProducts = R"(float sum[TH][BN / 8][4] = {};
#pragma unroll
for (int s = 0; s < KP / 16; ++s) {
u32 b[BN / 16][4];
#pragma unroll
for (int c = 0; c < BN / 16; ++c) load_matrix(b[c], bs + (c * 16 + m / 2 * 8 + lane % 8) * BP + s * 16 + m % 2 * 8);
// Where the two halves of this thread's operands begin for the block's first row; behind the last row weights are zero.
int from[2];
#pragma unroll
for (int half = 0; half < 2; ++half) {
const int k = s * 16 + half * 8 + t * 2, row = k / KW < KROWS ? k / KW : 0;
from[half] = (row / KH * ROWS_IN + row % KH) * WORDS + warp * 16 + g + k % KW / 2;
}
#pragma unroll
for (int h = 0; h < TH; ++h) {
u32 a[4];
#pragma unroll
for (int half = 0; half < 2; ++half) {
const u32* x = xs + from[half] + h * SH * WORDS;
a[2 * half] = x[0];
a[2 * half + 1] = x[8];
}
#pragma unroll
for (int c = 0; c < BN / 16; ++c) {
MULTIPLY(sum[h][2 * c], a, b[c][0], b[c][1]);
MULTIPLY(sum[h][2 * c + 1], a, b[c][2], b[c][3]);
}
}
}
// Sixteen pixels of the warp at a time, turned into vectors of channels.
float* strip = (float*)(xs + (CHANNELS * ROWS_IN * WORDS + 3) / 4 * 4) + warp * 16 * (BN + 4);
#pragma unroll
for (int h = 0; h < TH; ++h) {
#pragma unroll
for (int c = 0; c < BN / 8; ++c)
#pragma unroll
for (int e = 0; e < 4; ++e) strip[(g + e / 2 * 8) * (BN + 4) + c * 8 + t * 2 + e % 2] = sum[h][c][e];
__syncwarp();
#pragma unroll 4
for (int i = lane; i < 16 * BN / V; i += 32) {
const int row = i / (BN / V), column = i % (BN / V) * V;
const idx oy = oy0 + h, ox = ox0 + warp * 16 + row;
if (oy >= OH || ox >= OW) continue;
const idx at = place((image * OH + oy) * OW + ox, n0 + column);
if (at < 0) continue;
float v[V];
load(strip + row * (BN + 4) + column, v);
finish(at, n0 + column, v);
store(RESULT + at, v);
}
__syncwarp();
})";

LayerSource generate(const LayerQuery& query, const Tactic& tactic) {
  const Variant v = Variant::parse(tactic.name);
  Stem s;
  ImplicitGemm p;
  const Support support = describe(query, tactic, s, p);
  check(support.ok, "a refused convolution is generated: " + support.reason);
  const DType type = tactic.outputs[0].dtype;
  const int64_t n = p.n.value(), bn = std::min<int64_t>(64, (n + 15) / 16 * 16);
  const int64_t rows_in = (v.rows - 1) * s.h.stride + s.h.kernel, words = 16 * v.warps + 4;
  KernelBuilder b = start_kernel(query, "stem", type);
  GemmWriter writer(b, query, tactic, p, 32 * v.warps, 16, 16, 16, 1);
  const int width = result_vector(query, tactic, p, 8, 1);
  b.kernel().threads = 32 * v.warps;
  b.kernel().shared_bytes = static_cast<int>(
      bn * (s.k() + 8) * 2 + (s.channels * rows_in * words + 3) / 4 * 16 + v.warps * 16 * (bn + 4) * 4);
  b.waits_itself();
  const Dim tiles_x = ceil_div(s.w.out, Dim(16 * v.warps)), tiles_y = ceil_div(s.h.out, Dim(v.rows));
  b.kernel().grid = {tiles_x * tiles_y * s.images, Dim((n + bn - 1) / bn), 1};
  const auto set = [&](const char* name, int64_t value) {
    b.global(std::string("constexpr int ") + name + " = " + std::to_string(value) + ";");
  };
  set("THREADS", 32 * v.warps);
  set("TH", v.rows);
  set("BN", bn);
  set("N", n);
  set("V", width);
  set("CHANNELS", s.channels);
  set("KH", s.h.kernel);
  set("KW", s.columns);
  set("KROWS", s.rows());
  set("KP", s.k());
  set("BP", s.k() + 8);
  set("SH", s.h.stride);
  set("ROWS_IN", rows_in);
  set("WORDS", words);
  const bool f16 = type == DType::Float16;
  b.global(std::string("typedef ") + std::string(storage_name(type)) + " T;\n#define MULTIPLY " +
           (f16 ? "multiply_f16" : "multiply_bf16") + "\n#define PAIR " +
           (f16 ? "f32_to_f16x2" : "f32_to_bf16x2"));
  const std::string tx = b.number(tiles_x), ty = b.number(tiles_y);
  b.line("#define IMAGE " + b.input(0, tactic.inputs[0].dtype) + "\n#define WEIGHTS " +
         b.packed("w", storage_name(type)) + "\n#define RESULT " + b.output(0, type));
  b.line("constexpr bool PAIRS = " + std::string(divides(2, s.w.in) ? "true" : "false") + ";");
  b.line("const idx W = " + b.number(s.w.in) + ", H = " + b.number(s.h.in) + ", OW = " + b.number(s.w.out) +
         ", OH = " + b.number(s.h.out) + ";");
  b.line("const idx ox0 = blockIdx.x % " + tx + " * " + std::to_string(16 * v.warps) +
         ", oy0 = blockIdx.x / " + tx + " % " + ty + " * TH, image = blockIdx.x / " + tx + " / " + ty +
         ", batch = 0;\nconst idx x0 = ox0 * 2 - " + std::to_string(s.w.pad_begin.value() + s.shift) +
         ", y0 = oy0 * SH - " + b.number(s.h.pad_begin) + ";");
  writer.result_in_place(width);
  b.line(kLoad);
  b.line(kProducts);
  LayerSource source{.kernels = {b.finish()}};
  const Tensor weights = query.graph.value(query.layer().inputs[1]).constant;
  source.blocks["w"] = [weights, s, type] { return pack_stem(weights, s, type); };
  return source;
}

}  // namespace

GeneratedFamily stem_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
