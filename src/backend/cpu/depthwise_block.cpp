// SPDX-License-Identifier: Apache-2.0
//
// A depthwise convolution with its pointwise neighbours as one layer, in FP32 and BF16, channels-last (depthwise_strips.cpp says how
// it runs). Between expansion and window numbers are FP32 whatever the layer stores.
//
// Operations: those of the parts. Bytes: data, weights and result once; what is between the parts never leaves L2.
#include <cstring>

#include "backend/cpu/depthwise_strips.h"
#include "backend/cpu/kernels/amx_table.h"
#include "backend/cpu/own_tactic.h"
#include "backend/cpu/tile_panels.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kRunner = "DepthwiseBlock", kTiles = "depthwise_block_amx_bf16";
constexpr size_t kExpand = DepthwiseBlock::kExpand, kDepthwise = DepthwiseBlock::kDepthwise,
                 kProject = DepthwiseBlock::kProject;

// Where the parts of the packed constants lie, in bytes; each begins at a cache line.
struct BlockLayout {
  int64_t expand = 0, expand_bias = 0, depthwise = 0, project = 0, project_bias = 0, plain_bias = 0, end = 0;
};

class BlockKernel final : public LayerKernel {
 public:
  BlockKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine, const PackContext& pack)
      : op_(std::get<DepthwiseBlock>(query.layer().op)),
        type_(tactic.inputs[0].dtype),
        by_channels_(tactic.name.ends_with("_channels")),
        thin_(tactic.name.ends_with("_thin_rows") || tactic.name.ends_with("_thin_groups")),
        by_groups_(tactic.name.ends_with("_groups")),
        in_tiles_(tactic.name.starts_with(kTiles)),
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
    packed_ = pack.packed("weights", [&] { return pack_weights(query); });
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
    p->by_channels = by_channels_;
    p->thin = thin_;
    p->by_groups = by_groups_;
    p->type = type_;
    const auto floats = [&](int64_t at) { return reinterpret_cast<const float*>(packed_.data() + at); };
    p->weights = {.expand = packed_.data() + layout_.expand,
                  .project = packed_.data() + layout_.project,
                  .expand_bias = floats(layout_.expand_bias),
                  .depthwise = floats(layout_.depthwise),
                  .project_bias = floats(layout_.project_bias),
                  .plain_bias = floats(layout_.plain_bias)};
    p->expand_tail = *plan_activation(op_.expand_epilogue);
    p->depthwise_tail = *plan_activation(op_.depthwise_epilogue);
    p->tail = tail_;
    p->epilogue = epilogue_.prepare(context);
    for (int64_t o = 0; o < p->y.output; ++o) p->window_rows.push_back(rows_inside(p->y, o));
    p->isa = machine_.isa;
    if (in_tiles_) p->amx = machine_.amx;
    p->threads = context.threads;
    p->l2_bytes = machine_.l2_bytes;
    p->plan();
    return p;
  }

 private:
  int64_t half_panel() const { return tile_matmul_table(type_).panel / 2; }
  int64_t padded_channels() const { return round_up(channels_, half_panel()); }
  int64_t padded_outputs() const { return round_up(out_channels_, half_panel()); }

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
    add(projects_, layout_.project, type_, padded_channels() * padded_outputs());
    add(projects_, layout_.project_bias, wide, padded_outputs());
    add(projects_, layout_.plain_bias, wide, padded_outputs());
    layout_.end = at;
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
    put(layout_.depthwise, pack_depthwise(constant(kDepthwise), depthwise_table(machine_.isa).vector,
                                          bias(kDepthwise, projects_ ? TailPlan{} : tail_, channels_)));
    if (projects_) {
      put_panels(layout_.project, constant(kProject), padded_channels());
      put(layout_.project_bias, bias(kProject, tail_, out_channels_));
      put(layout_.plain_bias, bias(kProject, {}, out_channels_));
    }
    return bytes;
  }

  DepthwiseBlock op_;
  DType type_;
  bool by_channels_, thin_, by_groups_, in_tiles_;
  Machine machine_;
  TailPlan tail_;
  Epilogue epilogue_;
  bool expands_ = false, projects_ = false;
  int64_t in_channels_ = 1, channels_ = 1, out_channels_ = 1;
  BlockLayout layout_;
  std::span<const std::byte> packed_;
};

Support supports(const LayerQuery& query, const DepthwiseBlock& op, DType type, const Machine& machine) {
  const Node& node = query.layer();
  if (machine.isa == Isa::Avx2) return Support::no("needs AVX-512");
  if (type != DType::Float32 && type != DType::BFloat16)
    return Support::no("no vector kernel for " + std::string(dtype_name(type)));
  if (type == DType::BFloat16 && !machine.has_avx512_bf16) return Support::no("needs AVX512-BF16");
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

std::vector<Tactic> list(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  const auto* op = std::get_if<DepthwiseBlock>(&node.op);
  if (!op) return {};
  std::vector<Tactic> tactics;
  const auto add = [&](DType type, const std::string& stem) {
    for (const std::string_view share : {"rows", "groups", "thin_rows", "thin_groups", "channels"}) {
      if (machine.threads == 1 && share == "channels") continue;
      const bool plain = share == "rows" || share == "channels";
      if (!plain && (stem != kTiles || node.inputs[kExpand] == kNoValue)) continue;
      const TensorType pixels{type, kChannelsLast};
      Tactic t = typed_tactic(query, kRunner, stem + "_by_" + std::string(share), pixels, pixels);
      for (size_t i = 1; i < node.op_input_count(); ++i) t.inputs[i] = {};
      if (const Support s = supports(query, *op, type, machine); !s.ok) t.support = s;
      if (stem == kTiles && t.support.ok && node.inputs[kExpand] != kNoValue &&
          amx_step(query.graph.value(node.inputs[0]).shape[1].value()) == 0)
        t.support = Support::no("the channels are no multiple of 16 to 32, as tiles want");
      tactics.push_back(std::move(t));
    }
  };
  for (const DType type : layer_types(query)) {
    if (type == DType::BFloat16 && machine.amx) add(type, std::string(kTiles));
    add(type, "depthwise_block_" + std::string(isa_suffix(machine)));
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                  const PackContext& pack) {
  return std::make_unique<BlockKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily depthwise_block_tactics() {
  return {kRunner, list, make};
}

}  // namespace lathe::cpu
