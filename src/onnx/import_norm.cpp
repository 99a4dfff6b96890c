// SPDX-License-Identifier: Apache-2.0
//
// Normalizations. Those without a core operator (mean-variance, Lp, batch norm in training mode) are written
// out.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

// ONNX has it from opset 17 on; ONNX Runtime's tools write it into older models, too.
Values import_layer_norm(NodeImport& node) {
  const LayerNorm op{.axis = node.integer("axis", -1), .epsilon = node.real("epsilon", 1e-5f)};
  const size_t outputs = node.wants_output(2) ? 3 : node.wants_output(1) ? 2 : 1;
  return node.add_multi(op, {node.in(0), node.in(1), node.in_or_none(2)}, outputs);
}

Values import_rms_norm(NodeImport& node) {
  const LayerNorm op{.axis = node.integer("axis", -1), .epsilon = node.real("epsilon", 1e-5f), .rms = true};
  return {node.add(op, {node.in(0), node.in(1)})};
}

// ONNX Runtime's name for an RMS norm, which its tools put into ONNX's domain. The second output is 1 / the
// root mean square.
Values import_simplified_layer_norm(NodeImport& node) {
  const LayerNorm op{.axis = node.integer("axis", -1), .epsilon = node.real("epsilon", 1e-5f), .rms = true};
  if (!node.wants_output(1)) return {node.add(op, {node.in(0), node.in(1)})};
  const Values all = node.add_multi(op, {node.in(0), node.in(1)}, 3);
  return {all[0], all[2]};
}

// Statistics of this batch: y, running mean, running variance.
Values batch_norm_training(NodeImport& node) {
  Ints axes = {0};
  for (int64_t i = 2; i < node.rank(0); ++i) axes.push_back(i);
  Shape per_channel(static_cast<size_t>(node.rank(0)), Dim(1));
  per_channel[1] = node.shape(0)[1];
  const ValueId x = node.in(0);
  const ValueId mean = node.reduce(ReduceKind::Mean, x, axes, false, "batch_mean");
  const ValueId centred = binary(node, PointwiseCode::Sub, x, node.reshape(mean, per_channel), "centre");
  const ValueId square = node.pointwise(PointwiseCode::Square, {centred}, 0, 0, "square");
  const ValueId variance = node.reduce(ReduceKind::Mean, square, axes, false, "batch_variance");
  const ValueId y = node.add(BatchNorm{.epsilon = node.real("epsilon", 1e-5f)},
                             {x, node.in(1), node.in(2), mean, variance});
  const double momentum = node.real("momentum", 0.9f);
  const auto running = [&](ValueId old, ValueId now, const std::string& name) {
    const DType dtype = node.dtype_of(old);
    const ValueId keep = binary(node, PointwiseCode::Mul, old, node.scalar(momentum, dtype), name + "_old");
    const ValueId take = binary(node, PointwiseCode::Mul, node.cast(now, dtype),
                                node.scalar(1 - momentum, dtype), name + "_new");
    return binary(node, PointwiseCode::Add, keep, take, name);
  };
  return {y, running(node.in(3), mean, "running_mean"), running(node.in(4), variance, "running_variance")};
}

Values import_batch_norm(NodeImport& node) {
  if (node.integer("spatial", 1) == 0)
    throw_unsupported("spatial=0 (statistics per element) is not supported");
  if (node.rank(0) < 2) node.fail("its input needs at least two dimensions (batch, channels)");
  if (node.integer("training_mode", 0) != 0) return batch_norm_training(node);
  const BatchNorm op{.epsilon = node.real("epsilon", 1e-5f)};
  return {node.add(op, {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)})};
}

Values import_instance_norm(NodeImport& node) {
  const GroupNorm op{.groups = 0, .epsilon = node.real("epsilon", 1e-5f)};
  return {node.add(op, {node.in(0), node.in(1), node.in(2)})};
}

// Until opset 20 scale and bias have one entry per group; each is repeated for the group's channels.
ValueId per_channel(NodeImport& node, ValueId v, int64_t groups, std::string_view suffix) {
  const Dim channels = node.shape(0)[1];
  const auto each = channels.exact_div(groups);
  if (!each) node.fail("its channels cannot be divided into " + std::to_string(groups) + " groups");
  const ValueId column = node.reshape(v, {groups, 1}, std::string(suffix) + "_column");
  const ValueId wide = node.expand(column, {groups, *each}, std::string(suffix) + "_expand");
  return node.reshape(wide, {channels}, suffix);
}

Values import_group_norm(NodeImport& node) {
  const GroupNorm op{.groups = node.required_integer("num_groups"), .epsilon = node.real("epsilon", 1e-5f)};
  if (op.groups < 1) node.fail("num_groups is " + std::to_string(op.groups));
  if (node.rank(0) < 2) node.fail("its input needs at least two dimensions (batch, channels)");
  ValueId scale = node.in(1), bias = node.in(2);
  if (node.opset() < 21) {
    scale = per_channel(node, scale, op.groups, "scale");
    bias = per_channel(node, bias, op.groups, "bias");
  }
  return {node.add(op, {node.in(0), scale, bias})};
}

// (x - mean) / (sqrt(variance) + 1e-9)
Values import_mean_variance(NodeImport& node) {
  const Ints axes = node.ints("axes").value_or(Ints{0, 2, 3});
  const ValueId x = node.in(0);
  const ValueId mean = node.reduce(ReduceKind::Mean, x, axes, true, "mean");
  const ValueId centred = binary(node, PointwiseCode::Sub, x, mean, "centre");
  const ValueId square = node.pointwise(PointwiseCode::Square, {centred}, 0, 0, "square");
  const ValueId variance = node.reduce(ReduceKind::Mean, square, axes, true, "variance");
  const ValueId deviation = node.pointwise(PointwiseCode::Sqrt, {variance}, 0, 0, "deviation");
  const ValueId safe =
      binary(node, PointwiseCode::Add, deviation, node.scalar(1e-9, node.dtype(0)), "epsilon");
  return {binary(node, PointwiseCode::Div, centred, safe, "")};
}

// x / |x|_p; zero where the norm is zero.
Values import_lp_norm(NodeImport& node) {
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) node.fail("p is " + std::to_string(p) + ", not 1 or 2");
  const int64_t axis = normalize_axis(node.integer("axis", -1), node.rank(0), "axis");
  const ValueId x = node.in(0), zero = node.scalar(0, node.dtype(0));
  const ValueId norm = node.reduce(p == 1 ? ReduceKind::L1 : ReduceKind::L2, x, {axis}, true, "norm");
  const ValueId quotient = binary(node, PointwiseCode::Div, x, norm, "quotient");
  const ValueId is_zero = binary(node, PointwiseCode::Equal, norm, zero, "is_zero");
  return {node.pointwise(PointwiseCode::Where, {is_zero, zero, quotient})};
}

Values import_lrn(NodeImport& node) {
  return {node.add(Lrn{.size = node.required_integer("size"),
                       .alpha = node.real("alpha", 1e-4f),
                       .beta = node.real("beta", 0.75f),
                       .bias = node.real("bias", 1)},
                   {node.in(0)})};
}

}  // namespace

std::vector<Importer> norm_importers() {
  return {{"BatchNormalization", 7, kLatestOpset, import_batch_norm},
          {"GroupNormalization", 18, kLatestOpset, import_group_norm},
          {"InstanceNormalization", 1, kLatestOpset, import_instance_norm},
          {"LRN", 1, kLatestOpset, import_lrn},
          {"LayerNormalization", 1, kLatestOpset, import_layer_norm},
          {"LpNormalization", 1, kLatestOpset, import_lp_norm},
          {"MeanVarianceNormalization", 9, kLatestOpset, import_mean_variance},
          {"RMSNormalization", 23, kLatestOpset, import_rms_norm},
          {"SimplifiedLayerNormalization", 1, kLatestOpset, import_simplified_layer_norm}};
}

}  // namespace lathe::onnx
