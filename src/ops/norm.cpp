// SPDX-License-Identifier: Apache-2.0
//
// Normalizations: LayerNorm (and RMS), BatchNorm, GroupNorm (InstanceNormalization is one group per channel)
// and Lrn. Mean and variance are taken in two passes in double.

#include <cmath>

#include "ir/elements.h"
#include "ops/broadcast.h"
#include "ops/families.h"

namespace lathe {

namespace {

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments_of(const double* x, int64_t count, bool about_zero) {
  Moments moments;
  for (int64_t i = 0; i < count && !about_zero; ++i) moments.mean += x[i];
  moments.mean /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) moments.variance += (x[i] - moments.mean) * (x[i] - moments.mean);
  moments.variance /= static_cast<double>(count);
  return moments;
}

void require_float(const Value& x) {
  if (!is_float(x.dtype)) throw_input_error("takes floating point, not " + std::string(dtype_name(x.dtype)));
}

// --- LayerNorm

std::vector<ResultInfo> infer_layer_norm(const LayerNorm& op, const InferContext& context) {
  const Value& x = context.input(0);
  require_float(x);
  const size_t axis = static_cast<size_t>(normalize_axis(op.axis, context.rank(0), "the axis of LayerNorm"));
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (!context.has(i)) continue;
    const Shape tail(x.shape.begin() + static_cast<int64_t>(axis), x.shape.end());
    if (!(broadcast(tail, context.input(i).shape) == tail)) {
      throw_input_error("scale and bias must fit the normalized dims " + to_string(tail) + ", input " +
                        std::to_string(i) + " has " + to_string(context.input(i).shape));
    }
  }
  Shape statistics = x.shape;
  for (size_t i = axis; i < statistics.size(); ++i) statistics[i] = Dim(1);
  return {{x.dtype, x.shape}, {DType::Float32, statistics}, {DType::Float32, statistics}, {x.dtype, x.shape}};
}

std::vector<Tensor> evaluate_layer_norm(const LayerNorm& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const auto axis = normalize_axis(op.axis, x.rank(), "the axis of LayerNorm");
  const Extents line_extents(x.extents().begin() + axis, x.extents().end());
  const int64_t length = element_count(line_extents), lines = length ? x.size() / length : 0;
  Extents statistics = x.extents();
  for (size_t i = static_cast<size_t>(axis); i < statistics.size(); ++i) statistics[i] = 1;
  const std::vector<double> scale =
      context.has(1) ? spread(context.input(1), line_extents) : std::vector<double>{};
  const std::vector<double> bias =
      context.has(2) ? spread(context.input(2), line_extents) : std::vector<double>{};
  Tensor y = Tensor::allocate(x.dtype(), x.extents());
  // Lines without elements take no memory, however many there are; their statistics would.
  if (x.size() == 0 && context.output_count <= 1) return {std::move(y)};
  Tensor mean = Tensor::allocate(DType::Float32, statistics),
         inverse = Tensor::allocate(DType::Float32, statistics);
  const ElementWriter y_writer(y), mean_writer(mean), inverse_writer(inverse);
  context.parallel_for(
      lines, std::max<int64_t>(1, 4096 / std::max<int64_t>(length, 1)), [&](int64_t first, int64_t last) {
        std::vector<double> line(static_cast<size_t>(length));
        for (int64_t i = first; i < last; ++i) {
          load_doubles(x, i * length, length, line.data());
          const Moments moments = moments_of(line.data(), length, op.rms);
          const double factor = 1 / std::sqrt(moments.variance + static_cast<double>(op.epsilon));
          for (size_t j = 0; j < line.size(); ++j) {
            line[j] = (line[j] - moments.mean) * factor;
            if (!scale.empty()) line[j] *= scale[j];
            if (!bias.empty()) line[j] += bias[j];
          }
          y_writer.store_doubles(i * length, length, line.data());
          mean_writer.store_doubles(i, 1, &moments.mean);
          inverse_writer.store_doubles(i, 1, &factor);
        }
      });
  return {y, std::move(mean), std::move(inverse), y};
}

// --- per channel: BatchNorm, GroupNorm

// Data (N, C, ...); a vector has one channel.
template <class List>
typename List::value_type channels_of(const List& dims) {
  return dims.size() < 2 ? typename List::value_type(1) : dims[1];
}

void require_per_channel(const InferContext& context, size_t count) {
  require_float(context.input(0));
  if (context.rank(0) < 1) throw_input_error("needs data (N, C, ...), has a scalar");
  const Dim channels = channels_of(context.input(0).shape);
  for (size_t i = 1; i <= count; ++i) {
    const Shape& shape = context.input(i).shape;
    const bool clash =
        shape.size() == 1 && shape[0].is_constant() && channels.is_constant() && !(shape[0] == channels);
    if (shape.size() != 1 || clash) {
      throw_input_error("input " + std::to_string(i) + " must have one element for each of the " +
                        channels.to_string() + " channels, has shape " + to_string(shape));
    }
  }
}

// Runs change(channel, values) over every plane (n, c) of x; `values` is replaced in place.
template <class Change>
Tensor change_planes(const Tensor& x, const EvaluateContext& context, int64_t planes_per_block,
                     const Change& change) {
  Tensor y = Tensor::allocate(x.dtype(), x.extents());
  if (x.size() == 0) return y;
  const int64_t planes = x.rank() < 2 ? x.size() : x.extents()[0] * x.extents()[1];
  const int64_t plane = x.size() / planes, block = plane * planes_per_block;
  const ElementWriter writer(y);
  context.parallel_for(planes / planes_per_block, 1, [&](int64_t first, int64_t last) {
    std::vector<double> values(static_cast<size_t>(block));
    for (int64_t i = first; i < last; ++i) {
      load_doubles(x, i * block, block, values.data());
      change(i * planes_per_block % channels_of(x.extents()), plane, values);
      writer.store_doubles(i * block, block, values.data());
    }
  });
  return y;
}

// The same at run time, for channels that were symbolic.
std::vector<double> per_channel(const EvaluateContext& context, size_t i) {
  const int64_t channels = channels_of(context.input(0).extents());
  if (context.input(i).size() != channels) {
    throw_input_error("input " + std::to_string(i) + " has " + std::to_string(context.input(i).size()) +
                      " elements for " + std::to_string(channels) + " channels");
  }
  return context.input(i).to_doubles();
}

std::vector<ResultInfo> infer_batch_norm(const BatchNorm&, const InferContext& context) {
  require_per_channel(context, 4);
  return {{context.input(0).dtype, context.input(0).shape}};
}

std::vector<Tensor> evaluate_batch_norm(const BatchNorm& op, const EvaluateContext& context) {
  std::vector<double> factor = per_channel(context, 1), shift = per_channel(context, 2);
  const std::vector<double> mean = per_channel(context, 3), variance = per_channel(context, 4);
  for (size_t c = 0; c < factor.size(); ++c) {
    factor[c] /= std::sqrt(variance[c] + static_cast<double>(op.epsilon));
    shift[c] -= mean[c] * factor[c];
  }
  return {
      change_planes(context.input(0), context, 1, [&](int64_t channel, int64_t, std::vector<double>& values) {
        const size_t c = static_cast<size_t>(channel);
        for (double& value : values) value = value * factor[c] + shift[c];
      })};
}

std::vector<ResultInfo> infer_group_norm(const GroupNorm& op, const InferContext& context) {
  require_per_channel(context, 2);
  if (context.rank(0) < 2)
    throw_input_error("needs data (N, C, ...), has " + to_string(context.input(0).shape));
  const Dim channels = channels_of(context.input(0).shape);
  if (op.groups < 0 || (op.groups > 0 && channels.is_constant() && channels.value() % op.groups != 0)) {
    throw_input_error(channels.to_string() + " channels do not divide into " + std::to_string(op.groups) +
                      " groups");
  }
  return {{context.input(0).dtype, context.input(0).shape}};
}

std::vector<Tensor> evaluate_group_norm(const GroupNorm& op, const EvaluateContext& context) {
  const std::vector<double> scale = per_channel(context, 1), bias = per_channel(context, 2);
  const int64_t channels = channels_of(context.input(0).extents());
  if (op.groups > 0 && channels % op.groups != 0) {
    throw_input_error(std::to_string(channels) + " channels do not divide into " + std::to_string(op.groups) +
                      " groups");
  }
  const int64_t per_group = op.groups == 0 ? 1 : channels / op.groups;
  return {change_planes(
      context.input(0), context, per_group, [&](int64_t channel, int64_t plane, std::vector<double>& values) {
        const Moments moments = moments_of(values.data(), static_cast<int64_t>(values.size()), false);
        const double factor = 1 / std::sqrt(moments.variance + static_cast<double>(op.epsilon));
        for (size_t i = 0; i < values.size(); ++i) {
          const size_t c = static_cast<size_t>(channel) + i / static_cast<size_t>(plane);
          values[i] = (values[i] - moments.mean) * factor * scale[c] + bias[c];
        }
      })};
}

// --- Lrn

std::vector<ResultInfo> infer_lrn(const Lrn& op, const InferContext& context) {
  require_float(context.input(0));
  if (context.rank(0) < 2)
    throw_input_error("needs data (N, C, ...), has " + to_string(context.input(0).shape));
  if (op.size < 1) throw_input_error("size is " + std::to_string(op.size) + ", expected 1 or more");
  return {{context.input(0).dtype, context.input(0).shape}};
}

std::vector<Tensor> evaluate_lrn(const Lrn& op, const EvaluateContext& context) {
  const Tensor& x = context.input(0);
  const int64_t channels = x.extents()[1], before = (op.size - 1) / 2, after = op.size - 1 - before;
  const double weight = static_cast<double>(op.alpha) / static_cast<double>(op.size);
  return {change_planes(x, context, channels, [&](int64_t, int64_t plane, std::vector<double>& values) {
    const std::vector<double> data = values;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < plane; ++i) {
        double sum = 0;
        for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(channels - 1, c + after); ++k) {
          const double value = data[static_cast<size_t>(k * plane + i)];
          sum += value * value;
        }
        values[static_cast<size_t>(c * plane + i)] /=
            std::pow(op.bias + weight * sum, static_cast<double>(op.beta));
      }
    }
  })};
}

double norm_flops(const Op&, const CostContext& context) {
  return 7.0 * static_cast<double>(element_count(context.inputs[0]));
}

double batch_norm_flops(const Op&, const CostContext& context) {
  return 2.0 * static_cast<double>(element_count(context.inputs[0]));
}

// A square and a sum per neighbour, then scale, power and division.
double lrn_flops(const Op& op, const CostContext& context) {
  return (2.0 * static_cast<double>(std::get<Lrn>(op).size) + 4) *
         static_cast<double>(element_count(context.inputs[0]));
}

}  // namespace

std::vector<OpDef> norm_ops() {
  return {op_def<LayerNorm, infer_layer_norm, evaluate_layer_norm>(norm_flops),
          op_def<BatchNorm, infer_batch_norm, evaluate_batch_norm>(batch_norm_flops),
          op_def<GroupNorm, infer_group_norm, evaluate_group_norm>(norm_flops),
          op_def<Lrn, infer_lrn, evaluate_lrn>(lrn_flops)};
}

}  // namespace lathe
