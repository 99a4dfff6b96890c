// SPDX-License-Identifier: Apache-2.0
//
// Matrix products and 1x1 convolutions (channels-last) for Hopper: constant weights times rows, with the
// layer's epilogue.
//
// A block computes 64, 128 or 192 rows (a warpgroup for each 64) times `bn` columns. One warp does nothing
// but start copies: the copy engine brings tiles of 64 of K into shared memory, several stages deep, and
// barriers there count the bytes; the warpgroups multiply out of shared memory (wgmma) and hand a stage back
// when they are done with it. Weights are on their way before the previous kernel has ended. Results pass
// through shared memory, so that the epilogue works on whole vectors.
//
// Measured on an H200 (FP16, with bias and residual, data rotating): 4096 x 768 x 3072 in 32.7 us, 590
// TFLOP/s, 75 % of what the chip reaches; 4096 x 768 x 768 in 11.7 us (cuBLASLt 13.5), 4096 x 2304 x 768 as a
// stack of three in 30.0 us (34.5); with GELU 4096 x 3072 x 768 in 49 us (47, of which its second kernel 17).
// Pairs of blocks that bring half of B each for both were 20 to 60 % slower, so L2 is not what holds it.
//
// Floors: 790 TFLOP/s over 132 multiprocessors are 6.0 TFLOP/s each; a step of K brings (rows + bn) x 128
// bytes for rows x bn x 128 operations, and L2 gives each multiprocessor 68 GB/s: 128 x 128 tiles stop at 550
// TFLOP/s, 128 x 256 and 192 x 192 at 730 and 820. The epilogue of a block overlaps with the products of
// another when two fit on a multiprocessor. So rows, columns, blocks per multiprocessor and the split of K
// are the tactic, and estimate() orders them.
#include <array>
#include <cmath>

#include "backend/cuda/codegen/codegen_hopper.h"
#include "backend/cuda/codegen/fused_tail.h"
#include "backend/cuda/codegen/generated_layer.h"
#include "backend/cuda/device/device.h"
#include "backend/cuda/product/codegen_patches.h"
#include "backend/cuda/product/codegen_wgmma.h"
#include "base/error.h"
#include "ir/symbol_extents.h"
#include "lathe_device_text/wgmma_block.h"
#include "lathe_device_text/wgmma_tiles.h"

namespace lathe::cuda {

GeneratedFamily wgmma_family();

namespace {

constexpr std::string_view kWgmmaRunner = "HopperGemm";

struct WgmmaSizes : GemmSizes {
  bool heavy = false;  // an epilogue with exponentials
  double steps = 0;    // of K
};

bool has_exponentials(const PointwiseProgram& program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const PointwiseStep& s) {
    using enum PointwiseCode;
    for (const PointwiseCode code :
         {Exp, Erf, Tanh, Sigmoid, Softplus, Mish, Silu, GeluErf, GeluTanh, Elu, Celu, Selu, Pow, Log})
      if (s.code == code) return true;
    return false;
  });
}

// Blocks that run at once where a multiprocessor takes one. Clusters lie within a group of 14 to 18
// multiprocessors: of an H200's 132 clusters of 2 take 120, of 3 take 108, of 4 take 112, larger ones 96.
double blocks_at_once(const WgmmaVariant& v, const DeviceProperties& gpu) {
  const double all = gpu.multiprocessors;
  if (!v.cluster) return all;
  return all * (v.splits == 2 ? 10.0 / 11 : v.splits == 3 ? 9.0 / 11 : v.splits == 4 ? 28.0 / 33 : 8.0 / 11);
}

double block_count(const WgmmaVariant& v, const WgmmaSizes& s) {
  return std::ceil(s.m / v.tile.rows()) * std::ceil(s.n / v.tile.bn) * s.batches * v.splits;
}

// A rough time in microseconds, to order variants and to leave out hopeless ones; fitted to the products of
// BERT, ViT and ResNet-50 in 16 and 8 bits on an H200.
double estimate_wgmma(const WgmmaVariant& v, const WgmmaSizes& s, const DeviceProperties& gpu) {
  const double blocks = block_count(v, s), slots = blocks_at_once(v, gpu),
               elements = v.tile.rows() * v.tile.bn;
  const double steps = std::ceil(std::ceil(s.steps) / v.splits);
  // Seven tenths of the tensor cores' best, and 33 bytes of L2 in each cycle.
  const double ops_per_us = 0.703 * gpu.tensor_ops_per_us(), l2_bytes_per_us = gpu.clock_khz / 30.0;
  const double each = std::max(elements * 128.0 / ops_per_us, v.stage_bytes() / l2_bytes_per_us),
               latency = 1.0 / v.stages(gpu);
  const double epilogue = elements / (s.heavy ? 5e3 : 25e3);
  const double waves = std::floor(blocks / (slots * v.tile.resident));
  const double rest = std::ceil((blocks - waves * slots * v.tile.resident) / slots);
  const auto wave = [&](double together) {
    if (together == 0) return 0.0;
    return 1.2 + steps * std::max(latency, together * each) + epilogue * (together > 1 ? 1.3 : 1.0);
  };
  if (v.relay) {
    const double handed_over = elements / (s.heavy ? 2.6e3 : 15e3);
    return 2.0 + epilogue +
           (waves + std::min(rest, 1.0)) *
               (0.4 + std::max(handed_over, steps * std::max(1.1 * latency, each)));
  }
  if (v.stays) {
    // Two blocks or more on a multiprocessor: while one finishes a tile, the other multiplies.
    const double products = steps * std::max(latency / v.tile.resident, each),
                 own = elements / (s.heavy ? 4e3 : 25e3);
    if (v.teams > 1) {
      // One team multiplies, the others finish; so few warps wait for their own results.
      const double others = v.tile.groups * (v.teams - 1) * v.tile.resident,
                   finished = elements / std::min(others * (s.heavy ? 3e3 : 6e3), s.heavy ? 6e3 : 25e3);
      return 2.0 + finished +
             std::ceil(blocks / (slots * v.tile.resident)) * v.tile.resident *
                 (0.1 + std::max(steps * std::max(latency, each), finished));
    }
    const double tile = v.tile.resident > 1 ? std::max(products, own) : products + own;
    return 2.0 + own +
           std::ceil(blocks / (slots * v.tile.resident)) * v.tile.resident * ((s.heavy ? 0.5 : 0.1) + tile);
  }
  const double sum = v.splits == 1 ? 0
                     : v.cluster   ? 0.8 + elements / 16e3
                                   : 1.2 + v.splits * s.m * s.n * s.batches * 8 / 5e6;
  return 1.0 + waves * wave(v.tile.resident) + wave(rest) + sum;
}

// Matrices of a known size, of whose columns of tiles each block has one.
bool may_keep(const ImplicitGemm& p, const WgmmaVariant& v) {
  return p.batches.is_constant() && p.n.is_constant() && p.k.is_constant() && wgmma_columns(p, v) <= v.blocks;
}
int steps_of(const ImplicitGemm& p) {
  return static_cast<int>((p.k.value() + p.step() - 1) / p.step());
}

std::vector<WgmmaVariant> wgmma_variants(const ImplicitGemm& p, const LayerQuery& query, DType result,
                                         const DeviceProperties& gpu) {
  WgmmaSizes sizes{{sizes_at_opt(p, query)}, has_exponentials(query.layer().epilogue)};
  sizes.steps = sizes.k / p.step();
  const double units = gpu.multiprocessors;
  std::vector<std::pair<double, WgmmaVariant>> timed;
  for (const int groups : {1, 2, 3})
    for (const int bn : {32, 64, 96, 128, 192, 256})
      for (const int resident : {1, 2, 3, 4})
        for (const int splits : {1, 2, 3, 4, 6, 8}) {
          WgmmaVariant v{{groups, bn, resident}, splits};
          const double blocks = block_count(v, sizes);
          if (!v.fits(gpu) || (splits > 1 && (sizes.steps / splits < 2 || blocks > 2 * units))) continue;
          if (bn >= 2 * sizes.n && bn > 32) continue;
          if (resident > 1 && blocks <= units * (resident - 1)) continue;
          timed.emplace_back(estimate_wgmma(v, sizes, gpu), v);
          v.cluster = splits > 1;
          if (v.cluster && blocks <= blocks_at_once(v, gpu) * resident)
            timed.emplace_back(estimate_wgmma(v, sizes, gpu), v);
        }
  for (const int groups : {2, 3})
    for (const int bn : {128, 192, 256}) {
      if (p.on_grid) break;  // sums of bytes are not handed over in 16 bits
      const WgmmaVariant v{.tile = {groups, bn}, .relay = true, .blocks = gpu.multiprocessors};
      // For one tile each there is nothing to overlap with.
      if (!v.fits(gpu) || block_count(v, sizes) <= units) continue;
      timed.emplace_back(estimate_wgmma(v, sizes, gpu), v);
    }
  // Where K is short most of a block's life is the way of its first operands and of its results; blocks that
  // stay have both under way for one tile while they multiply another.
  for (const int teams : {1, 2, 3})
    for (const int groups : {1, 2})
      for (const int bn : {64, 128, 192})
        for (const int resident : {1, 2, 3, 4}) {
          WgmmaVariant v{.tile = {groups, bn, resident},
                         .stays = true,
                         .blocks = gpu.multiprocessors * resident,
                         .teams = teams};
          v.result_size = dtype_size(result);
          if (!v.fits(gpu) || bn >= 2 * sizes.n || sizes.steps > 16 || (bn == 192 && teams == 1) ||
              block_count(v, sizes) < 2 * teams * v.blocks)
            continue;
          timed.emplace_back(estimate_wgmma(v, sizes, gpu), v);
          if (!may_keep(p, v)) continue;
          v.kept = steps_of(p);
          if (v.fits(gpu)) timed.emplace_back(estimate_wgmma(v, sizes, gpu), v);
        }
  return most_promising(std::move(timed));
}

// The problem as rows of A that lie one after the other, or why it is none.
Support plain_rows(const ImplicitGemm& p) {
  if (p.b_layout != ImplicitGemm::BLayout::Packed)
    return Support::no("the right operand is computed at run time");
  if (p.transposed) return Support::no("a transposed convolution");
  for (const ImplicitGemm::Axis& a : p.axes)
    if (a.kernel != 1 || a.stride != 1 || !a.pad_begin.is_constant(0))
      return Support::no("a window of more than one pixel, or a stride");
  if (p.is_conv && !p.batches.is_constant(1)) return Support::no("groups");
  if (!divides(p.step() / 8, p.k)) return Support::no("rows that do not begin at multiples of 16 bytes");
  if (p.batch_walk.extents.size() > 1) return Support::no("batches in more than one dim");
  return {};
}

Support describe_rows(const LayerQuery& query, Tactic tactic, bool patches, ImplicitGemm& p) {
  // As rows, patches are like pixels with their channels last.
  if (patches) tactic.inputs[0] = tactic.outputs[0];
  Support support = describe_gemm(query, tactic, p);
  if (support.ok && !patches) support = plain_rows(p);
  return support.ok && p.on_grid ? multiplies_bytes(query, p) : support;
}

// A tactic for each variant of the layer in these types; one that is refused where there is none.
std::vector<Tactic> list_typed_wgmma(const LayerQuery& query, const StoredTypes& types, bool patches,
                                     const DeviceProperties& gpu) {
  const bool conv = std::holds_alternative<Conv>(query.layer().op);
  const Value& a = query.graph.value(query.layer().inputs[0]);
  const Format format = conv ? kChannelsLast : kLinear;
  const TensorType read = patches ? TensorType{a.dtype, kLinear} : TensorType{types.input, format};
  Tactic base = typed_tactic(query, kWgmmaRunner, "cuda_wgmma", read, {types.output, format});
  list_weights(query, number_beside(query, types.output), base);
  if (base.support.ok && a.is_constant()) base.support = Support::no("the left operand is constant");
  if (base.support.ok && has_data_dependent_dims(query))
    base.support = Support::no("the size of the result depends on data");
  ImplicitGemm p;
  if (base.support.ok) base.support = describe_rows(query, base, patches, p);
  // HopperConvolution, which takes any window, says why a convolution is not multiplied in FP8.
  if (!base.support.ok) return {conv ? base : refused_for(types.input, base)};
  std::vector<Tactic> tactics;
  for (WgmmaVariant v : wgmma_variants(p, query, types.output, gpu)) {
    v.patches = patches;
    if (v.cluster && result_vector(query, base, p, 4, 1) != 4) continue;
    if (v.stays && result_vector(query, base, p, 2, 1) < 2) continue;  // threads have pairs of columns
    if (patches && (v.splits > 1 || v.relay || v.stays))
      continue;  // the parts of sums would lie where the patches do
    tactics.push_back(with_variant(base, v.name(), v.params()));
  }
  return tactics;
}

std::vector<Tactic> list_wgmma(const LayerQuery& query, const Device& device) {
  const Op& op = query.layer().op;
  if (!std::holds_alternative<Conv>(op) && !std::holds_alternative<MatMul>(op)) return {};
  if (!device.properties.is_hopper()) return {};
  std::vector<Tactic> tactics;
  const bool patches = tiles_the_image(query).ok;
  for (const StoredTypes& types : tensor_core_types(query)) {
    // Patches are laid out in the type of the result.
    if (patches && (!is_half(types.input) || types.input != types.output)) continue;
    const std::vector<Tactic> typed = list_typed_wgmma(query, types, patches, device.properties);
    tactics.insert(tactics.end(), typed.begin(), typed.end());
  }
  return tactics;
}

KernelSource wgmma_kernel(const LayerQuery& query, const Tactic& tactic, const ImplicitGemm& p,
                          const WgmmaVariant& v, const DeviceProperties& gpu) {
  KernelBuilder b = start_kernel(query, tactic, "wgmma", tactic.outputs[0].dtype);
  const int sums = v.cluster ? 1 : v.splits;  // in memory
  GemmWriter writer(b, query, tactic, p, v.threads(), v.tile.rows(), v.tile.bn, p.step(), sums);
  const int width = result_vector(query, tactic, p, v.cluster ? 4 : 8, sums), stages = v.stages(gpu);
  b.kernel().threads = v.threads();
  b.kernel().grid = {wgmma_tiles(p, v), 1, Dim(v.splits)};
  if (v.cluster) b.kernel().cluster = v.splits;
  add_hopper_stages(b, v.tile,
                    {.type = p.type,
                     .stages = stages,
                     .barriers_at = std::max(stages * v.tile.stage_bytes(), v.tile.sums_bytes()),
                     .step = p.step(),
                     .width = width},
                    true);
  b.constants({{"SPLITS", v.splits}});
  b.global(device_text::wgmma_tiles::kTiles);
  b.global(device_text::wgmma_block::kBlock);
  if (v.cluster) {
    b.global(cluster_sums());
    b.global(device_text::wgmma_block::kShare);
  }
  const auto [a, weights] = wgmma_maps(b, query, p, v);
  define_tile_at(b, p, v);
  const std::string steps = b.number(ceil_div(p.k, Dim(p.step())));
  b.line("const ProductTile tile = tile_at(blockIdx.x);\nconst int split = blockIdx.z, first = " + steps +
         " * split / SPLITS, steps = " + steps + " * (split + 1) / SPLITS - first;");
  const bool parts = sums > 1;
  if (parts)
    writer.result(width);
  else
    writer.result_in_place(width);
  define_start_sums(b, query, p);
  std::string results = "parts_of_sums(tile.row0, tile.column0, result)";
  if (!parts)
    results = (v.cluster ? "share_of_tile(tile.row0, tile.column0, split"
                         : "own_rows<false>(tile.row0, tile.column0") +
              (", place, tail, " + b.output(0, tactic.outputs[0].dtype)) + ")";
  b.line("product_block(&" + a + ", &" + weights + ", tile, first, steps, start_sums, " + results + ");");
  return b.finish();
}

LayerSource generate_wgmma(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  WgmmaVariant variant = WgmmaVariant::of(tactic.params);
  ImplicitGemm p;
  const Support support = describe_rows(query, tactic, variant.patches, p);
  check(support.ok, "a refused product is generated: " + support.reason);
  variant.result_size = dtype_size(tactic.outputs[0].dtype);
  if (variant.kept > 0) {
    check(may_keep(p, variant), "a column of B cannot be kept");
    variant.kept = steps_of(p);
  }
  LayerSource source;
  if (variant.patches) {
    source.kernels.push_back(patch_kernel(query, tactic));
    source.scratch_bytes = patch_bytes(query);
  }
  const auto kernel = variant.relay ? relay_kernel : variant.stays ? stay_kernel : wgmma_kernel;
  source.kernels.push_back(kernel(query, tactic, p, variant, device.properties));
  if (variant.splits > 1 && !variant.cluster) {
    source.kernels.push_back(GemmWriter::sum_kernel(query, tactic, p, variant.splits));
    source.scratch_bytes = GemmWriter::scratch_bytes(query, variant.splits);
  }
  if (p.on_grid) {
    add_grid_blocks(query, 1, source);
    return source;
  }
  const Tensor weights = query.graph.value(query.layer().inputs[1]).constant;
  if (!variant.patches) {
    source.blocks["w"] = gemm_weights_block(query.layer().op, weights, p.type);
    return source;
  }
  // A window as it lies in memory is a row of patches.
  const int64_t n = weights.extents()[0];
  source.blocks["w"] = gemm_weights_block(
      MatMul{.transpose_b = true}, weights.reshaped({n, weights.size() / std::max<int64_t>(1, n)}), p.type);
  return source;
}

std::string kind_of_wgmma_packing(const Tactic& tactic) {
  return WgmmaVariant::of(tactic.params).patches ? "patches" : "rows";
}

}  // namespace

WgmmaVariant WgmmaVariant::of(const TacticParams& params) {
  WgmmaVariant v;
  v.tile = {params.get_int("rows") / 64, params.get_int("columns"), params.get_int("resident", 1)};
  v.splits = params.get_int("splits", 1);
  v.cluster = params.get("cluster", 0) != 0;
  v.patches = params.get("patches", 0) != 0;
  v.blocks = params.get_int("blocks", 1);
  v.stays = params.get("stays", 0) != 0;
  v.relay = !v.stays && params.get("blocks", 0) > 0;
  v.kept = params.get("kept", 0) != 0;
  v.teams = params.get_int("teams", 1);
  return v;
}

TacticParams WgmmaVariant::params() const {
  if (relay) return {{"rows", tile.rows()}, {"columns", tile.bn}, {"blocks", blocks}};
  if (stays) {
    TacticParams all = {{"rows", tile.rows()}, {"columns", tile.bn}, {"resident", tile.resident},
                        {"stays", 1},          {"blocks", blocks},   {"kept", kept > 0}};
    if (teams > 1) all.set("teams", teams);
    return all;
  }
  return {{"patches", patches},        {"rows", tile.rows()}, {"columns", tile.bn},
          {"resident", tile.resident}, {"cluster", cluster},  {"splits", splits}};
}

std::string WgmmaVariant::name() const {
  const std::string kind = relay      ? "relay_"
                           : kept > 0 ? "keep_"
                           : stays    ? "stay_"
                           : patches  ? "patches_"
                                      : "";
  const std::string start = "cuda_wgmma_" + kind + (teams > 1 ? std::to_string(teams) + "x" : "") +
                            std::to_string(tile.rows()) + "x" + std::to_string(tile.bn);
  return relay || stays ? start + "_b" + std::to_string(blocks)
                        : start + "_c" + std::to_string(tile.resident) + (cluster ? "_k" : "_s") +
                              std::to_string(splits);
}

Dim wgmma_tiles(const ImplicitGemm& p, const WgmmaVariant& v) {
  return ceil_div(p.m, Dim(v.tile.rows())) * ceil_div(p.n, Dim(v.tile.bn)) * p.batches;
}

int64_t wgmma_columns(const ImplicitGemm& p, const WgmmaVariant& v) {
  return (p.n.value() + v.tile.bn - 1) / v.tile.bn * p.batches.value();
}

void define_tile_at(KernelBuilder& b, const ImplicitGemm& p, const WgmmaVariant& v) {
  const Dim columns = ceil_div(p.n, Dim(v.tile.bn));
  const std::string tn = b.number(columns), all = b.number(columns * p.batches);
  // The first row of an operand that has other rows for each batch.
  const auto row = [&](const char* in_batch, size_t operand, const Dim& rows) {
    const bool moves = !p.batch_walk.extents.empty() && !p.batch_walk.strides[operand][0].is_constant(0);
    return "(int)(" + std::string(in_batch) + (moves ? " + batch * " + b.number(rows) : "") + ")";
  };
  // The columns of all matrices of a stack, one after the other, then the next rows.
  b.line("idx batch;\nconst auto tile_at = [&](u32 number) {\nconst idx column0 = number % " + tn +
         " * BN, row0 = number / " + all + " * ROWS;\nbatch = number / " + tn + " % " + b.number(p.batches) +
         ";\nreturn ProductTile{row0, column0, " + row("row0", 0, p.m) + ", " + row("column0", 1, p.n) +
         "};\n};");
}

WgmmaMaps wgmma_maps(KernelBuilder& b, const LayerQuery& query, const ImplicitGemm& p, const WgmmaVariant& v,
                     bool dealt) {
  const Dim padded = ceil_div(p.k, Dim(kPackedMultiple)) * Dim(kPackedMultiple);
  const Dim a_rows = v.patches ? p.m : element_count(input_shape(query, 0)).exact_div(p.k).value_or(p.m);
  const Dim b_rows =
      element_count(query.graph.value(query.layer().inputs[1]).shape).exact_div(p.k).value_or(p.n);
  const TensorView rows{p.type, {p.k, a_rows}, {1, p.k}, {p.step(), v.tile.rows()}};
  TensorView weights{p.type, {padded, b_rows}, {1, padded}, {p.step(), v.tile.bn}};
  const int bn = v.tile.bn;
  // Row 8 j + 2 t + e of a block is its row bn / 4 * t + 2 * j + e.
  if (dealt)
    weights = {p.type,
               {padded, 2, 4, bn / 8, floor_div(b_rows, Dim(bn))},
               {1, padded, Dim(bn / 4) * padded, Dim(2) * padded, Dim(bn) * padded},
               {p.step(), 2, 4, bn / 8, 1}};
  return {v.patches ? b.scratch_map(0, rows) : b.input_map(0, rows), b.packed_map("w", weights)};
}

GeneratedFamily wgmma_family() {
  return {kWgmmaRunner, list_wgmma, generate_wgmma, kind_of_wgmma_packing};
}

namespace {

// Whether ours stand in front of the libraries'. Measured on an H200: they are faster than cuBLASLt's at
// small products, and wherever cuBLASLt needs a second kernel for the epilogue; at large ones with bias,
// residual and ReLU its are.
bool wgmma_leads(const LayerQuery& query, const Device& device) {
  const Op& op = query.layer().op;
  if (!std::holds_alternative<Conv>(op) && !std::holds_alternative<MatMul>(op)) return false;
  if (!device.properties.is_hopper()) return false;
  const Shape& y = output_shape(query);
  if (y.size() < 2 || input_shape(query, 1).size() < 2) return false;
  if (has_grid_bytes(query, query.layer().inputs[0]) &&
      query.graph.value(query.layer().inputs[1]).quantization)
    return true;  // nobody else multiplies bytes
  if (has_data_dependent_dims(query)) return false;
  const bool conv = std::holds_alternative<Conv>(op);
  const auto tail = fused_tail(query, conv ? 1 : y.size() - 1);
  if (!tail || (tail->activation && !tail->is_relu())) return true;
  const Value& w = query.graph.value(query.layer().inputs[1]);
  // A stack of matrices (q, k and v) is one product here: 30 us where cuBLASLt takes 34.5 (4096 x 2304 x
  // 768).
  if (!conv && element_count(w.shape) != w.shape.back() * w.shape[w.shape.size() - 2]) return true;
  const Dim rows = element_count(y).exact_div(conv ? y[1] : y.back()).value_or(1);
  return upper_extent(rows, query.opt_values()) <= 1024;
}

}  // namespace

TacticFamily wgmma_tactics() {
  TacticFamily family = generated_tactics<wgmma_family>();
  family.leads = wgmma_leads;
  return family;
}

}  // namespace lathe::cuda
