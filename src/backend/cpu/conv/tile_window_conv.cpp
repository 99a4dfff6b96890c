// SPDX-License-Identifier: Apache-2.0
//
// Convolution in FP32 and BF16, channels-last, any window, as a product whose rows are pixels: the pixels
// that a row of the window meets are copied together for each result, and the tile kernel
// (tile/tile_matmul_table.h) multiplies them with that row's weights, one row of the window after the other.
// Results below each other share these copies: kernel width instead of R S times the input.
//
// It is for few pixels and many channels, where weights are most of the traffic and Winograd's four times as
// many would come from L3: each weight is read once per block of pixels, and the next ones are fetched while
// some are used.
//
// Operations: 2 K C R S per result. Bytes: weights and results once, the input S times to L2 and back. The
// floor is the arithmetic or, below some 60 pixels (BF16 120), the weights' way from L3.
// Reached (Zen 5, cold, of 273 GFLOP/s FP32 and 512 BF16 a core): 512-512@7 BF16 523 on one thread and 945 on
// two, FP32 251 and 437 to 482; from 14x14 with stride 2 510 and 970, 251 and 471 to 486. oneDNN's best of
// BF16 there: 436 and 857, 397 and 815. Members take lines of the image or panels of columns, whatever reads
// less.
#include <algorithm>
#include <cstring>

#include "backend/cpu/conv/tile_conv_tactics.h"
#include "backend/cpu/tile/product_shares.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/tail_plan.h"
#include "ops/window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kTileWindowConvRunner = "TileWindowConvolution";
constexpr int64_t kFewestChannels = 16;  // below, a row of the window is too short a run

class PreparedTileWindow final : public PreparedLayer {
 public:
  DType type = DType::Float32, result = DType::Float32;
  int64_t batch = 1, channels = 1, n = 1;
  WindowAxis y, x;
  const std::byte* weights = nullptr;  // panels: [row of the window][tap][channel][columns]
  const float* bias = nullptr;
  TailPlan plan;
  int threads = 1;

  // When all of the above is known.
  void plan_blocks(const Machine& machine) {
    run_bytes_ = dtype_bytes(type, x.kernel * channels);
    pixel_bytes_ = run_bytes_ % 1024 == 0 ? run_bytes_ + 64 : run_bytes_;
    if (lines() == 0) return;
    // Most of L2: to read the weights once more costs more than to have some of the copies come from L3.
    while (block_lines_ < lines() &&
           copied_lines(block_lines_ + 1) * line_bytes() <= machine.l2_bytes / 4 * 3)
      ++block_lines_;
    const int64_t blocks = (lines() + block_lines_ - 1) / block_lines_;
    block_lines_ = (lines() + blocks - 1) / blocks;
    sums_offset_ = round_up(copied_bytes(block_lines_), 64);
    member_bytes_ = sums_offset_ + block_lines_ * x.output * table().panel * 4;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads); }
  int members(int available) const override { return members_for(flops() / rate(), available); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    Worker::Range all{0, lines()}, columns{0, panels()};
    if (by_rows(worker.count))
      all = worker.slice(lines(), 1, block_lines_);
    else
      columns = worker.slice(panels(), 1, Worker::kUncut);  // copies all lines
    if (all.begin >= all.end || columns.begin >= columns.end) return;
    std::byte* const own = static_cast<std::byte*>(args.scratch) + worker.index * member_bytes_;
    const int64_t count = all.end - all.begin, blocks = (count + block_lines_ - 1) / block_lines_;
    for (int64_t i = 0; i < blocks; ++i) {
      const Worker::Range block{all.begin + count * i / blocks, all.begin + count * (i + 1) / blocks};
      each_piece(block, [&](const Piece& piece) { copy(args, piece, own + piece.offset); });
      multiply(args, block, columns, i + 1 < blocks, own);
    }
  }

 private:
  // Lines of one image, and what they meet: line `t` below the first one's window is kept at `slot(t)`, so
  // that lines of results that follow one another find theirs so, too.
  struct Piece {
    int64_t first = 0, count = 0;  // lines, of all images
    int64_t offset = 0;            // bytes, in the block
    int64_t slots = 0;             // of each remainder of t by the stride
  };
  int64_t slot(const Piece& piece, int64_t t) const { return t % y.stride * piece.slots + t / y.stride; }
  int64_t reach() const { return (y.kernel - 1) * y.dilation; }
  int64_t slots_of(int64_t count) const { return count + reach() / y.stride + 1; }
  int64_t line_bytes() const { return x.output * pixel_bytes_; }
  // Of so many lines at most, wherever images begin: images, lines that are copied, and room for them.
  int64_t images_of(int64_t count) const { return std::min(batch, (count + y.output - 2) / y.output + 1); }
  int64_t copied_lines(int64_t count) const {
    return (count - images_of(count)) * y.stride + images_of(count) * (reach() + 1);
  }
  int64_t copied_bytes(int64_t count) const {
    return y.stride * (count + images_of(count) * slots_of(0)) * line_bytes();
  }
  template <class F>
  void each_piece(const Worker::Range& block, const F& f) const {
    Piece piece{.first = block.begin};
    for (; piece.first < block.end; piece.first += piece.count) {
      piece.count = std::min(block.end - piece.first, y.output - piece.first % y.output);
      piece.slots = slots_of(piece.count);
      f(piece);
      piece.offset += y.stride * piece.slots * line_bytes();
    }
  }

  const MatMulTileTable& table() const { return tile_matmul_table(type); }
  int64_t lines() const { return batch * y.output; }
  int64_t panels() const { return (n + table().panel - 1) / table().panel; }
  int64_t tiles(int64_t pixels) const { return (pixels + table().tile_rows - 1) / table().tile_rows; }
  double flops() const {
    return 2.0 * static_cast<double>(lines() * x.output * n) *
           static_cast<double>(y.kernel * x.kernel * channels);
  }
  double rate() const { return type == DType::Float32 ? 150 : 300; }  // operations a nanosecond
  // Lines: everybody reads all weights (L3, some 15 GB/s). Panels: everybody copies all lines.
  bool by_rows(int members) const {
    const int64_t weight_bytes = n * y.kernel * run_bytes_,
                  copied = batch * (y.input + reach()) * x.output * run_bytes_;
    const ProductShares shares{.arithmetic = flops() / rate(),
                               .weights = static_cast<double>(weight_bytes) / 15,
                               .rows = 2.0 * static_cast<double>(copied) / 15,
                               .row_units = lines(),
                               .column_units = panels()};
    return shares.by_rows(members);
  }

  // For each line from the first window of the piece to the last and each pixel of a result, the pixels under
  // one row of the window, one behind the other; zeros outside of the image.
  void copy(const LayerArgs& args, const Piece& piece, std::byte* to) const {
    const int64_t image = piece.first / y.output, top = piece.first % y.output * y.stride - y.pad_begin;
    for (int64_t t = 0; t <= (piece.count - 1) * y.stride + reach(); ++t) {
      std::byte* const line = to + slot(piece, t) * line_bytes();
      if (top + t < 0 || top + t >= y.input)
        std::memset(line, 0, static_cast<size_t>(line_bytes()));
      else
        copy_line(static_cast<const std::byte*>(args.inputs[0]) +
                      (image * y.input + top + t) * x.input * dtype_bytes(type, channels),
                  line);
    }
  }
  void copy_line(const std::byte* from, std::byte* to) const {
    const int64_t tap_bytes = dtype_bytes(type, channels);
    for (int64_t column = 0; column < x.output; ++column, to += pixel_bytes_) {
      const int64_t left = column * x.stride - x.pad_begin;
      if (x.dilation == 1 && left >= 0 && left + x.kernel <= x.input) {
        std::memcpy(to, from + left * tap_bytes, static_cast<size_t>(run_bytes_));
        continue;
      }
      for (int64_t tap = 0; tap < x.kernel; ++tap) {
        const int64_t at = left + tap * x.dilation;
        if (at < 0 || at >= x.input)
          std::memset(to + tap * tap_bytes, 0, static_cast<size_t>(tap_bytes));
        else
          std::memcpy(to + tap * tap_bytes, from + at * tap_bytes, static_cast<size_t>(tap_bytes));
      }
    }
  }

  // `more`: another block follows, over the same panels.
  void multiply(const LayerArgs& args, const Worker::Range& block, const Worker::Range& columns, bool more,
                std::byte* own) const {
    int64_t all = 0;
    each_piece(block, [&](const Piece& piece) { all += tiles(piece.count * x.output); });
    const std::byte* operand =
        plan.operand >= 0 ? static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan.operand)])
                          : nullptr;
    auto* const sums = reinterpret_cast<float*>(own + sums_offset_);
    MatMulTile t;
    t.steps = run_bytes_ / 4;
    t.a_stride = pixel_bytes_ / 4;
    t.operand_stride = n;
    t.ahead_bytes = (4 * table().panel + all - 1) / all;
    const int64_t share = round_up(t.steps * 4 * table().panel / all, 64);
    for (int64_t p = columns.begin; p < columns.end; ++p)
      for (int64_t row = 0; row < y.kernel; ++row) {
        const int64_t column = p * table().panel;
        const bool last = row + 1 == y.kernel;
        t.columns = std::min(table().panel, n - column);
        t.bias = bias + column;
        t.b = panel_at(p, row);
        t.tail = last ? plan.tail : RegisterTail{};
        t.stored = last ? stored_as(result) : Stored::F32;
        t.out_stride = last ? n : table().panel;
        // Each tile fetches its share of what comes next.
        const std::byte* next = !last                 ? panel_at(p, row + 1)
                                : p + 1 < columns.end ? panel_at(p + 1, 0)
                                : more                ? panel_at(columns.begin, 0)
                                                      : nullptr;
        int64_t turn = 0;
        each_piece(block, [&](const Piece& piece) {
          const std::byte* const a = own + piece.offset + slot(piece, row * y.dilation) * line_bytes();
          const int64_t pixels = piece.count * x.output, count = tiles(pixels);
          for (int64_t i = 0; i < count; ++i, ++turn) {
            const int64_t r = pixels * i / count;
            float* const tile_sums = sums + ((piece.first - block.begin) * x.output + r) * table().panel;
            const int64_t at = dtype_bytes(result, (piece.first * x.output + r) * n + column);
            t.rows = pixels * (i + 1) / count - r;
            t.a = a + r * pixel_bytes_;
            t.sums = row > 0 ? tile_sums : nullptr;
            t.out = last ? static_cast<std::byte*>(args.outputs[0]) + at
                         : reinterpret_cast<std::byte*>(tile_sums);
            t.operand = last && operand ? operand + at : nullptr;
            t.ahead = next ? next + turn * share : t.b;
            table().run(t);
          }
        });
      }
  }
  const std::byte* panel_at(int64_t p, int64_t row) const {
    const int64_t column = p * table().panel, padded = round_up(n, table().panel / 2);
    const int64_t width = std::min(table().panel, padded - column);
    return weights + (y.kernel * column + row * width) * run_bytes_;
  }

  int64_t run_bytes_ = 4;    // the pixels under a row of the window
  int64_t pixel_bytes_ = 4;  // from one result's to the next one's
  int64_t block_lines_ = 1, sums_offset_ = 0, member_bytes_ = 64;
};

class TileWindowKernel final : public LayerKernel {
 public:
  TileWindowKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                   const PackContext& pack)
      : op_(std::get<Conv>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        result_(tactic.outputs[0].dtype),
        machine_(machine),
        plan_(plan_register_tail(query, 1).value_or(TailPlan{})) {
    suit(plan_.tail, machine);
    const Node& node = query.layer();
    const Value& w = query.graph.value(node.inputs[1]);
    n_ = w.shape[0].value();
    channels_ = w.shape[1].value();
    const int64_t taps = op_.kernel[0] * op_.kernel[1], depth = taps * channels_;
    const int64_t padded = round_up(n_, tile_matmul_table(type_).panel / 2);
    bias_offset_ = dtype_bytes(type_, depth * padded);
    packed_ = pack.packed("weights", bias_offset_ + dtype_bytes(DType::Float32, padded), [&] {
      const std::vector<float> bias = bias_of(query, plan_, n_, padded);
      std::vector<std::byte> bytes(static_cast<size_t>(bias_offset_) + bias.size() * 4);
      const float* from = w.constant.data<float>().data();
      pack_columns(bytes.data(), type_, depth, n_, [&](int64_t k, int64_t column) {
        return from[(column * channels_ + k % channels_) * taps + k / channels_];
      });
      std::memcpy(bytes.data() + bias_offset_, bias.data(), bias.size() * 4);
      return bytes;
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedTileWindow>();
    const Extents& e = context.inputs[0];
    const WindowSpec spec{op_.kernel, op_.strides, op_.dilations, op_.pads_begin, op_.pads_end, op_.auto_pad};
    const auto axes = resolve_window(spec, Extents(e.begin() + 2, e.end()));
    p->type = type_;
    p->result = result_;
    p->batch = e[0];
    p->channels = channels_;
    p->n = n_;
    p->y = axes[0];
    p->x = axes[1];
    p->weights = packed_.data();
    p->bias = reinterpret_cast<const float*>(packed_.data() + bias_offset_);
    p->plan = plan_;
    p->threads = context.threads;
    p->plan_blocks(machine_);
    return p;
  }

 private:
  Conv op_;
  DType type_, result_;
  Machine machine_;
  TailPlan plan_;
  int64_t n_ = 1, channels_ = 1, bias_offset_ = 0;
  std::span<const std::byte> packed_;
};

Support supports_tile_window_conv(const LayerQuery& query) {
  const Node& node = query.layer();
  if (query.graph.value(node.inputs[0]).shape.size() != 4) return Support::no("not two spatial dims");
  if (query.graph.value(node.inputs[1]).shape[1].value() < kFewestChannels)
    return Support::no("fewer than " + std::to_string(kFewestChannels) + " channels");
  return {};
}

std::vector<Tactic> list_tile_window_conv(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (!op || op->groups != 1 || is_pixel_conv(*op)) return {};
  return list_tile_conv(query, machine,
                        {.runner = kTileWindowConvRunner, .name = "tile_conv", .support = [&] {
                           return supports_tile_window_conv(query);
                         }});
}

std::unique_ptr<LayerKernel> make_tile_window_conv(const LayerQuery& query, const Tactic& tactic,
                                                   const Machine& machine, const PackContext& pack) {
  return std::make_unique<TileWindowKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily tile_window_conv_tactics() {
  return {kTileWindowConvRunner, list_tile_window_conv, make_tile_window_conv};
}

}  // namespace lathe::cpu
