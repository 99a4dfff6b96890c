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
#include "lathe_device_text/attention.h"
#include "lathe_device_text/attention_fma.h"
#include "lathe_device_text/attention_mma.h"
#include "lathe_device_text/attention_wgmma.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kAttentionRunner = "Attention";
// Of the kernel that keeps all scores of its rows in registers.
constexpr int64_t kWholeRowKeys = 256, kWholeRowHead = 64;

// How the rows of a block are computed: all scores of a row in registers by groups of four warps (wgmma),
// tiles of keys by warps (mma), or neither (plain multiply-adds).
struct AttentionVariant {
  int groups = 0, warps = 0;

  static AttentionVariant of(const TacticParams& params) {
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

using Names = AttentionNames;

// Tiles of keys and values, and the block's rows, of the kernel for tensor cores; heads are padded to 16.
struct MmaTiles {
  int64_t width = 0, value_width = 0, keys = 64;
};
MmaTiles mma_tiles(const AttentionSizes& s) {
  const int64_t width = (s.width + 15) / 16 * 16, value_width = (s.value_width + 15) / 16 * 16;
  return {width, value_width, std::max(width, value_width) > 128 ? 32 : 64};
}
int64_t mma_shared_bytes(const AttentionSizes& s, int warps) {
  const MmaTiles t = mma_tiles(s);
  return 2 * (warps * 16 * (t.width + 8) + 2 * t.keys * (t.width + 8 + t.value_width + 8));
}

std::vector<Tactic> list_attention(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Attention>(&node.op);
  if (!op) return {};
  const AttentionSizes s = attention_sizes(query, *op);
  std::vector<Tactic> tactics;
  for (const auto& [type, to] : stored_types(query, false)) {
    Tactic base =
        typed_tactic(query, kAttentionRunner, AttentionVariant().name(), {type, kLinear}, {to, kLinear});
    list_attention_operands(query, type, s, base);
    const bool whole = s.width % 8 == 0 && s.value_width % 8 == 0;
    if (base.support.ok && is_half(type) && whole) {
      std::vector<AttentionVariant> variants;
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
      for (const AttentionVariant& v : variants) tactics.push_back(with_variant(base, v.name(), v.params()));
    } else {
      tactics.push_back(std::move(base));
    }
  }
  return tactics;
}

// Block geometry, for `rows` query rows a block: defines b, h, bh and q0; and masked() and mask_pair() as
// AttentionNames has them.
Names begin(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const Attention& op, int rows) {
  const AttentionSizes s = attention_sizes(query, op);
  Names n = attention_names(b, query, op);
  const Dim tiles = ceil_div(s.queries, Dim(rows));
  b.kernel().grid[0] = tiles * s.batch * s.heads;
  b.line("const idx q0 = blockIdx.x % " + b.number(tiles) + " * " + std::to_string(rows) +
         ", bh = blockIdx.x / " + b.number(tiles) + ", h = bh % " + n.heads + ", b = bh / " + n.heads + ";");
  define_masked(b, query, tactic, op, n);
  return n;
}

// Defines query, key and value: the rows of a head of each.
void define_rows(KernelBuilder& b, const Tactic& tactic, const Names& n) {
  const char* names[] = {"query", "key", "value"};
  for (size_t i = 0; i < 3; ++i)
    b.line("const auto " + std::string(names[i]) + " = rows_of(" + b.input(i, tactic.inputs[i].dtype) +
           " + b * " + n.batch[i] + " + " + (i == 0 ? "h" : n.key_head) + " * " + n.head[i] + ", " +
           (i == 0 ? n.queries : n.keys) + ", " + n.row[i] + ");");
}

// Defines finish(row, column, v), which takes `v` results: the layer's tail.
void define_finish(KernelBuilder& b, const Tail& tail, int v, const Names& n) {
  tail.emit(b, v);
  const std::string vs = std::to_string(v);
  b.line("const auto finish = [&](idx row, int column, const float (&v)[" + vs + "]) { finish" + vs +
         "(b * " + n.batch[3] + " + h * " + n.head[3] + " + row * " + n.row[3] + " + column, v); };");
}

// What a score is multiplied with, so that it is in units of log 2.
void define_scale(KernelBuilder& b, const Attention& op) {
  b.global("constexpr float SCALE = " + float_literal(op.scale * 1.4426950408889634) + ";");
}

// Keys that the rows of a block may need.
std::string end_of_keys(const Attention& op, const Names& n, int rows) {
  return op.causal ? "min((idx)" + n.keys + ", q0 + " + std::to_string(rows) + ")" : n.keys;
}

LayerSource generate_fma(const LayerQuery& query, const Tactic& tactic) {
  const auto& op = std::get<Attention>(query.layer().op);
  const AttentionSizes s = attention_sizes(query, op);
  KernelBuilder b = start_kernel(query, tactic, "attention_fma", DType::Float32);
  b.kernel().threads = 256;
  b.kernel().shared_bytes = static_cast<int>(4 * (32 * s.width + 32 * (s.width + 1) + 32 * s.value_width));
  b.constants({{"D", s.width}, {"DV", s.value_width}});
  define_scale(b, op);
  b.global(device_text::attention::kAttention);
  b.global(device_text::attention_fma::kAttentionFma);
  const Names n = begin(b, query, tactic, op, 32);
  define_rows(b, tactic, n);
  define_finish(b, Tail(query, tactic), 1, n);
  b.line("attend_rows(query, key, value, q0, " + end_of_keys(op, n, 32) + ", masked, finish);");
  return {{b.finish()}};
}

// "f16" or "bf16", as the names of products and conversions end.
std::string kind_of(DType type) {
  return type == DType::Float16 ? "f16" : "bf16";
}

LayerSource generate_mma(const LayerQuery& query, const Tactic& tactic, int warps) {
  const auto& op = std::get<Attention>(query.layer().op);
  const AttentionSizes s = attention_sizes(query, op);
  const DType type = tactic.inputs[0].dtype;
  const auto [dp, dvp, keys] = mma_tiles(s);
  KernelBuilder b = start_kernel(query, tactic, "attention_mma", type);
  b.kernel().threads = warps * 32;
  b.kernel().shared_bytes = static_cast<int>(mma_shared_bytes(s, warps));
  const Tail tail(query, tactic);
  const int v = tail.vector(2), rows = warps * 16;
  const Names n = begin(b, query, tactic, op, rows);
  const bool whole_tiles = s.keys.is_constant() && s.keys.value() % keys == 0;
  const char* mask = n.mask_has_rows              ? n.mask_pairs ? "MASK_OF_PAIRS" : "MASK_OF_SCORES"
                     : n.has_mask || !whole_tiles ? "MASK_OF_KEYS"
                                                  : "NO_MASK";
  b.constants({{"D", s.width},
               {"DV", s.value_width},
               {"DP", dp},
               {"DVP", dvp},
               {"WARPS", warps},
               {"KEYS", keys},
               {"WHOLE_TILES", whole_tiles},
               {"V", v}});
  define_scale(b, op);
  b.global("#define MULTIPLY multiply_" + kind_of(type) + "\n#define PACK f32_to_" + kind_of(type) + "x2");
  b.global(device_text::attention::kAttention);
  b.global("constexpr int MASK = " + std::string(mask) + ";");
  b.global(device_text::attention_mma::kAttentionMma);
  define_rows(b, tactic, n);
  define_finish(b, tail, v, n);
  b.line("attend_rows(query, key, value, q0, " + end_of_keys(op, n, rows) + ", masked, " +
         (n.mask_pairs ? "mask_pair" : "NoMaskPair{}") + ", finish);");
  return {{b.finish()}};
}

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
  const AttentionSizes s = attention_sizes(query, op);
  const DType type = tactic.inputs[0].dtype;
  const bool bhsd = op.layout == AttentionLayout::BHSD;
  const int keys = static_cast<int>((upper_bound(s.keys, query.ranges) + 15) / 16 * 16);
  KernelBuilder b = start_kernel(query, tactic, "attention_wgmma", type);
  b.hardware(hopper_primitives(type, keys) + hopper_rows_primitive(type, 64));
  b.kernel().threads = 128 * groups;
  b.kernel().resident =
      device.properties.registers_per_multiprocessor / (128 * groups * (keys <= 128 ? 128 : 168));
  b.kernel().shared_bytes = 1024 + groups * 8192 + 2 * keys * 128 + 16;
  b.waits_itself();
  const Tail tail(query, tactic);
  // A tail takes the sums as they are, but for bytes, whose steps are wider than a rounding to 16 bits.
  const bool bytes = stored_grid(query, query.layer().outputs[0], tactic.outputs[0]).has_value();
  const bool vectors = (tail.identity() || bytes) && tail.vector(8) == 8;
  const int v = vectors ? 8 : 1;
  const Names n = begin(b, query, tactic, op, 64 * groups);
  b.constants({{"GROUPS", groups},
               {"KEYS", keys},
               {"KNOWN_KEYS", s.keys.is_constant() ? s.keys.value() : 0},
               {"V", v}});
  define_scale(b, op);
  b.global("#define MULTIPLY_TILE multiply_tile_" + kind_of(type) + "\n#define MULTIPLY_ROWS multiply_rows_" +
           kind_of(type) + "\n#define PACK f32_to_" + kind_of(type) + "x2\ntypedef " +
           std::string(storage_name(type)) + " T;");
  b.global(device_text::attention::kAttention);
  b.global(std::string("constexpr int MASK = ") +
           (n.mask_has_rows ? "MASK_OF_SCORES"
            : n.has_mask    ? "MASK_OF_KEYS"
                            : "NO_MASK") +
           ";");
  b.global(device_text::attention_wgmma::kAttentionWgmma);
  define_finish(b, tail, v, n);
  std::string maps;
  for (size_t i = 0; i < 3; ++i)
    maps += "&" + b.input_map(i, rows_view(input_shape(query, i), type, bhsd, i == 0 ? 64 : keys)) + ", ";
  // Heads lie beside each other in a row, or one behind the other.
  const std::string shared = b.number(s.shared_heads),
                    heads = bhsd ? "{0, (int)bh}, {0, (int)(b * " + shared + " + " + n.key_head + ")}"
                                 : "{(int)h * 64, (int)b}, {(int)" + n.key_head + " * 64, (int)b}";
  b.line("attend_whole_rows(" + maps + heads + ", q0, " + n.queries + ", " + n.keys + ", masked, finish);");
  return {{b.finish()}};
}

LayerSource generate_attention(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const AttentionVariant v = AttentionVariant::of(tactic.params);
  if (v.groups > 0) return generate_whole_rows(query, tactic, v.groups, device);
  return v.warps > 0 ? generate_mma(query, tactic, v.warps) : generate_fma(query, tactic);
}

}  // namespace

GeneratedFamily attention_family() {
  return {kAttentionRunner, list_attention, generate_attention};
}

}  // namespace lathe::cuda
