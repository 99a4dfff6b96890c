// SPDX-License-Identifier: Apache-2.0
//
// Convolution through oneDNN: direct and Winograd, FP32 and BF16, in blocked, channels-last and linear
// formats, each with several ways to share the work (onednn_conv_problem.h). Weights are packed once per
// part. The epilogue becomes post-ops where oneDNN can fuse them, else our own evaluator runs over the part's
// result.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/device/onednn.h"
#include "backend/cpu/onednn/onednn_conv_problem.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/offered.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kOnednnConvRunner = "OnednnConvolution";
// Below this a meeting of the team costs about as much as the second thread saves.
constexpr double kSmallConvFlops = 2e6;

// Weights of one part in oneDNN's layout.
struct OnednnConvWeights {
  dnnl::memory::desc desc;
  std::span<const std::byte> bytes;
};

std::vector<float> floats_of(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_doubles();
  return {values.begin(), values.end()};
}

class PreparedConv final : public PreparedLayer {
 public:
  struct Task {
    OnednnCall call;
    int64_t offset = 0, count = 0;  // elements of the result that the own epilogue goes over
    bool fused = true;
  };
  size_t scratch_bytes() const override { return scratch_each * static_cast<size_t>(members(threads)); }
  int members(int available) const override { return std::min(available, static_cast<int>(tasks.size())); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range own = worker.slice(static_cast<int64_t>(tasks.size()));
    for (auto i = static_cast<size_t>(own.begin); i < static_cast<size_t>(own.end); ++i)
      for (const Task& task : tasks[i]) {
        task.call.run(args, args.scratch + scratch_each * static_cast<size_t>(worker.index));
        if (task.fused) continue;
        const std::byte* values = static_cast<std::byte*>(args.outputs[0]) + task.offset * element_bytes;
        epilogue->apply(args, values, 0, task.offset, 1, 0, task.count);
      }
  }

  std::vector<std::vector<Task>> tasks;  // a piece has one entry or more
  int threads = 1;
  std::shared_ptr<const PreparedEpilogue> epilogue;
  std::vector<std::vector<std::byte>> own_weights;  // repacked for these shapes
  size_t scratch_each = 0;
  int64_t element_bytes = 4;
};

class ConvKernel final : public LayerKernel {
 public:
  ConvKernel(const LayerQuery& query, const Tactic& tactic, const ConvVariant& variant,
             const Machine& machine, const PackContext& pack)
      : conv_(std::get<Conv>(query.layer().op)),
        variant_(variant),
        chain_(PostOpChain::from_epilogue(query, variant.result, 1)),
        epilogue_(query, tactic, machine),
        has_epilogue_(!query.layer().epilogue.empty()) {
    const Node& node = query.layer();
    out_channels_ = query.graph.value(node.outputs[0]).shape[1].value();
    has_bias_ = node.has_op_input(2);
    if (chain_) chain_->pack_constants(query, pack);
    if (has_bias_)
      bias_ = pack.packed("bias", dtype_bytes(DType::Float32, out_channels_), [&] {
        const std::vector<float> values = floats_of(query.graph.value(node.inputs[2]).constant);
        const auto bytes = std::as_bytes(std::span(values));
        return std::vector<std::byte>(bytes.begin(), bytes.end());
      });
    pack_weights(query, pack);
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const ConvProblem problem = ConvProblem::at(conv_, context.inputs[0], out_channels_, variant_.joined);
    auto prepared = std::make_unique<PreparedConv>();
    prepared->threads = context.threads;
    prepared->element_bytes = dtype_bytes(variant_.result.dtype, 1);
    if (has_epilogue_) prepared->epilogue = epilogue_.prepare(context, variant_.result.dtype);
    for (const std::vector<ConvPart>& parts : conv_parts(problem, variant_, context.threads)) {
      const size_t index = prepared->tasks.size();
      prepared->tasks.emplace_back();
      add_tasks(problem, parts, variant_.split == ConvSplit::Channels ? index : 0, *prepared);
    }
    return prepared;
  }

 private:
  const PostOpChain* chain() const { return chain_ ? &*chain_ : nullptr; }
  // Without an epilogue there is nothing left to do either way.
  bool done_by(const ConvPlan& plan) const { return plan.fused || !has_epilogue_; }

  void pack_weights(const LayerQuery& query, const PackContext& pack) {
    const ConvProblem problem =
        ConvProblem::at(conv_, conv_input_extents(query), out_channels_, variant_.joined);
    const int count = variant_.split == ConvSplit::Channels ? variant_.parts : 1;
    for (int i = 0; i < count; ++i) {
      // One whole image: a layout that does not depend on how many threads there are.
      ConvPart part = channel_part(problem, variant_, i);
      part.images = 1;
      const auto plan = plan_conv(problem, variant_, part, has_bias_, chain());
      check(plan.has_value(), "oneDNN no longer offers the implementation that this tactic was made of");
      const auto size = static_cast<int64_t>(plan->desc.weights_desc().get_size());
      const auto bytes = pack.packed(fmt::format("weights{}of{}", i, count), size, [&] {
        const Tensor& weights = query.graph.value(query.layer().inputs[1]).constant;
        const auto plain = plain_weights(problem, part);
        const int64_t begin = part.channel * (weights.size() / out_channels_) * variant_.joined;
        if (variant_.joined > 1)
          return onednn_reorder(plain,
                                join_groups(floats_of(weights), problem, variant_.joined).data() + begin,
                                plan->desc.weights_desc());
        if (weights.dtype() == DType::Float32)
          return onednn_reorder(plain, weights.data<float>().data() + begin, plan->desc.weights_desc());
        return onednn_reorder(plain, floats_of(weights).data() + begin, plan->desc.weights_desc());
      });
      weights_.push_back({plan->desc.weights_desc(), bytes});
    }
  }

  // Parts that are done one after the other. They have the same shape (images one by one), so one primitive
  // serves all.
  void add_tasks(const ConvProblem& problem, const std::vector<ConvPart>& parts, size_t weights_index,
                 PreparedConv& prepared) const {
    const OnednnConvWeights& packed = weights_[weights_index];
    auto plan = plan_conv(problem, variant_, parts[0], has_bias_, chain(), &packed.desc);
    const void* weights = packed.bytes.data();
    if (!plan) {  // at these shapes oneDNN has no kernel for the layout packed for the tuning shapes
      plan = plan_conv(problem, variant_, parts[0], has_bias_, chain());
      if (!plan)  // no optimised kernel takes them
        plan = plan_conv(problem, variant_, parts[0], has_bias_, chain(), nullptr, OnednnKernels::All);
      check(plan.has_value(), "oneDNN has no implementation at these shapes");
      prepared.own_weights.push_back(
          onednn_reorder(packed.desc, packed.bytes.data(), plan->desc.weights_desc()));
      weights = prepared.own_weights.back().data();
    }
    const auto primitive = with_onednn_memory([&] { return dnnl::convolution_forward(plan->desc); });
    for (const ConvPart& part : parts) {
      const ResultPart result = result_part(problem, variant_, part);
      PreparedConv::Task task{.call = OnednnCall(primitive), .fused = done_by(*plan)};
      task.call.add_input(DNNL_ARG_SRC, plan->desc.src_desc(), 0, source_offset(problem, variant_, part));
      task.call.add_constant(DNNL_ARG_WEIGHTS, plan->desc.weights_desc(), weights);
      if (has_bias_)
        task.call.add_constant(DNNL_ARG_BIAS, plan->desc.bias_desc(),
                               bias_.data() + part.channel * static_cast<int64_t>(sizeof(float)));
      task.call.add_output(DNNL_ARG_DST, plan->desc.dst_desc(), 0, result.offset_bytes);
      task.call.add_scratch(DNNL_ARG_SCRATCHPAD, plan->desc.scratchpad_desc());
      if (plan->fused) chain_->add_operands(task.call, result);
      task.offset = result.offset_bytes / prepared.element_bytes;
      task.count = static_cast<int64_t>(result.desc.get_size()) / prepared.element_bytes;
      prepared.scratch_each =
          std::max(prepared.scratch_each, (plan->desc.scratchpad_desc().get_size() + 63) / 64 * 64);
      prepared.tasks.back().push_back(std::move(task));
    }
  }

  const Conv conv_;
  const ConvVariant variant_;
  int64_t out_channels_ = 1;
  bool has_bias_ = false;
  std::optional<PostOpChain> chain_;
  Epilogue epilogue_;
  bool has_epilogue_ = false;
  std::span<const std::byte> bias_;
  std::vector<OnednnConvWeights> weights_;  // one per channel part, else one
};

// ---- listing

std::vector<std::pair<Format, Format>> format_pairs(const LayerQuery& query, const Machine& machine) {
  const Value& x = query.graph.value(query.layer().inputs[0]);
  const bool few_channels = x.shape[1].is_constant() && x.shape[1].value() < 8;
  const Format blocked = !machine.has(CpuFeature::Avx512) ? kBlocked8 : kBlocked16;
  std::vector<std::pair<Format, Format>> formats;
  if (few_channels) formats.emplace_back(kLinear, blocked);
  formats.emplace_back(blocked, blocked);
  formats.emplace_back(kChannelsLast, kChannelsLast);
  formats.emplace_back(kLinear, kLinear);
  return formats;
}

std::vector<std::pair<TensorType, TensorType>> onednn_conv_type_pairs(const LayerQuery& query,
                                                                      const Machine& machine) {
  const Node& node = query.layer();
  const Value& x = query.graph.value(node.inputs[0]);
  std::vector<std::pair<DType, DType>> dtypes;
  if (x.dtype == DType::Float32) dtypes.emplace_back(DType::Float32, DType::Float32);
  const bool bf16 = x.dtype == DType::BFloat16 ||
                    std::find(node.allowed_types.begin(), node.allowed_types.end(), DType::BFloat16) !=
                        node.allowed_types.end();
  if (bf16 && machine.has(CpuFeature::Bf16)) {
    dtypes.emplace_back(DType::BFloat16, DType::BFloat16);
    if (x.dtype == DType::Float32) dtypes.emplace_back(DType::BFloat16, DType::Float32);
  }
  std::vector<std::pair<TensorType, TensorType>> pairs;
  for (const auto& [from, to] : dtypes)
    for (const auto& [source, result] : format_pairs(query, machine))
      pairs.push_back({{from, source}, {to, result}});
  return pairs;
}

// Ways to share the work, best guess first.
std::vector<ConvVariant> splits_of(const ConvProblem& problem, const ConvVariant& base, int threads) {
  std::vector<ConvVariant> splits;
  const auto add = [&](ConvSplit split, int parts) {
    splits.push_back(base);
    splits.back().split = split;
    splits.back().parts = parts;
  };
  const bool small = problem.flops() < kSmallConvFlops;
  if (threads == 1 || small) add(ConvSplit::Whole, 1);
  if (threads == 1) return splits;
  if (problem.batch > 1) add(ConvSplit::Batch, 1);
  const int parts = channel_parts(problem, base, threads);
  if (parts > 1) add(ConvSplit::Channels, parts);
  const bool rows_outermost = base.source.format.kind == Format::Kind::ChannelsLast;
  if (rows_outermost && problem.axes[0].output > 1) add(ConvSplit::Rows, 1);
  if (splits.empty()) add(ConvSplit::Whole, 1);
  return splits;
}

std::string reason_to_refuse_onednn_conv(const LayerQuery& query) {
  const Node& node = query.layer();
  const Graph& graph = query.graph;
  if (!graph.value(node.inputs[1]).is_constant()) return "the weights are not constant";
  if (node.has_op_input(2) && !graph.value(node.inputs[2]).is_constant()) return "the bias is not constant";
  const lathe::Shape& shape = graph.value(node.inputs[0]).shape;
  if (shape.size() < 3 || shape.size() > 5) return fmt::format("rank {} (3 to 5 supported)", shape.size());
  const DType dtype = graph.value(node.inputs[0]).dtype;
  if (dtype != DType::Float32 && dtype != DType::BFloat16) return fmt::format("{} input", dtype_name(dtype));
  // oneDNN counts pixels and rows in 32 bits and divides by what overflowed.
  for (const ValueId value : {node.inputs[0], node.outputs[0]}) {
    const Extents largest = upper_extents(graph.value(value).shape, query.max_values());
    if (element_count(largest) > std::numeric_limits<int32_t>::max())
      return "a tensor of more than 2^31 elements";
  }
  return {};
}

// Winograd's weights cannot be repacked, so its kernel must not depend on dims that vary; and oneDNN cannot
// pack them when a channel block is not full.
bool winograd_possible(const LayerQuery& query, const ConvProblem& problem) {
  const lathe::Shape& shape = query.graph.value(query.layer().inputs[0]).shape;
  return problem.groups == 1 && problem.in_channels % 16 == 0 && problem.out_channels % 16 == 0 &&
         std::all_of(shape.begin() + 2, shape.end(), [](const Dim& dim) { return dim.is_constant(); });
}

Tactic make_tactic(const LayerQuery& query, const ConvVariant& variant, std::string name) {
  TacticParams params = split_params(variant);
  params.set("winograd", variant.winograd);
  if (variant.joined > 1) params.set("joined", variant.joined);
  Tactic tactic =
      with_variant({.runner = std::string(kOnednnConvRunner)}, std::move(name), std::move(params));
  tactic.inputs = {variant.source};
  tactic.inputs.resize(query.layer().op_input_count());
  tactic.outputs = {variant.result};
  tactic.support = Epilogue::list(query, variant.result, tactic.inputs);
  return tactic;
}

// Channels that do not divide evenly leave a smaller last part, for which oneDNN may have no implementation.
bool last_part_has_plan(const ConvProblem& problem, const ConvVariant& variant, const ConvPart& first,
                        bool bias, const PostOpChain* chain) {
  if (variant.split != ConvSplit::Channels) return true;
  ConvPart last = channel_part(problem, variant, variant.parts - 1);
  last.images = 1;
  return last.channels == first.channels || plan_conv(problem, variant, last, bias, chain).has_value();
}

// F(4,3) and F(2,3): the transforms' coefficients cost bits.
double error_factor_of(const ConvVariant& variant, std::string_view implementation) {
  if (!variant.winograd) return 1;
  return implementation.find("4x3") != std::string_view::npos ? 10 : 3;
}

struct Way {
  bool winograd = false;
  int joined = 1;
};
// Groups of few channels are tried joined first.
std::vector<Way> ways(const Conv& conv, const Extents& input, int64_t out_channels, const Machine& machine) {
  std::vector<Way> all;
  const int64_t block = machine.has(CpuFeature::Avx512) ? 16 : 8;
  if (const int joined = groups_to_join(conv, input[1], out_channels, block); joined > 1)
    all.push_back({.joined = joined});
  all.push_back({});
  all.push_back({.winograd = true});
  return all;
}
std::string joined_suffix(int joined) {
  return joined > 1 ? fmt::format("_{}groups", joined) : "";
}

std::vector<Tactic> list_convs(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Conv>(node.op)) return {};
  if (const std::string reason = reason_to_refuse_onednn_conv(query); !reason.empty())
    return refused_tactic(query, kOnednnConvRunner, "onednn_conv", reason);
  const auto& conv = std::get<Conv>(node.op);
  const Extents input = conv_input_extents(query);
  const int64_t out_channels = query.graph.value(node.outputs[0]).shape[1].value();
  const bool bias = node.has_op_input(2);
  std::vector<Tactic> tactics;
  for (const auto& [source, result] : onednn_conv_type_pairs(query, machine)) {
    const auto chain = PostOpChain::from_epilogue(query, result, 1);
    for (const auto& [winograd, joined] : ways(conv, input, out_channels, machine)) {
      const ConvProblem problem = ConvProblem::at(conv, input, out_channels, joined);
      if (winograd && (source.dtype != DType::Float32 || !winograd_possible(query, problem))) continue;
      const ConvVariant base_variant{
          .source = source, .result = result, .winograd = winograd, .joined = joined};
      for (const ConvVariant& variant : splits_of(problem, base_variant, machine.threads)) {
        const ConvPart part = conv_parts(problem, variant, machine.threads)[0][0];
        auto plan = plan_conv(problem, variant, part, bias, chain ? &*chain : nullptr);
        if (plan && !last_part_has_plan(problem, variant, part, bias, chain ? &*chain : nullptr))
          plan.reset();
        const std::string base = winograd ? "onednn_conv_winograd" : "onednn_conv";
        if (plan) {
          const std::string implementation = onednn_impl_name(plan->desc.impl_info_str());
          tactics.push_back(make_tactic(query, variant,
                                        fmt::format("onednn_conv_{}{}{}", implementation,
                                                    joined_suffix(joined), split_suffix(variant))));
          tactics.back().error_factor = error_factor_of(variant, implementation);
          // Timing it left no time for those that win.
          tactics.back().last_resort = is_unfolded_product(*plan);
          tactics.back().keeps_nan = !plan->fused || !chain || chain->keeps_nan();
          continue;
        }
        if (winograd || joined > 1) continue;  // most shapes have none: not worth a line
        tactics.push_back(make_tactic(query, variant, base + split_suffix(variant)));
        tactics.back().support = Support::no(fmt::format("oneDNN has no fast implementation for {} in {}",
                                                         to_string(input), to_string(source)));
      }
    }
  }
  return tactics;
}

ConvVariant onednn_conv_variant_of(const Tactic& tactic) {
  ConvVariant variant{.source = tactic.inputs[0], .result = tactic.outputs[0]};
  variant.winograd = tactic.params.get("winograd", 0) != 0;
  variant.joined = tactic.params.get_int("joined", 1);
  read_split(tactic.params, variant);
  return variant;
}

// Whether oneDNN has an implementation is seen when the kernel is made.
Support accepts_conv(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Conv>(node.op)) return Support::no("it is no convolution");
  if (const std::string reason = reason_to_refuse_onednn_conv(query); !reason.empty())
    return Support::no(reason);
  const ConvVariant variant = onednn_conv_variant_of(tactic);
  const Extents input = conv_input_extents(query);
  const auto& conv = std::get<Conv>(node.op);
  const int64_t out_channels = query.graph.value(node.outputs[0]).shape[1].value();
  const auto all = ways(conv, input, out_channels, machine);
  if (std::none_of(all.begin(), all.end(), [&](const Way& way) { return way.joined == variant.joined; }))
    return Support::no("its groups cannot be joined in that way");
  const ConvProblem problem = ConvProblem::at(conv, input, out_channels, variant.joined);
  if (!onednn_computes(variant.source.dtype, variant.result.dtype, machine))
    return Support::no("types that oneDNN does not compute in here");
  const auto formats = format_pairs(query, machine);
  if (std::find(formats.begin(), formats.end(), std::pair(variant.source.format, variant.result.format)) ==
      formats.end())
    return Support::no("formats that it does not have here");
  if (variant.winograd && (variant.source.dtype != DType::Float32 || !winograd_possible(query, problem)))
    return Support::no("Winograd is not possible here");
  ConvVariant whole = variant;
  whole.split = ConvSplit::Whole;
  whole.parts = 1;
  const int threads = variant.split == ConvSplit::Channels ? std::max(variant.parts, 2) : machine.threads;
  const auto splits = splits_of(problem, whole, threads);
  if (variant != whole && std::find(splits.begin(), splits.end(), variant) == splits.end())
    return Support::no("its work cannot be shared in that way");
  const Tactic own = make_tactic(query, variant, tactic.name);
  return own.support.ok ? is_offered({&own, 1}, tactic) : own.support;
}

std::unique_ptr<LayerKernel> make_conv(const LayerQuery& query, const Tactic& tactic, const Machine& machine,
                                       const PackContext& pack) {
  return std::make_unique<ConvKernel>(query, tactic, onednn_conv_variant_of(tactic), machine, pack);
}

}  // namespace

TacticFamily onednn_conv_tactics() {
  return {kOnednnConvRunner, list_convs, make_conv, accepts_conv};
}

}  // namespace lathe::cpu
