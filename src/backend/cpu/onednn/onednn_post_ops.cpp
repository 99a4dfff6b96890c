// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/onednn/onednn_post_ops.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lathe::cpu {

std::optional<PostOpChain::Step> PostOpChain::unary_step(const PointwiseStep& step) {
  using Code = PointwiseCode;
  using Algorithm = dnnl::algorithm;
  switch (step.code) {
    case Code::Relu:
      return Step{Algorithm::eltwise_relu, 0, 0};
    case Code::LeakyRelu:
      return Step{Algorithm::eltwise_relu, step.alpha, 0};
    case Code::Elu:
      return Step{Algorithm::eltwise_elu, step.alpha, 0};
    case Code::Clip:
      return Step{Algorithm::eltwise_clip, step.alpha, step.beta};
    case Code::Linear:
      return Step{Algorithm::eltwise_linear, step.alpha, step.beta};
    case Code::Neg:
      return Step{Algorithm::eltwise_linear, -1, 0};
    case Code::Sigmoid:
      return Step{Algorithm::eltwise_logistic, 0, 0};
    case Code::Silu:
      return Step{Algorithm::eltwise_swish, step.alpha, 0};
    case Code::Tanh:
      return Step{Algorithm::eltwise_tanh, 0, 0};
    case Code::GeluErf:
      return Step{Algorithm::eltwise_gelu_erf, 0, 0};
    case Code::GeluTanh:
      return Step{Algorithm::eltwise_gelu_tanh, 0, 0};
    case Code::Abs:
      return Step{Algorithm::eltwise_abs, 0, 0};
    case Code::Sqrt:
      return Step{Algorithm::eltwise_sqrt, 0, 0};
    case Code::Square:
      return Step{Algorithm::eltwise_square, 0, 0};
    case Code::Exp:
      return Step{Algorithm::eltwise_exp, 0, 0};
    default:
      return std::nullopt;
  }
}

std::optional<PostOpChain::Step> PostOpChain::binary_step(const PointwiseStep& step, bool value_first) {
  using Code = PointwiseCode;
  using Algorithm = dnnl::algorithm;
  Step result{.binary = true};
  switch (step.code) {
    case Code::Add:
      result.algorithm = Algorithm::binary_add;
      break;
    case Code::Mul:
      result.algorithm = Algorithm::binary_mul;
      break;
    case Code::Max:
      result.algorithm = Algorithm::binary_max;
      break;
    case Code::Min:
      result.algorithm = Algorithm::binary_min;
      break;
    case Code::Sub:
      if (!value_first) return std::nullopt;
      result.algorithm = Algorithm::binary_sub;
      break;
    case Code::Div:
      if (!value_first) return std::nullopt;
      result.algorithm = Algorithm::binary_div;
      break;
    default:
      return std::nullopt;
  }
  return result;
}

void PostOpChain::append_literal(dnnl::algorithm algorithm, float number) {
  steps_.push_back(
      {.algorithm = algorithm, .binary = true, .constant = true, .literal = number, .shape = Shape::Scalar});
}

// oneDNN's kernels (2.7) keep one set of constants for each function, so that the second Clip or Linear of a
// chain computes with the bounds or factors of the first. Those two become operations with numbers; the
// others are refused.
bool PostOpChain::append_function(const Step& step) {
  using Algorithm = dnnl::algorithm;
  const bool repeated = std::any_of(steps_.begin(), steps_.end(), [&](const Step& before) {
    return before.algorithm == step.algorithm && (before.alpha != step.alpha || before.beta != step.beta);
  });
  if (!repeated) {
    steps_.push_back(step);
  } else if (step.algorithm == Algorithm::eltwise_clip) {
    append_literal(Algorithm::binary_max, step.alpha);
    append_literal(Algorithm::binary_min, step.beta);
  } else if (step.algorithm == Algorithm::eltwise_linear) {
    append_literal(Algorithm::binary_mul, step.alpha);
    if (step.beta != 0) append_literal(Algorithm::binary_add, step.beta);
  } else {
    return false;
  }
  return true;
}

// x / scale, to the nearest integer (half to even), times scale. A product with 1 / scale instead of the
// quotient would move what lies between two multiples to the other one.
bool PostOpChain::append_round_to(const PointwiseStep& step) {
  if (step.code != PointwiseCode::RoundTo) return false;
  append_literal(dnnl::algorithm::binary_div, step.alpha);
  steps_.push_back({.algorithm = dnnl::algorithm::eltwise_round});
  return append_function({.algorithm = dnnl::algorithm::eltwise_linear, .alpha = step.alpha});
}

bool PostOpChain::describe_operand(const LayerQuery& query, Step& step, const TensorType& result) const {
  const Node& node = query.layer();
  const Value& value = query.graph.value(node.inputs[step.input]);
  const lathe::Shape& whole = query.graph.value(node.outputs[0]).shape;
  step.constant = value.is_constant();
  if (!is_float(value.dtype)) return false;
  step.dtype = step.constant ? DType::Float32 : result.dtype;
  size_t differing = 0;
  bool channels_match = false;
  const size_t missing = whole.size() - value.shape.size();
  for (size_t i = 0; i < value.shape.size(); ++i) {
    if (value.shape[i].is_constant(1) && !whole[i + missing].is_constant(1)) continue;
    if (!(value.shape[i] == whole[i + missing])) return false;
    if (whole[i + missing].is_constant(1)) continue;
    if (stacked_ && step.constant && i + missing == 0) {
      step.matrix_elements = value.constant.size() / value.constant.extents()[0];
      continue;
    }
    ++differing;
    channels_match = channels_match || i + missing == channel_axis_;
  }
  if (differing == 0)
    step.shape = Shape::Scalar;
  else if (differing == 1 && channels_match)
    step.shape = Shape::Channel;
  else if (value.shape == whole)
    step.shape = Shape::Full;
  else
    return false;
  // A constant as large as the result would have to be packed in the result's format; the own epilogue does
  // that. A scalar or row that is computed at run time exists in the result's type, and oneDNN wants it
  // dense: true for one image only.
  if (step.constant) return step.shape != Shape::Full;
  return step.shape == Shape::Full;
}

std::optional<PostOpChain> PostOpChain::from_epilogue(const LayerQuery& query, const TensorType& result,
                                                      size_t channel_axis, bool stacked) {
  const Node& node = query.layer();
  PostOpChain chain;
  chain.channel_axis_ = channel_axis;
  chain.stacked_ = stacked;
  int current = 0;  // the operand number of the value so far
  for (size_t i = 0; i < node.epilogue.steps.size(); ++i) {
    const PointwiseStep& step = node.epilogue.steps[i];
    std::optional<Step> mapped;
    if (step.operands.size() == 1 && step.operands[0] == current) {
      if (chain.append_round_to(step)) {
        current = node.epilogue.input_count + static_cast<int>(i);
        continue;
      }
      mapped = unary_step(step);
    } else if (step.operands.size() == 2) {
      const bool value_first = step.operands[0] == current;
      const int other = step.operands[value_first ? 1 : 0], value = step.operands[value_first ? 0 : 1];
      if (value != current || other == 0 || other >= node.epilogue.input_count) return std::nullopt;
      mapped = binary_step(step, value_first);
      if (mapped) {
        mapped->input = node.op_input_count() + static_cast<size_t>(other) - 1;
        if (!chain.describe_operand(query, *mapped, result)) return std::nullopt;
      }
    }
    if (!mapped) return std::nullopt;
    if (mapped->binary)
      chain.steps_.push_back(*mapped);
    else if (!chain.append_function(*mapped))
      return std::nullopt;
    current = node.epilogue.input_count + static_cast<int>(i);
  }
  return chain;
}

bool PostOpChain::keeps_nan() const {
  using Algorithm = dnnl::algorithm;
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) {
    switch (step.algorithm) {
      case Algorithm::binary_add:
      case Algorithm::binary_sub:
      case Algorithm::binary_mul:
      case Algorithm::binary_div:
      case Algorithm::eltwise_linear:
      case Algorithm::eltwise_round:
      case Algorithm::eltwise_abs:
      case Algorithm::eltwise_sqrt:
      case Algorithm::eltwise_square:
        return true;
      default:
        return false;
    }
  });
}

void PostOpChain::pack_constants(const LayerQuery& query, const PackContext& pack) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (!step.binary || !step.constant) continue;
    const Tensor constant = step.literal ? Tensor::scalar_f32(*step.literal)
                                         : query.graph.value(query.layer().inputs[step.input]).constant;
    const int64_t floats = dtype_bytes(DType::Float32, constant.size());
    step.packed = pack.packed("post_op" + std::to_string(i), floats, [&] {
      const std::vector<double> values = constant.to_doubles();
      std::vector<std::byte> bytes(values.size() * sizeof(float));
      for (size_t k = 0; k < values.size(); ++k) {
        const auto value = static_cast<float>(values[k]);
        std::memcpy(bytes.data() + k * sizeof(float), &value, sizeof value);
      }
      return bytes;
    });
  }
}

dnnl::memory::desc PostOpChain::operand_desc(const Step& step, const ResultPart& part) const {
  if (step.shape == Shape::Full) return part.desc;
  const auto whole = onednn_dims(part.desc);
  Extents extents(whole.size(), 1);
  if (step.shape == Shape::Channel) extents[part.channel_axis] = whole[part.channel_axis];
  return onednn_desc({step.dtype, kLinear}, extents);
}

dnnl::post_ops PostOpChain::post_ops(const ResultPart& part) const {
  dnnl::post_ops list;
  for (const Step& step : steps_) {
    if (step.binary)
      list.append_binary(step.algorithm, operand_desc(step, part));
    else
      onednn_append_eltwise(list, step.algorithm, step.alpha, step.beta);
  }
  return list;
}

void PostOpChain::add_operands(OnednnCall& call, const ResultPart& part) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (!step.binary) continue;
    const int argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1;
    const dnnl::memory::desc desc = operand_desc(step, part);
    if (!step.constant) {
      call.add_input(argument, desc, step.input, part.offset_bytes);
      continue;
    }
    const int64_t skip =
        (step.shape == Shape::Channel ? part.channel : 0) + part.matrix * step.matrix_elements;
    call.add_constant(argument, desc, step.packed.data() + skip * static_cast<int64_t>(sizeof(float)));
  }
}

}  // namespace lathe::cpu
