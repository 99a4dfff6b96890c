// SPDX-License-Identifier: Apache-2.0
//
// Layers of the network API: reductions, normalization and pooling.
#include <array>

#include "lathe/network.h"

namespace lathe::v1 {

namespace {

constexpr std::array kReductions = {"ReduceSum",       "ReduceProd",     "ReduceMax", "ReduceMin",
                                    "ReduceMean",      "ReduceL1",       "ReduceL2",  "ReduceLogSum",
                                    "ReduceLogSumExp", "ReduceSumSquare"};

}  // namespace

NetworkTensor NetworkBuilder::reduce(Reduction kind, const NetworkTensor& x, const Dims& axes, bool keep_dims,
                                     const std::string& name) {
  return one(kReductions.at(static_cast<size_t>(kind)), {x, axes.empty() ? NetworkTensor() : ints(axes)},
             {{"keepdims", int64_t{keep_dims}}}, name);
}
NetworkTensor NetworkBuilder::arg_max(const NetworkTensor& x, int64_t axis, bool keep_dims,
                                      const std::string& name) {
  return one("ArgMax", {x}, {{"axis", axis}, {"keepdims", int64_t{keep_dims}}}, name);
}
NetworkTensor NetworkBuilder::arg_min(const NetworkTensor& x, int64_t axis, bool keep_dims,
                                      const std::string& name) {
  return one("ArgMin", {x}, {{"axis", axis}, {"keepdims", int64_t{keep_dims}}}, name);
}

std::pair<NetworkTensor, NetworkTensor> NetworkBuilder::top_k(const NetworkTensor& x, const NetworkTensor& k,
                                                              int64_t axis, bool largest, bool sorted,
                                                              const std::string& name) {
  NetworkTensors both = op(
      "TopK", {x, k}, {{"axis", axis}, {"largest", int64_t{largest}}, {"sorted", int64_t{sorted}}}, 2, name);
  return {both[0], both[1]};
}

NetworkTensor NetworkBuilder::softmax(const NetworkTensor& x, int64_t axis, bool logarithm,
                                      const std::string& name) {
  return one(logarithm ? "LogSoftmax" : "Softmax", {x}, {{"axis", axis}}, name);
}

// What lies behind a row's length is as small as can be, so that it adds nothing; a row of length 0 is all
// zeros.
NetworkTensor NetworkBuilder::ragged_softmax(const NetworkTensor& x, const NetworkTensor& lengths,
                                             const std::string& name) {
  const NetworkTensor columns =
      gather(shape(x), constant(HostTensor(DataType::Int64, {}, std::vector<int64_t>{-1})));
  const NetworkTensor column = range(scalar(0, DataType::Int64), columns, scalar(1, DataType::Int64));
  Dims length_dims(x.dims().size(), 1);
  length_dims[x.dims().size() - 2] = -1;
  if (x.dims().size() == 3) length_dims[0] = 0;
  const bool flat = lengths.dims().size() == 1;
  const NetworkTensor row_length = reshape(cast(lengths, DataType::Int64), flat ? Dims{-1, 1} : length_dims);
  const NetworkTensor inside = elementwise(Elementwise::Less, column, row_length);
  const NetworkTensor hidden = select(inside, x, scalar(-1e9, x.type()));
  return select(inside, softmax(hidden), scalar(0, x.type()), name);
}

NetworkTensor NetworkBuilder::layer_norm(const NetworkTensor& x, const NetworkTensor& scale,
                                         const NetworkTensor& bias, int64_t axis, double epsilon, bool rms,
                                         const std::string& name) {
  const Attributes attributes = {{"axis", axis}, {"epsilon", epsilon}};
  if (!rms) return one("LayerNormalization", {x, scale, bias}, attributes, name);
  const NetworkTensor y = one("RMSNormalization", {x, scale}, attributes, bias ? "" : name);
  return bias ? elementwise(Elementwise::Sum, y, bias, name) : y;
}
NetworkTensor NetworkBuilder::group_norm(const NetworkTensor& x, const NetworkTensor& scale,
                                         const NetworkTensor& bias, int64_t groups, double epsilon,
                                         const std::string& name) {
  if (groups == 0) return one("InstanceNormalization", {x, scale, bias}, {{"epsilon", epsilon}}, name);
  return one("GroupNormalization", {x, scale, bias}, {{"epsilon", epsilon}, {"num_groups", groups}}, name);
}
NetworkTensor NetworkBuilder::batch_norm(const NetworkTensor& x, const NetworkTensor& scale,
                                         const NetworkTensor& bias, const NetworkTensor& mean,
                                         const NetworkTensor& variance, double epsilon,
                                         const std::string& name) {
  return one("BatchNormalization", {x, scale, bias, mean, variance}, {{"epsilon", epsilon}}, name);
}
NetworkTensor NetworkBuilder::lrn(const NetworkTensor& x, int64_t size, double alpha, double beta,
                                  double bias, const std::string& name) {
  return one("LRN", {x}, {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", bias}}, name);
}

NetworkTensor NetworkBuilder::pooling(Pooling kind, const NetworkTensor& x, const Dims& window,
                                      const PoolingOptions& o, const std::string& name) {
  Attributes attributes = {{"kernel_shape", window}, {"ceil_mode", int64_t{o.round_up}}};
  if (!o.strides.empty()) attributes["strides"] = o.strides;
  if (!o.dilations.empty()) attributes["dilations"] = o.dilations;
  Dims pads = o.pads_begin;
  pads.insert(pads.end(), o.pads_end.begin(), o.pads_end.end());
  if (o.auto_padding != AutoPadding::None)
    attributes["auto_pad"] = o.auto_padding == AutoPadding::SameUpper ? "SAME_UPPER" : "SAME_LOWER";
  else if (!pads.empty())
    attributes["pads"] = pads;
  if (kind == Pooling::Max) return one("MaxPool", {x}, attributes, name);
  if (kind == Pooling::Average) attributes["count_include_pad"] = int64_t{o.count_padding};
  if (kind == Pooling::Lp) attributes["p"] = o.p;
  return one(kind == Pooling::Lp ? "LpPool" : "AveragePool", {x}, attributes, name);
}

NetworkTensor NetworkBuilder::cumulative(const NetworkTensor& x, int64_t axis, bool exclusive, bool reverse,
                                         bool product, const std::string& name) {
  return one(product ? "CumProd" : "CumSum", {x, scalar(static_cast<double>(axis), DataType::Int64)},
             {{"exclusive", int64_t{exclusive}}, {"reverse", int64_t{reverse}}}, name);
}

}  // namespace lathe::v1
