// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of images (channels-last, one group, stride 1) for Hopper whose blocks bring a patch of the
// image, the pixels of a tile and their border (halo), into shared memory once, and multiply every tap of the
// window out of it. codegen_conv.cpp reads each pixel once for every tap, out of L2: a 3x3 convolution of 64
// to 64 channels over 32 x 56 x 56 in FP16 reads 116 MB of pixels there and 17 here, of rows of 56 and two
// at a time.
//
// A warpgroup multiplies 64 pixels of the patch that lie one after the other: some rows of the tile with the
// border between them, whose results are thrown away (wgmma_halo.cuh). So of 64 rows that are multiplied the
// results are 64 where a tile is 64 wide, 56 where it is 56 or 28, 49 with 7 x 7.
//
// Blocks stay and compute tile after tile; teams of warpgroups take turns (stay.cuh). Weights of a column of
// tiles that fit into shared memory beside two patches are kept there, and all taps are then one group of
// products; others come row by row of the window, or tap by tap.
//
// That convolution takes 15.4 us on an H200 (23.6 in codegen_conv.cpp, 24.9 in cuDNN's best), of a floor of
// 9.4 (790 TFLOP/s). From 256 channels on tiles of 192 x 128 without a border are faster
// (docs/measurements/convolutions_cuda.md).
#include <cmath>

#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/conv/hopper_conv.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"
#include "ir/symbol_extents.h"
#include "lathe_device_text/stay.h"
#include "lathe_device_text/wgmma_halo.h"

namespace lathe::cuda {

GeneratedFamily halo_family();

namespace {

constexpr std::string_view kHaloRunner = "HopperHaloConvolution";
constexpr int kMostPixelsOfABox = 256;  // in a dim, that the copy engine brings

// What a window reaches beyond its first pixel.
int reach(const ImplicitGemm::Axis& a) {
  return static_cast<int>((a.kernel - 1) * a.dilation);
}

struct HaloVariant {
  HopperTile tile;
  int teams = 1;
  int width = 64;      // columns of the image that a tile has
  bool keeps = false;  // weights
  // Of the layer, no part of the tactic:
  int result_size = 4;  // bytes
  int reach_h = 0, reach_w = 0, taps = 1, row_taps = 1, pieces = 1;

  static HaloVariant of(const TacticParams& params, const ImplicitGemm& p, int result_size) {
    HaloVariant v;
    v.tile = {params.get_int("rows") / 64, params.get_int("columns"), params.get_int("resident"),
              conv_row_bytes(p)};
    v.teams = params.get_int("teams");
    v.width = params.get_int("width");
    v.keeps = params.get("kept") != 0;
    v.set_layer(p, result_size);
    return v;
  }
  void set_layer(const ImplicitGemm& p, int bytes) {
    result_size = bytes;
    reach_h = reach(p.axes[0]);
    reach_w = reach(p.axes[1]);
    row_taps = static_cast<int>(p.axes[1].kernel);
    taps = static_cast<int>(p.axes[0].kernel) * row_taps;
    pieces = static_cast<int>(conv_pieces(p));
  }
  TacticParams params() const {
    return {{"rows", tile.rows()}, {"columns", tile.bn}, {"resident", tile.resident},
            {"teams", teams},      {"width", width},     {"kept", keeps}};
  }
  std::string name() const {
    return std::string("cuda_wgmma_halo_") + (keeps ? "keep_" : "") +
           (teams > 1 ? std::to_string(teams) + "x" : "") + std::to_string(tile.rows()) + "x" +
           std::to_string(tile.bn) + "_w" + std::to_string(width) + "_c" + std::to_string(tile.resident);
  }

  int threads() const { return teams * tile.consumers() + 32; }
  // Pixels in a row of the patch; rows of the image that a warpgroup and a tile have.
  int patch_width() const { return width + reach_w; }
  int group_height() const { return (64 + reach_w) / patch_width(); }
  int height() const { return tile.groups * group_height(); }
  int patch_height() const { return height() + reach_h; }
  int patch_pixels() const { return patch_width() * patch_height(); }
  // The last 64 pixels that are multiplied may end behind the patch.
  int patch_bytes() const {
    const int last = (tile.groups - 1) * group_height() * patch_width() + reach_h * patch_width() + reach_w;
    return (std::max(patch_pixels(), last + 64) * tile.row_bytes + 1023) / 1024 * 1024;
  }
  int weights_bytes() const { return tile.bn * tile.row_bytes; }  // of a tap
  int kept_bytes() const { return keeps ? pieces * taps * weights_bytes() : 0; }
  int result_bytes() const { return teams * tile.rows() * (tile.bn * result_size + 16); }
  // For patches and weights: 1 KiB goes for alignment, and the barriers.
  int64_t room(const DeviceProperties& gpu) const {
    return gpu.shared_bytes_each(tile.resident) - 1024 - 384 - result_bytes() - kept_bytes();
  }
  // How many patches and, where weights are not kept, stages of weights there is room for.
  struct Stages {
    int patches = 0, weights = 0;
    int taps = 1;  // whose weights a stage has
  };
  Stages stages(const DeviceProperties& gpu) const {
    const auto count = [](int64_t bytes, int64_t each) {
      return static_cast<int>(std::clamp<int64_t>(bytes / each, 0, 8));
    };
    if (keeps) return {count(room(gpu), patch_bytes()), 0, row_taps};
    const int row = row_taps * weights_bytes();
    for (const int patches : {3, 2})
      if (const int rows = count(room(gpu) - int64_t{patches} * patch_bytes(), row); rows >= 3)
        return {patches, rows, row_taps};
    return {2, count(room(gpu) - int64_t{2} * patch_bytes(), weights_bytes()), 1};
  }
  bool fits(const DeviceProperties& gpu) const {
    const Stages s = stages(gpu);
    return group_height() >= 1 && patch_width() <= kMostPixelsOfABox && patch_height() <= kMostPixelsOfABox &&
           s.patches >= 2 && (keeps || s.weights >= 3) &&
           tile.registers_fit(gpu, tile.bn / 4 + 56, 1 + 4 * tile.groups * (teams - 1));
  }
};

// Rows and columns of the result at the profile's optimum, and how many tiles that makes.
struct HaloSizes {
  double images = 1, height = 1, width = 1, columns = 1;
  double tiles(const HaloVariant& v) const {
    return images * std::ceil(height / v.height()) * std::ceil(width / v.width) *
           std::ceil(columns / v.tile.bn);
  }
};

// A rough time in microseconds, to order variants and to leave out hopeless ones; fitted to 144 times of 3x3
// convolutions in FP16 and INT8 (docs/measurements/convolutions_cuda.md).
double estimate_halo(const HaloVariant& v, const HaloSizes& sizes, const DeviceProperties& gpu) {
  const double ops_per_us = 0.66 * gpu.tensor_ops_per_us(), l2_bytes_per_us = gpu.clock_khz / 24.0;
  const double elements = v.tile.rows() * v.tile.bn;
  const double copied = v.pieces * (v.patch_bytes() + (v.keeps ? 0.0 : v.taps * v.weights_bytes()));
  // A group of products begins a while behind the one in front, unless another block fills the gap.
  const double groups = v.pieces * (v.keeps ? 1.0 : v.taps / v.stages(gpu).taps);
  const double gaps = groups * (v.tile.resident > 1 ? 0.02 : 0.064);
  const double multiplied =
      std::max(v.pieces * v.taps * elements * v.tile.row_bytes / ops_per_us + gaps, copied / l2_bytes_per_us);
  const double finished = elements / (24e3 * std::max(1, v.teams - 1));
  const double slots = gpu.multiprocessors * v.tile.resident;
  const double tile = v.teams > 1 || v.tile.resident > 1 ? std::max(multiplied, finished / v.tile.resident)
                                                         : multiplied + finished;
  const double kept = v.kept_bytes() / l2_bytes_per_us;
  return 1.5 + kept + finished + std::ceil(sizes.tiles(v) / slots) * v.tile.resident * (0.38 + tile);
}

std::vector<HaloVariant> halo_variants(const ImplicitGemm& p, const LayerQuery& query, int result_size,
                                       const DeviceProperties& gpu) {
  const SymbolValues opt = query.opt_values();
  const auto at_opt = [&](const Dim& d) { return static_cast<double>(upper_extent(d, opt)); };
  const HaloSizes sizes{at_opt(output_shape(query)[0]), at_opt(p.axes[0].out), at_opt(p.axes[1].out),
                        static_cast<double>(p.n.value())};
  // Tiles as wide as the image, or as a part of it.
  std::vector<int> widths;
  for (const int parts : {1, 2, 4})
    widths.push_back(static_cast<int>(std::min(64.0, std::ceil(sizes.width / parts))));
  widths.push_back(64);
  std::sort(widths.begin(), widths.end());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  std::vector<std::pair<double, HaloVariant>> timed;
  for (const int groups : {1, 2, 3, 4})
    for (const int bn : {32, 64, 96, 128, 192})
      for (const int resident : {1, 2, 3})
        for (const int teams : {1, 2, 3})
          for (const int width : widths)
            for (const bool keeps : {false, true}) {
              HaloVariant v{{groups, bn, resident, conv_row_bytes(p)}, teams, width, keeps};
              v.set_layer(p, result_size);
              if (width < 1 || !v.fits(gpu) || (bn >= 2 * sizes.columns && bn > 32)) continue;
              if (groups > 1 && (groups - 1) * v.group_height() >= sizes.height) continue;
              if (keeps && std::ceil(sizes.columns / bn) > gpu.multiprocessors * resident) continue;
              timed.emplace_back(estimate_halo(v, sizes, gpu), v);
            }
  return most_promising(std::move(timed));
}

// What the family wants besides describe_hopper_conv().
Support keeps_its_place(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p) {
  int64_t taps = 1;
  for (const ImplicitGemm::Axis& a : p.axes) {
    if (a.stride != 1) return Support::no("a stride");
    if (reach(a) > 63) return Support::no("windows of more than 64 pixels");
    taps *= a.kernel;
  }
  if (taps == 1) return Support::no("a window of one pixel has no border");
  if (result_vector(query, tactic, p, 2, 1) < 2) return Support::no("an odd number of channels");
  return {};
}

std::vector<Tactic> list_halo(const LayerQuery& query, const Device& device) {
  if (!std::holds_alternative<Conv>(query.layer().op) || !device.properties.is_hopper()) return {};
  std::vector<Tactic> tactics;
  for (const StoredTypes& types : tensor_core_types(query)) {
    ImplicitGemm p;
    Tactic base = hopper_conv_tactic(query, types, kHaloRunner, "cuda_wgmma_halo", p);
    if (base.support.ok) base.support = keeps_its_place(query, base, p);
    if (!base.support.ok) {
      tactics.push_back(base);
      continue;
    }
    for (const HaloVariant& v : halo_variants(p, query, dtype_size(types.output), device.properties))
      tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

// Defines tile_at(number), patch_at(row) and pixel_place(row, column), where rows are counted through all
// tiles: a tile has ROWS of them, its first pixels in the patch.
void define_tiles(KernelBuilder& b, const ImplicitGemm& p, const HaloVariant& v) {
  const ImplicitGemm::Axis &h = p.axes[0], &w = p.axes[1];
  const std::string tn = b.number(ceil_div(p.n, Dim(v.tile.bn))),
                    tx = b.number(ceil_div(w.out, Dim(v.width))),
                    ty = b.number(ceil_div(h.out, Dim(v.height())));
  b.constants({{"WIDTH", v.width}, {"GROUP_HEIGHT", v.group_height()}, {"HEIGHT", v.height()}});
  b.line("struct Tile { idx row0, column0; int b_row; };");
  b.line("const auto tile_at = [&](u32 number) {\nconst idx column0 = number % " + tn +
         " * BN;\nreturn Tile{(idx)(number / " + tn + ") * ROWS, column0, (int)column0};\n};");
  b.line("const auto patch_at = [&](idx row) {\nconst idx tile = row / ROWS;\nreturn Patch{(int)(tile % " +
         tx + ") * WIDTH - (int)" + b.number(w.pad_begin) + ", (int)(tile / " + tx + " % " + ty +
         ") * HEIGHT - (int)" + b.number(h.pad_begin) + ", (int)(tile / " + tx + " / " + ty + ")};\n};");
  b.line(
      "const auto pixel_place = [&](idx row, idx column) -> idx {\nconst idx tile = row / ROWS;\n"
      "const int at = row % ROWS, x0 = at % 64 % PATCH, y0 = at % 64 / PATCH;\nconst idx x = tile % " +
      tx + " * WIDTH + x0, y = tile / " + tx + " % " + ty +
      " * HEIGHT + at / 64 * GROUP_HEIGHT + y0;\nif (x0 >= WIDTH || y0 >= GROUP_HEIGHT || x >= " +
      b.number(w.out) + " || y >= " + b.number(h.out) + ") return -1;\nreturn place((tile / " + tx + " / " +
      ty + " * " + b.number(h.out) + " + y) * " + b.number(w.out) + " + x, column);\n};");
}

KernelSource halo_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                         const HaloVariant& v, const DeviceProperties& gpu) {
  const DType type = tactic.outputs[0].dtype;
  const ImplicitGemm::Axis &h = p.axes[0], &w = p.axes[1];
  KernelBuilder b = start_kernel(query, tactic, "wgmma_halo", type);
  GemmWriter writer(b, query, tactic, p, v.threads(), v.tile.rows(), v.tile.bn, conv_step(p), 1);
  const HaloVariant::Stages stages = v.stages(gpu);
  const int kept_at = stages.patches * v.patch_bytes(),
            strips_at =
                kept_at + (v.keeps ? v.kept_bytes() : stages.weights * stages.taps * v.weights_bytes());
  // Blocks that keep weights have one column of tiles.
  const Dim columns = ceil_div(p.n, Dim(v.tile.bn));
  const Dim tiles =
      ceil_div(w.out, Dim(v.width)) * ceil_div(h.out, Dim(v.height())) * output_shape(query)[0] * columns;
  const int64_t slots = int64_t{gpu.multiprocessors} * v.tile.resident,
                stride = v.keeps ? columns.value() : 1;
  b.kernel().threads = v.threads();
  b.kernel().grid = {min(tiles, Dim(slots / stride * stride)), 1, 1};
  add_hopper_stages(b, v.tile,
                    {.type = p.type,
                     .stages = stages.patches,
                     .barriers_at = strips_at + v.result_bytes(),
                     .more_barriers = (v.teams > 1 ? v.teams : 0) + 2 * stages.weights,
                     .step = conv_step(p),
                     .teams = v.teams,
                     .width = vector_width(16 / v.result_size, {p.n, p.row_length}),
                     .kept_at = kept_at,
                     .a_rows = v.patch_pixels(),
                     .a_pitch = v.patch_bytes(),
                     .b_tiles = v.keeps ? v.taps : 1},
                    false);
  b.constants({{"STRIPS", strips_at},
               {"PITCH", v.tile.bn + 16 / v.result_size},
               {"WHOLE_COLUMNS", divides(v.tile.bn, p.n)},
               {"RUN", 2},
               {"PATCH", v.patch_width()},
               {"GROUP_PIXELS", v.group_height() * v.patch_width()},
               {"PIECES", v.pieces},
               {"KERNEL_H", h.kernel},
               {"KERNEL_W", w.kernel},
               {"DILATION_H", h.dilation},
               {"DILATION_W", w.dilation},
               {"ROW_TAPS", stages.taps},
               {"WEIGHT_STAGES", stages.weights}});
  b.global(device_text::stay::kTiles);
  b.global(device_text::wgmma_halo::kHalo);
  const std::string pixels = b.input_map(0, {.type = p.type,
                                             .extents = {p.channels, w.in, h.in, input_shape(query, 0)[0]},
                                             .strides = {1, w.in_stride, h.in_stride, p.image_stride},
                                             .box = {conv_step(p), v.patch_width(), v.patch_height(), 1}});
  const std::string weights = hopper_conv_weights_map(b, p, v.tile.bn);
  b.line("constexpr idx batch = 0;\nconstexpr int split = 0;");
  writer.result_in_place(2);
  define_tiles(b, p, v);
  define_start_sums(b, query, p);
  b.line("conv_stays(&" + pixels + ", &" + weights + ", " + b.number(tiles) + ", " + b.number(p.n) +
         ", tile_at, patch_at, start_sums, pixel_place, tail, " + b.output(0, type) + ");");
  return b.finish();
}

LayerSource generate_halo(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  ImplicitGemm p;
  const Support support = describe_hopper_conv(query, tactic, p);
  check(support.ok, "a refused convolution is generated: " + support.reason);
  const HaloVariant v = HaloVariant::of(tactic.params, p, dtype_size(tactic.outputs[0].dtype));
  LayerSource source{.kernels = {halo_kernel(query, tactic, p, v, device.properties)}};
  add_hopper_conv_blocks(query, p, source);
  return source;
}

}  // namespace

GeneratedFamily halo_family() {
  return {kHaloRunner, list_halo, generate_halo, packs_alike};
}

namespace {

// Up to 64 channels the weights are kept, and the border pays at every batch that was measured.
bool halo_leads(const LayerQuery& query, const Device& device) {
  const auto* conv = std::get_if<Conv>(&query.layer().op);
  if (!conv || !device.properties.is_hopper() || conv->groups != 1) return false;
  const auto all_ones = [](const Ints& values) {
    return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 1; });
  };
  const Shape& x = input_shape(query, 0);
  return x.size() == 4 && x[1].is_constant() && x[1].value() <= 64 && all_ones(conv->strides) &&
         !all_ones(conv->kernel);
}

}  // namespace

TacticFamily halo_tactics() {
  TacticFamily family = generated_tactics<halo_family>();
  family.leads = halo_leads;
  return family;
}

}  // namespace lathe::cuda
