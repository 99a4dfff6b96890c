// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of images (channels-last, one group, any window and stride) for Hopper: rows are pixels of the
// result, K runs over taps and, inside, channels, 64 at a time. The copy engine reads the pixels under one
// tap of all windows of a tile as it goes (im2col), so strides and pads cost nothing and no row is wasted;
// the products are those of codegen_wgmma.cpp.
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
#include "backend/cuda/codegen/implicit_gemm.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kRunner = "HopperConvolution";

struct Variant {
  int groups = 1, bn = 64, resident = 1, splits = 1;
  // The blocks that split K share a tile as a cluster; else a second kernel adds up what they stored.
  bool shares = false;

  static Variant of(const TacticParams& params) {
    return {params.get_int("rows") / 64, params.get_int("columns"), params.get_int("resident"),
            params.get_int("splits"), params.get("cluster") != 0};
  }
  TacticParams params() const {
    return {
        {"rows", rows()}, {"columns", bn}, {"resident", resident}, {"cluster", shares}, {"splits", splits}};
  }
  std::string name() const {
    return "cuda_wgmma_conv_" + std::to_string(rows()) + "x" + std::to_string(bn) + "_c" +
           std::to_string(resident) + (shares ? "_k" : "_s") + std::to_string(splits);
  }
  int rows() const { return 64 * groups; }
  int consumers() const { return 128 * groups; }
  int stage_bytes() const { return (rows() + bn) * 128; }  // a pixel of a tile has 128 bytes of channels
  // No more stages than a block has steps, and as many as fit when `resident` blocks share a multiprocessor:
  // each also has 1 KiB of the system's, 1 KiB for alignment, and its barriers.
  int64_t bytes_of_stages(const DeviceProperties& gpu) const {
    return gpu.shared_bytes_each(resident) - 1024 - 256;
  }
  int stages(int64_t steps, const DeviceProperties& gpu) const {
    return static_cast<int>(std::min<int64_t>(
        {8, bytes_of_stages(gpu) / stage_bytes(), std::max<int64_t>(1, (steps + splits - 1) / splits)}));
  }
  int strip_bytes() const { return rows() * (bn + 8) * 4; }
  bool fits(int64_t steps, const DeviceProperties& gpu) const {
    const int registers = (bn / 2 + 40 + 7) / 8 * 8;
    return stages(steps, gpu) >= std::min<int64_t>(3, steps / splits) &&
           strip_bytes() <= bytes_of_stages(gpu) && registers <= 232 &&
           registers * 32 * (4 * groups + 1) * resident <= gpu.registers_per_multiprocessor;
  }
};

// Steps of K: taps times pieces of the channels.
int64_t steps_of(const ImplicitGemm& p) {
  int64_t steps = (p.channels.value() + p.step() - 1) / p.step();
  for (const ImplicitGemm::Axis& a : p.axes) steps *= a.kernel;
  return steps;
}

// A rough time in microseconds, to order variants and to leave out hopeless ones.
double estimate(const Variant& v, const DeviceProperties& gpu, double m, double n, double all_steps) {
  const double units = gpu.multiprocessors;
  const double blocks = std::ceil(m / v.rows()) * std::ceil(n / v.bn) * v.splits;
  const double steps = std::ceil(all_steps / v.splits);
  const double product = v.rows() * v.bn * 128.0 / (0.74 * gpu.tensor_ops_per_us()),
               copies = v.stage_bytes() / (gpu.clock_khz / 33.0);
  const double each = std::max(product, copies),
               latency = 0.8 / v.stages(static_cast<int64_t>(all_steps), gpu);
  // Blocks read each other's memory at 20 GB/s; a second kernel takes a microsecond.
  const double sum = v.splits == 1 ? 0.0
                     : v.shares    ? 1.0 + v.rows() * v.bn * 4 / 20.0e3
                                   : 1.1 + v.splits * m * n * 8 / 5.0e6;
  const double epilogue = v.rows() * v.bn / 25.0e3;
  const double waves = std::floor(blocks / (units * v.resident));
  const double rest = std::ceil((blocks - waves * units * v.resident) / units);
  const auto wave = [&](double together) {
    if (together == 0) return 0.0;
    return 1.0 + steps * std::max(latency, together * each) + epilogue * (together > 1 ? 1.3 : 1.0);
  };
  return 1.0 + waves * wave(v.resident) + wave(rest) + sum;
}

std::vector<Variant> variants(const ImplicitGemm& p, const LayerQuery& query, const Tactic& tactic,
                              const DeviceProperties& gpu) {
  const double units = gpu.multiprocessors;
  const auto [m, n, k, batches] = sizes_at_opt(p, query);
  const int64_t steps = steps_of(p);
  const bool vectors = result_vector(query, tactic, p, 4, 1) == 4;  // sums are shared four at a time
  bool plain = true;                                                // rows of A that lie one after the other
  for (const ImplicitGemm::Axis& a : p.axes)
    plain = plain && a.kernel == 1 && a.stride == 1 && a.pad_begin.is_constant(0);
  std::vector<std::pair<double, Variant>> timed;
  for (const int groups : {1, 2, 3})
    for (const int bn : {32, 64, 96, 128, 192, 256})
      for (const int resident : {1, 2, 3})
        for (const int kind : {1, 2, 4, 8, -2, -3, -4, -6, -8}) {
          const Variant v{groups, bn, resident, std::abs(kind), kind > 1};
          const int splits = v.splits;
          const double tiles = std::ceil(m / v.rows()) * std::ceil(n / bn), blocks = tiles * splits;
          if (plain && !v.shares && (splits > 1 || bn > 64)) continue;  // codegen_wgmma.cpp has these
          if (v.shares && bn > 32 * splits) continue;  // more than four vectors for each thread
          if (!v.fits(steps, gpu) || splits > steps || (v.shares && !vectors) ||
              (splits > 1 && blocks > units * resident))
            continue;
          if (bn >= 2 * n && bn > 32) continue;
          // One that fits more blocks than there are is only smaller, so that the next kernel's blocks find a
          // place beside it.
          if (blocks <= units * (resident - 1) && (resident < 3 || splits > 1)) continue;
          timed.emplace_back(estimate(v, gpu, m, n, static_cast<double>(steps)), v);
        }
  return most_promising(std::move(timed));
}

bool never_pads(const Conv& op) {
  const auto none = [](const Ints& pads) {
    return std::all_of(pads.begin(), pads.end(), [](int64_t n) { return n == 0; });
  };
  return op.auto_pad == AutoPad::Valid ||
         (op.auto_pad == AutoPad::NotSet && none(op.pads_begin) && none(op.pads_end));
}

Support describe(const LayerQuery& query, const Tactic& tactic, ImplicitGemm& p) {
  if (const Support s = describe_gemm(query, tactic, p); !s.ok) return s;
  if (p.axes.size() != 2) return Support::no("not a convolution of images");
  if (!p.batches.is_constant(1)) return Support::no("groups");
  if (!divides(p.step() / 8, p.channels))
    return Support::no("pixels that do not begin at multiples of 16 bytes");
  for (const ImplicitGemm::Axis& a : p.axes) {
    // What the copy engine's description of windows can hold.
    const int64_t pad = upper_bound(a.pad_begin, query.ranges), reach = (a.kernel - 1) * a.dilation;
    if (pad > 127 || reach > 127 || a.stride > 8)
      return Support::no("windows too far apart, or pads too wide");
  }
  if (!p.integers) return {};
  if (const Support s = multiplies_bytes(query, p); !s.ok) return s;
  // The copy engine pads with bytes of 0.
  if (query.graph.value(query.layer().inputs[0]).quantization->zero() != 0 &&
      !never_pads(std::get<Conv>(query.layer().op)))
    return Support::no("zero is not the byte 0 on the grid of the image, and the convolution pads");
  return {};
}

std::vector<Tactic> list_typed(const LayerQuery& query, const StoredTypes& types,
                               const DeviceProperties& gpu) {
  Tactic base = typed_tactic(query, kRunner, "cuda_wgmma_conv", {types.input, kChannelsLast},
                             {types.output, kChannelsLast});
  list_weights(query, number_beside(query, types.output), base);
  const Value& weights = query.graph.value(query.layer().inputs[1]);
  if (base.support.ok && query.graph.value(query.layer().inputs[0]).is_constant())
    base.support = Support::no("the image is constant");
  if (base.support.ok && !weights.is_constant())
    base.support = Support::no("the weights are computed at run time");
  if (base.support.ok && has_data_dependent_dims(query))
    base.support = Support::no("the size of the result depends on data");
  ImplicitGemm p;
  if (base.support.ok) base.support = describe(query, base, p);
  if (!base.support.ok) return {base};
  std::vector<Tactic> tactics;
  for (const Variant& v : variants(p, query, base, gpu))
    tactics.push_back(with_variant(base, v.name(), v.params()));
  return tactics;
}

std::vector<Tactic> list(const LayerQuery& query, const Device& device) {
  if (!std::holds_alternative<Conv>(query.layer().op) || !device.properties.is_hopper()) return {};
  std::vector<Tactic> tactics;
  for (const StoredTypes& types : tensor_core_types(query)) {
    const std::vector<Tactic> typed = list_typed(query, types, device.properties);
    tactics.insert(tactics.end(), typed.begin(), typed.end());
  }
  return tactics;
}

// The warp that starts the copies: `copy_pixels(step, stage)` and `copy_weights(step, stage)`, counted from
// the block's first.
constexpr std::string_view kProduce = R"(if (warp == 4 * GROUPS) {
if (lane == 0) {
const int ahead = tiles < STAGES ? tiles : STAGES;
for (int i = 0; i < ahead; ++i) {
barrier_expect(full + i, STAGE);
copy_weights(i, i);
}
wait_for_previous_kernel();
stored_before_copies();
for (int i = 0; i < ahead; ++i) copy_pixels(i, i);
for (int i = ahead, s = 0, parity = 0; i < tiles; ++i) {
barrier_wait(empty + s, parity);
barrier_expect(full + s, STAGE);
copy_pixels(i, s);
copy_weights(i, s);
if (++s == STAGES) { s = 0; parity ^= 1; }
}
}
return;
})";

constexpr std::string_view kParts = R"(__syncwarp();
#pragma unroll 4
for (int i = lane; i < 16 * (BN / V); i += 32) {
const int row = i / (BN / V), column = i % (BN / V) * V;
float v[V];
load(strip + row * (BN + 8) + column, v);
result(pixel(warp * 16 + row), column0 + column, v);
})";

// A part of the tile, summed up over the blocks of the cluster, the first block's part first. Nobody leaves
// before all have read.
constexpr std::string_view kFetchShare =
    R"(constexpr int SHARE = ROWS * (BN / V) / SPLITS, TURNS = (SHARE + 128 * GROUPS - 1) / (128 * GROUPS);
idx at[TURNS];
Operands operands[TURNS];
#pragma unroll
for (int u = 0; u < TURNS; ++u) {
const int i = u * 128 * GROUPS + threadIdx.x, e = split * SHARE + (i < SHARE ? i : 0);
const idx column = column0 + e % (BN / V) * V;
at[u] = i < SHARE ? place(pixel(e / (BN / V)), column) : -1;
fetch(at[u] < 0 ? 0 : at[u], at[u] < 0 ? 0 : column, operands[u]);
}
)";
constexpr std::string_view kShare = R"(cluster_arrive();
cluster_wait();
float v[TURNS][V];
#pragma unroll
for (int u = 0; u < TURNS; ++u) {
const int i = u * 128 * GROUPS + threadIdx.x, e = split * SHARE + (i < SHARE ? i : 0), row = e / (BN / V), column = e % (BN / V) * V;
float part[SPLITS][4];
#pragma unroll
for (int s = 0; s < SPLITS; ++s) load_shared_of(s, tile + row * (BN + 8) + column, part[s]);
#pragma unroll
for (int j = 0; j < 4; ++j) {
v[u][j] = part[0][j];
#pragma unroll
for (int s = 1; s < SPLITS; ++s) v[u][j] += part[s][j];
}
apply(operands[u], v[u]);
}
cluster_arrive();
#pragma unroll
for (int u = 0; u < TURNS; ++u)
if (at[u] >= 0) store(RESULT + at[u], v[u]);
cluster_wait();)";

// Which tile a block computes, which part of K, and how a step's operands are copied.
void begin_tile(KernelBuilder& b, const LayerQuery& query, const ImplicitGemm& p, const Variant& v) {
  const Dim tiles_m = ceil_div(p.m, Dim(v.rows())), tiles_n = ceil_div(p.n, Dim(v.bn));
  const int64_t steps = steps_of(p), pieces = (p.channels.value() + p.step() - 1) / p.step();
  const ImplicitGemm::Axis &h = p.axes[0], &w = p.axes[1];
  b.kernel().grid = {tiles_m * tiles_n, 1, Dim(v.splits)};
  b.kernel().cluster = v.shares ? v.splits : 1;
  const TensorView pixels{
      .type = p.type,
      .extents = {p.channels, w.in, h.in, input_shape(query, 0)[0]},
      .strides = {1, w.in_stride, h.in_stride, p.image_stride},
      .box = {p.step(), v.rows()},
      .windows = TensorView::Windows{.first = {Dim(0) - w.pad_begin, Dim(0) - h.pad_begin},
                                     .last = {(w.out - Dim(1)) * Dim(w.stride) - w.pad_begin,
                                              (h.out - Dim(1)) * Dim(h.stride) - h.pad_begin},
                                     .steps = {static_cast<int>(w.stride), static_cast<int>(h.stride)}}};
  const std::string a = b.input_map(0, pixels),
                    weights = b.packed_map("w", {.type = p.type,
                                                 .extents = {Dim(steps * p.step()), p.n},
                                                 .strides = {1, Dim(steps * p.step())},
                                                 .box = {p.step(), v.bn}});
  const std::string tn = b.number(tiles_n), tk = std::to_string(steps), ow = b.number(w.out),
                    oh = b.number(h.out);
  const auto times = [](int64_t n) { return " * " + std::to_string(n); };
  b.line("const idx column0 = blockIdx.x % " + tn + " * BN, row0 = blockIdx.x / " + tn +
         " * ROWS, batch = 0;\nconst int split = blockIdx.z, first = " + tk +
         " * split / SPLITS, tiles = " + tk + " * (split + 1) / SPLITS - first;");
  // The first row's window.
  b.line("const int x0 = (int)(row0 % " + ow + ")" + times(w.stride) + " - " + b.number(w.pad_begin) +
         ", y0 = (int)(row0 / " + ow + " % " + oh + ")" + times(h.stride) + " - " + b.number(h.pad_begin) +
         ", image0 = (int)(row0 / " + ow + " / " + oh + ");");
  b.line(
      "char* base = shared_memory();\nbase += (1024 - shared_address(base) % 1024) % 1024;\nu64* full = "
      "(u64*)(base + STAGED);\nu64* empty = full + STAGES;\nconst int warp = threadIdx.x / 32, lane = "
      "threadIdx.x % 32;");
  b.line("const auto copy_weights = [&](int i, int s) {\ncopy_box(base + s * STAGE + ROWS * 128, &" +
         weights + ", (first + i) * KSTEP, (int)column0, full + s);\n};");
  b.line("const auto copy_pixels = [&](int i, int s) {\nconst int step = first + i, tap = step / " +
         std::to_string(pieces) + ";\ncopy_windows(base + s * STAGE, &" + a + ", step % " +
         std::to_string(pieces) + " * KSTEP, x0, y0, image0, tap % " + std::to_string(w.kernel) +
         times(w.dilation) + ", tap / " + std::to_string(w.kernel) + times(h.dilation) + ", full + s);\n};");
  b.line("if (threadIdx.x == 0) {\nprefetch_map(&" + a + ");\nprefetch_map(&" + weights + R"();
#pragma unroll
for (int s = 0; s < STAGES; ++s) {
barrier_init(full + s, 1);
barrier_init(empty + s, 4 * GROUPS);
}
barriers_ready();
}
__syncthreads();)");
}

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const Variant v = Variant::of(tactic.params);
  ImplicitGemm p;
  const Support support = describe(query, tactic, p);
  check(support.ok, "a refused convolution is generated: " + support.reason);
  const int64_t steps = steps_of(p);
  KernelBuilder b = start_kernel(query, tactic, "wgmma_conv", tactic.outputs[0].dtype);
  b.hardware(hopper_primitives(p.type, v.bn));
  const int parts = v.shares ? 1 : v.splits;  // in memory
  GemmWriter writer(b, query, tactic, p, v.consumers() + 32, v.rows(), v.bn, p.step(), parts);
  // What threads side by side read of another block's memory should lie side by side.
  const int width = result_vector(query, tactic, p, v.shares ? 4 : 8, parts);
  const int stages = v.stages(steps, device.properties);
  const int staged = std::max(stages * v.stage_bytes(), v.strip_bytes());
  b.kernel().threads = v.consumers() + 32;
  b.kernel().resident = v.resident;
  b.kernel().shared_bytes = 1024 + staged + 16 * stages;
  b.waits_itself();
  b.global("constexpr int GROUPS = " + std::to_string(v.groups) +
           ", ROWS = 64 * GROUPS, BN = " + std::to_string(v.bn) + ", SPLITS = " + std::to_string(v.splits) +
           ", STAGES = " + std::to_string(stages) + ", STAGED = " + std::to_string(staged) +
           ", STAGE = (ROWS + BN) * 128, V = " + std::to_string(width) + ", KSTEP = " +
           std::to_string(p.step()) + ";\n#define MULTIPLY multiply_tile_" + multiplied_name(p.type));
  begin_tile(b, query, p, v);
  b.line(kProduce);
  if (parts > 1)
    writer.result(width);
  else
    writer.result_in_place(width);
  b.line("const auto pixel = [&](int row) -> idx { return row0 + row; };");
  b.line("constexpr bool EARLY = " + std::string(v.resident <= 2 && v.bn <= 64 ? "true" : "false") +
         ";\nwait_for_previous_kernel();");
  if (parts == 1) b.line(v.shares ? kFetchShare : fetch_own_rows());
  b.line(start_sums(b, query, p, "column0"));
  b.line(multiply_steps());
  b.line(tile_to_shared());
  if (parts == 1) b.line("#define RESULT " + b.output(0, tactic.outputs[0].dtype));
  b.line(parts > 1 ? kParts : v.shares ? kShare : store_own_rows());
  LayerSource source{.kernels = {b.finish()}};
  if (parts > 1) {
    source.kernels.push_back(GemmWriter::sum_kernel(query, tactic, p, parts));
    source.scratch_bytes = GemmWriter::scratch_bytes(query, parts);
  }
  if (p.integers) {
    add_integer_blocks(query, p, p.step(), source);
    return source;
  }
  const Tensor weights = query.graph.value(query.layer().inputs[1]).constant;
  source.blocks["w"] = gemm_weights_block(query.layer().op, weights, p.type, p.step());
  return source;
}

}  // namespace

GeneratedFamily wgmma_conv_family() {
  return {kRunner, list, generate, packs_alike};
}

}  // namespace lathe::cuda
