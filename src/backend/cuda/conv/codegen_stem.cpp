// SPDX-License-Identifier: Apache-2.0
//
// The first convolution of an image network: few channels (planes of FP32 or 16 bits, as images arrive, or
// bytes of a grid), windows that move two columns at a time. One kernel reads the planes and writes
// channels-last, 16 bits or bytes of a grid, where libraries want a copy of the image with its channels
// padded and then spend most of their products on padding.
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
#include "lathe_device_text/stem.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kStemRunner = "StemConvolution";

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

// What is multiplied for results of that type: the type itself, or for bytes of a grid the first of 16 bits
// that the layer may have.
DType multiplied_type(const LayerQuery& query, DType result) {
  if (is_half(result)) return result;
  for (const DType type : layer_types(query))
    if (is_half(type)) return type;
  return DType::Undefined;
}

Support describe(const LayerQuery& query, const Tactic& tactic, Stem& s, ImplicitGemm& p) {
  Tactic as_pixels = tactic;
  as_pixels.inputs[0] = {multiplied_type(query, tactic.outputs[0].dtype), kChannelsLast};
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
  if (dtype_size(tactic.outputs[0].dtype) == 1 && !divides(4, p.n))
    return Support::no("bytes of channels that are no multiple of 4");
  return {};
}

struct StemVariant {
  int rows = 1;    // of the result, for each block
  int tiles = 8;   // of a row, sixteen pixels each
  int groups = 1;  // of four warps, which compute four tiles at a time

  static StemVariant of(const TacticParams& params) {
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
int64_t shared_bytes(const Stem& s, const StemVariant& v, int64_t n) {
  const int64_t bn = columns_of_block(n);
  return 1024 + weight_bytes(s, bn) + (s.channels * v.rows_in(s) * v.words() + 3) / 4 * 16 +
         4 * v.groups * 16 * (bn + 8) * 2;
}

std::vector<Tactic> list_typed_stem(const LayerQuery& query, const StoredTypes& types, const Device& device) {
  const Value &x = query.graph.value(query.layer().inputs[0]),
              &weights = query.graph.value(query.layer().inputs[1]);
  Tactic base =
      typed_tactic(query, kStemRunner, "cuda_stem", {types.input, kLinear}, {types.output, kChannelsLast});
  list_weights(query, number_beside(query, types.output), base);
  Stem s;
  ImplicitGemm p;
  if (base.support.ok && !stores_numbers(query, query.layer().inputs[0], {types.input, kLinear}))
    base.support = Support::no("not an image of floats");
  if (base.support.ok && x.is_constant()) base.support = Support::no("the image is constant");
  if (base.support.ok && !weights.is_constant())
    base.support = Support::no("the weights are computed at run time");
  if (base.support.ok && has_data_dependent_dims(query))
    base.support = Support::no("the size of the result depends on data");
  if (base.support.ok) base.support = describe(query, base, s, p);
  if (!base.support.ok) return {base};
  // Tiles that waste least of a row; blocks of more rows where there are enough of them.
  int in_row = 8;
  if (s.w.out.is_constant()) {
    const int64_t tiles = (s.w.out.value() + 15) / 16, blocks = (tiles + 7) / 8;
    in_row = static_cast<int>((tiles + blocks - 1) / blocks);
  }
  std::vector<StemVariant> variants = {
      {1, in_row, 1}, {2, in_row, 2}, {1, in_row, 2}, {4, in_row, 2}, {4, in_row, 1}};
  if (sizes_at_opt(p, query).m / 16 / in_row > 4.0 * device.properties.multiprocessors)
    std::reverse(variants.begin(), variants.end());
  std::vector<Tactic> tactics;
  for (const StemVariant& v : variants) {
    if (shared_bytes(s, v, p.n.value()) > device.properties.shared_bytes_per_block) continue;
    TacticParams params = v.params();
    if (!is_half(types.output))
      params.set(std::string(dtype_name(p.type)), 1);  // reports ask what is multiplied
    tactics.push_back(with_variant(base, v.name(), params));
  }
  return tactics;
}

// The image as it is, or bytes of its grid; results of 16 bits, or bytes.
std::vector<Tactic> list_stem(const LayerQuery& query, const Device& device) {
  if (!std::holds_alternative<Conv>(query.layer().op) || !device.properties.is_hopper()) return {};
  const ValueId image = query.layer().inputs[0];
  const DType read = grid_bytes(query, image), written = grid_bytes(query, query.layer().outputs[0]);
  std::vector<DType> results;
  for (const DType type : layer_types(query))
    if (is_half(type)) results.push_back(type);
  if (written != DType::Undefined && !results.empty()) results.insert(results.begin(), written);
  std::vector<Tactic> tactics;
  for (const DType result : results)
    for (const DType type : {read, query.graph.value(image).dtype}) {
      if (type == DType::Undefined) continue;
      const std::vector<Tactic> typed = list_typed_stem(query, {type, result}, device);
      tactics.insert(tactics.end(), typed.begin(), typed.end());
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

LayerSource generate_stem(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const StemVariant v = StemVariant::of(tactic.params);
  Stem s;
  ImplicitGemm p;
  const Support support = describe(query, tactic, s, p);
  check(support.ok, "a refused convolution is generated: " + support.reason);
  const DType result = tactic.outputs[0].dtype, type = p.type;
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
  b.constants({{"THREADS", threads},
               {"GROUPS", v.groups},
               {"TH", v.rows},
               {"TX", v.tiles},
               {"BN", bn},
               {"N", n},
               {"V", vector_width(16 / dtype_size(result), {p.n})},
               {"WEIGHT_BYTES", weights},
               {"CHANNELS", s.channels},
               {"KH", s.h.kernel},
               {"KW", s.columns},
               {"KROWS", s.rows()},
               {"KP", s.k()},
               {"SH", s.h.stride},
               {"ROWS_IN", rows_in},
               {"WORDS", words},
               {"PAIRS", divides(2, s.w.in)},
               {"HAS_OPERANDS", query.layer().inputs.size() > query.layer().op_input_count()}});
  const std::string kind = type == DType::Float16 ? "f16" : "bf16";
  b.global("typedef " + std::string(storage_name(type)) + " T;\n#define MULTIPLY multiply_kept_" + kind +
           "\n#define PAIR f32_to_" + kind + "x2");
  b.global(device_text::stem::kStem);
  const std::string tx = b.number(tiles_x), ty = b.number(tiles_y);
  b.line("const StemExtents extents{" + b.number(s.w.in) + ", " + b.number(s.h.in) + ", " +
         b.number(s.w.out) + ", " + b.number(s.h.out) + "};");
  b.line("const idx ox0 = blockIdx.x % " + tx + " * " + std::to_string(16 * v.tiles) +
         ", oy0 = blockIdx.x / " + tx + " % " + ty + " * TH, image = blockIdx.x / " + tx + " / " + ty +
         ", batch = 0;\nconst StemTile tile{image, ox0 * 2 - " +
         std::to_string(s.w.pad_begin.value() + s.shift) + ", oy0 * SH - " + b.number(s.h.pad_begin) +
         ", ox0, oy0};");
  writer.result_in_place(2);
  b.line("compute_stem(" + b.input(0, tactic.inputs[0].dtype) + ", " + b.packed("w", storage_name(type)) +
         ", " + b.output(0, result) + ", extents, tile, place, tail);");
  LayerSource source{.kernels = {b.finish()}};
  const Tensor constant = query.graph.value(query.layer().inputs[1]).constant;
  const int64_t bytes = ceil_div(Dim(constant.extents()[0]), Dim(bn)).value() * weight_bytes(s, bn);
  source.blocks["w"] = {bytes, [constant, s, bn, type] { return pack_stem(constant, s, bn, type); }};
  return source;
}

}  // namespace

GeneratedFamily stem_family() {
  return {kStemRunner, list_stem, generate_stem, packs_alike};
}

}  // namespace lathe::cuda
