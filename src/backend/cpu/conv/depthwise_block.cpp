// SPDX-License-Identifier: Apache-2.0
//
// A depthwise convolution with its pointwise neighbours as one layer, in FP32 and BF16, channels-last
// (depthwise_strips.cpp says how it runs). Between expansion and window numbers are FP32 whatever the layer
// stores, or FP16, which holds 2^-11 of them where the layer stores 2^-9.
//
// FP16 has less range. So the taps of a channel are divided by a power of two, its scale, until their
// magnitudes add up to at most 1: no sum is then larger than what it is of and the bias, and small weights
// lose no bits. Where an activation has no upper bound, strips with expanded values that still would be too
// large are done in FP32.
//
// Operations: those of the parts. Bytes: data, weights and result once; what is between the parts never
// leaves L2. Reached in tiles (one core of an Emerald Rapids, cold; FP32 inside in parentheses): 24-144-24@56
// with a residual 0.51 ms (0.68), 32-192-32@28 0.094 (0.162), 64-384-64@14 0.115 (0.170), 160-960@7 0.166
// (0.188); with SiLU and 5x5, 40-240@28 0.30 (0.42), 80-480@14 0.091 (0.136), 192-1152@7 0.097 (0.139).
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/conv/depthwise_fp16_table.h"
#include "backend/cpu/conv/depthwise_strips.h"
#include "backend/cpu/tile/amx_table.h"
#include "backend/cpu/tile/tile_panels.h"
#include "backend/cpu/vector/own_tactic.h"
#include "base/floats.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kDepthwiseBlockRunner = "DepthwiseBlock";
constexpr size_t kExpand = DepthwiseBlock::kExpand, kDepthwise = DepthwiseBlock::kDepthwise,
                 kProject = DepthwiseBlock::kProject;

constexpr int64_t kFp16Lanes = 32;

// What a tactic chooses: which arithmetic, and how the work is shared (depthwise_strips.h).
struct BlockVariant {
  enum class Arithmetic : uint8_t { Vectors, Tiles, TilesAndFp16 };
  enum class Share : uint8_t { Rows, Groups, ThinRows, ThinGroups, Channels };
  Arithmetic arithmetic = Arithmetic::Vectors;
  Share share = Share::Rows;

  static BlockVariant of(const TacticParams& params) {
    return {static_cast<Arithmetic>(params.get("arithmetic")), static_cast<Share>(params.get("share"))};
  }
  TacticParams params() const {
    return {{"amx", in_tiles()},
            {"arithmetic", static_cast<int64_t>(arithmetic)},
            {"share", static_cast<int64_t>(share)}};
  }
  std::string name(const Machine& machine) const {
    constexpr std::string_view kShares[] = {"rows", "groups", "thin_rows", "thin_groups", "channels"};
    const std::string_view kind = in_fp16() ? "amx_fp16" : in_tiles() ? "amx_bf16" : isa_suffix(machine);
    return "depthwise_block_" + std::string(kind) + "_by_" + std::string(kShares[static_cast<size_t>(share)]);
  }
  bool in_fp16() const { return arithmetic == Arithmetic::TilesAndFp16; }
  bool in_tiles() const { return arithmetic != Arithmetic::Vectors; }
  bool by_channels() const { return share == Share::Channels; }
  bool by_groups() const { return share == Share::Groups || share == Share::ThinGroups; }
  bool thin() const { return share == Share::ThinRows || share == Share::ThinGroups; }
};

// Where the parts of the packed constants lie, in bytes; each begins at a cache line.
struct BlockLayout {
  int64_t expand = 0, expand_bias = 0, depthwise = 0, depthwise_fp16 = 0, fp16_limit = 0;
  int64_t project = 0, project_bias = 0, plain_bias = 0, end = 0;
};

// Where a channel's values may lie so that nothing overflows, and its scale: 2^exponent.
struct Fp16Range {
  int exponent = 0;
  double limit = 0;
};
Fp16Range fp16_range(const std::vector<double>& taps, double bias) {
  constexpr double kMostSum = 60000, kMostData = 32768;  // FP16 goes to 65504
  double sum = 0;
  for (const double tap : taps) sum += std::abs(tap);
  if (!std::isfinite(sum) || !std::isfinite(bias)) return {};
  Fp16Range range;
  const double most_bias = kMostSum - kMostData;
  range.exponent = std::max({std::ilogb(std::max(sum, 1e-30)) + 1,
                             std::ilogb(std::max(std::abs(bias) / most_bias, 1e-30)) + 1, -14});
  if (range.exponent <= 15)
    range.limit =
        std::min(kMostData, (kMostSum - std::abs(bias)) / std::max(1.0, std::ldexp(1, range.exponent)));
  return range;
}

class BlockKernel final : public LayerKernel {
 public:
  BlockKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine, const PackContext& pack)
      : op_(std::get<DepthwiseBlock>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        variant_(BlockVariant::of(tactic.params)),
        machine_(machine),
        tail_(*plan_register_tail(query, 1)),
        epilogue_(query, tactic, machine) {
    const Node& node = query.layer();
    const auto extent = [&](size_t input, size_t dim) {
      return query.graph.value(node.inputs[input]).shape[dim].value();
    };
    expands_ = node.inputs[kExpand] != kNoValue;
    projects_ = node.inputs[kProject] != kNoValue;
    channels_ = extent(kDepthwise, 0);
    in_channels_ = expands_ ? extent(kExpand, 1) : channels_;
    out_channels_ = projects_ ? extent(kProject, 0) : channels_;
    lay_out(extent(kDepthwise, 2) * extent(kDepthwise, 3));
    packed_ = pack.packed("weights", layout_.end, [&] { return pack_weights(query); });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedStrips>();
    const Extents& e = context.inputs[0];
    const auto axes = resolve_window(
        {op_.kernel, op_.strides, op_.dilations, op_.pads_begin, op_.pads_end, op_.auto_pad}, {e[2], e[3]});
    p->batch = e[0];
    p->in_channels = in_channels_;
    p->channels = channels_;
    p->out_channels = out_channels_;
    p->y = axes[0];
    p->x = axes[1];
    p->expands = expands_;
    p->projects = projects_;
    p->by_channels = variant_.by_channels();
    p->thin = variant_.thin();
    p->by_groups = variant_.by_groups();
    p->type = type_;
    const auto floats = [&](int64_t at) { return reinterpret_cast<const float*>(packed_.data() + at); };
    p->weights = {.expand = packed_.data() + layout_.expand,
                  .project = packed_.data() + layout_.project,
                  .depthwise = packed_.data() + layout_.depthwise,
                  .depthwise_fp16 = packed_.data() + layout_.depthwise_fp16,
                  .expand_bias = floats(layout_.expand_bias),
                  .project_bias = floats(layout_.project_bias),
                  .plain_bias = floats(layout_.plain_bias)};
    p->expand_tail = *plan_activation(op_.expand_epilogue);
    p->depthwise_tail = *plan_activation(op_.depthwise_epilogue);
    p->tail = tail_;
    for (RegisterTail* tail : {&p->expand_tail, &p->depthwise_tail, &p->tail.tail}) suit(*tail, machine_);
    if (variant_.in_fp16()) set_fp16(*p, *floats(layout_.fp16_limit));
    p->epilogue = epilogue_.prepare(context);
    for (int64_t o = 0; o < p->y.output; ++o) p->window_rows.push_back(rows_inside(p->y, o));
    p->isa = machine_.isa();
    if (variant_.in_tiles()) p->amx = machine_.amx;
    p->threads = context.threads;
    p->l2_bytes = machine_.l2_bytes;
    p->plan();
    return p;
  }

 private:
  int64_t half_panel() const { return tile_matmul_table(type_).panel / 2; }
  int64_t padded_channels() const { return round_up(channels_, half_panel()); }
  int64_t padded_outputs() const { return round_up(out_channels_, half_panel()); }

  static void set_fp16(PreparedStrips& p, float limit) {
    const RegisterTail& tail = p.expand_tail;
    const bool clamps = tail.activation == Activation::Clamp, bounded = clamps && tail.high <= limit;
    if (clamps && -tail.low > limit) return;
    p.fp16_expansion = depthwise_fp16_table().expansion(tail, !bounded);
    p.fp16_limit = float_to_fp16(limit);
  }

  void lay_out(int64_t taps) {
    int64_t at = 0;
    const auto add = [&](bool wanted, int64_t& offset, DType type, int64_t elements) {
      offset = at;
      if (wanted) at += round_up(dtype_bytes(type, elements), 64);
    };
    const DType wide = DType::Float32;
    add(expands_, layout_.expand, type_, in_channels_ * padded_channels());
    add(expands_, layout_.expand_bias, wide, padded_channels());
    add(true, layout_.depthwise, wide, (taps + 1) * padded_channels());
    add(variant_.in_fp16(), layout_.depthwise_fp16, DType::Float16,
        (taps + 2) * round_up(channels_, kFp16Lanes));
    add(variant_.in_fp16(), layout_.fp16_limit, wide, 1);
    add(projects_, layout_.project, type_, padded_channels() * padded_outputs());
    add(projects_, layout_.project_bias, wide, padded_outputs());
    add(projects_, layout_.plain_bias, wide, padded_outputs());
    layout_.end = at;
  }

  // As depthwise_strips.h says. Returns the limit of all channels.
  float pack_fp16(const std::vector<double>& weights, const std::vector<float>& bias, uint16_t* to) const {
    const int64_t taps = static_cast<int64_t>(weights.size()) / channels_;
    const int64_t padded = round_up(channels_, kFp16Lanes);
    double limit = std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < channels_; ++c) {
      const std::vector<double> own(weights.begin() + c * taps, weights.begin() + (c + 1) * taps);
      const double b = bias[static_cast<size_t>(c)];
      const Fp16Range range = fp16_range(own, b);
      limit = std::min(limit, range.limit);
      const auto scaled = [&](double x) {
        return float_to_fp16(static_cast<float>(std::ldexp(x, -range.exponent)));
      };
      for (int64_t t = 0; t < taps; ++t)
        to[(c / kFp16Lanes * taps + t) * kFp16Lanes + c % kFp16Lanes] = scaled(own[static_cast<size_t>(t)]);
      to[taps * padded + c] = scaled(b);
      to[(taps + 1) * padded + c] = float_to_fp16(std::ldexp(1.0f, range.exponent));
    }
    return static_cast<float>(std::max(limit, 0.0));
  }

  std::vector<std::byte> pack_weights(const LayerQuery& query) const {
    const Node& node = query.layer();
    const auto constant = [&](size_t input) {
      return node.inputs[input] == kNoValue ? Tensor() : query.graph.value(node.inputs[input]).constant;
    };
    std::vector<std::byte> bytes(static_cast<size_t>(layout_.end));
    const auto put = [&](int64_t at, const std::vector<float>& values) {
      std::memcpy(bytes.data() + at, values.data(), values.size() * sizeof(float));
    };
    // Weights [n][k] as panels; rows beyond k are zero.
    const auto put_panels = [&](int64_t at, const Tensor& weights, int64_t rows) {
      const int64_t n = weights.extents()[0], k = weights.extents()[1];
      const std::vector<double> w = weights.to_doubles();
      pack_columns(bytes.data() + at, type_, rows, n, [&](int64_t r, int64_t c) {
        return r < k ? static_cast<float>(w[static_cast<size_t>(c * k + r)]) : 0.0f;
      });
    };
    const auto bias = [&](size_t part, const TailPlan& plan, int64_t count) {
      return bias_of(query, constant(part + 1), plan, count, round_up(count, half_panel()));
    };
    if (expands_) {
      put_panels(layout_.expand, constant(kExpand), in_channels_);
      put(layout_.expand_bias, bias(kExpand, {}, channels_));
    }
    const std::vector<float> depthwise_bias = bias(kDepthwise, projects_ ? TailPlan{} : tail_, channels_);
    put(layout_.depthwise,
        pack_depthwise(constant(kDepthwise), depthwise_table(machine_.isa()).vector, depthwise_bias));
    if (variant_.in_fp16()) {
      auto* to = reinterpret_cast<uint16_t*>(bytes.data() + layout_.depthwise_fp16);
      put(layout_.fp16_limit, {pack_fp16(constant(kDepthwise).to_doubles(), depthwise_bias, to)});
    }
    if (projects_) {
      put_panels(layout_.project, constant(kProject), padded_channels());
      put(layout_.project_bias, bias(kProject, tail_, out_channels_));
      put(layout_.plain_bias, bias(kProject, {}, out_channels_));
    }
    return bytes;
  }

  DepthwiseBlock op_;
  DType type_;
  BlockVariant variant_;
  Machine machine_;
  TailPlan tail_;
  Epilogue epilogue_;
  bool expands_ = false, projects_ = false;
  int64_t in_channels_ = 1, channels_ = 1, out_channels_ = 1;
  BlockLayout layout_;
  std::span<const std::byte> packed_;
};

Support supports_depthwise_block(const LayerQuery& query, const DepthwiseBlock& op, DType type,
                                 const Machine& machine) {
  const Node& node = query.layer();
  if (!machine.has(CpuFeature::Avx512)) return Support::no("needs AVX-512");
  if (type != DType::Float32 && type != DType::BFloat16) return no_vector_kernel(type);
  if (type == DType::BFloat16 && !machine.has(CpuFeature::Bf16)) return Support::no("needs AVX512-BF16");
  for (size_t i = 1; i < DepthwiseBlock::kInputs; ++i)
    if (node.inputs[i] != kNoValue && !query.graph.value(node.inputs[i]).is_constant())
      return Support::no(i % 2 == 1 ? "weights are not constant" : "a bias is not constant");
  const bool expands = node.inputs[kExpand] != kNoValue, projects = node.inputs[kProject] != kNoValue;
  if (!expands && !projects) return Support::no("it has no pointwise part");
  const Shape& data = query.graph.value(node.inputs[0]).shape;
  if (type == DType::BFloat16 && expands && (!data[1].is_constant() || data[1].value() % 2 != 0))
    return Support::no("an odd number of BF16 channels");
  if (!plan_activation(op.expand_epilogue) || !plan_activation(op.depthwise_epilogue))
    return Support::no("what is between two parts is more than an activation");
  const auto plan = plan_register_tail(query, 1);
  if (!plan) return Support::no("the epilogue is more than a sum and an activation");
  if (plan->operand >= 0 && !projects) return Support::no("the depthwise part cannot add an operand");
  return {};
}

Support supports_fp16(const LayerQuery& query, const DepthwiseBlock& op) {
  const Node& node = query.layer();
  if (node.inputs[kExpand] == kNoValue)
    return Support::no("FP16 begins after an expansion, which is missing");
  const RegisterTail expand = *plan_activation(op.expand_epilogue);
  const RegisterTail depthwise = node.inputs[kProject] != kNoValue ? *plan_activation(op.depthwise_epilogue)
                                                                   : plan_register_tail(query, 1)->tail;
  for (const RegisterTail& tail : {expand, depthwise}) {
    if (!depthwise_fp16_table().expansion(tail, false))
      return Support::no("GELU and rounding to a grid are not done in FP16");
    if (tail.activation == Activation::Silu && !(tail.alpha >= 0.25f && tail.alpha <= 1000))
      return Support::no("SiLU of a factor that FP16 leaves no room for");
  }
  if (expand.activation == Activation::Clamp && std::isinf(expand.low))
    return Support::no("expanded values have no lower bound, and FP16 has one");
  return {};
}

std::vector<Tactic> list_depthwise_block(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<DepthwiseBlock>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  using enum BlockVariant::Arithmetic;
  const auto add = [&](DType type, BlockVariant::Arithmetic arithmetic) {
    using enum BlockVariant::Share;
    for (const BlockVariant::Share share : {Rows, Groups, ThinRows, ThinGroups, Channels}) {
      const BlockVariant variant{arithmetic, share};
      if (machine.threads == 1 && share == Channels) continue;
      const bool plain = share == Rows || share == Channels;
      const bool tiles = variant.in_tiles();
      if (!plain && (!tiles || node.inputs[kExpand] == kNoValue)) continue;
      const TensorType pixels{type, kChannelsLast};
      Tactic t = with_variant(typed_tactic(query, kDepthwiseBlockRunner, "depthwise_block", pixels, pixels),
                              variant.name(machine), variant.params());
      for (size_t i = 1; i < node.op_input_count(); ++i) t.inputs[i] = {};
      if (const Support s = supports_depthwise_block(query, *op, type, machine); !s.ok) t.support = s;
      if (tiles && t.support.ok && node.inputs[kExpand] != kNoValue &&
          amx_step(query.graph.value(node.inputs[0]).shape[1].value()) == 0)
        t.support = Support::no("the channels are no multiple of 16 to 32, as tiles want");
      if (variant.in_fp16() && t.support.ok) t.support = supports_fp16(query, *op);
      tactics.push_back(std::move(t));
    }
  };
  for (const DType type : layer_types(query)) {
    if (type == DType::BFloat16 && machine.amx) add(type, Tiles);
    if (type == DType::BFloat16 && machine.amx && machine.has(CpuFeature::Fp16)) add(type, TilesAndFp16);
    add(type, Vectors);
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_depthwise_block(const LayerQuery& query, const Tactic& tactic,
                                                  const Machine& machine, const PackContext& pack) {
  return std::make_unique<BlockKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily depthwise_block_tactics() {
  return {kDepthwiseBlockRunner, list_depthwise_block, make_depthwise_block};
}

}  // namespace lathe::cpu
