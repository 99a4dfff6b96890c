// SPDX-License-Identifier: Apache-2.0
//
// DeformConv on FP32, BF16 and FP16 in linear format: what the taps of 64 positions read is gathered into a
// matrix, which is then multiplied with the filters. Weights may be results of the same run.
//
// Operations: 2 K for each result, K = channels of a group * taps, at the rate of products
// (tile/gemm_tile.inc); before that four multiply-adds and four reads of single pixels, about a cycle each,
// for each channel, tap and position, which as many filters as there are share: with 64 filters and more the
// product is the larger part. Where the pixels lie is found once for all channels of an offset group. The
// matrix (K * 256 bytes) stays in L2 while the filters pass over it.
#include <algorithm>
#include <array>
#include <limits>

#include "backend/cpu/sample/sample.h"
#include "backend/cpu/tile/choose_gemm.h"
#include "backend/cpu/tile/packed_rows.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "base/error.h"
#include "ir/elements.h"
#include "ops/window.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kDeformConvRunner = "DeformConv";
enum DeformConvInput : size_t { kImages, kFilters, kOffsets, kFilterBias, kMasks, kDeformConvInputs };
constexpr int64_t kBlock = 64;             // positions
constexpr int64_t kDeformConvChunk = 512;  // of K

class PreparedDeformConv final : public PreparedLayer {
 public:
  DeformConv op;
  std::array<DType, kDeformConvInputs> types{};
  std::array<bool, kDeformConvInputs> given{};
  Extents x, y;
  WindowAxis down, across;
  const float* packed = nullptr;  // constant weights
  Isa isa = Isa::Avx2;
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;

  size_t scratch_bytes() const override { return static_cast<size_t>(member_floats() * threads) * 4; }
  int members(int available) const override {
    const double results = static_cast<double>(y[0] * y[1]) * static_cast<double>(area());
    const double gathered = static_cast<double>(y[0] * x[1] * taps()) * static_cast<double>(area());
    return members_for(results * static_cast<double>(k_of_group()) / 40 + 1.5 * gathered,
                       std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    float* own = reinterpret_cast<float*>(args.scratch) + worker.index * member_floats();
    Block block{.columns = own, .results = own + x[1] * taps() * kBlock};
    block.weights = block.results + filters() * kBlock;
    block.index = reinterpret_cast<int32_t*>(block.weights + 4 * taps() * kBlock);
    const int64_t blocks = (area() + kBlock - 1) / kBlock;
    const Worker::Range part = worker.slice(y[0] * blocks);
    for (int64_t i = part.begin; i < part.end; ++i) {
      block.item = i / blocks;
      block.first = i % blocks * kBlock;
      block.count = std::min(kBlock, area() - block.first);
      for (int64_t g = 0; g < op.offset_groups; ++g) {
        for (int64_t t = 0; t < taps(); ++t) find_pixels(args, block, g, t);
        gather(args, block, g);
      }
      for (int64_t g = 0; g < op.groups; ++g) multiply(args, block, g);
    }
  }

 private:
  struct Block {
    float* columns = nullptr;  // [panel][channel and tap][position of the panel]
    float* results = nullptr;  // [filter of a group][position]
    float* weights = nullptr;  // [tap][corner][position]
    int32_t* index = nullptr;
    int64_t item = 0, first = 0, count = 0;
  };
  int64_t area() const { return y[2] * y[3]; }
  int64_t taps() const { return op.kernel[0] * op.kernel[1]; }
  int64_t k_of_group() const { return x[1] / op.groups * taps(); }
  int64_t filters() const { return y[1] / op.groups; }
  int64_t panel() const { return gemm_table(isa).panel; }
  int64_t member_floats() const { return round_up((x[1] * taps() + filters() + 8 * taps()) * kBlock, 16); }

  void load_floats(const LayerArgs& args, DeformConvInput input, int64_t at, int64_t n, float* to) const {
    const auto* from = static_cast<const std::byte*>(args.inputs[input]) + dtype_bytes(types[input], at);
    const PointwiseTable& convert = pointwise_table(isa);
    if (types[input] == DType::Float32)
      std::copy_n(reinterpret_cast<const float*>(from), n, to);
    else
      (types[input] == DType::BFloat16 ? convert.load_bf16 : convert.load_f16)(
          reinterpret_cast<const uint16_t*>(from), to, n);
  }
  void find_pixels(const LayerArgs& args, const Block& block, int64_t offset_group, int64_t tap) const {
    const int64_t plane = (block.item * op.offset_groups + offset_group) * taps() + tap;
    float offsets[kBlock], factors[kBlock];
    double ys[kBlock], xs[kBlock];
    load_floats(args, kOffsets, 2 * plane * area() + block.first, block.count, offsets);
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t row = (block.first + i) / y[3];
      ys[i] = static_cast<double>(row * down.stride - down.pad_begin + tap / op.kernel[1] * down.dilation) +
              static_cast<double>(offsets[i]);
    }
    load_floats(args, kOffsets, (2 * plane + 1) * area() + block.first, block.count, offsets);
    for (int64_t i = 0; i < block.count; ++i) {
      const int64_t column = (block.first + i) % y[3];
      xs[i] = static_cast<double>(column * across.stride - across.pad_begin +
                                  tap % op.kernel[1] * across.dilation) +
              static_cast<double>(offsets[i]);
    }
    if (given[kMasks]) load_floats(args, kMasks, plane * area() + block.first, block.count, factors);
    sample_table(isa).corners(ys, xs, given[kMasks] ? factors : nullptr, block.count, x[2], x[3],
                              {block.index + tap * 4 * kBlock, block.weights + tap * 4 * kBlock, kBlock});
  }
  // What the taps of a block read in the channels of an offset group. Positions behind the last one are zero.
  void gather(const LayerArgs& args, const Block& block, int64_t offset_group) const {
    const int64_t channels = x[1] / op.offset_groups, width = panel();
    for (int64_t c = offset_group * channels; c < (offset_group + 1) * channels; ++c) {
      const auto* plane = static_cast<const std::byte*>(args.inputs[kImages]) +
                          dtype_bytes(types[kImages], (block.item * x[1] + c) * x[2] * x[3]);
      for (int64_t t = 0; t < taps(); ++t)
        for (int64_t p = 0; p < kBlock / width; ++p) {
          float* to = block.columns + (p * x[1] * taps() + c * taps() + t) * width;
          const int64_t from = t * 4 * kBlock + p * width;
          const int64_t n = std::clamp<int64_t>(block.count - p * width, 0, width);
          sample_table(isa).places(plane, stored_as(types[kImages]),
                                   {4, kBlock, block.index + from, block.weights + from}, to, n);
          std::fill(to + n, to + width, 0.0f);
        }
    }
  }
  void multiply(const LayerArgs& args, const Block& block, int64_t group) const {
    const GemmTable& table = gemm_table(isa);
    const int64_t k = k_of_group(), m = filters(), width = panel(), stride = packed ? packed_stride(k) : k;
    const float* a =
        (packed ? packed : static_cast<const float*>(args.inputs[kFilters])) + group * m * stride;
    if (given[kFilterBias])
      for (int64_t r = 0; r < m; ++r) {
        float bias = 0;
        load_floats(args, kFilterBias, group * m + r, 1, &bias);
        std::fill_n(block.results + r * kBlock, kBlock, bias);
      }
    const int64_t used = (block.count + width - 1) / width;  // panels
    for (int64_t first = 0; first < k || first == 0; first += kDeformConvChunk) {
      const int64_t count = std::min(kDeformConvChunk, k - first);
      const bool goes_on = first > 0 || given[kFilterBias];
      for (int64_t r = 0; r < m; r += table.tile_rows)
        for (int64_t p = 0; p < used; ++p) {
          const float* b = block.columns + (p * x[1] * taps() + group * k + first) * width;
          float* c = block.results + r * kBlock + p * width;
          table.multiply(std::min(table.tile_rows, m - r), a + r * stride + first, stride, b, count, c,
                         kBlock, goes_on ? c : nullptr, kBlock);
        }
    }
    epilogue->apply(args, block.results, kBlock, (block.item * y[1] + group * m) * area() + block.first, m,
                    area(), block.count);
  }
};

class DeformConvKernel final : public LayerKernel {
 public:
  DeformConvKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                   const PackContext& pack)
      : name_(query.layer().name),
        op_(std::get<DeformConv>(query.layer().op)),
        tactic_(tactic),
        operands_(query.layer().op_input_count()),
        isa_(machine.isa()),
        epilogue_(query, tactic, machine) {
    const Value& w = query.graph.value(query.layer().inputs[kFilters]);
    if (!w.is_constant()) return;
    const Extents& e = w.constant.extents();
    const int64_t k = e[1] * e[2] * e[3], stride = packed_stride(k);
    packed_ = pack.packed("weights", dtype_bytes(DType::Float32, e[0] * stride), [&] {
      std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(DType::Float32, e[0] * stride)));
      const std::vector<double> values = w.constant.to_doubles();
      auto* rows = reinterpret_cast<float*>(bytes.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        rows[at / k * stride + at % k] = static_cast<float>(values[i]);
      }
      return bytes;
    });
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedDeformConv>();
    p->op = op_;
    p->x = context.inputs[kImages];
    p->y = context.outputs[0];
    for (size_t i = 0; i < std::min<size_t>(kDeformConvInputs, operands_); ++i) {
      p->types[i] = tactic_.inputs[i].dtype;
      p->given[i] = p->types[i] != DType::Undefined;
    }
    const WindowSpec window{op_.kernel, op_.strides, op_.dilations, op_.pads_begin, op_.pads_end};
    const std::vector<WindowAxis> axes = resolve_window(window, {p->x[2], p->x[3]});
    p->down = axes[0];
    p->across = axes[1];
    if (p->x[2] * p->x[3] > std::numeric_limits<int32_t>::max())
      throw_input_error(name_ + " (DeformConv): an image of " + to_string(p->x) +
                        " has more than 2^31 pixels");
    if (!packed_.empty()) p->packed = reinterpret_cast<const float*>(packed_.data());
    p->isa = isa_;
    p->threads = context.threads;
    p->epilogue = epilogue_.prepare(context);
    return p;
  }

 private:
  std::string name_;
  DeformConv op_;
  Tactic tactic_;
  size_t operands_;
  Isa isa_;
  Epilogue epilogue_;
  std::span<const std::byte> packed_;
};

Support supports_deform_conv(const LayerQuery& query, DType type, const std::vector<TensorType>& inputs) {
  const Node& node = query.layer();
  const Value& w = query.graph.value(node.inputs[kFilters]);
  if (!is_vector_float(type)) return no_vector_kernel(type);
  for (const size_t i : {kOffsets, kFilterBias, kMasks})
    if (node.has_op_input(i) && !is_vector_float(inputs[i].dtype))
      return Support::no("an operand is " + std::string(dtype_name(inputs[i].dtype)));
  if (query.graph.value(node.inputs[kImages]).is_constant()) return Support::no("the image is a constant");
  if (w.is_constant() ? w.constant.size() == 0 : inputs[kFilters].dtype != DType::Float32)
    return Support::no("weights of run time that are not float32, or none");
  return {};
}

std::vector<Tactic> list_deform_conv(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<DeformConv>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : layer_types(query)) {
    const TensorType linear{type, kLinear};
    Tactic t = typed_tactic(query, kDeformConvRunner, "deform_conv_" + std::string(isa_suffix(machine)),
                            linear, linear);
    if (const Support s = supports_deform_conv(query, type, t.inputs); !s.ok) t.support = s;
    if (query.graph.value(node.inputs[kFilters]).is_constant()) t.inputs[kFilters] = {};
    tactics.push_back(std::move(t));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_deform_conv(const LayerQuery& query, const Tactic& tactic,
                                              const Machine& machine, const PackContext& pack) {
  return std::make_unique<DeformConvKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily deform_conv_tactics() {
  return {kDeformConvRunner, list_deform_conv, make_deform_conv};
}

}  // namespace lathe::cpu
