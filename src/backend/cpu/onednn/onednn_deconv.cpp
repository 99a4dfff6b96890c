// SPDX-License-Identifier: Apache-2.0
//
// Transposed convolution through oneDNN, image by image or the whole batch. oneDNN has it as the gradient of
// a convolution; post-ops are rarely fused there, so the epilogue is our own pass over each image's result.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backend/cpu/device/onednn.h"
#include "backend/cpu/device/onednn_call.h"
#include "backend/cpu/onednn/onednn_conv_problem.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/symbol_extents.h"
#include "ops/window.h"

namespace lathe::cpu {
namespace {

using Dims = dnnl::memory::dims;
constexpr std::string_view kOnednnDeconvRunner = "OnednnDeconvolution";

// At concrete extents, one image.
struct DeconvProblem {
  int64_t batch = 1, groups = 1;
  Extents input, output;  // C and spatial dims of one image
  Ints kernel, strides, dilations, pads_begin;
};

DeconvProblem problem_at(const ConvTranspose& op, const Extents& input, const Extents& output,
                         const Ints& kernel) {
  DeconvProblem problem{.batch = input[0], .groups = op.groups, .kernel = kernel};
  problem.input.assign(input.begin() + 1, input.end());
  problem.output.assign(output.begin() + 1, output.end());
  for (size_t i = 0; i < kernel.size(); ++i) {
    problem.strides.push_back(entry_or(op.strides, i, 1));
    problem.dilations.push_back(entry_or(op.dilations, i, 1) - 1);
    problem.pads_begin.push_back(entry_or(op.pads_begin, i, 0));
  }
  return problem;
}

// oneDNN wants (groups, out / groups, in / groups, kernel); the model has (in, out / groups, kernel).
dnnl::memory::desc plain_weights(const DeconvProblem& problem) {
  const int64_t out = problem.output[0] / problem.groups, in = problem.input[0] / problem.groups;
  const int64_t taps = element_count(problem.kernel);
  Dims dims = {out, in}, strides = {taps, out * taps};
  if (problem.groups > 1) {
    dims.insert(dims.begin(), problem.groups);
    strides.insert(strides.begin(), in * out * taps);
  }
  int64_t step = taps;
  for (const int64_t k : problem.kernel) {
    step /= k;
    dims.push_back(k);
    strides.push_back(step);
  }
  return {dims, dnnl::memory::data_type::f32, strides};
}

Extents one_image(const Extents& extents) {
  Extents image = {1};
  image.insert(image.end(), extents.begin(), extents.end());
  return image;
}

// oneDNN 2.x makes an operation descriptor first, 3.x takes all at once.
template <class Deconvolution>
typename Deconvolution::primitive_desc make_desc(const DeconvProblem& problem,
                                                 const dnnl::memory::desc& source,
                                                 const dnnl::memory::desc& weights,
                                                 const dnnl::memory::desc& bias,
                                                 const dnnl::memory::desc& result, const Dims& pads_end,
                                                 const dnnl::primitive_attr& attributes) {
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::deconvolution_direct;
  if constexpr (requires { typename Deconvolution::desc; })
    return {typename Deconvolution::desc(kind, algorithm, source, weights, bias, result, problem.strides,
                                         problem.dilations, problem.pads_begin, pads_end),
            attributes, onednn_engine()};
  else
    return {onednn_engine(),
            kind,
            algorithm,
            source,
            weights,
            bias,
            result,
            problem.strides,
            problem.dilations,
            problem.pads_begin,
            pads_end,
            attributes};
}

using Plan = dnnl::deconvolution_forward::primitive_desc;

std::optional<Plan> plan_deconv(const DeconvProblem& problem, const Tactic& tactic, bool has_bias,
                                const dnnl::memory::desc* weights = nullptr) {
  Dims pads_end;
  for (size_t i = 0; i < problem.kernel.size(); ++i) {
    const int64_t reach = (problem.input[i + 1] - 1) * problem.strides[i] +
                          (problem.kernel[i] - 1) * (problem.dilations[i] + 1) + 1;
    pads_end.push_back(reach - problem.pads_begin[i] - problem.output[i + 1]);
  }
  const dnnl::memory::desc any(onednn_dims(plain_weights(problem)), onednn_type(tactic.inputs[0].dtype),
                               dnnl::memory::format_tag::any);
  const dnnl::memory::desc bias =
      has_bias ? onednn_desc({DType::Float32, kLinear}, {problem.output[0]}) : dnnl::memory::desc();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  try {
    Plan plan = with_onednn_memory([&]() -> Plan {
      return make_desc<dnnl::deconvolution_forward>(
          problem, onednn_desc(tactic.inputs[0], one_image(problem.input)), weights ? *weights : any, bias,
          onednn_desc(tactic.outputs[0], one_image(problem.output)), pads_end, attributes);
    });
    const std::string_view impl = plan.impl_info_str();
    if (!is_onednn_reference(plan.impl_info_str()) && impl.find("ref") == std::string_view::npos) return plan;
  } catch (const dnnl::error&) {
    // oneDNN's way to say that no implementation takes this
  }
  return std::nullopt;
}

class PreparedDeconv final : public PreparedLayer {
 public:
  size_t scratch_bytes() const override {
    return scratch_each * static_cast<size_t>(std::max(1, most_members));
  }
  int members(int available) const override {
    return static_cast<int>(
        std::clamp<int64_t>(static_cast<int64_t>(images.size()), 1, std::min(available, most_members)));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const auto range = worker.slice(static_cast<int64_t>(images.size()));
    for (int64_t n = range.begin; n < range.end; ++n) {
      images[static_cast<size_t>(n)].run(args,
                                         args.scratch + scratch_each * static_cast<size_t>(worker.index));
      if (epilogue == nullptr) continue;
      const int64_t offset = n * image_elements;
      epilogue->apply(args, static_cast<std::byte*>(args.outputs[0]) + offset * element_bytes, 0, offset, 1,
                      0, image_elements);
    }
  }

  std::vector<OnednnCall> images;
  std::shared_ptr<const PreparedEpilogue> epilogue;
  std::vector<std::byte> own_weights;  // repacked for these shapes
  size_t scratch_each = 0;
  int64_t element_bytes = 4, image_elements = 0;
  int most_members = 1;
};

class DeconvKernel final : public LayerKernel {
 public:
  DeconvKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine, const PackContext& pack)
      : op_(std::get<ConvTranspose>(query.layer().op)),
        tactic_(tactic),
        epilogue_(query, tactic, machine),
        has_epilogue_(!query.layer().epilogue.empty()) {
    const Node& node = query.layer();
    const Graph& graph = query.graph;
    const Extents weights = to_extents(graph.value(node.inputs[1]).shape);
    kernel_.assign(weights.begin() + 2, weights.end());
    const SymbolValues opt = query.opt_values();
    const DeconvProblem problem = problem_at(op_, conv_input_extents(query),
                                             upper_extents(graph.value(node.outputs[0]).shape, opt), kernel_);
    has_bias_ = node.has_op_input(2);
    if (has_bias_)
      bias_ = pack.packed("bias", dtype_bytes(DType::Float32, graph.value(node.inputs[2]).constant.size()),
                          [&] { return float_bytes(graph.value(node.inputs[2]).constant); });
    const auto plan = plan_deconv(problem, tactic_, has_bias_);
    check(plan.has_value(), "oneDNN no longer offers the implementation that this tactic was made of");
    weights_desc_ = plan->weights_desc();
    weights_ = pack.packed("weights", static_cast<int64_t>(weights_desc_.get_size()), [&] {
      return onednn_reorder(plain_weights(problem), float_bytes(graph.value(node.inputs[1]).constant).data(),
                            weights_desc_);
    });
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const DeconvProblem problem = problem_at(op_, context.inputs[0], context.outputs[0], kernel_);
    auto prepared = std::make_unique<PreparedDeconv>();
    const std::byte* weights = weights_.data();
    auto plan = plan_deconv(problem, tactic_, has_bias_, &weights_desc_);
    if (!plan) {  // no kernel for the packed layout at these shapes
      plan = plan_deconv(problem, tactic_, has_bias_);
      check(plan.has_value(), "oneDNN has no implementation at these shapes");
      prepared->own_weights = onednn_reorder(weights_desc_, weights, plan->weights_desc());
      weights = prepared->own_weights.data();
    }
    prepared->most_members = context.threads;
    prepared->element_bytes = dtype_bytes(tactic_.outputs[0].dtype, 1);
    prepared->image_elements = storage_elements(one_image(problem.output), tactic_.outputs[0].format);
    prepared->scratch_each = (plan->scratchpad_desc().get_size() + 63) / 64 * 64;
    if (has_epilogue_) prepared->epilogue = epilogue_.prepare(context, tactic_.outputs[0].dtype);
    const int64_t in_bytes =
        storage_bytes(tactic_.inputs[0].dtype, one_image(problem.input), tactic_.inputs[0].format);
    const auto primitive = with_onednn_memory([&] { return dnnl::deconvolution_forward(*plan); });
    for (int64_t n = 0; n < problem.batch; ++n) {
      OnednnCall call{primitive};
      call.add_input(DNNL_ARG_SRC, plan->src_desc(), 0, n * in_bytes);
      call.add_constant(DNNL_ARG_WEIGHTS, plan->weights_desc(), weights);
      if (has_bias_) call.add_constant(DNNL_ARG_BIAS, plan->bias_desc(), bias_.data());
      call.add_output(DNNL_ARG_DST, plan->dst_desc(), 0,
                      n * prepared->image_elements * prepared->element_bytes);
      call.add_scratch(DNNL_ARG_SCRATCHPAD, plan->scratchpad_desc());
      prepared->images.push_back(std::move(call));
    }
    return prepared;
  }

 private:
  static std::vector<std::byte> float_bytes(const Tensor& tensor) {
    const std::vector<double> values = tensor.to_doubles();
    const std::vector<float> floats(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(floats));
    return {bytes.begin(), bytes.end()};
  }

  const ConvTranspose op_;
  const Tactic tactic_;
  Ints kernel_;
  bool has_bias_ = false;
  Epilogue epilogue_;
  bool has_epilogue_ = false;
  dnnl::memory::desc weights_desc_;
  std::span<const std::byte> weights_, bias_;
};

std::string reason_to_refuse_onednn_deconv(const LayerQuery& query) {
  const Node& node = query.layer();
  const auto& op = std::get<ConvTranspose>(node.op);
  const Value& x = query.graph.value(node.inputs[0]);
  if (!query.graph.value(node.inputs[1]).is_constant()) return "the weights are not constant";
  if (node.has_op_input(2) && !query.graph.value(node.inputs[2]).is_constant())
    return "the bias is not constant";
  if (x.dtype != DType::Float32) return fmt::format("{} input", dtype_name(x.dtype));
  if (x.shape.size() < 3 || x.shape.size() > 5)
    return fmt::format("rank {} (3 to 5 supported)", x.shape.size());
  if (op.auto_pad != AutoPad::NotSet || !op.output_shape.empty()) return "auto_pad or output_shape";
  return {};
}

std::vector<Tactic> list_deconvs(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!std::holds_alternative<ConvTranspose>(node.op)) return {};
  if (const std::string reason = reason_to_refuse_onednn_deconv(query); !reason.empty())
    return refused_tactic(query, kOnednnDeconvRunner, "onednn_deconv", reason);
  Tactic tactic{.runner = std::string(kOnednnDeconvRunner)};
  const auto& op = std::get<ConvTranspose>(node.op);
  const SymbolValues opt = query.opt_values();
  const Extents weights = to_extents(query.graph.value(node.inputs[1]).shape);
  const DeconvProblem problem =
      problem_at(op, conv_input_extents(query), upper_extents(query.graph.value(node.outputs[0]).shape, opt),
                 Ints(weights.begin() + 2, weights.end()));
  const bool has_bias = node.has_op_input(2);
  const Format blocked = !machine.has(CpuFeature::Avx512) ? kBlocked8 : kBlocked16;
  std::vector<Tactic> tactics;
  for (const Format format : {blocked, kChannelsLast, kLinear}) {
    tactic.inputs = {{DType::Float32, format}};
    tactic.inputs.resize(node.op_input_count());
    tactic.outputs = {{DType::Float32, format}};
    const auto plan = plan_deconv(problem, tactic, has_bias);
    tactic.name = "onednn_deconv" + (plan ? "_" + onednn_impl_name(plan->impl_info_str()) : "");
    tactic.id = hash_text(tactic.name);
    tactic.support = Epilogue::list(query, tactic.outputs[0], tactic.inputs);
    if (!plan)
      tactic.support =
          Support::no(fmt::format("oneDNN has no fast implementation in {}", to_string(tactic.outputs[0])));
    tactics.push_back(tactic);
  }
  return tactics;
}

std::unique_ptr<LayerKernel> make_deconv(const LayerQuery& query, const Tactic& tactic,
                                         const Machine& machine, const PackContext& pack) {
  return std::make_unique<DeconvKernel>(query, tactic, machine, pack);
}

}  // namespace

TacticFamily onednn_deconv_tactics() {
  return {kOnednnDeconvRunner, list_deconvs, make_deconv};
}

}  // namespace lathe::cpu
