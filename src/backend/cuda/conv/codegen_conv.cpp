// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of images (channels-last, one group, any window and stride) for Hopper: rows are pixels of the
// result, K runs over taps and, inside, channels, 128 bytes at a time (64, where a pixel has no more bytes).
// The copy engine reads the pixels under one tap of all windows of a tile as it goes (im2col), so strides and
// pads cost nothing and no row is wasted; the products are those of codegen_wgmma.cpp.
//
// With a small batch there are few tiles and K is long (7x7 pixels, 512 channels: 8 tiles of 64 x 64, 72
// steps of K), so the blocks of a cluster share a tile: each sums up a part of K, leaves its sums in its
// shared memory, and finishes a part of the tile by adding up what the others have there, in a fixed order.
// That takes two barriers of a quarter of a microsecond, and a microsecond for each 20 KB of a tile. Sums
// that pass through memory take a second kernel, which is as fast: both are tactics.
//
// All of a block's first weights are on their way before the kernel in front has ended; at batch 1 those are
// all that there are. Floors of a 3x3 convolution of ResNet-50: 0.3 us at batch 1 (its bytes), 9.4 us at
// batch 32 (790 TFLOP/s).
#include <cmath>
#include <cstdlib>

#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/conv/hopper_conv.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"
#include "lathe_device_text/wgmma_conv.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kWgmmaConvRunner = "HopperConvolution";

struct WgmmaConvVariant {
  HopperTile tile;
  int splits = 1;
  // The blocks that split K share a tile as a cluster; else a second kernel adds up what they stored.
  bool shares = false;

  static WgmmaConvVariant of(const TacticParams& params, int row_bytes) {
    return {{params.get_int("rows") / 64, params.get_int("columns"), params.get_int("resident"), row_bytes},
            params.get_int("splits"),
            params.get("cluster") != 0};
  }
  TacticParams params() const {
    return {{"rows", tile.rows()},
            {"columns", tile.bn},
            {"resident", tile.resident},
            {"cluster", shares},
            {"splits", splits}};
  }
  std::string name() const {
    return "cuda_wgmma_conv_" + std::to_string(tile.rows()) + "x" + std::to_string(tile.bn) + "_c" +
           std::to_string(tile.resident) + (shares ? "_k" : "_s") + std::to_string(splits);
  }
  // No more stages than a block has steps.
  int stages(int64_t steps, const DeviceProperties& gpu) const {
    return static_cast<int>(
        std::min<int64_t>(tile.stages(gpu), std::max<int64_t>(1, (steps + splits - 1) / splits)));
  }
  bool fits(int64_t steps, const DeviceProperties& gpu) const {
    return stages(steps, gpu) >= std::min<int64_t>(3, steps / splits) &&
           tile.sums_bytes() <= tile.bytes_of_stages(gpu) && tile.registers_fit(gpu, 40, 1);
  }
};

// Steps of K: taps times pieces of the channels.
int64_t steps_of(const ImplicitGemm& p) {
  int64_t steps = conv_pieces(p);
  for (const ImplicitGemm::Axis& a : p.axes) steps *= a.kernel;
  return steps;
}

// A rough time in microseconds, to order variants and to leave out hopeless ones; fitted to 280 times of 3x3
// convolutions in FP16 and INT8 (docs/measurements/convolutions_cuda.md).
double estimate_wgmma_conv(const WgmmaConvVariant& v, const DeviceProperties& gpu, double m, double n,
                           double all_steps) {
  const double units = gpu.multiprocessors;
  const double blocks = std::ceil(m / v.tile.rows()) * std::ceil(n / v.tile.bn) * v.splits;
  const double steps = std::ceil(all_steps / v.splits);
  const double product = v.tile.rows() * v.tile.bn * static_cast<double>(v.tile.row_bytes) /
                         (0.76 * gpu.tensor_ops_per_us()),
               copies = v.tile.stage_bytes() / (gpu.clock_khz / 22.8);
  const double each = std::max(product, copies),
               latency = 0.57 / v.stages(static_cast<int64_t>(all_steps), gpu);
  // Blocks read each other's memory at 28 GB/s; a second kernel takes a microsecond.
  const double sum = v.splits == 1 ? 0.0
                     : v.shares    ? 0.7 + v.tile.rows() * v.tile.bn * 4 / 28.0e3
                                   : 0.8 + v.splits * m * n * 8 / 5.6e6;
  const double epilogue = v.tile.rows() * v.tile.bn / 6.0e3;
  const double waves = std::floor(blocks / (units * v.tile.resident));
  const double rest = std::ceil((blocks - waves * units * v.tile.resident) / units);
  const auto wave = [&](double together) {
    if (together == 0) return 0.0;
    return 1.4 + steps * std::max(latency, together * each) + epilogue * (together > 1 ? 1.3 : 1.0);
  };
  return 1.0 + waves * wave(v.tile.resident) + wave(rest) + sum;
}

std::vector<WgmmaConvVariant> wgmma_conv_variants(const ImplicitGemm& p, const LayerQuery& query,
                                                  const Tactic& tactic, const DeviceProperties& gpu) {
  const double units = gpu.multiprocessors;
  const auto [m, n, k, batches] = sizes_at_opt(p, query);
  const int64_t steps = steps_of(p);
  const bool vectors = result_vector(query, tactic, p, 4, 1) == 4;  // sums are shared four at a time
  bool plain = true;                                                // rows of A that lie one after the other
  for (const ImplicitGemm::Axis& a : p.axes)
    plain = plain && a.kernel == 1 && a.stride == 1 && a.pad_begin.is_constant(0);
  std::vector<std::pair<double, WgmmaConvVariant>> timed;
  for (const int groups : {1, 2, 3})
    for (const int bn : {32, 64, 96, 128, 192, 256})
      for (const int resident : {1, 2, 3})
        for (const int kind : {1, 2, 4, 8, -2, -3, -4, -6, -8}) {
          const WgmmaConvVariant v{{groups, bn, resident, conv_row_bytes(p)}, std::abs(kind), kind > 1};
          const int splits = v.splits;
          const double tiles = std::ceil(m / v.tile.rows()) * std::ceil(n / bn), blocks = tiles * splits;
          if (plain && !v.shares && (splits > 1 || bn > 64)) continue;  // codegen_wgmma.cpp has these
          if (v.shares && bn > 32 * splits) continue;  // more than four vectors for each thread
          if (!v.fits(steps, gpu) || splits > steps || (v.shares && !vectors) ||
              (splits > 1 && blocks > units * resident))
            continue;
          if (bn >= 2 * n && bn > 32) continue;
          // One that fits more blocks than there are is only smaller, so that the next kernel's blocks find a
          // place beside it.
          if (blocks <= units * (resident - 1) && (resident < 3 || splits > 1)) continue;
          timed.emplace_back(estimate_wgmma_conv(v, gpu, m, n, static_cast<double>(steps)), v);
        }
  return most_promising(std::move(timed));
}

// What the copy engine's description of windows can hold.
Support windows_fit(const LayerQuery& query, const ImplicitGemm& p) {
  for (const ImplicitGemm::Axis& a : p.axes) {
    const int64_t pad = upper_bound(a.pad_begin, query.ranges), reach = (a.kernel - 1) * a.dilation;
    if (pad > 127 || reach > 127 || a.stride > 8)
      return Support::no("windows too far apart, or pads too wide");
  }
  return {};
}

std::vector<Tactic> list_typed_wgmma_conv(const LayerQuery& query, const StoredTypes& types,
                                          const DeviceProperties& gpu) {
  ImplicitGemm p;
  Tactic base = hopper_conv_tactic(query, types, kWgmmaConvRunner, "cuda_wgmma_conv", p);
  if (base.support.ok) base.support = windows_fit(query, p);
  if (!base.support.ok) return {refused_for(types.input, base)};
  std::vector<Tactic> tactics;
  for (const WgmmaConvVariant& v : wgmma_conv_variants(p, query, base, gpu))
    tactics.push_back(with_variant(base, v.name(), v.params()));
  return tactics;
}

std::vector<Tactic> list_wgmma_conv(const LayerQuery& query, const Device& device) {
  if (!std::holds_alternative<Conv>(query.layer().op) || !device.properties.is_hopper()) return {};
  std::vector<Tactic> tactics;
  for (const StoredTypes& types : tensor_core_types(query)) {
    const std::vector<Tactic> typed = list_typed_wgmma_conv(query, types, device.properties);
    tactics.insert(tactics.end(), typed.begin(), typed.end());
  }
  return tactics;
}

// Which tile a block computes, which part of K, and where its operands are copied from.
struct Operands {
  std::string pixels, weights;  // tensor maps
};
Operands begin_tile(KernelBuilder& b, const LayerQuery& query, const ImplicitGemm& p,
                    const WgmmaConvVariant& v) {
  const Dim tiles_m = ceil_div(p.m, Dim(v.tile.rows())), tiles_n = ceil_div(p.n, Dim(v.tile.bn));
  const int64_t steps = steps_of(p);
  const int step = conv_step(p);
  const ImplicitGemm::Axis &h = p.axes[0], &w = p.axes[1];
  b.kernel().grid = {tiles_m * tiles_n, 1, Dim(v.splits)};
  b.kernel().cluster = v.shares ? v.splits : 1;
  const TensorView pixels{
      .type = p.type,
      .extents = {p.channels, w.in, h.in, input_shape(query, 0)[0]},
      .strides = {1, w.in_stride, h.in_stride, p.image_stride},
      .box = {step, v.tile.rows()},
      .windows = TensorView::Windows{.first = {Dim(0) - w.pad_begin, Dim(0) - h.pad_begin},
                                     .last = {(w.out - Dim(1)) * Dim(w.stride) - w.pad_begin,
                                              (h.out - Dim(1)) * Dim(h.stride) - h.pad_begin},
                                     .steps = {static_cast<int>(w.stride), static_cast<int>(h.stride)}}};
  const Operands operands{b.input_map(0, pixels), hopper_conv_weights_map(b, p, v.tile.bn)};
  b.constants({{"SPLITS", v.splits},
               {"PIECES", conv_pieces(p)},
               {"KERNEL_W", w.kernel},
               {"DILATION_W", w.dilation},
               {"DILATION_H", h.dilation}});
  const std::string tn = b.number(tiles_n), tk = std::to_string(steps), ow = b.number(w.out),
                    oh = b.number(h.out);
  b.line("const idx column0 = blockIdx.x % " + tn + " * BN, row0 = blockIdx.x / " + tn +
         " * ROWS, batch = 0;\nconst int split = blockIdx.z, first = " + tk +
         " * split / SPLITS, steps = " + tk + " * (split + 1) / SPLITS - first;");
  b.line("const Window window{(int)(row0 % " + ow + ") * " + std::to_string(w.stride) + " - (int)" +
         b.number(w.pad_begin) + ", (int)(row0 / " + ow + " % " + oh + ") * " + std::to_string(h.stride) +
         " - (int)" + b.number(h.pad_begin) + ", (int)(row0 / " + ow + " / " + oh + ")};");
  return operands;
}

LayerSource generate_wgmma_conv(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  ImplicitGemm p;
  const Support support = describe_hopper_conv(query, tactic, p);
  check(support.ok, "a refused convolution is generated: " + support.reason);
  const WgmmaConvVariant v = WgmmaConvVariant::of(tactic.params, conv_row_bytes(p));
  const int64_t steps = steps_of(p);
  KernelBuilder b = start_kernel(query, tactic, "wgmma_conv", tactic.outputs[0].dtype);
  const int parts = v.shares ? 1 : v.splits;  // in memory
  GemmWriter writer(b, query, tactic, p, v.tile.consumers() + 32, v.tile.rows(), v.tile.bn, conv_step(p),
                    parts);
  // What threads side by side read of another block's memory should lie side by side.
  const int width = result_vector(query, tactic, p, v.shares ? 4 : 8, parts);
  const int stages = v.stages(steps, device.properties);
  b.kernel().threads = v.tile.consumers() + 32;
  add_hopper_stages(b, v.tile,
                    {.type = p.type,
                     .stages = stages,
                     .barriers_at = std::max(stages * v.tile.stage_bytes(), v.tile.sums_bytes()),
                     .step = conv_step(p),
                     .width = width},
                    true);
  const Operands operands = begin_tile(b, query, p, v);
  b.global(device_text::wgmma_conv::kConv);
  if (v.shares) {
    b.global(cluster_sums());
    b.global(device_text::wgmma_conv::kShare);
  }
  if (parts > 1)
    writer.result(width);
  else
    writer.result_in_place(width);
  define_start_sums(b, query, p);
  std::string results = "parts_of_sums(row0, column0, result)";
  if (parts == 1) {
    const bool early = v.tile.resident <= 2 && v.tile.bn <= 64;
    results = (v.shares ? "share_of_tile(row0, column0, split"
               : early  ? "own_rows<true>(row0, column0"
                        : "own_rows<false>(row0, column0") +
              (", place, tail, " + b.output(0, tactic.outputs[0].dtype)) + ")";
  }
  b.line("conv_block(&" + operands.pixels + ", &" + operands.weights +
         ", window, column0, first, steps, start_sums, " + results + ");");
  LayerSource source{.kernels = {b.finish()}};
  if (parts > 1) {
    source.kernels.push_back(GemmWriter::sum_kernel(query, tactic, p, parts));
    source.scratch_bytes = GemmWriter::scratch_bytes(query, parts);
  }
  add_hopper_conv_blocks(query, p, source);
  return source;
}

}  // namespace

GeneratedFamily wgmma_conv_family() {
  return {kWgmmaConvRunner, list_wgmma_conv, generate_wgmma_conv, packs_alike};
}

}  // namespace lathe::cuda
