// SPDX-License-Identifier: Apache-2.0
//
// 3x3 convolution with stride 1 by Winograd's F(4x4, 3x3), in channels-last or blocks of 16 channels: a tile
// of 4 x 4 results costs 36 multiplications per pair of channels instead of 144.
//
//   V[p] = transformed input tiles   [tile][C]     for each of the 36 points p
//   M[p] = V[p] U[p]                 [tile][K]     U: transformed weights, packed into panels of 32 columns
//   result = transformed M + bias, operand and activation
//
// Operations: 72 C K per tile (a quarter of the direct 288 C K, more where the last tiles hang over the
// edge). Bytes: U, four times the direct weights, once per block of tiles; V and M of a block stay in L2
// mostly. The floor is the arithmetic, or U from L3 (28 GB/s a core) when a block has fewer than 14 tiles.
// A member takes blocks of tiles through all three steps, without a meeting. When that would leave it fewer
// tiles than a block, all members share out each step instead (tiles, then points and panels, then tiles):
// each reads only its part of U. Reached (Zen 4, two threads, cold, of 236 GFLOP/s; operations of the direct
// algorithm): 64@56 685 GFLOP/s (2.9 x), 128@28 619, 256@14 370; batch 8 64@56 466, 256@14 548. oneDNN's:
// 274, 571, 355; 362, 428. The error is about ten times that of direct summation: the points' powers up to 8
// cost the bits. BF16 tensors are therefore computed in FP32, a quarter of the operations at half of BF16's
// rate; only results are rounded.
#include <cstring>

#include "backend/cpu/conv/winograd_table.h"
#include "backend/cpu/tile/tile_matmul_table.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/tail_plan.h"
#include "ops/window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kWinogradRunner = "WinogradConvolution";

// Rows of V and M lie apart by this: a multiple of 1 KB would put them all into the same few cache sets.
int64_t row_floats(int64_t channels) {
  return channels * 4 % 1024 == 0 ? channels + 16 : channels;
}

// G g G^T for one filter, in double.
void transform_filter(const double (&g)[9], double (&u)[kWinogradPoints]) {
  static constexpr double kG[6][3] = {{1.0 / 4, 0, 0},
                                      {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                      {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                      {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                      {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                      {0, 0, 1}};
  double half[6][3];
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 3; ++j) half[i][j] = kG[i][0] * g[j] + kG[i][1] * g[3 + j] + kG[i][2] * g[6 + j];
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j)
      u[6 * i + j] = half[i][0] * kG[j][0] + half[i][1] * kG[j][1] + half[i][2] * kG[j][2];
}

class PreparedWinograd final : public PreparedLayer {
 public:
  int64_t batch = 1, in_channels = 1, out_channels = 1;
  WindowAxis y, x;
  TensorType type;
  const float* weights = nullptr;  // [point][panel][C][columns]
  const float* bias = nullptr;
  TailPlan plan;
  int threads = 1;

  // Whichever way: fewer members may come than there are threads.
  size_t scratch_bytes() const override {
    return static_cast<size_t>(tile_floats() * std::max(tiles(), block_tiles() * threads)) * sizeof(float);
  }
  int members(int available) const override {
    const double operations =
        72.0 * static_cast<double>(tiles() * in_channels) * static_cast<double>(out_channels);
    const int wanted = members_for(operations / 80, available);
    return wanted > 1 ? available : 1;  // the shared way is for the whole team
  }
  bool meets(int count) const override { return shared(count); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    auto* scratch = reinterpret_cast<float*>(args.scratch);
    if (shared(worker.count)) return run_shared(args, scratch, worker);
    scratch += worker.index * tile_floats() * block_tiles();
    const Worker::Range part = worker.slice(tiles(), 1, block_tiles() / 2);
    const int64_t count = part.end - part.begin, blocks = (count + block_tiles() - 1) / block_tiles();
    for (int64_t b = 0; b < blocks; ++b) {
      const Block block{part.begin + count * b / blocks, part.begin + count * (b + 1) / blocks, scratch,
                        scratch + block_tiles() * input_floats()};
      transform_in(args, block, block.first, block.end);
      multiply(block, 0, kWinogradPoints * panels());
      transform_out(args, block, block.first, block.end);
    }
  }

 private:
  struct Block {
    int64_t first = 0, end = 0;  // tiles
    float *v = nullptr, *m = nullptr;
    int64_t tiles() const { return end - first; }
  };
  int64_t rows_of_tiles() const { return (y.output + kWinogradOut - 1) / kWinogradOut; }
  int64_t columns_of_tiles() const { return (x.output + kWinogradOut - 1) / kWinogradOut; }
  int64_t tiles() const { return batch * rows_of_tiles() * columns_of_tiles(); }
  int64_t panel() const { return tile_matmul_table_f32_avx512().panel; }
  int64_t panels() const { return (out_channels + panel() - 1) / panel(); }
  int64_t input_floats() const { return kWinogradPoints * row_floats(in_channels); }
  int64_t tile_floats() const {
    return kWinogradPoints * (row_floats(in_channels) + row_floats(out_channels));
  }
  int64_t block_tiles() const {
    return std::min<int64_t>(tiles(), in_channels + out_channels <= 128 ? 42 : 28);
  }
  bool shared(int members) const { return members > 1 && tiles() < 14 * members; }

  void run_shared(const LayerArgs& args, float* scratch, const Worker& worker) const {
    const Block block{0, tiles(), scratch, scratch + tiles() * input_floats()};
    worker.share(worker.count, [&](const Worker& part) {
      const Worker::Range own = part.slice(tiles());
      transform_in(args, block, own.begin, own.end);
    });
    worker.share(worker.count, [&](const Worker& part) {
      const Worker::Range own = part.slice(kWinogradPoints * panels());
      multiply(block, own.begin, own.end);
    });
    worker.share(worker.count, [&](const Worker& part) {
      const Worker::Range own = part.slice(tiles());
      transform_out(args, block, own.begin, own.end);
    });
  }

  struct Strides {
    int64_t image, row, pixel, vector;
  };
  Strides strides(int64_t channels, const WindowAxis& rows, const WindowAxis& columns, bool input) const {
    const int64_t height = input ? rows.input : rows.output, width = input ? columns.input : columns.output;
    if (type.format.kind == Format::Kind::ChannelsLast)
      return {height * width * channels, width * channels, channels, 16};
    return {height * width * channels, width * 16, 16, height * width * 16};
  }

  void transform_in(const LayerArgs& args, const Block& block, int64_t first, int64_t end) const {
    const Strides s = strides(in_channels, y, x, true);
    WinogradInput t;
    t.pixel_stride = s.pixel;
    t.row_stride = s.row;
    t.vector_stride = s.vector;
    t.stored = stored_as(type.dtype);
    t.vectors = in_channels / 16;
    t.point_stride = block.tiles() * row_floats(in_channels);
    for (int64_t i = first; i < end; ++i) {
      const int64_t column = i % columns_of_tiles(), row = i / columns_of_tiles() % rows_of_tiles();
      const int64_t image = i / (columns_of_tiles() * rows_of_tiles());
      const int64_t y0 = row * kWinogradOut - y.pad_begin, x0 = column * kWinogradOut - x.pad_begin;
      t.row_begin = static_cast<int>(std::max<int64_t>(0, -y0));
      t.row_end = static_cast<int>(std::min<int64_t>(kWinogradIn, y.input - y0));
      t.column_begin = static_cast<int>(std::max<int64_t>(0, -x0));
      t.column_end = static_cast<int>(std::min<int64_t>(kWinogradIn, x.input - x0));
      t.pixels = static_cast<const std::byte*>(args.inputs[0]) +
                 dtype_bytes(type.dtype, image * s.image + y0 * s.row + x0 * s.pixel);
      t.out = block.v + (i - block.first) * row_floats(in_channels);
      winograd_table_avx512().transform_input(t);
    }
  }

  // Units [first, end) of (point, panel).
  void multiply(const Block& block, int64_t first, int64_t end) const {
    const MatMulTileTable& table = tile_matmul_table_f32_avx512();
    const int64_t padded = round_up(out_channels, panel() / 2);
    const int64_t rows = block.tiles(), pieces = (rows + table.tile_rows - 1) / table.tile_rows;
    MatMulTile t;
    t.steps = in_channels;
    t.a_stride = row_floats(in_channels);
    t.out_stride = row_floats(out_channels);
    for (int64_t unit = first; unit < end; ++unit) {
      const int64_t point = unit / panels(), column = unit % panels() * panel();
      t.columns = std::min(panel(), out_channels - column);
      const float* b = weights + (point * padded + column) * in_channels;
      t.b = reinterpret_cast<const std::byte*>(b);
      // Panels follow one another, those of the next point too.
      const int64_t panel_bytes = in_channels * (t.columns > panel() / 2 ? panel() : panel() / 2) * 4;
      const int64_t share = round_up(panel_bytes / pieces, 64);
      const bool more = unit + 1 < end;
      t.ahead_bytes = more ? (4 * panel() + pieces - 1) / pieces : 0;
      for (int64_t i = 0; i < pieces; ++i) {
        const int64_t r = rows * i / pieces;
        t.rows = rows * (i + 1) / pieces - r;
        t.a = block.v + (point * rows + r) * t.a_stride;
        t.out = block.m + (point * rows + r) * t.out_stride + column;
        t.ahead = more ? t.b + panel_bytes + i * share : t.b;
        table.run(t);
      }
    }
  }

  void transform_out(const LayerArgs& args, const Block& block, int64_t first, int64_t end) const {
    const Strides s = strides(out_channels, y, x, false);
    WinogradOutput t;
    t.bias = bias;
    t.pixel_stride = s.pixel;
    t.row_stride = s.row;
    t.vector_stride = s.vector;
    t.stored = stored_as(type.dtype);
    t.vectors = out_channels / 16;
    t.point_stride = block.tiles() * row_floats(out_channels);
    t.tail = plan.tail;
    const std::byte* operand =
        plan.operand < 0 ? nullptr
                         : static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan.operand)]);
    for (int64_t i = first; i < end; ++i) {
      const int64_t column = i % columns_of_tiles(), row = i / columns_of_tiles() % rows_of_tiles();
      const int64_t image = i / (columns_of_tiles() * rows_of_tiles());
      const int64_t at = dtype_bytes(
          type.dtype, image * s.image + row * kWinogradOut * s.row + column * kWinogradOut * s.pixel);
      t.rows = static_cast<int>(std::min<int64_t>(kWinogradOut, y.output - row * kWinogradOut));
      t.columns = static_cast<int>(std::min<int64_t>(kWinogradOut, x.output - column * kWinogradOut));
      t.points = block.m + (i - block.first) * row_floats(out_channels);
      t.pixels = static_cast<std::byte*>(args.outputs[0]) + at;
      t.operand = operand ? operand + at : nullptr;
      winograd_table_avx512().transform_output(t);
    }
  }
};

class WinogradKernel final : public LayerKernel {
 public:
  WinogradKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                 const PackContext& pack)
      : op_(std::get<Conv>(query.layer().op)),
        type_(tactic.inputs[0]),
        plan_(plan_register_tail(query, 1).value_or(TailPlan{})) {
    suit(plan_.tail, machine);
    const Node& node = query.layer();
    const Value& w = query.graph.value(node.inputs[1]);
    out_channels_ = w.shape[0].value();
    in_channels_ = w.shape[1].value();
    packed_ = pack.packed("weights", bytes(), [&] {
      return pack_weights(w.constant, bias_of(query, plan_, out_channels_, out_channels_));
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedWinograd>();
    const Extents& e = context.inputs[0];
    const WindowSpec spec{op_.kernel, op_.strides, op_.dilations, op_.pads_begin, op_.pads_end, op_.auto_pad};
    const auto axes = resolve_window(spec, Extents(e.begin() + 2, e.end()));
    p->batch = e[0];
    p->in_channels = in_channels_;
    p->out_channels = out_channels_;
    p->y = axes[0];
    p->x = axes[1];
    p->type = type_;
    p->weights = reinterpret_cast<const float*>(packed_.data());
    p->bias = p->weights + kWinogradPoints * in_channels_ * out_channels_;
    p->plan = plan_;
    p->threads = context.threads;
    return p;
  }

 private:
  int64_t bytes() const {
    return dtype_bytes(DType::Float32, kWinogradPoints * in_channels_ * out_channels_ + out_channels_);
  }
  // U as [point][panel][C][columns of the panel], then the bias. Channels are multiples of 16, so panels have
  // 32 columns, the last perhaps 16.
  std::vector<std::byte> pack_weights(const Tensor& constant, const std::vector<float>& bias) const {
    const std::vector<double> w = constant.to_doubles();
    const int64_t panel = tile_matmul_table_f32_avx512().panel;
    std::vector<std::byte> packed(static_cast<size_t>(bytes()));
    auto* out = reinterpret_cast<float*>(packed.data());
    for (int64_t k = 0; k < out_channels_; ++k) {
      const int64_t first = k / panel * panel, columns = std::min(panel, out_channels_ - first);
      for (int64_t c = 0; c < in_channels_; ++c) {
        double g[9], u[kWinogradPoints];
        std::copy_n(w.begin() + (k * in_channels_ + c) * 9, 9, g);
        transform_filter(g, u);
        float* to = out + first * in_channels_ + c * columns + (k - first);
        for (int p = 0; p < kWinogradPoints; ++p, to += in_channels_ * out_channels_)
          *to = static_cast<float>(u[p]);
      }
    }
    std::copy(bias.begin(), bias.end(), out + kWinogradPoints * in_channels_ * out_channels_);
    return packed;
  }

  Conv op_;
  TensorType type_;
  TailPlan plan_;
  int64_t in_channels_ = 1, out_channels_ = 1;
  std::span<const std::byte> packed_;
};

bool is_3x3(const Conv& op) {
  const Ints ones(2, 1);
  return op.groups == 1 && op.kernel == Ints{3, 3} && (op.strides.empty() || op.strides == ones) &&
         (op.dilations.empty() || op.dilations == ones);
}

Support supports_winograd(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (!machine.has(CpuFeature::Avx512)) return Support::no("needs AVX-512");
  if (!w.is_constant()) return Support::no("the weights are not constant");
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
    return Support::no("the bias is not constant");
  if (x.shape.size() != 4) return Support::no("not two spatial dims");
  if (w.shape[0].value() % 16 != 0 || w.shape[1].value() % 16 != 0)
    return Support::no("channels are not multiples of 16");
  if (!plan_register_tail(query, 1)) return Support::no("the epilogue cannot be applied in registers");
  return {};
}

std::vector<TensorType> types_of(const LayerQuery& query) {
  std::vector<TensorType> types;
  for (const DType type : layer_types(query))
    if (type == DType::Float32 || type == DType::BFloat16)
      for (const Format& format : {kChannelsLast, kBlocked16}) types.push_back({type, format});
  return types;
}

std::vector<Tactic> list_winograd(const LayerQuery& query, const Machine& machine) {
  const auto* op = std::get_if<Conv>(&query.layer().op);
  if (!op || !is_3x3(*op)) return {};
  std::vector<Tactic> tactics;
  for (const TensorType& type : types_of(query)) {
    Tactic t = typed_tactic(query, kWinogradRunner, "winograd_4x3_avx512", type, type);
    for (size_t i = 1; i < query.layer().op_input_count(); ++i) t.inputs[i] = {};
    t.error_factor = 12;  // 3.6 to 8 on ResNet-50's and VGG-16's layers, 11.5 on the worst
    if (const Support s = supports_winograd(query, machine); !s.ok) t.support = s;
    write_over_operand(plan_register_tail(query, 1), t);
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_winograd(const LayerQuery& query, const Tactic& tactic,
                                           const Machine& machine, const PackContext& pack) {
  return std::make_unique<WinogradKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily winograd_tactics() {
  return {kWinogradRunner, list_winograd, make_winograd};
}

}  // namespace lathe::cpu
