// SPDX-License-Identifier: Apache-2.0
//
// Convolutions (any rank, groups, transposed too; channels-last) and matrix products of ours: no library is
// needed for any of them. 16-bit types and bytes of grids run on tensor cores (mma.sync): tiles of A and B
// arrive in shared memory by asynchronous copies, three stages deep; results pass through shared memory once
// more so that the epilogue works on whole vectors. (Bytes on Hopper are HopperGemm's and
// HopperConvolution's.) FP32 runs on plain multiply-adds, exactly. Tile sizes and the split of K over blocks
// are the tactic: a small batch fills the machine only with small tiles and a split K. Partial sums are added
// in a fixed order by a second kernel.
#include <cmath>

#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/implicit_gemm.h"
#include "backend/cuda/device/device.h"
#include "base/error.h"
#include "lathe_device_text/gemm_fma.h"
#include "lathe_device_text/gemm_mma.h"

namespace lathe::cuda {

namespace {

constexpr std::string_view kGemmRunner = "ImplicitGemm";
constexpr int kStages = 3;

struct GemmTile {
  int bm, bn, warps_m, warps_n;
};
constexpr GemmTile kTiles[] = {{128, 128, 2, 4}, {128, 64, 4, 2}, {64, 128, 2, 4}, {64, 64, 2, 2},
                               {128, 32, 4, 1},  {64, 32, 2, 2},  {32, 64, 2, 2},  {32, 32, 2, 2}};

struct GemmVariant {
  GemmTile tile;
  int bk = 32, splits = 1;
  int size = 2;  // bytes of an element

  // Nothing for plain multiply-adds, which have no parameters.
  static std::optional<GemmVariant> of(const TacticParams& params, DType type) {
    if (params.empty()) return std::nullopt;
    for (const GemmTile& t : kTiles)
      if (t.bm == params.get("rows") && t.bn == params.get("columns"))
        return GemmVariant{t, params.get_int("step"), params.get_int("splits"),
                           static_cast<int>(dtype_size(type))};
    throw Error(ErrorKind::Internal, "a product of tiles that there are not");
  }
  TacticParams params() const {
    return {{"rows", tile.bm}, {"columns", tile.bn}, {"step", bk}, {"splits", splits}};
  }
  std::string name() const {
    return "cuda_gemm_mma_" + std::to_string(tile.bm) + "x" + std::to_string(tile.bn) + "x" +
           std::to_string(bk) + "_s" + std::to_string(splits);
  }
  int warps() const { return tile.warps_m * tile.warps_n; }
  // Of a row of a tile in shared memory, in elements: rows begin in different banks.
  int unit() const { return 16 / size; }  // elements that are copied at once
  int a_pitch() const { return bk + unit(); }
  int b_pitch(bool b_is_rows) const { return (b_is_rows ? tile.bn : bk) + unit(); }
  int a_stage() const { return tile.bm * a_pitch(); }
  int b_stage(bool b_is_rows) const { return (b_is_rows ? bk : tile.bn) * b_pitch(b_is_rows); }
  // Stages of both tiles, and later, in the same place, the results of each warp as vectors.
  int shared_bytes(bool b_is_rows) const {
    const int strips = warps() * 16 * (tile.bn / tile.warps_n + 4) * 4;
    return std::max(kStages * size * (a_stage() + b_stage(b_is_rows)), strips);
  }
};

// What mma.sync reaches on a multiprocessor: on Hopper, whose tensor cores it cannot fill, three sevenths.
double mma_ops_per_us(const DeviceProperties& gpu) {
  return gpu.tensor_ops_per_us() * (gpu.is_hopper() ? 0.4316 : 0.8);
}

// A rough time in microseconds, to order variants and to leave out hopeless ones.
double estimate_gemm(const GemmVariant& v, const DeviceProperties& gpu, double m, double n, double k,
                     double batches) {
  const double blocks = std::ceil(m / v.tile.bm) * std::ceil(n / v.tile.bn) * batches * v.splits;
  const double steps = std::ceil(k / v.bk) / v.splits;
  // A multiprocessor holds several blocks; one alone cannot hide the latency of a step.
  const double shared = static_cast<double>(kStages * v.size) * (v.tile.bm + v.tile.bn) * (v.bk + v.unit()),
               units = gpu.multiprocessors;
  const double resident = std::max(
      1.0, std::min({static_cast<double>(gpu.shared_bytes_per_block) / shared, 48.0 / v.warps(), 8.0}));
  const int step_bytes = v.bk * v.size;
  const double products = static_cast<double>(v.tile.bm) * v.tile.bn * step_bytes / mma_ops_per_us(gpu);
  const double per_step = std::max(products, 0.12 + step_bytes * 0.00075);
  const double together = std::min(resident, std::max(1.0, blocks / units));
  const double step_time = std::max(per_step, together * products);
  const double waves = std::ceil(blocks / (units * resident));
  const double sum = v.splits > 1 ? 1.2 + v.splits * m * n * batches * 8 / 5e6 : 0;
  return 1.5 + waves * (steps + 2) * step_time + sum;
}

std::vector<GemmVariant> gemm_variants(const ImplicitGemm& p, const LayerQuery& query,
                                       const DeviceProperties& gpu) {
  const auto [m, n, k, batches] = sizes_at_opt(p, query);
  std::vector<std::pair<double, GemmVariant>> timed;
  for (const GemmTile& tile : kTiles)
    for (const int splits : {1, 2, 3, 4, 6, 8, 12}) {
      const int size = static_cast<int>(dtype_size(p.type)), narrow = 64 / size;
      const GemmVariant v{tile, k <= narrow ? narrow : 2 * narrow, splits, size};
      const double steps = std::ceil(k / v.bk);
      const double blocks = std::ceil(m / tile.bm) * std::ceil(n / tile.bn) * batches * splits;
      if (v.shared_bytes(p.b_layout == ImplicitGemm::BLayout::Rows) > gpu.shared_bytes_per_block) continue;
      if (splits > 1 && (steps / splits < 2 || blocks > 4.0 * gpu.multiprocessors)) continue;
      timed.emplace_back(estimate_gemm(v, gpu, m, n, k, batches), v);
    }
  return most_promising(std::move(timed));
}

// The layer as a problem of this family, or why it is none.
Support describe(const LayerQuery& query, const Tactic& tactic, ImplicitGemm& p) {
  if (has_data_dependent_dims(query)) return Support::no("the size of the result depends on data");
  if (const Support s = describe_gemm(query, tactic, p); !s.ok) return s;
  if (p.on_grid)
    if (const Support s = multiplies_bytes(query, p); !s.ok) return s;
  if (upper_bound(p.batches, query.ranges) > 65535) return Support::no("more than 65535 batches or groups");
  return {};
}

// Bytes of integers, which tensor cores multiply from compute capability 8.0 on, and of E4M3.
void list_gemm_of_bytes(const LayerQuery& query, const Format& format, const DeviceProperties& gpu,
                        std::vector<Tactic>& tactics) {
  if (gpu.major < 8 || gpu.is_hopper()) return;
  for (const StoredTypes& types : tensor_core_types(query)) {
    if (is_half(types.input) || (types.input != DType::UInt8 && !gpu.multiplies_fp8())) continue;
    Tactic base =
        typed_tactic(query, kGemmRunner, "cuda_gemm_mma", {types.input, format}, {types.output, format});
    list_weights(query, number_beside(query, types.output), base);
    ImplicitGemm p;
    if (base.support.ok) base.support = describe(query, base, p);
    if (!base.support.ok) {
      tactics.push_back(refused_for(types.input, std::move(base)));
      continue;
    }
    for (const GemmVariant& v : gemm_variants(p, query, gpu))
      tactics.push_back(with_variant(base, v.name(), v.params()));
  }
}

std::vector<Tactic> list_gemm(const LayerQuery& query, const Device& device) {
  const Node& node = query.layer();
  const bool conv = std::holds_alternative<Conv>(node.op) || std::holds_alternative<ConvTranspose>(node.op);
  if (!conv && !std::holds_alternative<MatMul>(node.op)) return {};
  const Format format = conv ? kChannelsLast : kLinear;
  std::vector<Tactic> tactics;
  list_gemm_of_bytes(query, format, device.properties, tactics);
  for (const DType type : allowed_types_first(query)) {
    Tactic base = typed_tactic(query, kGemmRunner, "cuda_gemm_fma", {type, format}, {type, format});
    if (base.support.ok && !is_kernel_float(type))
      base.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    if (query.graph.value(node.inputs[0]).is_constant() && query.graph.value(node.inputs[0]).dtype != type)
      base.support = Support::no("a constant operand is read as it is stored");
    list_weights(query, type, base);
    ImplicitGemm p;
    if (base.support.ok) base.support = describe(query, base, p);
    if (!base.support.ok || !is_half(type)) {
      tactics.push_back(std::move(base));
      continue;
    }
    for (const GemmVariant& v : gemm_variants(p, query, device.properties))
      tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

KernelSource mma_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                        const GemmVariant& variant) {
  const GemmTile& tile = variant.tile;
  const int threads = 32 * variant.warps(), wm = tile.bm / tile.warps_m, wn = tile.bn / tile.warps_n;
  KernelBuilder b = start_kernel(query, tactic, "gemm_mma", tactic.outputs[0].dtype);
  GemmWriter writer(b, query, tactic, p, threads, tile.bm, tile.bn, variant.bk, variant.splits);
  const bool b_is_rows = writer.b_is_rows();
  const int a_pitch = variant.a_pitch(), b_pitch = variant.b_pitch(b_is_rows);
  const int v = result_vector(query, tactic, p, std::min(8, wn), variant.splits);
  // Weights are there before the previous layer's result is.
  const bool b_is_early = p.b_layout == ImplicitGemm::BLayout::Packed;
  if (b_is_early) b.waits_itself();
  b.kernel().shared_bytes = variant.shared_bytes(b_is_rows);
  b.constants({{"STAGES", kStages},
               {"WM", wm},
               {"WN", wn},
               {"WARPS_N", tile.warps_n},
               {"BK", variant.bk},
               {"A_PITCH", a_pitch},
               {"B_PITCH", b_pitch},
               {"A_STAGE", variant.a_stage()},
               {"B_STAGE", variant.b_stage(b_is_rows)},
               {"B_IS_ROWS", b_is_rows},
               {"B_IS_EARLY", b_is_early},
               {"UNIT", variant.unit()},
               {"V", v}});
  if (p.on_grid) b.hardware(byte_products());
  b.global(std::string(p.on_grid ? "typedef unsigned char Byte;\n" : "") + "typedef " +
           (p.type == DType::UInt8 ? "int" : "float") + " Sum;\n#define MULTIPLY multiply_" +
           multiplied_name(p.type));
  b.global(device_text::gemm_mma::kGemmMma);
  writer.prologue(a_pitch, b_pitch);
  writer.result(v);
  writer.define_start();
  b.line("compute_gemm_tile<" + writer.element() +
         ">(first, last, m0, n0, fetch_a, fetch_b, start, result);");
  return b.finish();
}

KernelSource fma_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p) {
  KernelBuilder b = start_kernel(query, tactic, "gemm_fma", DType::Float32);
  GemmWriter writer(b, query, tactic, p, 256, 64, 64, 16, 1);
  const int a_pitch = 17, b_pitch = writer.b_is_rows() ? 65 : 17;
  b.constants({{"A_PITCH", a_pitch}, {"B_PITCH", b_pitch}, {"B_IS_ROWS", writer.b_is_rows()}});
  b.global(device_text::gemm_fma::kGemmFma);
  writer.prologue(a_pitch, b_pitch);
  writer.result(1);
  b.line("compute_gemm_tile<" + writer.element() + ">(first, last, m0, n0, fetch_a, fetch_b, result);");
  return b.finish();
}

LayerSource generate_gemm(const LayerQuery& query, const Tactic& tactic, const Device&) {
  ImplicitGemm p;
  const Support support = describe_gemm(query, tactic, p);
  check(support.ok, "a refused product is generated: " + support.reason);
  LayerSource source;
  const auto variant = GemmVariant::of(tactic.params, p.type);
  source.kernels.push_back(variant ? mma_kernel(query, tactic, p, *variant) : fma_kernel(query, tactic, p));
  if (variant && variant->splits > 1) {
    source.kernels.push_back(GemmWriter::sum_kernel(query, tactic, p, variant->splits));
    source.scratch_bytes = GemmWriter::scratch_bytes(query, variant->splits);
  }
  if (p.on_grid) {
    add_grid_blocks(query, 1, source);
  } else if (p.b_layout == ImplicitGemm::BLayout::Packed) {
    const Tensor weights = query.graph.value(query.layer().inputs[1]).constant;
    source.blocks["w"] = gemm_weights_block(query.layer().op, weights, p.type);
  }
  return source;
}

}  // namespace

GeneratedFamily gemm_family() {
  return {kGemmRunner, list_gemm, generate_gemm, packs_alike};
}

}  // namespace lathe::cuda
