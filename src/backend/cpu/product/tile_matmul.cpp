// SPDX-License-Identifier: Apache-2.0
//
// Products with constant right operands, in FP32 and BF16, finished in registers: MatMul, and 1x1 convolution
// in channels-last (pixels are rows), with any stride.
//
// Operations: 2 M N K. Bytes: the weights, rows and results once each. The floor is the arithmetic when a
// weight meets more than about 30 rows (FP32; BF16 60), else the weights' way from L3 or memory.
// Reached (Zen 4, two threads, cold, of 236 GFLOP/s FP32 and 472 BF16): 128x768 by 768x3072 with GELU, BF16
// and FP32 86 %; 1x1 64-256@56 with an operand, FP32 87 %; 16-96@112 with SiLU, where 1.2 million
// exponentials count more than the product, 29 %. Reached (Emerald Rapids, one thread, cold, of 213 GFLOP/s
// FP32): 128x768 by 768x768 93 %, by 768x3072 with GELU 84 %, 128x3072 by 3072x768 75 % (44 % before k went
// in chunks); 1x1 256-64@56 94 %, 64-256@56 with an operand 85 %, 24-144@56 71 %. A member works on a range
// of rows or on a range of panels (32 columns), whatever reads less from afar. Rows go in blocks that stay in
// L2 while all panels pass over them, and k in chunks where rows are long; sums wait in L2 between two
// chunks. Weights that fit into an eighth of L2 turn that around: a tile of 14 rows takes all panels.
// Rows that lie a multiple of 4 KB apart (2 KB where L1 has 8 ways) fall into the same few cache sets, and
// strided pixels apart: such a block is first copied together, by each member that uses it: members share out
// the panels block by block, and copy once a block.
#include <cstring>
#include <numeric>

#include "backend/cpu/tile/amx_matmul.h"
#include "backend/cpu/tile/product_shares.h"
#include "backend/cpu/tile/row_source.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/cpu/vector/tail_plan.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kChunkBytes = 768 * 4;     // of a row, at most, when a block of rows would not stay in L2
constexpr int64_t kRowSumBytes = 512 << 10;  // of a block of rows between two chunks

// Both layouts of constant matrices: [k][n], and [n][k] when transposed. Then the biases. FP32 `in_parts` is
// packed as three BF16.
std::vector<std::byte> pack_weights(const Tensor& constant, DType type, bool in_parts, bool transposed,
                                    int64_t matrices, int64_t k, int64_t n, const std::vector<float>& bias) {
  const Tensor wide = constant.dtype() == DType::Float32
                          ? constant
                          : Tensor::from_doubles(DType::Float32, constant.extents(), constant.to_doubles());
  const float* w = wide.data<float>().data();
  const int64_t half = tile_matmul_table(type).panel / 2;
  const int64_t matrix = packed_bytes(type, in_parts, k * round_up(n, half));
  std::vector<std::byte> bytes(static_cast<size_t>(matrices * matrix) + bias.size() * sizeof(float));
  for (int64_t i = 0; i < matrices; ++i, w += k * n) {
    const auto pack = [&](const auto& at) {
      std::byte* const to = bytes.data() + i * matrix;
      in_parts ? pack_column_parts(to, amx_step(k), k, n, at) : pack_columns(to, type, k, n, at);
    };
    if (transposed)
      pack([=](int64_t r, int64_t c) { return w[c * k + r]; });
    else
      pack([=](int64_t r, int64_t c) { return w[r * n + c]; });
  }
  std::memcpy(bytes.data() + matrices * matrix, bias.data(), bias.size() * sizeof(float));
  return bytes;
}

class PreparedTileMatMul final : public PreparedLayer {
 public:
  RowSource source;
  int64_t m = 1, n = 1, k = 1;
  int64_t matrices = 1;  // right operands that meet the same rows; their results follow one another
  DType type = DType::Float32, result = DType::Float32;
  const std::byte* weights = nullptr;
  const float* bias = nullptr;
  std::optional<TailPlan> plan;
  std::shared_ptr<const PreparedEpilogue> epilogue;  // without a plan
  int threads = 1;

  // When all of the above is known.
  void plan_blocks(const Machine& machine) {
    const int64_t tile = tile_matmul_table(type).tile_rows;
    // Rows that stay in L2 beside two panels.
    constexpr int64_t kLeast = 128 << 10, kBesideRows = 640 << 10;
    const int64_t block_bytes = std::max(kLeast, (machine.l2_bytes - kBesideRows) / 3);
    rows_first_ = matrices == 1 && weight_bytes() <= machine.l2_bytes / 8 && m >= 8 * tile;
    if (!rows_first_ && m * row_bytes() > block_bytes)
      chunks_ = (row_bytes() + kChunkBytes - 1) / kChunkBytes;
    const int64_t fit = block_bytes * chunks_ / std::max<int64_t>(row_bytes(), 1) / tile * tile;
    block_rows_ = rows_first_ ? tile : std::max(tile, fit);
    // Each portion reads all weights, from L2 if they stay there.
    rows_of_portion_ = weight_bytes() <= machine.l2_bytes / 2 ? 2 * tile : std::max(tile, fit);
    const int64_t rows = std::min(m, block_rows_);
    if (!source.dense() || (m > 4 && collide(machine)))
      copied_stride_ = row_bytes() % 1024 == 0 ? row_bytes() + 64 : row_bytes();
    const int64_t sum_bytes = rows * panel() * 4;
    group_panels_ =
        chunks_ == 1 ? panel_count() : std::clamp<int64_t>(kRowSumBytes / sum_bytes, 1, panel_count());
    sums_offset_ = round_up(rows * copied_stride_, 64);
    const int64_t sums = chunks_ > 1 ? group_panels_ * sum_bytes : plan ? 0 : sum_bytes;
    member_bytes_ = round_up(sums_offset_ + sums, 64) + 64;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads); }
  int members(int available) const override {
    const double speed = type == DType::Float32 ? 90 : 180;
    const double time = 2.0 * static_cast<double>(m * n * matrices) * static_cast<double>(k) / speed +
                        static_cast<double>(weight_bytes()) / 20;
    const int wanted = members_for(time, available);
    return meets(wanted) ? available : wanted;  // shared out to all
  }
  bool meets(int count) const override { return !rows_first_ && !by_rows(count); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range all_panels{0, panel_count()};
    std::byte* own = args.scratch + worker.index * member_bytes_;
    const bool cuts_rows = by_rows(worker.count);
    const Worker::Range rows = cuts_rows ? worker.slice(m, 1, rows_of_portion_) : Worker::Range{0, m};
    if (rows_first_) {
      // Each portion of panels would copy all rows.
      const int64_t least = copied_stride_ > 0 ? Worker::kUncut : 1;
      const Worker::Range panels = cuts_rows ? all_panels : worker.slice(panel_count(), 1, least);
      if (panels.begin < panels.end) run_rows_first(args, rows, panels, own);
      return;
    }
    const int64_t count = rows.end - rows.begin, blocks = (count + block_rows_ - 1) / block_rows_;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t first = rows.begin + count * i / blocks, end = rows.begin + count * (i + 1) / blocks;
      Block block{.first = first, .rows = end - first};
      if (cuts_rows)
        run_block(args, block, all_panels, own);
      else  // each member copies the block together once, whatever portions of panels it takes
        worker.share(worker.count, [&](const Worker& portion) {
          run_block(args, block, portion.slice(panel_count()), own);
        });
    }
  }

 private:
  int64_t panel() const { return tile_matmul_table(type).panel; }
  int64_t matrix_panels() const { return (n + panel() - 1) / panel(); }
  int64_t panel_count() const { return matrices * matrix_panels(); }
  int64_t row_bytes() const { return dtype_bytes(type, k); }
  int64_t weight_bytes() const { return row_bytes() * n * matrices; }
  // Whether the rows of a tile fall into so few sets of L1 that they would drive each other out (64 sets of
  // 64 bytes).
  bool collide(const Machine& machine) const {
    constexpr int64_t kWay = 4096;
    const int64_t in_one_set = tile_matmul_table(type).tile_rows * std::gcd(row_bytes(), kWay) / kWay;
    return 3 * in_one_set > 2 * (machine.l1_bytes / kWay);
  }
  // Rows: everybody reads all weights. Panels: everybody reads all rows. The larger share counts, at some 30
  // GB/s from L3.
  bool by_rows(int members) const {
    const int64_t tile = tile_matmul_table(type).tile_rows;
    const double gflops = type == DType::Float32 ? 110 : 220;
    const ProductShares shares{
        .arithmetic = 2.0 * static_cast<double>(m * n) * static_cast<double>(k) / gflops,
        .weights = static_cast<double>(weight_bytes()) / 30,
        .rows = static_cast<double>(m * row_bytes()) / 30,
        .row_units = (m + tile - 1) / tile,
        .column_units = panel_count()};
    return shares.by_rows(members);
  }

  struct Block {
    int64_t first = 0, rows = 0;
    const std::byte* a = nullptr;  // copied together where they lie badly
    int64_t a_stride = 0;          // bytes
    float* sums = nullptr;         // of a group of panels between two chunks, or of one before the epilogue
  };

  void run_block(const LayerArgs& args, Block& block, const Worker::Range& panels, std::byte* own) const {
    if (panels.begin < panels.end && block.a == nullptr) place_rows(args, block, own);
    for (int64_t p = panels.begin; p < panels.end; p += group_panels_)
      for (int64_t c = 0; c < chunks_; ++c)
        run_chunk(args, block, {p, std::min(p + group_panels_, panels.end)}, c);
  }

  void place_rows(const LayerArgs& args, Block& block, std::byte* own) const {
    const auto* base = static_cast<const std::byte*>(args.inputs[0]);
    block.sums = reinterpret_cast<float*>(own + sums_offset_);
    block.a = copied_stride_ > 0 ? own : base + block.first * row_bytes();
    block.a_stride = copied_stride_ > 0 ? copied_stride_ : row_bytes();
    for (int64_t r = 0; copied_stride_ > 0 && r < block.rows; ++r)
      std::memcpy(own + r * copied_stride_, base + source.position(block.first + r) * row_bytes(),
                  static_cast<size_t>(row_bytes()));
  }

  int64_t first_step(int64_t c) const { return row_bytes() / 4 * c / chunks_; }
  // Panel `p` along chunk `c` of k.
  const std::byte* panel_at(int64_t p, int64_t c) const {
    const int64_t matrix = p / matrix_panels(), column = p % matrix_panels() * panel();
    const int64_t padded = round_up(n, panel() / 2), width = std::min(panel(), padded - column);
    return weights + dtype_bytes(type, k * (matrix * padded + column)) + first_step(c) * 4 * width;
  }
  // What is wanted after it, or will be by whoever takes the next panels.
  const std::byte* panel_after(const Worker::Range& group, int64_t p, int64_t c) const {
    if (p + 1 < group.end) return panel_at(p + 1, c);
    if (c + 1 < chunks_) return panel_at(group.begin, c + 1);
    return p + 1 < panel_count() ? panel_at(p + 1, 0) : nullptr;
  }

  // A group of panels over a block of rows, along chunk `c` of k.
  void run_chunk(const LayerArgs& args, const Block& block, const Worker::Range& panels, int64_t c) const {
    const MatMulTileTable& table = tile_matmul_table(type);
    const int64_t rows = block.rows;
    const bool last = c + 1 == chunks_;
    MatMulTile t;
    t.steps = first_step(c + 1) - first_step(c);
    t.a_stride = block.a_stride / 4;
    const std::byte* a = block.a + first_step(c) * 4;
    const int64_t tiles = (rows + table.tile_rows - 1) / table.tile_rows;
    const std::byte* operand =
        last && plan && plan->operand >= 0
            ? static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan->operand)])
            : nullptr;
    const bool finished = last && plan;
    if (finished) t.tail = plan->tail;
    t.stored = finished ? stored_as(result) : Stored::F32;
    t.out_stride = finished ? n : panel();
    t.operand_stride = n;
    for (int64_t p = panels.begin; p < panels.end; ++p) {
      const int64_t matrix = p / matrix_panels(), column = p % matrix_panels() * panel();
      const int64_t padded = round_up(n, panel() / 2), result_at = matrix * m * n + block.first * n + column;
      float* sums = block.sums + (chunks_ == 1 ? 0 : p - panels.begin) * rows * panel();
      t.columns = std::min(panel(), n - column);
      t.b = panel_at(p, c);
      t.bias = bias ? bias + matrix * padded + column : nullptr;
      // Each tile fetches its share of the next panel: weights come from L3 or memory once per block of rows.
      const int64_t share = round_up(t.steps * 4 * panel() / tiles, 64);
      const std::byte* next = panel_after(panels, p, c);
      t.ahead_bytes = next ? (4 * panel() + tiles - 1) / tiles : 0;
      for (int64_t i = 0; i < tiles; ++i) {
        t.ahead = next ? next + i * share : t.b;
        const int64_t r = rows * i / tiles;
        t.rows = rows * (i + 1) / tiles - r;
        t.a = a + r * block.a_stride;
        t.sums = c > 0 ? sums + r * panel() : nullptr;
        const int64_t at = result_at + r * n;
        t.out = finished ? static_cast<std::byte*>(args.outputs[0]) + dtype_bytes(result, at)
                         : reinterpret_cast<std::byte*>(sums + r * panel());
        t.operand = operand ? operand + dtype_bytes(result, at) : nullptr;
        table.run(t);
      }
      if (last && !plan) epilogue->apply(args, sums, panel(), result_at, rows, n, t.columns);
    }
  }

  // All weights stay in L2: what comes from afar are rows, results and operand. Each panel of a tile fetches
  // its share of what the next tile wants.
  void run_rows_first(const LayerArgs& args, const Worker::Range& rows, const Worker::Range& panels,
                      std::byte* own) const {
    const MatMulTileTable& table = tile_matmul_table(type);
    const int64_t steps = row_bytes() / 4, count = panels.end - panels.begin,
                  row_out = dtype_bytes(result, n);
    const auto* base = static_cast<const std::byte*>(args.inputs[0]);
    auto* const out = static_cast<std::byte*>(args.outputs[0]);
    auto* const sums = reinterpret_cast<float*>(own + sums_offset_);
    const std::byte* operand =
        plan && plan->operand >= 0
            ? static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan->operand)])
            : nullptr;
    MatMulTile t;
    t.steps = steps;
    t.a_stride = (copied_stride_ > 0 ? copied_stride_ : row_bytes()) / 4;
    if (plan) t.tail = plan->tail;
    t.stored = plan ? stored_as(result) : Stored::F32;
    t.out_stride = plan ? n : table.panel;
    t.operand_stride = n;
    const bool fetches_rows = copied_stride_ == 0, fetches_results = plan && count == panel_count();
    const int64_t rows_bytes = (4 * table.tile_rows + count - 1) / count;
    const int64_t out_bytes = (table.tile_rows * row_out + count * steps - 1) / (count * steps);
    const int64_t all = rows.end - rows.begin, tiles = (all + table.tile_rows - 1) / table.tile_rows;
    for (int64_t i = 0, first = rows.begin; i < tiles; ++i, first += t.rows) {
      t.rows = rows.begin + all * (i + 1) / tiles - first;
      for (int64_t r = 0; !fetches_rows && r < t.rows; ++r)
        std::memcpy(own + r * copied_stride_, base + source.position(first + r) * row_bytes(),
                    static_cast<size_t>(row_bytes()));
      t.a = fetches_rows ? base + first * row_bytes() : own;
      const bool more = i + 1 < tiles;
      const std::byte *next = base + (first + t.rows) * row_bytes(),
                      *next_out = out + (first + t.rows) * row_out;
      t.ahead_bytes = more && fetches_rows ? rows_bytes : 0;
      t.out_ahead_bytes = out_bytes;
      for (int64_t p = panels.begin; p < panels.end; ++p) {
        const int64_t column = p * table.panel, turn = (p - panels.begin) * steps;
        const int64_t at = dtype_bytes(result, first * n + column);
        t.columns = std::min(table.panel, n - column);
        t.b = weights + column * row_bytes();
        t.bias = bias ? bias + column : nullptr;
        t.out = plan ? out + at : reinterpret_cast<std::byte*>(sums);
        t.operand = operand ? operand + at : nullptr;
        t.ahead = t.ahead_bytes > 0 ? next + turn * rows_bytes : t.b;
        if (more && fetches_results) {
          t.out_ahead = next_out + turn * out_bytes;
          if (operand && operand != out) t.operand_ahead = operand + (next_out - out) + turn * out_bytes;
        }
        table.run(t);
        if (!plan) epilogue->apply(args, sums, table.panel, first * n + column, t.rows, n, t.columns);
      }
    }
  }

  // One tile of rows takes all panels, then the next tile; otherwise a block of rows takes one panel after
  // the other.
  bool rows_first_ = false;
  int64_t block_rows_ = 14, rows_of_portion_ = 14;
  int64_t chunks_ = 1;         // of k, that a block takes one after the other
  int64_t group_panels_ = 1;   // whose sums wait for the next chunk
  int64_t copied_stride_ = 0;  // of rows that are copied together; 0: they are not
  int64_t sums_offset_ = 0, member_bytes_ = 64;
};

// Products in tiles have parameters; the one in vectors has none.
std::optional<AmxVariant> in_tiles(const TacticParams& params) {
  return params.empty() ? std::nullopt : std::optional(AmxVariant::of(params));
}

std::optional<TailPlan> plan_tail(const LayerQuery& query) {
  const bool conv = std::holds_alternative<Conv>(query.layer().op);
  const size_t rank = query.graph.value(query.layer().outputs[0]).shape.size();
  return plan_register_tail(query, conv ? 1 : rank - 1, !conv);
}

class TileMatMulKernel final : public LayerKernel {
 public:
  TileMatMulKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                   const PackContext& pack)
      : tactic_(tactic),
        tiles_(in_tiles(tactic.params)),
        machine_(machine),
        epilogue_(query, tactic, machine) {
    const Node& node = query.layer();
    const bool in_parts = tiles_ && tiles_->in_parts;
    if (const auto* conv = std::get_if<Conv>(&node.op)) conv_ = *conv;
    const auto* product = std::get_if<MatMul>(&node.op);
    plan_ = plan_tail(query);
    if (plan_) suit(plan_->tail, machine);
    const Value& w = query.graph.value(node.inputs[1]);
    const bool transposed = conv_ || product->transpose_b;
    n_ = w.shape[conv_ ? 0 : w.shape.size() - (transposed ? 2 : 1)].value();
    k_ = w.shape[conv_ ? 1 : w.shape.size() - (transposed ? 1 : 2)].value();
    const DType type = tactic.inputs[0].dtype;
    const int64_t padded = round_up(n_, tile_matmul_table(type).panel / 2);
    for (size_t d = 0; !conv_ && d + 2 < w.shape.size(); ++d) matrices_ *= w.shape[d].value();
    bias_offset_ = packed_bytes(type, in_parts, matrices_ * k_ * padded);
    // Constants above a size are gone when an engine is loaded: what the tail adds is in the packed bias.
    const int64_t size = bias_offset_ + dtype_bytes(DType::Float32, matrices_ * padded);
    packed_ = pack.packed("weights", size, [&] {
      return pack_weights(w.constant, type, in_parts, transposed, matrices_, k_, n_,
                          bias_of(query, plan_.value_or(TailPlan{}), n_, padded, matrices_));
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    if (tiles_) {
      auto p = prepare_as<PreparedAmxMatMul>(context);
      p->table = machine_.amx;
      p->l2_bytes = machine_.l2_bytes;
      p->order = tiles_->order;
      p->in_parts = tiles_->in_parts;
      p->lay_out();
      return p;
    }
    auto p = prepare_as<PreparedTileMatMul>(context);
    p->type = tactic_.inputs[0].dtype;
    p->plan_blocks(machine_);
    return p;
  }

 private:
  template <class Prepared>
  std::unique_ptr<Prepared> prepare_as(const ShapeContext& context) const {
    auto p = std::make_unique<Prepared>();
    const Extents &in = context.inputs[0], &out = context.outputs[0];
    p->n = n_;
    p->k = k_;
    p->matrices = matrices_;
    p->m = element_count(out) / std::max<int64_t>(n_ * matrices_, 1);
    if (conv_ && in.size() == 4) {
      p->source = {out[0], out[2], out[3], in[2], in[3]};
      if (!conv_->strides.empty())
        p->source.stride_y = conv_->strides[0], p->source.stride_x = conv_->strides[1];
    }
    p->result = tactic_.outputs[0].dtype;
    p->weights = packed_.data();
    p->bias = reinterpret_cast<const float*>(packed_.data() + bias_offset_);
    p->plan = plan_;
    p->threads = context.threads;
    if (!plan_) p->epilogue = epilogue_.prepare(context);
    return p;
  }

  Tactic tactic_;
  std::optional<AmxVariant> tiles_;
  Machine machine_;
  Epilogue epilogue_;
  std::optional<Conv> conv_;
  std::optional<TailPlan> plan_;
  int64_t n_ = 1, k_ = 1, matrices_ = 1, bias_offset_ = 0;
  std::span<const std::byte> packed_;
};

// A refusal, or the type pairs (operand, result) that can be had.
Support supports_tile_matmul(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  const DType type = tactic.inputs[0].dtype;
  const Node& node = query.layer();
  const Value &a = query.graph.value(node.inputs[0]), &b = query.graph.value(node.inputs[1]);
  if (!machine.has(CpuFeature::Avx512)) return Support::no("needs AVX-512");
  if (type == DType::BFloat16 && !machine.has(CpuFeature::Bf16)) return Support::no("needs AVX512-BF16");
  if (!b.is_constant()) return Support::no("the right operand is not constant");
  if (b.constant.size() == 0) return Support::no("the right operand is empty");
  if (a.is_constant()) return Support::no("the left operand is constant");
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  const auto* product = std::get_if<MatMul>(&node.op);
  int64_t k = product ? 0 : b.shape[1].value();  // a product's right operand may be a vector
  if (product) {
    if (product->transpose_a) return Support::no("the left operand is transposed");
    if (a.shape.size() < 2 || b.shape.size() < 2) return Support::no("an operand is a vector");
    // Many right operands may meet one left operand, and one right operand many left ones.
    const auto one_matrix = [](const Shape& shape) {
      return std::all_of(shape.begin(), shape.end() - 2, [](const Dim& dim) { return dim.is_constant(1); });
    };
    if (!one_matrix(b.shape) && !one_matrix(a.shape))
      return Support::no("both operands are batches of matrices");
    if (one_matrix(b.shape) && a.shape.size() < b.shape.size())
      return Support::no("the right operand has more batch dims");
    k = b.shape[b.shape.size() - (product->transpose_b ? 1 : 2)].value();
  }
  if (type == DType::BFloat16 && k % 2 != 0)
    return Support::no("BF16 in pairs along an odd number of elements");
  const std::optional<AmxVariant> tiles = in_tiles(tactic.params);
  if (!tiles) return {};
  if (tiles->order == AmxOrder::Chunks && k < least_for_chunks(tiles->in_parts))
    return Support::no("k = " + std::to_string(k) + " is short: panels stay in L1 without chunks");
  if (tiles->order == AmxOrder::Groups && k > kAmxShort)
    return Support::no("k = " + std::to_string(k) + " is long: 32 rows at a time read less");
  if (amx_step(k) == 0)
    return Support::no("k = " + std::to_string(k) + " is no multiple of 16 to 32 elements, as tiles want");
  return {};
}

std::vector<Tactic> list_typed(const LayerQuery& query, const Machine& machine, std::string_view runner,
                               std::string_view stem, const Format& format) {
  const Node& node = query.layer();
  const std::optional<TailPlan> plan = plan_tail(query);
  std::vector<Tactic> tactics;
  const auto add = [&](DType from, DType to, const std::optional<AmxVariant>& tiles = std::nullopt) {
    const std::string kind = tiles ? tiles->name() : from == DType::Float32 ? "f32_avx512" : "avx512_bf16";
    Tactic t = with_variant(typed_tactic(query, runner, std::string(stem), {from, format}, {to, format}),
                            std::string(stem) + "_" + kind, tiles ? tiles->params() : TacticParams());
    for (size_t i = 1; i < node.op_input_count(); ++i) t.inputs[i] = {};
    if (const Support s = supports_tile_matmul(query, t, machine); !s.ok) t.support = s;
    write_over_operand(plan, t);
    tactics.push_back(std::move(t));
  };
  const std::vector<DType> types = layer_types(query);
  for (const DType type : types) {
    if (type == DType::Float32) add(type, type);
    if (type == DType::Float32 && machine.amx)
      for (const AmxOrder order : {AmxOrder::Panels, AmxOrder::Chunks, AmxOrder::Rows})
        add(type, type, AmxVariant{true, order});
    if (type != DType::BFloat16) continue;
    std::vector<std::optional<AmxVariant>> variants;
    if (machine.amx)
      for (const AmxOrder order : {AmxOrder::Panels, AmxOrder::Chunks, AmxOrder::Rows, AmxOrder::Groups})
        variants.push_back(AmxVariant{false, order});
    variants.emplace_back();
    for (const std::optional<AmxVariant>& variant : variants) {
      add(type, type, variant);
      // In a network of both, a sum that goes on in FP32 needs no rounding in between.
      if (std::find(types.begin(), types.end(), DType::Float32) != types.end())
        add(type, DType::Float32, variant);
    }
  }
  return tactics;
}

std::vector<Tactic> list_tile_matmul(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<MatMul>(query.layer().op)) return {};
  return list_typed(query, machine, "TileMatMul", "tile_matmul", kLinear);
}

std::vector<Tactic> list_tile_matmul_pixel_conv(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<Conv>(&node.op);
  if (!op || !is_pixel_conv(*op)) return {};
  const size_t rank = query.graph.value(node.inputs[0]).shape.size();
  if (!all_are(op->strides, 1) && rank != 4) return {};
  return list_typed(query, machine, "TileConvolution", "tile_conv_1x1", kChannelsLast);
}

std::unique_ptr<LayerKernel> make_tile_matmul(const LayerQuery& query, const Tactic& tactic,
                                              const Machine& machine, const PackContext& pack) {
  return std::make_unique<TileMatMulKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily tile_matmul_tactics() {
  return {"TileMatMul", list_tile_matmul, make_tile_matmul};
}
TacticFamily tile_conv_tactics() {
  return {"TileConvolution", list_tile_matmul_pixel_conv, make_tile_matmul};
}

}  // namespace lathe::cpu
