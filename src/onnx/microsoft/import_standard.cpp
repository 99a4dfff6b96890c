// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: operators that ONNX has, too, by now, and small ones that are a few of ONNX's.
#include "onnx/importers.h"
#include "onnx/microsoft/attention.h"
#include "onnx/microsoft/layout.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

Values import_microsoft_trilu(NodeImport& node) {
  return import_as(node, "Trilu", 14, node.inputs());
}
Values import_microsoft_gather_nd(NodeImport& node) {
  return import_as(node, "GatherND", 12, node.inputs());
}
Values import_microsoft_grid_sample(NodeImport& node) {
  return import_as(node, "GridSample", 16, node.inputs());
}

void refuse_windows(const NodeImport& node) {
  if (node.integer("state_window", 0) != 0)
    throw_unsupported(
        "states of several steps (state_window) are not supported; export with the last state alone");
}

Values import_microsoft_linear_attention(NodeImport& node) {
  refuse_windows(node);
  return import_as(node, "LinearAttention", 27, node.inputs());
}

Values import_microsoft_causal_conv(NodeImport& node) {
  refuse_windows(node);
  if (node.integer("ndim", 1) != 1 || node.integer("dilation", 1) != 1 ||
      node.integer("channels_last", 0) != 0)
    throw_unsupported("its attributes ndim, dilation and channels_last must have their defaults");
  return import_as(node, "CausalConvWithState", 27, node.inputs());
}

// outputs: the values in the order in which they come first, the place of each element among them, how often
// each comes
Values import_microsoft_unique(NodeImport& node) {
  const Values all = node.add_multi(Unique{.sorted = false}, {node.in(0)}, 4);
  return {all[0], all[2], all[3]};
}

// Numbers may come as vectors of one element; the step is 1 unless it is there.
Values import_microsoft_range(NodeImport& node) {
  const auto number = [&](size_t i) {
    if (!node.has(i)) return node.scalar(1, node.dtype(0));
    return node.rank(i) == 0 ? node.in(i) : node.reshape(node.in(i), {}, "number");
  };
  return import_as(node, "Range", 11, {number(0), number(1), number(2)});
}

// Pads may have an axis of one in front; the value may be a vector of one element.
Values import_microsoft_pad(NodeImport& node) {
  ValueId pads = node.in(1), value = node.in_or_none(2);
  if (node.rank(1) == 2) pads = node.reshape(pads, {node.shape(1)[1]}, "pads");
  if (value != kNoValue && node.rank(2) == 1) value = node.reshape(value, {}, "value");
  return import_as(node, "Pad", 13, {node.in(0), pads, value});
}

Values import_expand_dims(NodeImport& node) {
  const auto axis = node.known_ints(1);
  if (!axis || axis->size() != 1)
    throw_unsupported("its axis is computed while the model runs; it must be constant");
  Shape shape = node.shape(0);
  shape.insert(shape.begin() + normalize_axis(axis->front(), node.rank(0) + 1, "axis"), Dim(1));
  return {node.reshape(node.in(0), shape, "")};
}

// The last axis holds real and imaginary part.
template <bool conjugate>
Values import_complex_mul(NodeImport& node) {
  const auto part = [&](size_t i, int64_t at, std::string_view name) {
    return node.slice(node.in(i), node.rank(i) - 1, at, at + 1, name);
  };
  const ValueId a = part(0, 0, "a"), b = part(0, 1, "b"), c = part(1, 0, "c"), d = part(1, 1, "d");
  const auto product = [&](ValueId x, ValueId y, std::string_view name) {
    return node.pointwise(C::Mul, {x, y}, name);
  };
  const ValueId ac = product(a, c, "ac"), bd = product(b, d, "bd"), ad = product(a, d, "ad"),
                bc = product(b, c, "bc");
  const ValueId real = node.pointwise(conjugate ? C::Add : C::Sub, {ac, bd}, "real");
  const ValueId imaginary = conjugate ? node.pointwise(C::Sub, {bc, ad}, "imaginary")
                                      : node.pointwise(C::Add, {ad, bc}, "imaginary");
  return {node.add(Concat{.axis = static_cast<int64_t>(node.shape_of(real).size()) - 1}, {real, imaginary})};
}

// |a|^2 - 2 a b + |b|^2 for all pairs of rows, which rounding may take below 0.
Values import_cdist(NodeImport& node) {
  const std::string metric = node.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    throw_unsupported("its metric '" + metric + "' is not supported, only euclidean and sqeuclidean");
  if (node.rank(0) != 2 || node.rank(1) != 2) node.fail("its inputs are two matrices");
  const auto lengths = [&](size_t i, Shape shape, std::string_view name) {
    return node.reshape(node.reduce(ReduceKind::SumSquare, node.in(i), {1}, false, name), std::move(shape),
                        name);
  };
  const ValueId product = node.add(MatMul{.transpose_b = true}, {node.in(0), node.in(1)}, "product");
  const ValueId twice = node.pointwise(C::Mul, {product, node.scalar(2, node.dtype(0))}, "twice");
  const ValueId sum = node.pointwise(
      C::Add, {lengths(0, {node.shape(0)[0], 1}, "rows"), lengths(1, {1, node.shape(1)[0]}, "columns")},
      "sum");
  const ValueId squares =
      node.pointwise(C::Relu, {node.pointwise(C::Sub, {sum, twice}, "difference")}, "squares");
  return {metric == "euclidean" ? node.pointwise(C::Sqrt, {squares}) : squares};
}

// All windows of `size` elements along an axis, `step` apart, with their elements on a new last axis.
Values import_unfold(NodeImport& node) {
  const int64_t rank = node.rank(0), axis = normalize_axis(node.integer("dim", -1), rank, "dim");
  const int64_t size = node.required_integer("size"), step = node.integer("step", 1);
  if (size < 1 || step < 1) node.fail("size and step must be positive");
  const Dim windows = floor_div(node.shape(0)[static_cast<size_t>(axis)] - size, step) + 1;
  const ValueId starts = node.pointwise(C::Mul,
                                        {count_up(node, windows, {windows, 1}, "windows"),
                                         node.scalar(static_cast<double>(step), DType::Int64)},
                                        "starts");
  const ValueId index = node.pointwise(C::Add, {starts, count_up(node, size, {1, size}, "inside")}, "index");
  const ValueId all = node.add(Gather{.axis = axis}, {node.in(0), index}, "all_windows");
  Ints perm;
  for (int64_t i = 0; i <= rank; ++i)
    if (i != axis + 1) perm.push_back(i);
  perm.push_back(axis + 1);
  return {node.transpose(all, perm, "")};
}

// (a - its zero point) times (b - its), as int32
Values import_mul_integer(NodeImport& node) {
  const auto centred = [&](size_t i) {
    const ValueId x = node.cast(node.in(i), DType::Int32, "whole");
    if (!node.has(i + 1)) return x;
    return node.pointwise(C::Sub, {x, node.cast(node.in(i + 1), DType::Int32, "zero_point")}, "centred");
  };
  return {node.pointwise(C::Mul, {centred(0), centred(2)})};
}

Values import_reduce_sum_integer(NodeImport& node) {
  const ValueId x = node.cast(node.in(0), DType::Int32, "whole");
  return {node.reduce(ReduceKind::Sum, x, node.ints("axes").value_or(Ints()),
                      node.required_integer("keepdims") != 0)};
}

Values import_nhwc_max_pool(NodeImport& node) {
  if (node.rank(0) < 3) node.fail("its input needs at least three dimensions");
  const ValueId x = node.transpose(node.in(0), channels_first(node.rank(0)), "channels_first");
  return {
      node.transpose(import_as(node, "MaxPool", 12, {x})[0], channels_last(node.rank(0)), "channels_last")};
}

// True when no element of any input is infinite or NaN, or one of both by the attributes. What is wrong is
// counted, because a count of no elements is 0.
Values import_is_all_finite(NodeImport& node) {
  const bool only_nan = node.integer("isnan_only", 0) != 0,
             only_infinite = node.integer("isinf_only", 0) != 0;
  if (only_nan && only_infinite) node.fail("isnan_only and isinf_only exclude each other");
  if (node.input_count() == 0) node.fail("it needs an input at least");
  ValueId count = kNoValue;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const std::string name = "x" + std::to_string(i);
    const ValueId x = node.in(i);
    if (!is_float(node.dtype(i))) node.fail("its inputs must be floats");
    const ValueId nan = only_infinite ? kNoValue : node.pointwise(C::IsNaN, {x}, name + "_is_nan");
    const ValueId infinite = only_nan ? kNoValue : node.pointwise(C::IsInf, {x}, 1, 1, name + "_is_infinite");
    const ValueId wrong = only_infinite ? infinite
                          : only_nan    ? nan
                                        : node.pointwise(C::Or, {nan, infinite}, name + "_is_wrong");
    Ints axes;
    for (int64_t axis = 0; axis < node.rank(i); ++axis) axes.push_back(axis);
    ValueId sum = node.cast(wrong, DType::Float32, name + "_wrong");
    if (!axes.empty()) sum = node.reduce(ReduceKind::Sum, sum, axes, false, name + "_count");
    count = count == kNoValue ? sum : node.pointwise(C::Add, {count, sum}, name + "_and_before");
  }
  return {node.pointwise(C::Equal, {count, node.scalar(0, DType::Float32)})};
}

Values import_inverse(NodeImport& node) {
  return {node.add(Inverse{}, {node.in(0)})};
}

Values import_sample(NodeImport& node) {
  return {node.in(0)};
}

// Streams (..., C, H) are mixed by (..., C, C), and a branch's output (..., H) is added with a weight per
// stream.
Values import_hyper_connection(NodeImport& node) {
  Shape s = node.shape(0);
  const Shape original = s;
  if (s.empty() || node.rank(1) < 1)
    node.fail("streams and the output of the branch need a dimension at least");
  if (const int64_t branches = node.integer("num_branches", 0); branches > 0) {
    const auto width = s.back().exact_div(branches);
    if (!width)
      node.fail("its last dimension does not divide into " + std::to_string(branches) + " branches");
    s.back() = branches;
    s.push_back(*width);
  }
  const ValueId streams = node.cast(node.reshape(node.in(0), s, "streams"), DType::Float32, "streams_float");
  Shape output = node.shape(1), weight = node.shape(2);
  output.insert(output.end() - 1, Dim(1));
  if (weight.size() + 1 == s.size()) weight.push_back(1);
  const ValueId branch =
      node.pointwise(C::Mul,
                     {node.cast(node.reshape(node.in(1), output, "output"), DType::Float32, "output_float"),
                      node.cast(node.reshape(node.in(2), weight, "weight"), DType::Float32, "weight_float")},
                     "injected");
  const ValueId mixed = node.has(3)
                            ? node.add(MatMul{.transpose_a = true},
                                       {node.cast(node.in(3), DType::Float32, "mix"), streams}, "mixed")
                            : streams;
  const ValueId sum = node.pointwise(C::Add, {mixed, branch}, "sum");
  return {node.cast(node.reshape(sum, original, "rows"), node.dtype(0), "result")};
}

}  // namespace

std::vector<Importer> microsoft_standard_importers() {
  return {{"CDist", 1, kLatestOpset, import_cdist, kMicrosoftDomain},
          {"CausalConvWithState", 1, kLatestOpset, import_microsoft_causal_conv, kMicrosoftDomain},
          {"ComplexMul", 1, kLatestOpset, import_complex_mul<false>, kMicrosoftDomain},
          {"ComplexMulConj", 1, kLatestOpset, import_complex_mul<true>, kMicrosoftDomain},
          {"ExpandDims", 1, kLatestOpset, import_expand_dims, kMicrosoftDomain},
          {"GatherND", 1, kLatestOpset, import_microsoft_gather_nd, kMicrosoftDomain},
          {"GridSample", 1, kLatestOpset, import_microsoft_grid_sample, kMicrosoftDomain},
          {"HyperConnectionPostMix", 1, kLatestOpset, import_hyper_connection, kMicrosoftDomain},
          {"Inverse", 1, kLatestOpset, import_inverse, kMicrosoftDomain},
          {"IsAllFinite", 1, kLatestOpset, import_is_all_finite, kMicrosoftDomain},
          {"LinearAttention", 1, kLatestOpset, import_microsoft_linear_attention, kMicrosoftDomain},
          {"MulInteger", 1, kLatestOpset, import_mul_integer, kMicrosoftDomain},
          {"NhwcMaxPool", 1, kLatestOpset, import_nhwc_max_pool, kMicrosoftDomain},
          {"Pad", 1, kLatestOpset, import_microsoft_pad, kMicrosoftDomain},
          {"Range", 1, kLatestOpset, import_microsoft_range, kMicrosoftDomain},
          {"ReduceSumInteger", 1, kLatestOpset, import_reduce_sum_integer, kMicrosoftDomain},
          {"SampleOp", 1, kLatestOpset, import_sample, kMicrosoftDomain},
          {"Trilu", 1, kLatestOpset, import_microsoft_trilu, kMicrosoftDomain},
          {"UnfoldTensor", 1, kLatestOpset, import_unfold, kMicrosoftDomain},
          {"Unique", 1, kLatestOpset, import_microsoft_unique, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
