// SPDX-License-Identifier: Apache-2.0
//
// The first convolution of an image network: few channels (planes of FP32 or 16 bits, as images arrive),
// windows that move two columns at a time. One kernel reads the planes and writes channels-last, where
// libraries want a copy of the image with its channels padded and then spend most of their products on
// padding.
//
// K runs over channels, rows of the window and, inside, its columns, padded to 4 or 8 and shifted so that
// windows begin at even columns. A block keeps the rows of the image that its windows see in shared memory as
// 16-bit pairs: two neighbouring operands of the tensor cores are then one word, windows side by side are one
// word apart, and a warp's 32 words lie in different banks or are the same. So warps gather their pixels in
// registers and multiply them (wgmma) with weights in shared memory. A pad that meets an infinite pixel gives
// NaN (0 * inf) one column further than the window.
//
// ResNet-50's (7x7, 3 to 64 channels): bytes give 15 us at batch 32, the 9 GFLOP with pads 12 us.
#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/codegen/implicit_gemm.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"

namespace lathe::cuda {

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
  if (result_vector(query, tactic, p, 2, 1) < 2) return Support::no("an odd number of channels");
  return {};
}

struct Variant {
  int rows = 1;    // of the result, for each block
  int tiles = 8;   // of a row, sixteen pixels each
  int groups = 1;  // of four warps, which compute four tiles at a time

  static Variant of(const TacticParams& params) {
    return {params.get_int("rows"), params.get_int("tiles"), params.get_int("groups")};
  }
  TacticParams params() const { return {{"rows", rows}, {"tiles", tiles}, {"groups", groups}}; }
  std::string name() const {
    return "cuda_stem_" + std::to_string(rows) + "x" + std::to_string(tiles) + "_g" + std::to_string(groups);
  }
  int64_t rows_in(const Stem& s) const { return (rows - 1) * s.h.stride + s.h.kernel; }
  int64_t words() const { return 16 * tiles + 4; }  // of a row of the image, two pixels each
};

// Channels of the result that a block computes, and bytes of their weights in shared memory.
int64_t columns_of_block(int64_t n) {
  return std::min<int64_t>(64, (n + 7) / 8 * 8);
}
int64_t weight_bytes(const Stem& s, int64_t bn) {
  return (s.k() + 63) / 64 * bn * 128;
}

// Weights, the rows of the image that the block's windows see, and the results of each warp.
int64_t shared_bytes(const Stem& s, const Variant& v, int64_t n) {
  const int64_t bn = columns_of_block(n);
  return 1024 + weight_bytes(s, bn) + (s.channels * v.rows_in(s) * v.words() + 3) / 4 * 16 +
         4 * v.groups * 16 * (bn + 8) * 2;
}

std::vector<Tactic> list(const LayerQuery& query, const Device& device) {
  if (!std::holds_alternative<Conv>(query.layer().op) || !device.properties.is_hopper()) return {};
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
    // Tiles that waste least of a row; blocks of more rows where there are enough of them.
    int in_row = 8;
    if (s.w.out.is_constant()) {
      const int64_t tiles = (s.w.out.value() + 15) / 16, blocks = (tiles + 7) / 8;
      in_row = static_cast<int>((tiles + blocks - 1) / blocks);
    }
    std::vector<Variant> variants = {
        {1, in_row, 1}, {2, in_row, 2}, {1, in_row, 2}, {4, in_row, 2}, {4, in_row, 1}};
    if (sizes_at_opt(p, query).m / 16 / in_row > 4.0 * device.properties.multiprocessors)
      std::reverse(variants.begin(), variants.end());
    for (const Variant& v : variants)
      if (shared_bytes(s, v, p.n.value()) <= device.properties.shared_bytes_per_block)
        tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

// As a block has them in shared memory: for each 64 of K (channel, row, column of the padded window) a tile
// of rows of 128 swizzled bytes, one for each channel of the result.
std::vector<std::byte> pack_stem(const Tensor& weights, const Stem& s, int64_t bn, DType type) {
  const std::vector<double> w = weights.to_doubles();
  const int64_t rows = s.rows(), width = s.w.kernel, n = static_cast<int64_t>(w.size()) / (rows * width);
  const int64_t block = weight_bytes(s, bn) / 2, blocks = (n + bn - 1) / bn;
  std::vector<double> packed(static_cast<size_t>(blocks * block), 0.0);
  for (int64_t o = 0; o < n; ++o)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < width; ++c) {
        const int64_t k = r * s.columns + c + s.shift, own = o % bn;
        const int64_t at = o / bn * block + k / 64 * bn * 64 + own * 64 + ((k % 64) ^ (own % 8 * 8));
        packed[static_cast<size_t>(at)] = w[static_cast<size_t>((o * rows + r) * width + c)];
      }
  const Tensor t = Tensor::from_doubles(type, {static_cast<int64_t>(packed.size())}, packed);
  return {t.bytes().begin(), t.bytes().end()};
}

constexpr std::string_view kLoad = R"(const idx n0 = blockIdx.y * BN;
char* base = shared_memory();
base += (1024 - shared_address(base) % 1024) % 1024;
u32* xs = (u32*)(base + WEIGHT_BYTES);
const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
for (int i = threadIdx.x; i < WEIGHT_BYTES / 16; i += THREADS) copy_async(base + i * 16, (const char*)WEIGHTS + blockIdx.y * WEIGHT_BYTES + i * 16, 16);
copy_commit();
wait_for_previous_kernel();
// All loads are under way before the first is waited for.
constexpr int LOADED = CHANNELS * ROWS_IN * WORDS, LOADS = (LOADED + THREADS - 1) / THREADS;
float e[LOADS][2];
#pragma unroll
for (int u = 0; u < LOADS; ++u) {
const int i = u * THREADS + threadIdx.x, row = i / WORDS;
const idx y = y0 + row % ROWS_IN, x = x0 + i % WORDS * 2;
const bool inside = i < LOADED && y >= 0 && y < H;
const auto* from = IMAGE + ((image * CHANNELS + row / ROWS_IN) * H + y) * W + x;
if constexpr (PAIRS) {
const bool both = inside && x >= 0 && x < W;
load(both ? from : IMAGE, e[u]);
if (!both) e[u][0] = e[u][1] = 0.f;
} else {
const bool first = inside && x >= 0 && x < W, second = inside && x + 1 >= 0 && x + 1 < W;
e[u][0] = widen(first ? from[0] : IMAGE[0]);
e[u][1] = widen(second ? from[1] : IMAGE[0]);
if (!first) e[u][0] = 0.f;
if (!second) e[u][1] = 0.f;
}
}
#pragma unroll
for (int u = 0; u < LOADS; ++u) {
const int i = u * THREADS + threadIdx.x;
if (i < LOADED) xs[i] = PAIR(e[u][0], e[u][1]);
}
copy_wait<0>();
stored_before_products();
__syncthreads();
)";

constexpr std::string_view kProducts = R"(T* strip = (T*)(xs + (LOADED + 3) / 4 * 4) + warp * 16 * (BN + 8);
Operands operands[BN / 8];
if constexpr (!HAS_OPERANDS)
#pragma unroll
for (int c = 0; c < BN / 8; ++c) fetch(0, n0 + c * 8 + t * 2 < N ? n0 + c * 8 + t * 2 : 0, operands[c]);
// Four tiles of sixteen pixels at a time, one for each warp of a group.
for (int first = warp / 4 * 4; first < TH * TX; first += 4 * GROUPS) {
const bool mine = first + warp % 4 < TH * TX;
const int tile = mine ? first + warp % 4 : 0, h = tile / TX, column = tile % TX * 16;
u32 a[KP / 16][4];
#pragma unroll
for (int s = 0; s < KP / 16; ++s)
#pragma unroll
for (int half = 0; half < 2; ++half) {
// Behind the last row weights are zero.
const int k = s * 16 + half * 8 + t * 2, row = k / KW < KROWS ? k / KW : 0;
const u32* x = xs + (row / KH * ROWS_IN + row % KH + h * SH) * WORDS + column + g + k % KW / 2;
a[s][2 * half] = x[0];
a[s][2 * half + 1] = x[8];
}
float sum[BN / 2] = {};
multiply_begin();
#pragma unroll
for (int s = 0; s < KP / 16; ++s) MULTIPLY(sum, a[s], tile_operand(base + s / 4 * BN * 128) + s % 4 * 2);
multiply_commit();
multiply_wait<0>();
multiply_done(sum);
// Through shared memory, so that whole vectors of channels are stored.
const idx oy = oy0 + h;
#pragma unroll
for (int r = 0; r < 2; ++r) {
const idx ox = ox0 + column + g + 8 * r;
const bool inside = mine && oy < OH && ox < OW;
#pragma unroll
for (int c = 0; c < BN / 8; ++c) {
float v[2] = {sum[4 * c + 2 * r], sum[4 * c + 2 * r + 1]};
if constexpr (HAS_OPERANDS) {
const idx at = inside ? place((image * OH + oy) * OW + ox, n0 + c * 8 + t * 2) : -1;
fetch(at < 0 ? 0 : at, at < 0 ? 0 : n0 + c * 8 + t * 2, operands[c]);
}
apply(operands[c], v);
*(u32*)(strip + (g + 8 * r) * (BN + 8) + c * 8 + t * 2) = PAIR(v[0], v[1]);
}
}
__syncwarp();
#pragma unroll
for (int i = lane; i < 16 * (BN / V); i += 32) {
const int row = i / (BN / V), channel = i % (BN / V) * V;
const idx ox = ox0 + column + row, at = mine && oy < OH && ox < OW ? place((image * OH + oy) * OW + ox, n0 + channel) : -1;
u32 w[V / 2];
load_words(strip + row * (BN + 8) + channel, w);
if (at >= 0) store_words(RESULT + at, w);
}
__syncwarp();
})";

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Variant v = Variant::of(tactic.params);
  Stem s;
  ImplicitGemm p;
  const Support support = describe(query, tactic, s, p);
  check(support.ok, "a refused convolution is generated: " + support.reason);
  const DType type = tactic.outputs[0].dtype;
  const int64_t n = p.n.value(), bn = columns_of_block(n), rows_in = v.rows_in(s), words = v.words(),
                threads = 128 * v.groups, weights = weight_bytes(s, bn);
  KernelBuilder b = start_kernel(query, tactic, "stem", type);
  b.hardware(hopper_primitives() + hopper_kept_primitive(type, static_cast<int>(bn)));
  GemmWriter writer(b, query, tactic, p, static_cast<int>(threads), 16, 16, 16, 1);
  b.kernel().threads = static_cast<int>(threads);
  b.kernel().shared_bytes = static_cast<int>(shared_bytes(s, v, n));
  b.waits_itself();
  const Dim tiles_x = ceil_div(s.w.out, Dim(16 * v.tiles)), tiles_y = ceil_div(s.h.out, Dim(v.rows));
  b.kernel().grid = {tiles_x * tiles_y * s.images, Dim((n + bn - 1) / bn), 1};
  const auto set = [&](const char* name, int64_t value) {
    b.global(std::string("constexpr int ") + name + " = " + std::to_string(value) + ";");
  };
  set("THREADS", threads);
  set("GROUPS", v.groups);
  set("TH", v.rows);
  set("TX", v.tiles);
  set("BN", bn);
  set("N", n);
  set("V", vector_width(8, {p.n}));
  set("WEIGHT_BYTES", weights);
  set("CHANNELS", s.channels);
  set("KH", s.h.kernel);
  set("KW", s.columns);
  set("KROWS", s.rows());
  set("KP", s.k());
  set("SH", s.h.stride);
  set("ROWS_IN", rows_in);
  set("WORDS", words);
  set("HAS_OPERANDS", query.layer().inputs.size() > query.layer().op_input_count());
  const bool f16 = type == DType::Float16;
  b.global(std::string("typedef ") + std::string(storage_name(type)) +
           " T;\n#define MULTIPLY multiply_kept_" + (f16 ? "f16" : "bf16") + "\n#define PAIR " +
           (f16 ? "f32_to_f16x2" : "f32_to_bf16x2"));
  const std::string tx = b.number(tiles_x), ty = b.number(tiles_y);
  b.line("#define IMAGE " + b.input(0, tactic.inputs[0].dtype) + "\n#define WEIGHTS " +
         b.packed("w", storage_name(type)) + "\n#define RESULT " + b.output(0, type));
  b.line("constexpr bool PAIRS = " + std::string(divides(2, s.w.in) ? "true" : "false") + ";");
  b.line("const idx W = " + b.number(s.w.in) + ", H = " + b.number(s.h.in) + ", OW = " + b.number(s.w.out) +
         ", OH = " + b.number(s.h.out) + ";");
  b.line("const idx ox0 = blockIdx.x % " + tx + " * " + std::to_string(16 * v.tiles) +
         ", oy0 = blockIdx.x / " + tx + " % " + ty + " * TH, image = blockIdx.x / " + tx + " / " + ty +
         ", batch = 0;\nconst idx x0 = ox0 * 2 - " + std::to_string(s.w.pad_begin.value() + s.shift) +
         ", y0 = oy0 * SH - " + b.number(s.h.pad_begin) + ";");
  writer.result_in_place(2);
  b.line(kLoad);
  b.line(kProducts);
  LayerSource source{.kernels = {b.finish()}};
  const Tensor constant = query.graph.value(query.layer().inputs[1]).constant;
  const int64_t bytes = ceil_div(Dim(constant.extents()[0]), Dim(bn)).value() * weight_bytes(s, bn);
  source.blocks["w"] = {bytes, [constant, s, bn, type] { return pack_stem(constant, s, bn, type); }};
  return source;
}

}  // namespace

GeneratedFamily stem_family() {
  return {kRunner, list, generate, packs_alike};
}

}  // namespace lathe::cuda
