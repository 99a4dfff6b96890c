// SPDX-License-Identifier: Apache-2.0
//
// Transposed convolution in FP32 and BF16, channels-last, of one to three spatial dims. Along an axis with
// stride s, results r with the same (r + pad) mod s are a phase: they meet the same taps, every s-th one of
// the window, and follow one another as the pixels do. A phase of all axes is so a convolution with stride
// 1, and the tile kernel (tile/tile_matmul_table.h) reads the pixels of a row of its window where they lie:
// the taps along x of one result are next to each other in memory. Nothing is copied or written twice; no
// product is with a zero.
//
// Tiles are results that follow one another along x. At the ends of a line, where taps fall off the image,
// they are results below each other, which lack the same taps.
//
// Operations: 2 K C for each pixel and tap. Bytes: pixels, weights and results once; sums of a phase with
// more than one row of taps go to L2 and back for each row after the first. The floor is the arithmetic, or
// the weights' way from L3 where pixels are few. Reached (Zen 5, two threads, of 543 GFLOP/s in FP32 and
// 1018 in BF16): 2x2 with stride 2, 512-256@28 84 and 91 %; 4x4 with stride 2, 1024-256@32 87 and 96 %,
// 512-256@4 59 and 54 %; 3x3 with stride 2, 128-64@56 80 and 87 %. oneDNN 2.6 in FP32: 29, 40, 14 and 23 %
// (bench/problems/kernels_cpu.txt).
#include <algorithm>
#include <cstring>

#include "backend/cpu/conv/tile_conv_tactics.h"
#include "backend/cpu/tile/product_shares.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/tail_plan.h"
#include "ops/transposed_window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kTileTransposedRunner = "TileTransposedConvolution";
constexpr int kAxes = 3;  // z, y, x
constexpr int64_t kMostPhases = 4096;
constexpr int64_t kFewestFilters = 9;  // below, most of a panel's 16 columns are padding

// The taps of a phase along one axis: `phase`, `phase` + stride and so on.
int64_t taps_of(int64_t kernel, int64_t stride, int64_t phase) {
  return phase < kernel ? (kernel - phase + stride - 1) / stride : 0;
}

// Results phase + i * stride - pad for places i from `first` on. Such a result meets pixel i - t by the t-th
// tap of its phase.
struct Axis {
  int64_t input = 1, output = 1, kernel = 1, stride = 1, pad = 0;
  int64_t first = 0, places = 1;

  Axis() = default;
  explicit Axis(const WindowAxis& w)
      : input(w.input), output(w.output), kernel(w.kernel), stride(w.stride), pad(w.pad_begin) {
    const auto place_of = [this](int64_t result) {
      const int64_t at = result + pad;
      return at >= 0 ? at / stride : -((stride - 1 - at) / stride);
    };
    first = place_of(0);
    places = output > 0 ? place_of(output - 1) - first + 1 : 0;
  }
  int64_t result(int64_t place, int64_t phase) const { return place * stride + phase - pad; }
  bool has_result(int64_t place, int64_t phase) const {
    return result(place, phase) >= 0 && result(place, phase) < output;
  }
  int64_t taps(int64_t phase) const { return taps_of(kernel, stride, phase); }
};

// Taps that fall onto the image; none if begin >= end.
struct Taps {
  int64_t begin = 0, end = 0;
  bool none() const { return begin >= end; }
  bool operator==(const Taps&) const = default;
};
Taps taps_inside(const Axis& axis, int64_t place, int64_t phase) {
  return {std::max<int64_t>(0, place - axis.input + 1), std::min(axis.taps(phase), place + 1)};
}

struct Phase {
  int64_t of[kAxes] = {};
  int64_t taps[kAxes] = {};
  int64_t offset = 0;  // of its weights, in elements
  int64_t all_taps() const { return taps[0] * taps[1] * taps[2]; }
};

// Weights lie by phase: [panel][row of taps][tap along x, the last one first][channel][column].
std::vector<Phase> phases_of(const Ints& kernel, const Ints& strides, int64_t channels, int64_t padded) {
  std::vector<Phase> phases;
  int64_t offset = 0;
  for (int64_t z = 0; z < strides[0]; ++z)
    for (int64_t y = 0; y < strides[1]; ++y)
      for (int64_t x = 0; x < strides[2]; ++x) {
        Phase phase{.of = {z, y, x}, .offset = offset};
        for (int i = 0; i < kAxes; ++i) {
          const auto at = static_cast<size_t>(i);
          phase.taps[i] = taps_of(kernel[at], strides[at], phase.of[i]);
        }
        offset += phase.all_taps() * channels * padded;
        phases.push_back(phase);
      }
  return phases;
}

class PreparedTileTransposed final : public PreparedLayer {
 public:
  DType type = DType::Float32, result = DType::Float32;
  int64_t batch = 1, channels = 1, n = 1;
  Axis axes[kAxes];
  std::vector<Phase> phases;
  const std::byte* weights = nullptr;
  const float* bias = nullptr;
  TailPlan plan;
  int threads = 1;

  // When all of the above is known.
  void plan_blocks(const Machine& machine) {
    const Axis &y = axes[1], &x = axes[2];
    // Pixels of a block, which all panels read, and sums of one panel take half of L2.
    const int64_t place_bytes = dtype_bytes(type, channels) + 2 * table().panel * 4;
    const int64_t most = std::max<int64_t>(1, machine.l2_bytes / 2 / place_bytes);
    const int64_t rows = batch * axes[0].places * y.places;
    const int64_t wanted = rows > 0 ? (kUnitsOfMember * threads + rows - 1) / rows : 1;
    const int64_t narrowest = std::max<int64_t>(1, x.places / kNarrowest);
    segments_ = std::max((x.places + most - 1) / most, std::clamp<int64_t>(wanted, 1, narrowest));
    segment_ = segments_ > 0 ? (x.places + segments_ - 1) / segments_ : 1;
    block_ = std::clamp<int64_t>(most / std::max<int64_t>(1, segment_), 1, std::max<int64_t>(1, y.places));
    member_bytes_ = 2 * block_ * segment_ * table().panel * 4;
  }

  size_t scratch_bytes() const override { return static_cast<size_t>(member_bytes_ * threads); }
  int members(int available) const override { return members_for(flops() / rate(), available); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    Worker::Range rows{0, units()}, columns{0, panels() * static_cast<int64_t>(phases.size())};
    if (by_rows(worker.count))
      rows = worker.slice(units(), 1, block_);
    else
      columns = worker.slice(columns.end, 1, Worker::kUncut);
    if (columns.begin >= columns.end) return;
    auto* const own =
        reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch) + worker.index * member_bytes_);
    const Axis &z = axes[0], &y = axes[1];
    for (int64_t unit = rows.begin; unit < rows.end;) {
      const int64_t row = unit % y.places, rest = unit / y.places;
      Block block{.image = rest / segments_ / z.places,
                  .z = z.first + rest / segments_ % z.places,
                  .y = y.first + row,
                  .rows = std::min({rows.end - unit, y.places - row, block_}),
                  .x = axes[2].first + rest % segments_ * segment_};
      block.columns = std::min(segment_, axes[2].first + axes[2].places - block.x);
      unit += block.rows;
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const Phase& phase = phases[static_cast<size_t>(c / panels())];
        if (z.has_result(block.z, phase.of[0])) run_panel(args, block, phase, c % panels(), own);
      }
    }
  }

 private:
  static constexpr int64_t kUnitsOfMember = 4;
  static constexpr int64_t kNarrowest = 28;  // places along x, two tiles

  // Places of one image and z.
  struct Block {
    int64_t image = 0, z = 0;
    int64_t y = 0, rows = 0;
    int64_t x = 0, columns = 0;
  };
  // What one row of taps does to a row of results.
  struct Pass {
    bool runs = false, first = false, last = false, empty = false;
    bool operator==(const Pass&) const = default;
  };

  const MatMulTileTable& table() const { return tile_matmul_table(type); }
  int64_t panels() const { return (n + table().panel - 1) / table().panel; }
  int64_t units() const { return batch * axes[0].places * segments_ * axes[1].places; }
  int64_t weight_elements() const {
    const Phase& last = phases.back();
    return last.offset + last.all_taps() * channels * round_up(n, table().panel / 2);
  }
  double flops() const {
    double pixels = 2.0 * static_cast<double>(batch * channels) * static_cast<double>(n);
    for (const Axis& axis : axes) pixels *= static_cast<double>(axis.input * axis.kernel);
    return pixels;
  }
  double rate() const { return type == DType::Float32 ? 150 : 300; }  // operations a nanosecond
  // Rows: everybody reads all weights (L3, some 15 GB/s). Columns: everybody reads all pixels.
  bool by_rows(int members) const {
    double pixels = static_cast<double>(dtype_bytes(type, batch * channels));
    for (const Axis& axis : axes) pixels *= static_cast<double>(axis.input);
    const ProductShares shares{.arithmetic = flops() / rate(),
                               .weights = static_cast<double>(dtype_bytes(type, weight_elements())) / 15,
                               .rows = pixels / 15,
                               .row_units = std::max<int64_t>(1, units()),
                               .column_units = panels() * static_cast<int64_t>(phases.size())};
    return shares.by_rows(members);
  }

  Pass pass_of(const Block& block, const Phase& phase, int64_t y, int64_t tz, int64_t ty) const {
    if (!axes[1].has_result(y, phase.of[1])) return {};
    const Taps z_taps = taps_inside(axes[0], block.z, phase.of[0]),
               y_taps = taps_inside(axes[1], y, phase.of[1]);
    if (z_taps.none() || y_taps.none()) {
      const bool once = tz == 0 && ty == 0;
      return {.runs = once, .first = once, .last = once, .empty = true};
    }
    if (tz < z_taps.begin || tz >= z_taps.end || ty < y_taps.begin || ty >= y_taps.end) return {};
    return {.runs = true,
            .first = tz == z_taps.begin && ty == y_taps.begin,
            .last = tz + 1 == z_taps.end && ty + 1 == y_taps.end};
  }

  // What all tiles of a row of taps and a panel have in common.
  struct Row {
    const Block& block;
    const Phase& phase;
    int64_t column = 0, width = 0;  // of the panel
    int64_t tz = 0, ty = 0;
    const std::byte* taps = nullptr;
    const std::byte* next = nullptr;  // what is read after it
    int64_t share = 0;                // of that, for each place
    float* own = nullptr;
  };

  void run_panel(const LayerArgs& args, const Block& block, const Phase& phase, int64_t panel,
                 float* own) const {
    const int64_t column = panel * table().panel, padded = round_up(n, table().panel / 2);
    Row row{.block = block,
            .phase = phase,
            .column = column,
            .width = std::min(table().panel, padded - column),
            .own = own};
    const int64_t tap_bytes = dtype_bytes(type, channels * row.width), row_bytes = phase.taps[2] * tap_bytes;
    row.taps = weights + dtype_bytes(type, phase.offset + phase.all_taps() * channels * column);
    row.share = round_up(row_bytes / std::max<int64_t>(1, block.rows * block.columns), 64);
    for (row.tz = 0; row.tz < std::max<int64_t>(1, phase.taps[0]); ++row.tz)
      for (row.ty = 0; row.ty < std::max<int64_t>(1, phase.taps[1]); ++row.ty) {
        row.next = row.taps + row_bytes;  // phases and panels lie behind one another, too
        run_row(args, row);
        row.taps += row_bytes;
      }
  }

  void run_row(const LayerArgs& args, const Row& row) const {
    const Block& block = row.block;
    const Axis& x = axes[2];
    const int64_t phase = row.phase.of[2], taps = row.phase.taps[2];
    // Places with all taps on the image, of those in the block that have a result.
    int64_t begin = block.x, end = block.x + block.columns;
    while (begin < end && !x.has_result(begin, phase)) ++begin;
    while (begin < end && !x.has_result(end - 1, phase)) --end;
    int64_t inner = std::max(begin, taps - 1), outer = std::min(end, x.input);
    if (taps == 0 || inner >= outer) inner = outer = begin;
    for (int64_t y = 0; y < block.rows;) {
      const Pass pass = pass_of(block, row.phase, block.y + y, row.tz, row.ty);
      int64_t count = 1;
      while (y + count < block.rows && pass_of(block, row.phase, block.y + y + count, row.tz, row.ty) == pass)
        ++count;
      if (pass.runs) {
        for (int64_t i = y; i < y + count; ++i) run_line(args, row, pass, i, inner, outer);
        for (int64_t place = begin; place < inner; ++place) run_side(args, row, pass, y, count, place);
        for (int64_t place = outer; place < end; ++place) run_side(args, row, pass, y, count, place);
      }
      y += count;
    }
  }

  MatMulTile tile_of(const Row& row, const Pass& pass) const {
    MatMulTile t;
    t.columns = std::min(table().panel, n - row.column);
    t.bias = bias + row.column;
    t.b = row.taps;
    t.tail = pass.last ? plan.tail : RegisterTail{};
    t.stored = pass.last ? stored_as(result) : Stored::F32;
    t.ahead = t.b;
    return t;
  }
  // Elements of a pixel: the one at (z, y) of the pass and place x, by tap t along x.
  int64_t pixel_at(const Row& row, int64_t y, int64_t x) const {
    const int64_t at_z = row.block.z - row.tz, at_y = row.block.y + y - row.ty;
    return (((row.block.image * axes[0].input + at_z) * axes[1].input + at_y) * axes[2].input + x) * channels;
  }
  int64_t result_at(const Row& row, int64_t y, int64_t place) const {
    const int64_t of_z = axes[0].result(row.block.z, row.phase.of[0]),
                  of_y = axes[1].result(row.block.y + y, row.phase.of[1]),
                  of_x = axes[2].result(place, row.phase.of[2]);
    return (((row.block.image * axes[0].output + of_z) * axes[1].output + of_y) * axes[2].output + of_x) * n +
           row.column;
  }
  // Results that are `out_step` elements apart and pixels that are `in_step` apart, in as few tiles as they
  // need. The sums of the first result lie at `sums`.
  void run_tiles(const LayerArgs& args, MatMulTile& t, const Pass& pass, int64_t count, int64_t pixel,
                 int64_t in_step, int64_t at, int64_t out_step, float* sums, const Row& row) const {
    const int64_t tiles = (count + table().tile_rows - 1) / table().tile_rows, panel = table().panel;
    t.a_stride = dtype_bytes(type, in_step) / 4;
    t.out_stride = pass.last ? out_step : panel;
    t.operand_stride = out_step;
    if (t.steps > 0 && row.share > 0) t.ahead_bytes = (row.share * table().tile_rows + t.steps - 1) / t.steps;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t r = count * i / tiles, result_bytes = dtype_bytes(result, at + r * out_step);
      t.rows = count * (i + 1) / tiles - r;
      t.a = static_cast<const std::byte*>(args.inputs[0]) + dtype_bytes(type, pixel + r * in_step);
      t.sums = pass.first ? nullptr : sums + r * panel;
      t.out = pass.last ? static_cast<std::byte*>(args.outputs[0]) + result_bytes
                        : reinterpret_cast<std::byte*>(sums + r * panel);
      t.operand =
          pass.last && plan.operand >= 0
              ? static_cast<const std::byte*>(args.inputs[static_cast<size_t>(plan.operand)]) + result_bytes
              : nullptr;
      table().run(t);
    }
  }
  // Places from `begin` to `end` of a line, which have all taps.
  void run_line(const LayerArgs& args, const Row& row, const Pass& pass, int64_t y, int64_t begin,
                int64_t end) const {
    if (begin >= end) return;
    const int64_t taps = row.phase.taps[2];
    MatMulTile t = tile_of(row, pass);
    t.steps = pass.empty ? 0 : dtype_bytes(type, taps * channels) / 4;
    t.ahead = row.next + (y * row.block.columns + begin - row.block.x) * row.share;
    float* const sums = row.own + (y * row.block.columns + begin - row.block.x) * table().panel;
    run_tiles(args, t, pass, end - begin, pass.empty ? 0 : pixel_at(row, y, begin - taps + 1), channels,
              result_at(row, y, begin), axes[2].stride * n, sums, row);
  }
  // A place that lacks taps, of `count` lines.
  void run_side(const LayerArgs& args, const Row& row, const Pass& pass, int64_t y, int64_t count,
                int64_t place) const {
    const Taps inside = taps_inside(axes[2], place, row.phase.of[2]);
    const bool none = pass.empty || inside.none();
    MatMulTile t = tile_of(row, pass);
    t.steps = none ? 0 : dtype_bytes(type, (inside.end - inside.begin) * channels) / 4;
    t.b += dtype_bytes(type, (row.phase.taps[2] - inside.end) * channels * row.width);
    float* const sums =
        row.own +
        (row.block.rows * row.block.columns + (place - row.block.x) * row.block.rows + y) * table().panel;
    run_tiles(args, t, pass, count, none ? 0 : pixel_at(row, y, place - inside.end + 1),
              none ? 0 : axes[2].input * channels, result_at(row, y, place),
              axes[1].stride * axes[2].output * n, sums, row);
  }

  int64_t segments_ = 1, segment_ = 1;  // of a line, and places of each
  int64_t block_ = 1;                   // lines
  int64_t member_bytes_ = 0;
};

// The lists of an operator's axes as of three: what is missing in front has one place.
Ints three_axes(const Ints& given, size_t rank) {
  Ints values(kAxes - rank, 1);
  for (size_t i = 0; i < rank; ++i) values.push_back(entry_or(given, i, 1));
  return values;
}

class TileTransposedKernel final : public LayerKernel {
 public:
  TileTransposedKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                       const PackContext& pack)
      : op_(std::get<ConvTranspose>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        result_(tactic.outputs[0].dtype),
        machine_(machine),
        plan_(plan_register_tail(query, 1).value_or(TailPlan{})) {
    suit(plan_.tail, machine);
    const Node& node = query.layer();
    const Value& w = query.graph.value(node.inputs[1]);
    const Extents e = to_extents(w.shape);
    channels_ = e[0];
    n_ = e[1];
    kernel_.assign(e.begin() + 2, e.end());
    const int64_t padded = round_up(n_, tile_matmul_table(type_).panel / 2);
    const Ints kernel = three_axes(kernel_, kernel_.size()),
               strides = three_axes(op_.strides, kernel_.size());
    phases_ = phases_of(kernel, strides, channels_, padded);
    const int64_t taps = element_count(kernel_);
    bias_offset_ = round_up(dtype_bytes(type_, taps * channels_ * padded), 64);
    packed_ = pack.packed("weights", bias_offset_ + dtype_bytes(DType::Float32, padded), [&] {
      const std::vector<float> bias = bias_of(query, plan_, n_, padded);
      std::vector<std::byte> bytes(static_cast<size_t>(bias_offset_) + bias.size() * 4);
      const float* from = w.constant.data<float>().data();
      for (const Phase& phase : phases_) {
        const auto tap_of = [&](int64_t at) {
          const int64_t x = phase.taps[2] - 1 - at % phase.taps[2], rows = at / phase.taps[2];
          const int64_t places[kAxes] = {rows / phase.taps[1], rows % phase.taps[1], x};
          int64_t tap = 0;
          for (int i = 0; i < kAxes; ++i) {
            const auto axis = static_cast<size_t>(i);
            tap = tap * kernel[axis] + places[i] * strides[axis] + phase.of[i];
          }
          return tap;
        };
        pack_columns(bytes.data() + dtype_bytes(type_, phase.offset), type_, phase.all_taps() * channels_, n_,
                     [&](int64_t k, int64_t column) {
                       return from[(k % channels_ * n_ + column) * taps + tap_of(k / channels_)];
                     });
      }
      std::memcpy(bytes.data() + bias_offset_, bias.data(), bias.size() * 4);
      return bytes;
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedTileTransposed>();
    const Extents& e = context.inputs[0];
    const std::vector<WindowAxis> axes = resolve_transposed(op_, kernel_, Extents(e.begin() + 2, e.end()));
    for (size_t i = 0; i < axes.size(); ++i) p->axes[kAxes - axes.size() + i] = Axis(axes[i]);
    p->type = type_;
    p->result = result_;
    p->batch = e[0];
    p->channels = channels_;
    p->n = n_;
    p->phases = phases_;
    p->weights = packed_.data();
    p->bias = reinterpret_cast<const float*>(packed_.data() + bias_offset_);
    p->plan = plan_;
    p->threads = context.threads;
    p->plan_blocks(machine_);
    return p;
  }

 private:
  ConvTranspose op_;
  DType type_, result_;
  Machine machine_;
  TailPlan plan_;
  Ints kernel_;
  int64_t n_ = 1, channels_ = 1, bias_offset_ = 0;
  std::vector<Phase> phases_;
  std::span<const std::byte> packed_;
};

Support supports_tile_transposed(const LayerQuery& query) {
  const Node& node = query.layer();
  const auto& op = std::get<ConvTranspose>(node.op);
  const Value &x = query.graph.value(node.inputs[0]), &w = query.graph.value(node.inputs[1]);
  if (w.constant.size() == 0) return Support::no("the weights are empty");
  if (op.groups != 1) return Support::no("groups");
  if (!all_are(op.dilations, 1)) return Support::no("a dilation");
  if (x.shape.size() < 3 || x.shape.size() > 5) return Support::no("not one to three spatial dims");
  int64_t phases = 1;
  for (const int64_t stride : op.strides) {
    if (stride > kMostPhases / phases) return Support::no("strides of more than 4096 phases");
    phases *= stride;
  }
  if (w.shape[1].value() < kFewestFilters)
    return Support::no("fewer than " + std::to_string(kFewestFilters) + " filters");
  return {};
}

std::vector<Tactic> list_tile_transposed(const LayerQuery& query, const Machine& machine) {
  if (!std::holds_alternative<ConvTranspose>(query.layer().op)) return {};
  return list_tile_conv(
      query, machine,
      {.runner = kTileTransposedRunner, .name = "tile_deconv", .channel_axis = 0, .support = [&] {
         return supports_tile_transposed(query);
       }});
}

std::unique_ptr<LayerKernel> make_tile_transposed(const LayerQuery& query, const Tactic& tactic,
                                                  const Machine& machine, const PackContext& pack) {
  return std::make_unique<TileTransposedKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily tile_transposed_conv_tactics() {
  return {kTileTransposedRunner, list_tile_transposed, make_tile_transposed};
}

}  // namespace lathe::cpu
