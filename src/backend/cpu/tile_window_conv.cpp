// SPDX-License-Identifier: Apache-2.0
//
// Convolution in FP32, channels-last, any window, as a product whose rows are pixels: for a few taps of the window at a time the
// pixels that they meet are copied together, and the tile kernel (kernels/tile_matmul_table.h) multiplies them with the
// taps' weights. Sums stay in L2 between taps.
//
// It is for few pixels and many channels, where weights are most of the traffic and Winograd's four times as many would come
// from L3: each weight is read once per block of rows, and the next panel is fetched while one is used.
//
// Operations: 2 K C R S per result. Bytes: weights and results once, rows R S times from L2 (1 / (2 K) of the operations). The
// floor is the arithmetic or, below some 60 pixels, the weights' way from L3.
// Reached (Emerald Rapids, cold, of 213 GFLOP/s a core): 512-512@7 155 on one thread and 264 on two, from 14x14 with stride 2 181 and
// 250; oneDNN's best 123 and 235, 125 and 199.
// Members take rows of pixels or panels of columns, whatever reads less.
#include <algorithm>
#include <cstring>

#include "backend/cpu/own_tactic.h"
#include "backend/cpu/product_shares.h"
#include "backend/cpu/register_tail.h"
#include "backend/cpu/tile_panels.h"
#include "ops/window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRunner = "TileWindowConvolution";
constexpr int64_t kChunk = 768;  // elements of a row that are multiplied in one go, unless a tap has more
constexpr int64_t kSumBytes = 512 << 10;  // of a block of rows between two chunks
constexpr int64_t kFewestChannels = 16;   // below, a tap is too short a run

const MatMulTileTable& table() {
  return tile_matmul_table_f32_avx512();
}

class PreparedTileWindow final : public PreparedLayer {
 public:
  int64_t batch = 1, channels = 1, n = 1;
  WindowAxis y, x;
  const float* weights = nullptr;  // panels: [tap][channel][columns]
  const float* bias = nullptr;
  TailPlan plan;
  int threads = 1;

  // When all of the above is known.
  void plan_blocks(const Machine& machine) {
    m_ = batch * y.output * x.output;
    taps_ = y.kernel * x.kernel;
    chunk_taps_ = std::clamp<int64_t>(kChunk / channels, 1, taps_);
    const int64_t row = chunk_taps_ * channels;
    row_stride_ = row * 4 % 1024 == 0 ? row + 16 : row;
    // Rows that stay in L2 beside two panels.
    constexpr int64_t kLeast = 128 << 10, kBesideRows = 640 << 10;
    const int64_t bytes = std::max(kLeast, (machine.l2_bytes - kBesideRows) / 3);
    const int64_t fit = bytes / (row_stride_ * 4) / table().tile_rows * table().tile_rows;
    block_rows_ = std::min(m_, std::max(table().tile_rows, fit));
    const int64_t sum_bytes = block_rows_ * table().panel * 4;
    group_panels_ = taps_ <= chunk_taps_ ? panels() : std::clamp<int64_t>(kSumBytes / sum_bytes, 1, panels());
    member_floats_ = round_up(block_rows_ * row_stride_ + group_panels_ * sum_bytes / 4, 16);
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats_ * threads) * 4; }
  int members(int available) const override { return members_for(flops() / 90, available); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    Worker::Range rows{0, m_}, columns{0, panels()};
    if (by_rows(worker.count))
      rows = worker.slice(m_, 1, block_rows_);
    else
      columns = worker.slice(panels(), 1, Worker::kUncut);  // copies all rows
    if (rows.begin >= rows.end || columns.begin >= columns.end) return;
    auto* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats_;
    const int64_t count = rows.end - rows.begin, blocks = (count + block_rows_ - 1) / block_rows_;
    for (int64_t i = 0; i < blocks; ++i) {
      const Worker::Range block{rows.begin + count * i / blocks, rows.begin + count * (i + 1) / blocks};
      for (int64_t p = columns.begin; p < columns.end; p += group_panels_)
        for (int64_t tap = 0; tap < taps_; tap += chunk_taps_) {
          const int64_t end = std::min(tap + chunk_taps_, taps_);
          gather(args, block, tap, end, own);
          multiply(args, block, {p, std::min(p + group_panels_, columns.end)}, tap, end, own);
        }
    }
  }

 private:
  int64_t panels() const { return (n + table().panel - 1) / table().panel; }
  double flops() const { return 2.0 * static_cast<double>(m_ * n) * static_cast<double>(taps_ * channels); }
  // Rows: everybody reads all weights (L3, some 15 GB/s). Panels: everybody copies all rows.
  bool by_rows(int members) const {
    const ProductShares shares{.arithmetic = flops() / 150,
                               .weights = 4.0 * static_cast<double>(n * taps_ * channels) / 15,
                               .rows = 8.0 * static_cast<double>(m_ * taps_ * channels) / 15,
                               .row_units = (m_ + table().tile_rows - 1) / table().tile_rows,
                               .column_units = panels()};
    return shares.by_rows(members);
  }

  // The pixels under taps [tap, end) of each row, one behind the other; zeros outside of the image.
  void gather(const LayerArgs& args, const Worker::Range& rows, int64_t tap, int64_t end, float* to) const {
    const auto* in = static_cast<const float*>(args.inputs[0]);
    const auto bytes = static_cast<size_t>(channels) * 4;
    for (int64_t r = rows.begin; r < rows.end; ++r, to += row_stride_) {
      const int64_t column = r % x.output, row = r / x.output % y.output, image = r / (x.output * y.output);
      for (int64_t t = tap; t < end; ++t) {
        const int64_t iy = row * y.stride - y.pad_begin + t / x.kernel * y.dilation;
        const int64_t ix = column * x.stride - x.pad_begin + t % x.kernel * x.dilation;
        float* const at = to + (t - tap) * channels;
        if (iy < 0 || iy >= y.input || ix < 0 || ix >= x.input)
          std::memset(at, 0, bytes);
        else
          std::memcpy(at, in + ((image * y.input + iy) * x.input + ix) * channels, bytes);
      }
    }
  }

  void multiply(const LayerArgs& args, const Worker::Range& rows, const Worker::Range& columns, int64_t tap,
                int64_t end, float* own) const {
    const int64_t count = rows.end - rows.begin, tiles = (count + table().tile_rows - 1) / table().tile_rows;
    const bool last = end == taps_;
    float* const sums = own + block_rows_ * row_stride_;
    auto* const out = static_cast<float*>(args.outputs[0]);
    const float* operand = last && plan.operand >= 0
                               ? static_cast<const float*>(args.inputs[static_cast<size_t>(plan.operand)])
                               : nullptr;
    MatMulTile t;
    t.steps = (end - tap) * channels;
    t.a_stride = row_stride_;
    if (last) t.tail = plan.tail;
    t.out_stride = last ? n : table().panel;
    t.operand_stride = n;
    t.ahead_bytes = (4 * table().panel + tiles - 1) / tiles;
    const int64_t share = round_up(t.steps * 4 * table().panel / tiles, 64);
    for (int64_t p = columns.begin; p < columns.end; ++p) {
      const int64_t column = p * table().panel;
      float* const panel_sums = sums + (p - columns.begin) * count * table().panel;
      t.columns = std::min(table().panel, n - column);
      t.bias = bias + column;
      t.b = panel_at(p, tap);
      // Each tile fetches its share of the next panel or, at the end, of the first one's next taps.
      const std::byte* next = p + 1 < columns.end ? panel_at(p + 1, tap)
                              : last              ? nullptr
                                                  : panel_at(columns.begin, end);
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t r = count * i / tiles, at = (rows.begin + r) * n + column;
        t.rows = count * (i + 1) / tiles - r;
        t.a = own + r * row_stride_;
        t.sums = tap > 0 ? panel_sums + r * table().panel : nullptr;
        t.out = last ? out + at : panel_sums + r * table().panel;
        t.operand = operand ? operand + at : nullptr;
        t.ahead = next ? next + i * share : t.b;
        table().run(t);
      }
    }
  }
  const std::byte* panel_at(int64_t p, int64_t tap) const {
    const int64_t column = p * table().panel, padded = round_up(n, table().panel / 2);
    const int64_t width = std::min(table().panel, padded - column);
    return reinterpret_cast<const std::byte*>(weights + taps_ * channels * column + tap * channels * width);
  }

  int64_t m_ = 1, taps_ = 1;
  int64_t chunk_taps_ = 1, row_stride_ = 1;  // of a block of rows, elements
  int64_t block_rows_ = 1, group_panels_ = 1, member_floats_ = 16;
};

class TileWindowKernel final : public LayerKernel {
 public:
  TileWindowKernel(const LayerQuery& query, const Machine& machine, const PackContext& pack)
      : op_(std::get<Conv>(query.layer().op)),
        machine_(machine),
        plan_(plan_register_tail(query, 1).value_or(TailPlan{})) {
    suit(plan_.tail, machine);
    const Node& node = query.layer();
    const Value& w = query.graph.value(node.inputs[1]);
    n_ = w.shape[0].value();
    channels_ = w.shape[1].value();
    const int64_t taps = op_.kernel[0] * op_.kernel[1], depth = taps * channels_;
    const int64_t padded = round_up(n_, table().panel / 2);
    packed_ = pack.packed("weights", [&] {
      const bool has_bias = node.op_input_count() > 2 && node.inputs[2] != kNoValue;
      const Tensor given = has_bias ? query.graph.value(node.inputs[2]).constant : Tensor();
      const std::vector<float> bias = bias_of(query, given, plan_, n_, padded);
      std::vector<std::byte> bytes(static_cast<size_t>(depth * padded) * 4 + bias.size() * 4);
      const float* from = w.constant.data<float>().data();
      pack_columns(bytes.data(), DType::Float32, depth, n_, [&](int64_t k, int64_t column) {
        return from[(column * channels_ + k % channels_) * taps + k / channels_];
      });
      std::memcpy(bytes.data() + depth * padded * 4, bias.data(), bias.size() * 4);
      return bytes;
    });
    bias_offset_ = depth * padded;
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedTileWindow>();
    const Extents& e = context.inputs[0];
    const WindowSpec spec{op_.kernel, op_.strides, op_.dilations, op_.pads_begin, op_.pads_end, op_.auto_pad};
    const auto axes = resolve_window(spec, Extents(e.begin() + 2, e.end()));
    p->batch = e[0];
    p->channels = channels_;
    p->n = n_;
    p->y = axes[0];
    p->x = axes[1];
    p->weights = reinterpret_cast<const float*>(packed_.data());
    p->bias = p->weights + bias_offset_;
    p->plan = plan_;
    p->threads = context.threads;
    p->plan_blocks(machine_);
    return p;
  }

 private:
  Conv op_;
  Machine machine_;
  TailPlan plan_;
  int64_t n_ = 1, channels_ = 1, bias_offset_ = 0;
  std::span<const std::byte> packed_;
};

Support supports(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (machine.isa == Isa::Avx2) return Support::no("needs AVX-512");
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (w.constant.dtype() != DType::Float32) return Support::no("the weights are not FP32");
  if (node.op_input_count() > 2 && node.inputs[2] != kNoValue &&
      !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  if (x.shape.size() != 4) return Support::no("not two spatial dims");
  if (w.shape[1].value() < kFewestChannels)
    return Support::no("fewer than " + std::to_string(kFewestChannels) + " channels");
  if (!plan_register_tail(query, 1)) return Support::no("the epilogue cannot be applied in registers");
  return {};
}

std::vector<Tactic> list(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (!op || op->groups != 1 || is_pixel_conv(*op)) return {};
  const std::vector<DType> types = layer_types(query);
  if (std::find(types.begin(), types.end(), DType::Float32) == types.end()) return {};
  Tactic t = typed_tactic(query, kRunner, "tile_conv_f32_avx512", {DType::Float32, kChannelsLast},
                          {DType::Float32, kChannelsLast});
  for (size_t i = 1; i < query.layer().op_input_count(); ++i) t.inputs[i] = {};
  if (const Support s = supports(query, machine); !s.ok) t.support = s;
  write_over_operand(plan_register_tail(query, 1), t);
  return {t};
}

std::unique_ptr<LayerKernel> make(const LayerQuery& query, const Tactic&, const Machine& machine,
                                  const PackContext& pack) {
  return std::make_unique<TileWindowKernel>(query, machine, pack);
}

}  // namespace

TacticFamily tile_window_conv_tactics() {
  return {kRunner, list, make};
}

}  // namespace lathe::cpu
