// SPDX-License-Identifier: Apache-2.0
//
// Attention, FP32 inside for FP32, BF16 and FP16 tensors (keys and values may be of another type than
// queries): tiles of queries against the packed keys and values of a head (attention/attention.inc). BF16
// tensors have a second way: both products with BF16's dot product, scores and sums in FP32
// (attention/attention_avx512_bf16.cpp), or in AMX tiles, where queries, widths and keys are padded with
// zeros to whole tiles. Work is shared out by heads, and by groups of queries when heads are few.
// Reached by tiles (one core of an Emerald Rapids, cold, 12 heads of width 64): 128 tokens 0.19 ms, 197
// tokens 0.42 ms; by dots 0.69 and 1.68. Reached by the second (Zen 4, two threads, cold, 12 heads of width
// 64, of 472 GFLOP/s): 330 at 128 tokens (70 %), 343 at 1024; the first gives 183 of 236 (77 %).
#include <cmath>
#include <limits>

#include "backend/cpu/attention/attention_bf16_table.h"
#include "backend/cpu/attention/attention_table.h"
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/tile/tile_matmul_table.h"
#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/transpose_tile.h"
#include "base/floats.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kAttentionRunner = "Attention";
// What the products are made of: a tactic's only choice.
enum class Products : uint8_t { Floats, Dots, Tiles };
Products products_of(const TacticParams& params) {
  return static_cast<Products>(params.get("products"));
}
TacticParams params_of(Products products) {
  return {{"amx", products == Products::Tiles}, {"products", static_cast<int64_t>(products)}};
}
std::string name_of(Products products, const Machine& machine) {
  if (products == Products::Tiles) return "flash_attention_amx_bf16";
  return "flash_attention_" + (products == Products::Dots ? "avx512_bf16" : std::string(isa_suffix(machine)));
}
constexpr int64_t kTileRows = 2 * AmxProduct::kGroup;  // of queries, in AMX tiles
constexpr int64_t kFewRows = 8;  // of queries to a head of keys, up to which packing it does not pay

const AttentionTable& attention_table(Isa isa) {
  return isa == Isa::Avx2 ? attention_table_avx2() : attention_table_avx512();
}

// Where head (b, h) starts and how far its rows are apart, in elements.
struct HeadRows {
  int64_t batch = 0, head = 0, row = 0;
  int64_t start(int64_t b, int64_t h) const { return b * batch + h * head; }
};

struct MaskLayout {
  DType type = DType::Undefined;  // Undefined: no mask
  int64_t batch = 0, head = 0, row = 0, key = 0;
};

class PreparedAttention final : public PreparedLayer {
 public:
  static constexpr int64_t kStep = 32;  // along k, in AMX tiles

  Attention op;
  DType type = DType::Float32, key_type = DType::Float32;  // of queries and results; of keys and values
  int64_t batch = 1, heads = 1, queries = 1, keys = 1, width = 1, value_width = 1;
  int64_t sharing = 1;  // heads of q that read one head of k and v
  bool few = false;     // rows of queries that read a head of k and v: too few to pack it for them
  HeadRows q_rows, k_rows, v_rows, out_rows;
  MaskLayout mask;
  Isa isa = Isa::Avx2;
  bool dots = false;              // BF16's dot products
  const AmxTable* amx = nullptr;  // the same in tiles; else null
  bool plain_epilogue = false;    // nothing to compute after the values
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  size_t scratch_bytes() const override {
    return static_cast<size_t>(member_floats() * threads) * sizeof(float);
  }
  int members(int available) const override {
    const double operations =
        2.0 * static_cast<double>(batch * heads * queries * keys * (width + value_width));
    return members_for(operations / 60, available);
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    if (few) return run_few(args, worker);
    const AttentionTable& table = attention_table(isa);
    Memory m = memory(reinterpret_cast<float*>(args.scratch) + worker.index * member_floats());
    const int64_t tile_rows = amx ? kTileRows : table.tile_rows;
    const int64_t tiles = (queries + tile_rows - 1) / tile_rows;
    // Whole heads when they divide well; packing keys and values is then done once.
    const int64_t all_heads = batch * heads;
    const bool whole = all_heads % worker.count == 0 || all_heads >= 6 * worker.count;
    const int64_t groups = whole ? 1 : tiles;
    const Worker::Range part = worker.slice(all_heads * groups);
    if (amx) amx->begin(kStep);
    int64_t packed_head = -1;
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t head = i / groups, shared = head / sharing;
      if (shared != packed_head) dots ? pack_pairs(args, shared, m) : pack(args, shared, m);
      packed_head = shared;
      for (int64_t t = whole ? 0 : i % groups; t < (whole ? tiles : i % groups + 1); ++t)
        amx    ? run_amx_tile(args, head, t, m)
        : dots ? run_tile_of_dots(args, head, t, tiles, m)
               : run_tile(args, head, t, tiles, m);
    }
    if (amx) amx->end();
  }

 private:
  struct Memory {
    float *keys, *values, *work, *q, *rows, *result, *mask;
  };
  // Dots: scores and weights of a tile for all keys.
  int64_t tile_rows() const { return amx ? kTileRows : attention_table(isa).tile_rows; }
  int64_t work_floats() const {
    const AttentionTable& t = attention_table(isa);
    return dots ? tile_rows() * (padded_keys() + padded_keys() / 2) : t.work_floats(value_width);
  }
  int64_t result_stride() const { return dots ? padded_values() : value_width; }
  int64_t padded_width() const { return amx ? round_up(width, kStep) : width; }
  // Pairs of keys of packed values.
  int64_t key_pairs() const { return amx ? padded_keys() / 2 : (keys + 1) / 2; }
  int64_t padded_keys() const { return round_up(keys, attention_table(isa).panel); }
  int64_t padded_values() const { return round_up(value_width, attention_table(isa).panel); }
  int64_t member_floats() const {
    if (few)
      return FewQueries::kMost * (2 * padded_keys() + padded_values() + round_up(width, int64_t{16})) + 16;
    const AttentionTable& t = attention_table(isa);
    const int64_t total = padded_keys() * padded_width() + padded_values() * (padded_keys() + 1) +
                          work_floats() + tile_rows() * (padded_width() + result_stride()) +
                          t.panel * std::max(width, value_width) +
                          (mask.type == DType::Undefined ? 0 : tile_rows() * padded_keys());
    return round_up(total + 16 * 8, 16);
  }
  Memory memory(float* base) const {
    const AttentionTable& t = attention_table(isa);
    Memory m;
    const auto take = [&](int64_t floats) {
      float* p = base;
      base += round_up(floats, 16);
      return p;
    };
    m.keys = take(padded_keys() * padded_width());
    m.values = take(padded_values() * (padded_keys() + 1));
    m.work = take(work_floats());
    m.q = take(tile_rows() * padded_width());
    m.result = take(tile_rows() * result_stride());
    m.rows = take(t.panel * std::max(width, value_width));
    m.mask = take(mask.type == DType::Undefined ? 0 : tile_rows() * padded_keys());
    return m;
  }

  // Rows of queries as they are counted here: all queries of a head, then those of the next one that shares
  // its keys.
  void run_few(const LayerArgs& args, const Worker& worker) const {
    const int64_t shared_heads = heads / sharing, rows = sharing * queries;
    float* scores = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    float *masks = scores + FewQueries::kMost * padded_keys(),
          *results = masks + FewQueries::kMost * padded_keys(),
          *widened = results + FewQueries::kMost * padded_values();
    const bool in_place = epilogue->is_identity();
    const auto at = [&](size_t input, int64_t element) {
      return static_cast<const std::byte*>(args.inputs[input]) + dtype_bytes(key_type, element);
    };
    const Worker::Range part = worker.slice(batch * shared_heads);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t b = i / shared_heads, shared = i % shared_heads;
      FewQueries f{.stored = key_type == DType::Float32    ? FewQueries::Stored::Float32
                             : key_type == DType::BFloat16 ? FewQueries::Stored::BFloat16
                                                           : FewQueries::Stored::Float16,
                   .keys = at(1, k_rows.start(b, shared)),
                   .values = at(2, v_rows.start(b, shared)),
                   .key_stride = k_rows.row,
                   .value_stride = v_rows.row,
                   .key_count = keys,
                   .width = width,
                   .value_width = value_width,
                   .scale = op.scale,
                   .scores = scores};
      for (int64_t first = 0; first < rows; first += FewQueries::kMost) {
        f.rows = std::min(rows - first, FewQueries::kMost);
        int64_t places[FewQueries::kMost] = {};
        for (int64_t r = 0; r < f.rows; ++r) {
          const int64_t h = shared * sharing + (first + r) / queries, query = (first + r) % queries;
          int64_t stride = 0, q_stride = q_rows.row;
          f.q[r] = rows_as_f32(args.inputs[0], type, q_rows.start(b, h) + query * q_rows.row, q_stride, 1,
                               width, widened + r * round_up(width, int64_t{16}));
          places[r] = out_rows.start(b, h) + query * out_rows.row;
          f.out[r] =
              in_place ? static_cast<float*>(args.outputs[0]) + places[r] : results + r * padded_values();
          f.seen[r] = op.causal ? std::min(keys, query + 1) : keys;
          if (mask.type != DType::Undefined)
            f.mask[r] = load_mask(args, b, h, query, 1, masks + r * padded_keys(), stride);
        }
        attention_table(isa).few(f);
        for (int64_t r = 0; r < f.rows && !in_place; ++r)
          epilogue->apply(args, f.out[r], value_width, places[r], 1, value_width, value_width);
      }
    }
  }

  // `count` rows as FP32: in place or widened into `buffer`; `stride` becomes that of the result.
  const float* rows_as_f32(const void* base, DType from, int64_t first, int64_t& stride, int64_t count,
                           int64_t n, float* buffer) const {
    if (from == DType::Float32) return static_cast<const float*>(base) + first;
    const PointwiseTable& convert = pointwise_table(isa);
    const auto* halves = static_cast<const uint16_t*>(base) + first;
    for (int64_t r = 0; r < count; ++r)
      (from == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(halves + r * stride, buffer + r * n,
                                                                       n);
    stride = n;
    return buffer;
  }

  void pack(const LayerArgs& args, int64_t shared, const Memory& m) const {
    const int64_t panel = attention_table(isa).panel, b = shared / (heads / sharing),
                  h = shared % (heads / sharing);
    for (int64_t k0 = 0; k0 < keys; k0 += panel) {
      const int64_t n = std::min(panel, keys - k0);
      int64_t stride = k_rows.row;
      const float* rows =
          rows_as_f32(args.inputs[1], key_type, k_rows.start(b, h) + k0 * stride, stride, n, width, m.rows);
      float* out = m.keys + k0 * width;
      transpose_4byte_avx2(rows, stride, out, panel, n, width);
      for (int64_t d = 0; d < width && n < panel; ++d)
        std::fill(out + d * panel + n, out + (d + 1) * panel, 0.0f);
      stride = v_rows.row;
      rows = rows_as_f32(args.inputs[2], key_type, v_rows.start(b, h) + k0 * stride, stride, n, value_width,
                         m.rows);
      for (int64_t c = 0; c < value_width; c += panel) {
        const int64_t columns = std::min(panel, value_width - c);
        float* to = m.values + c * keys + k0 * panel;
        for (int64_t k = 0; k < n; ++k, to += panel) {
          std::copy_n(rows + k * stride + c, columns, to);
          std::fill(to + columns, to + panel, 0.0f);
        }
      }
    }
  }

  // Keys as [panel][pair of the width][32] and values as [panel][pair of keys][32], each a pair of BF16.
  void pack_pairs(const LayerArgs& args, int64_t shared, const Memory& m) const {
    const int64_t panel = attention_table(isa).panel, b = shared / (heads / sharing),
                  h = shared % (heads / sharing);
    const auto* k = static_cast<const uint16_t*>(args.inputs[1]) + k_rows.start(b, h);
    const auto* v = static_cast<const uint16_t*>(args.inputs[2]) + v_rows.start(b, h);
    for (int64_t k0 = 0; k0 < keys; k0 += panel) {
      const int64_t n = std::min(panel, keys - k0);
      float* out = m.keys + k0 * padded_width() / 2;
      // A pair moves as a whole.
      transpose_4byte_avx2(reinterpret_cast<const float*>(k + k0 * k_rows.row), k_rows.row / 2, out, panel, n,
                           width / 2);
      for (int64_t d = 0; d < width / 2 && n < panel; ++d)
        std::fill(out + d * panel + n, out + (d + 1) * panel, 0.0f);
      std::fill(out + width / 2 * panel, out + padded_width() / 2 * panel, 0.0f);
    }
    for (int64_t c = 0; c < value_width; c += panel) {
      float* out = m.values + c * key_pairs();
      attention_bf16_table().pack_values(v + c, v_rows.row, keys, std::min(panel, value_width - c),
                                         reinterpret_cast<uint16_t*>(out));
      std::fill(out + (keys + 1) / 2 * panel, out + key_pairs() * panel, 0.0f);
    }
  }

  // 32 queries of a head, both products in AMX tiles.
  void run_amx_tile(const LayerArgs& args, int64_t head, int64_t tile, const Memory& m) const {
    const int64_t b = head / heads, h = head % heads;
    const int64_t first = tile * kTileRows, rows = std::min(kTileRows, queries - first);
    const int64_t visible = op.causal ? std::min(keys, first + rows) : keys, seen = round_up(visible, kStep);
    auto* q = reinterpret_cast<uint16_t*>(m.q);
    for (int64_t r = 0; r < rows; ++r) {
      uint16_t* to = q + r * padded_width();
      const auto* from =
          static_cast<const uint16_t*>(args.inputs[0]) + q_rows.start(b, h) + (first + r) * q_rows.row;
      std::fill(std::copy_n(from, width, to), to + padded_width(), uint16_t{0});
    }
    auto* weights = reinterpret_cast<uint16_t*>(m.work + kTileRows * padded_keys());
    const std::byte* groups[2] = {reinterpret_cast<const std::byte*>(q), nullptr};
    AmxProduct p{.groups = groups,
                 .group_count = rows > AmxProduct::kGroup ? 2 : 1,
                 .row_bytes = 2 * padded_width(),
                 .step_bytes = 2 * kStep,
                 .steps = padded_width() / kStep,
                 .step = kStep,
                 .b = reinterpret_cast<const std::byte*>(m.keys),
                 .panel_bytes = 2 * padded_width() * AmxProduct::kPanel,
                 .columns = seen,
                 .rows = kTileRows,
                 .out = m.work,
                 .out_stride = padded_keys(),
                 .plain = true};
    groups[1] = groups[0] + AmxProduct::kGroup * p.row_bytes;
    amx->run(p);
    float factors[kTileRows];
    weigh(args, b, h, first, rows, m, weights, factors);
    // Weights of keys that nobody sees are zero, up to whole steps.
    p.row_bytes = 2 * padded_keys();
    p.steps = seen / kStep;
    groups[0] = reinterpret_cast<const std::byte*>(weights);
    groups[1] = groups[0] + AmxProduct::kGroup * p.row_bytes;
    p.b = reinterpret_cast<const std::byte*>(m.values);
    p.panel_bytes = 2 * padded_keys() * AmxProduct::kPanel;
    p.columns = padded_values();
    p.out = m.result;
    p.out_stride = result_stride();
    amx->run(p);
    store_tile(args, b, h, first, rows, m.result, factors);
  }

  void run_tile_of_dots(const LayerArgs& args, int64_t head, int64_t tile, int64_t tiles,
                        const Memory& m) const {
    const MatMulTileTable& table = tile_matmul_table_bf16_avx512();
    const int64_t b = head / heads, h = head % heads, panel = table.panel;
    const int64_t first = queries * tile / tiles, rows = queries * (tile + 1) / tiles - first;
    const int64_t visible = op.causal ? std::min(keys, first + rows) : keys, padded = padded_keys();
    float* scores = m.work;
    auto* weights = reinterpret_cast<uint16_t*>(m.work + attention_table(isa).tile_rows * padded);
    MatMulTile t{
        .rows = rows, .columns = panel, .steps = width / 2, .a_stride = q_rows.row / 2, .out_stride = padded};
    t.a = static_cast<const uint16_t*>(args.inputs[0]) + q_rows.start(b, h) + first * q_rows.row;
    for (int64_t k = 0; k < visible; k += panel) {
      t.b = t.ahead = reinterpret_cast<const std::byte*>(m.keys + k * width / 2);
      t.out = scores + k;
      table.run(t);
    }
    float factors[16];
    weigh(args, b, h, first, rows, m, weights, factors);
    t.steps = (visible + 1) / 2;
    t.a = weights;
    t.a_stride = padded / 2;
    t.out_stride = result_stride();
    for (int64_t c = 0; c < value_width; c += panel) {
      t.columns = panel;
      t.b = t.ahead = reinterpret_cast<const std::byte*>(m.values + c * ((keys + 1) / 2));
      t.out = m.result + c;
      table.run(t);
    }
    store_tile(args, b, h, first, rows, m.result, factors);
  }

  // Scores of a tile in m.work become weights, and what to multiply their rows' results by.
  void weigh(const LayerArgs& args, int64_t b, int64_t h, int64_t first, int64_t rows, const Memory& m,
             uint16_t* weights, float* factors) const {
    ScoreTile s{.scores = m.work,
                .stride = padded_keys(),
                .rows = rows,
                .keys = keys,
                .padded = padded_keys(),
                .scale = op.scale,
                .causal = op.causal,
                .first_query = first,
                .weights = weights,
                .inverse_sums = factors};
    if (mask.type != DType::Undefined) s.mask = load_mask(args, b, h, first, rows, m.mask, s.mask_stride);
    attention_bf16_table().weigh(s);
  }
  void store_tile(const LayerArgs& args, int64_t b, int64_t h, int64_t first, int64_t rows, float* sums,
                  const float* factors) const {
    const int64_t out = out_rows.start(b, h) + first * out_rows.row;
    if (plain_epilogue)
      return attention_bf16_table().store(sums, result_stride(), rows, value_width, factors,
                                          static_cast<uint16_t*>(args.outputs[0]) + out, out_rows.row);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < value_width; ++c) sums[r * result_stride() + c] *= factors[r];
    epilogue->apply(args, sums, result_stride(), out, rows, out_rows.row, value_width);
  }

  // Rows of the mask as numbers to add: in place, or converted into `out`. `stride`: between rows (0: one
  // serves all).
  const float* load_mask(const LayerArgs& args, int64_t b, int64_t h, int64_t first, int64_t rows, float* out,
                         int64_t& stride) const {
    const int64_t base = b * mask.batch + h * mask.head + first * mask.row;
    if (mask.type == DType::Float32 && mask.key == 1) {
      stride = mask.row;
      return static_cast<const float*>(args.inputs[3]) + base;
    }
    stride = mask.row == 0 ? 0 : padded_keys();
    for (int64_t r = 0; r < (mask.row == 0 ? 1 : rows); ++r)
      load_mask_row(args.inputs[3], base + r * mask.row, out + r * padded_keys());
    return out;
  }
  void load_mask_row(const void* values, int64_t at, float* to) const {
    const auto* bytes = static_cast<const uint8_t*>(values) + at;
    const auto* halves = static_cast<const uint16_t*>(values) + at;
    const auto* floats = static_cast<const float*>(values) + at;
    constexpr float kForbidden = -std::numeric_limits<float>::infinity();
    const int64_t step = mask.key;
    switch (mask.type) {
      case DType::Bool:
        if (step == 1) return pointwise_table(isa).load_mask(bytes, to, keys);
        for (int64_t k = 0; k < keys; ++k) to[k] = bytes[k * step] != 0 ? 0.0f : kForbidden;
        break;
      case DType::BFloat16:
        for (int64_t k = 0; k < keys; ++k) to[k] = bf16_to_float(halves[k * step]);
        break;
      case DType::Float16:
        for (int64_t k = 0; k < keys; ++k) to[k] = fp16_to_float(halves[k * step]);
        break;
      default:
        for (int64_t k = 0; k < keys; ++k) to[k] = floats[k * step];
    }
  }

  void run_tile(const LayerArgs& args, int64_t head, int64_t tile, int64_t tiles, const Memory& m) const {
    const AttentionTable& table = attention_table(isa);
    const int64_t b = head / heads, h = head % heads;
    // Tiles of nearly equal height.
    const int64_t first = queries * tile / tiles, rows = queries * (tile + 1) / tiles - first;
    AttentionHead a;
    a.q_stride = q_rows.row;
    a.q = rows_as_f32(args.inputs[0], type, q_rows.start(b, h) + first * q_rows.row, a.q_stride, rows, width,
                      m.q);
    a.keys = m.keys;
    a.values = m.values;
    a.key_count = keys;
    a.width = width;
    a.value_width = value_width;
    a.scale = op.scale;
    a.causal = op.causal;
    if (mask.type != DType::Undefined) {
      a.mask = load_mask(args, b, h, first, rows, m.mask, a.mask_stride);
    }
    const int64_t out = out_rows.start(b, h) + first * out_rows.row;
    if (epilogue->is_identity()) {
      table.queries(a, first, rows, m.work, static_cast<float*>(args.outputs[0]) + out, out_rows.row);
      return;
    }
    table.queries(a, first, rows, m.work, m.result, value_width);
    epilogue->apply(args, m.result, value_width, out, rows, out_rows.row, value_width);
  }
};

class AttentionKernel final : public LayerKernel {
 public:
  AttentionKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : op_(std::get<Attention>(query.layer().op)),
        tactic_(tactic),
        isa_(machine.isa()),
        amx_(machine.amx),
        epilogue_(query, tactic, machine),
        has_mask_(query.layer().has_op_input(3)) {}

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedAttention>();
    const size_t h = op_.layout == AttentionLayout::BHSD ? 1 : 2, s = 3 - h;
    const auto rows = [&](const Extents& e) {
      const Extents strides = row_major_strides(e);
      return HeadRows{strides[0], strides[h], strides[s]};
    };
    const Extents &q = context.inputs[0], &k = context.inputs[1], &v = context.inputs[2];
    p->op = op_;
    p->type = tactic_.inputs[0].dtype;
    p->key_type = tactic_.inputs[1].dtype;
    p->batch = q[0];
    p->heads = q[h];
    p->sharing = q[h] / std::max<int64_t>(k[h], 1);
    p->queries = q[s];
    p->keys = k[s];
    p->width = q[3];
    p->value_width = v[3];
    p->q_rows = rows(q);
    p->k_rows = rows(context.stored_input(1));
    p->v_rows = rows(context.stored_input(2));
    p->out_rows = rows(context.outputs[0]);
    if (has_mask_) {
      const Extents strides =
          operand_strides(context.inputs[3], kLinear, {p->batch, p->heads, p->queries, p->keys}, kLinear);
      p->mask = {tactic_.inputs[3].dtype, strides[0], strides[1], strides[2], strides[3]};
    }
    p->isa = isa_;
    const Products products = products_of(tactic_.params);
    if (products == Products::Tiles) p->amx = amx_;
    p->dots = products != Products::Floats;
    p->plain_epilogue = epilogue_.empty();
    p->few = products == Products::Floats && p->sharing * p->queries <= kFewRows;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }
  bool reads_with_room(size_t input) const override { return input == 1 || input == 2; }

 private:
  Attention op_;
  Tactic tactic_;
  Isa isa_;
  const AmxTable* amx_;
  Epilogue epilogue_;
  bool has_mask_;
};

std::vector<Tactic> list_attention(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Attention>(node.op)) return {};
  std::vector<Tactic> tactics;
  // Keys and values that are stored in another type than the model computes in: they are read in that.
  const auto own_type = [&](size_t i) { return query.graph.value(node.inputs[i]).dtype; };
  const bool mixed = own_type(1) != own_type(0) && own_type(1) == own_type(2);
  const auto add = [&](DType type, Products products, DType result) {
    if (mixed && products != Products::Floats) return;
    const TensorType linear{type, kLinear};
    Tactic t =
        with_variant(typed_tactic(query, kAttentionRunner, "flash_attention", linear, {result, kLinear}),
                     name_of(products, machine), params_of(products));
    if (!mixed) t.inputs[1] = t.inputs[2] = linear;
    for (size_t i = 0; i < 2; ++i)
      if (!is_vector_float(t.inputs[i].dtype)) t.support = no_vector_kernel(t.inputs[i].dtype);
    for (size_t i = 0; i < 3; ++i)
      if (query.graph.value(node.inputs[i]).is_constant() && own_type(i) != t.inputs[i].dtype)
        t.support = Support::no("a constant operand is read as it is stored");
    if (node.has_op_input(3)) {
      const DType mask = t.inputs[3].dtype;
      if (!is_vector_float(mask) && mask != DType::Bool)
        t.support = Support::no("no vector kernel for a mask of " + std::string(dtype_name(mask)));
    }
    const bool pairs = products != Products::Floats;
    if (pairs && !query.graph.value(node.inputs[0]).shape.back().is_constant())
      t.support = Support::no("the width of a head varies");
    else if (pairs && query.graph.value(node.inputs[0]).shape.back().value() % 2 != 0)
      t.support = Support::no("BF16 in pairs along an odd width");
    tactics.push_back(std::move(t));
  };
  const auto add_all = [&](DType type, DType result) {
    if (type == DType::BFloat16 && machine.amx) add(type, Products::Tiles, result);
    if (type == DType::BFloat16 && machine.has(CpuFeature::Bf16)) add(type, Products::Dots, result);
    add(type, Products::Floats, result);
  };
  // A product may read the results as bytes.
  const bool bytes = byte_grid(query.graph.value(node.outputs[0]), {DType::UInt8, {}}).has_value();
  for (const DType type : layer_types(query)) {
    if (bytes) add_all(type, DType::UInt8);
    add_all(type, type);
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_attention(const LayerQuery& query, const Tactic& tactic,
                                            const Machine& machine, const PackContext&) {
  return std::make_unique<AttentionKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily attention_tactics() {
  return {kAttentionRunner, list_attention, make_attention};
}

}  // namespace lathe::cpu
