// SPDX-License-Identifier: Apache-2.0
//
// Max and average pooling through oneDNN. A pool is split like a convolution whose groups are single
// channels, so it uses the same parts (onednn_conv_problem.h).
#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/device/onednn.h"
#include "backend/cpu/onednn/onednn_conv_problem.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/offered.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/symbol_extents.h"

namespace lathe::cpu {
namespace {

using Dims = dnnl::memory::dims;
constexpr std::string_view kOnednnPoolRunner = "OnednnPool";

ConvProblem problem_at(const Pool& pool, const Extents& input) {
  ConvProblem problem{
      .batch = input[0], .groups = input[1], .in_channels = input[1], .out_channels = input[1]};
  const WindowSpec spec{pool.kernel,   pool.strides,  pool.dilations, pool.pads_begin,
                        pool.pads_end, pool.auto_pad, pool.ceil_mode};
  problem.axes = resolve_window(spec, Extents(input.begin() + 2, input.end()));
  return problem;
}

dnnl::algorithm algorithm_of(const Pool& pool) {
  if (pool.kind == PoolKind::Max) return dnnl::algorithm::pooling_max;
  // Padding that oneDNN adds on its own (rows that ceil_mode opens) must not be counted; those are refused
  // below.
  return pool.count_include_pad ? dnnl::algorithm::pooling_avg_include_padding
                                : dnnl::algorithm::pooling_avg_exclude_padding;
}

// oneDNN 2.x makes an operation descriptor first, and knows dilation in a second operation only; 3.x takes
// all at once.
template <class Pooling>
typename Pooling::primitive_desc make_desc(dnnl::algorithm algorithm, const dnnl::memory::desc& source,
                                           const dnnl::memory::desc& result, const Dims& strides,
                                           const Dims& kernel, const Dims& pads_begin, const Dims& pads_end,
                                           const dnnl::primitive_attr& attributes) {
  const auto kind = dnnl::prop_kind::forward_inference;
  if constexpr (requires { typename Pooling::desc; })
    return {typename Pooling::desc(kind, algorithm, source, result, strides, kernel, pads_begin, pads_end),
            attributes, onednn_engine()};
  else
    return {onednn_engine(),        kind,       algorithm, source,    result, strides, kernel,
            Dims(kernel.size(), 0), pads_begin, pads_end,  attributes};
}

std::optional<dnnl::pooling_forward::primitive_desc> plan_pool(const Pool& pool, const ConvProblem& problem,
                                                               const ConvVariant& variant,
                                                               const ConvPart& part) {
  Extents source = {part.images, part.in_channels, part.in_rows};
  Dims strides, kernel, pads_begin, pads_end;
  for (size_t i = 0; i < problem.axes.size(); ++i) {
    const WindowAxis& axis = problem.axes[i];
    if (i > 0) source.push_back(axis.input);
    const int64_t reach = (axis.output - 1) * axis.stride + axis.kernel;
    strides.push_back(axis.stride);
    kernel.push_back(axis.kernel);
    pads_begin.push_back(i == 0 ? part.pad_begin : axis.pad_begin);
    pads_end.push_back(i == 0 ? part.pad_end : std::max<int64_t>(0, reach - axis.input - axis.pad_begin));
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  try {
    auto desc = with_onednn_memory([&] {
      return make_desc<dnnl::pooling_forward>(algorithm_of(pool), onednn_desc(variant.source, source),
                                              result_part(problem, variant, part).desc, strides, kernel,
                                              pads_begin, pads_end, attributes);
    });
    if (!is_onednn_reference(desc.impl_info_str())) return desc;
  } catch (const dnnl::error&) {
    // oneDNN's way to say that no implementation takes this
  }
  return std::nullopt;
}

class PreparedOnednnPool final : public PreparedLayer {
 public:
  struct Task {
    OnednnCall call;
    int64_t offset = 0, count = 0;  // elements of the result
  };
  size_t scratch_bytes() const override { return scratch_each * tasks.size(); }
  int members(int available) const override { return std::min(available, static_cast<int>(tasks.size())); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range part = worker.slice(static_cast<int64_t>(tasks.size()));
    for (auto i = static_cast<size_t>(part.begin); i < static_cast<size_t>(part.end); ++i)
      for (const Task& task : tasks[i]) {
        task.call.run(args, args.scratch + scratch_each * i);
        if (epilogue == nullptr) continue;
        const std::byte* values = static_cast<std::byte*>(args.outputs[0]) + task.offset * element_bytes;
        epilogue->apply(args, values, 0, task.offset, 1, 0, task.count);
      }
  }

  std::vector<std::vector<Task>> tasks;
  std::shared_ptr<const PreparedEpilogue> epilogue;
  size_t scratch_each = 0;
  int64_t element_bytes = 4;
};

class OnednnPoolKernel final : public LayerKernel {
 public:
  OnednnPoolKernel(const LayerQuery& query, const Tactic& tactic, const ConvVariant& variant,
                   const Machine& machine)
      : pool_(std::get<Pool>(query.layer().op)),
        variant_(variant),
        epilogue_(query, tactic, machine),
        has_epilogue_(!query.layer().epilogue.empty()) {}

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const ConvProblem problem = problem_at(pool_, context.inputs[0]);
    auto prepared = std::make_unique<PreparedOnednnPool>();
    prepared->element_bytes = dtype_bytes(variant_.result.dtype, 1);
    if (has_epilogue_) prepared->epilogue = epilogue_.prepare(context, variant_.result.dtype);
    for (const std::vector<ConvPart>& parts : conv_parts(problem, variant_, context.threads)) {
      const auto plan = plan_pool(pool_, problem, variant_, parts[0]);
      if (!plan) throw_input_error("oneDNN has no implementation at these shapes");
      const auto primitive = with_onednn_memory([&] { return dnnl::pooling_forward(*plan); });
      prepared->tasks.emplace_back();
      for (const ConvPart& part : parts) {
        const ResultPart result = result_part(problem, variant_, part);
        PreparedOnednnPool::Task task{.call = OnednnCall(primitive)};
        task.call.add_input(DNNL_ARG_SRC, plan->src_desc(), 0, source_offset(problem, variant_, part));
        task.call.add_output(DNNL_ARG_DST, plan->dst_desc(), 0, result.offset_bytes);
        task.call.add_scratch(DNNL_ARG_SCRATCHPAD, plan->scratchpad_desc());
        task.offset = result.offset_bytes / prepared->element_bytes;
        task.count = static_cast<int64_t>(result.desc.get_size()) / prepared->element_bytes;
        prepared->tasks.back().push_back(std::move(task));
      }
      prepared->scratch_each =
          std::max(prepared->scratch_each, (plan->scratchpad_desc().get_size() + 63) / 64 * 64);
    }
    return prepared;
  }

 private:
  const Pool pool_;
  const ConvVariant variant_;
  Epilogue epilogue_;
  bool has_epilogue_ = false;
};

std::string reason_to_refuse_onednn_pool(const LayerQuery& query) {
  const Node& node = query.layer();
  const auto& pool = std::get<Pool>(node.op);
  const Value& x = query.graph.value(node.inputs[0]);
  if (pool.kind == PoolKind::Lp) return "Lp pooling";
  if (node.has_output(1)) return "indices are wanted";
  if (x.dtype != DType::Float32 && x.dtype != DType::BFloat16)
    return fmt::format("{} input", dtype_name(x.dtype));
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return fmt::format("rank {} (3 to 5 supported)", x.shape.size());
  if (!x.shape[1].is_constant()) return "the number of channels is not constant";
  if (std::any_of(pool.dilations.begin(), pool.dilations.end(), [](int64_t d) { return d != 1; }))
    return "dilation";
  if (pool.kind == PoolKind::Average && pool.count_include_pad && pool.ceil_mode)
    return "an average that counts padding, with ceil_mode";
  return {};
}

std::vector<ConvVariant> variants_of(const ConvProblem& problem, const ConvVariant& base, int threads) {
  std::vector<ConvVariant> variants;
  const auto add = [&](ConvSplit split, int parts) {
    variants.push_back(base);
    variants.back().split = split;
    variants.back().parts = parts;
  };
  const double elements = problem.flops() / 2;
  if (threads > 1 && elements > 30000) {
    if (problem.batch > 1) add(ConvSplit::Batch, 1);
    const int parts = channel_parts(problem, base, threads);
    if (parts > 1) add(ConvSplit::Channels, parts);
    if (base.source.format.kind == Format::Kind::ChannelsLast && problem.axes[0].output > 1)
      add(ConvSplit::Rows, 1);
  }
  if (variants.empty() || elements < 300000) add(ConvSplit::Whole, 1);
  return variants;
}

std::vector<Tactic> list_pools(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Pool>(node.op)) return {};
  if (const std::string reason = reason_to_refuse_onednn_pool(query); !reason.empty())
    return refused_tactic(query, kOnednnPoolRunner, "onednn_pool", reason);
  Tactic tactic;
  const auto& pool = std::get<Pool>(node.op);
  const Value& x = query.graph.value(node.inputs[0]);
  const Extents input = upper_extents(x.shape, query.opt_values());
  const ConvProblem problem = problem_at(pool, input);
  std::vector<DType> dtypes = {x.dtype};
  const auto& allowed = node.allowed_types;
  if (x.dtype == DType::Float32 &&
      std::find(allowed.begin(), allowed.end(), DType::BFloat16) != allowed.end())
    dtypes.push_back(DType::BFloat16);
  const Format blocked = !machine.has(CpuFeature::Avx512) ? kBlocked8 : kBlocked16;
  std::vector<Tactic> tactics;
  for (const DType dtype : dtypes)
    for (const Format format : {blocked, kChannelsLast, kLinear})
      for (const ConvVariant& variant :
           variants_of(problem, {.source = {dtype, format}, .result = {dtype, format}}, machine.threads)) {
        const auto plan =
            plan_pool(pool, problem, variant, conv_parts(problem, variant, machine.threads)[0][0]);
        const std::string impl = plan ? "_" + onednn_impl_name(plan->impl_info_str()) : "";
        tactic =
            with_variant({.runner = std::string(kOnednnPoolRunner)},
                         fmt::format("onednn_pool{}{}", impl, split_suffix(variant)), split_params(variant));
        tactic.inputs = {variant.source};
        tactic.outputs = {variant.result};
        tactic.outputs.resize(node.outputs.size());
        tactic.keeps_nan = pool.kind != PoolKind::Max;
        tactic.support = Epilogue::list(query, variant.result, tactic.inputs);
        if (!plan)
          tactic.support = Support::no(fmt::format("oneDNN has no fast implementation for {} in {}",
                                                   to_string(input), to_string(variant.source)));
        tactics.push_back(tactic);
      }
  return tactics;
}

ConvVariant onednn_pool_variant_of(const Tactic& tactic) {
  ConvVariant variant{.source = tactic.inputs[0], .result = tactic.outputs[0]};
  read_split(tactic.params, variant);
  return variant;
}

// Whether oneDNN has an implementation is seen when the layer is prepared.
Support accepts_pool(const LayerQuery& query, const Tactic& tactic, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Pool>(node.op)) return Support::no("it is no pooling");
  if (const std::string reason = reason_to_refuse_onednn_pool(query); !reason.empty())
    return Support::no(reason);
  const ConvVariant variant = onednn_pool_variant_of(tactic);
  const TensorType& type = variant.source;
  const Format blocked = !machine.has(CpuFeature::Avx512) ? kBlocked8 : kBlocked16;
  if (variant.result != type || !onednn_computes(type.dtype, type.dtype, machine) ||
      (type.format != blocked && type.format != kChannelsLast && type.format != kLinear))
    return Support::no("types that it does not have here");
  const Extents input = upper_extents(query.graph.value(node.inputs[0]).shape, query.opt_values());
  ConvVariant whole = variant;
  whole.split = ConvSplit::Whole;
  whole.parts = 1;
  const int threads = variant.split == ConvSplit::Channels ? std::max(variant.parts, 2) : machine.threads;
  const auto splits = variants_of(problem_at(std::get<Pool>(node.op), input), whole, threads);
  if (variant != whole && std::find(splits.begin(), splits.end(), variant) == splits.end())
    return Support::no("its work cannot be shared in that way");
  Tactic own = with_variant({.runner = tactic.runner, .inputs = {type}, .outputs = {type}}, tactic.name,
                            split_params(variant));
  own.outputs.resize(node.outputs.size());
  own.support = Epilogue::list(query, type, own.inputs);
  return own.support.ok ? is_offered({&own, 1}, tactic) : own.support;
}

std::unique_ptr<LayerKernel> make_onednn_pool(const LayerQuery& query, const Tactic& tactic,
                                              const Machine& machine, const PackContext&) {
  return std::make_unique<OnednnPoolKernel>(query, tactic, onednn_pool_variant_of(tactic), machine);
}

}  // namespace

TacticFamily onednn_pool_tactics() {
  return {kOnednnPoolRunner, list_pools, make_onednn_pool, accepts_pool};
}

}  // namespace lathe::cpu
