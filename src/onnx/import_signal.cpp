// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms, window functions and MelWeightMatrix. Windows are written out: sums of cosines over
// their length.
#include <numbers>

#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

// Until opset 19 the axis is an attribute.
Values import_dft(NodeImport& node) {
  const DFT op{.inverse = node.integer("inverse", 0) != 0, .onesided = node.integer("onesided", 0) != 0};
  ValueId axis = node.opset() < 20 ? kNoValue : node.in_or_none(2);
  if (axis == kNoValue)
    axis = node.constant(Tensor::scalar_i64(node.opset() < 20 ? node.integer("axis", 1) : -2), "axis");
  return {node.add(op, {node.in(0), node.in_or_none(1), axis})};
}

Values import_stft(NodeImport& node) {
  const STFT op{.onesided = node.integer("onesided", 1) != 0};
  return {node.add(op, {node.in(0), node.in(1), node.in_or_none(2), node.in_or_none(3)})};
}

Values import_mel(NodeImport& node) {
  return {node.add(MelWeightMatrix{.dtype = node.element_type("output_datatype", DType::Float32)},
                   {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)})};
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), in double; n is the size, and one less when the window is
// symmetric.
Values add_window(NodeImport& node, double a0, double a1, double a2) {
  const ValueId size = node.reshape(node.cast(node.in(0), DType::Int64, "size"), {}, "length");
  const ValueId zero = node.scalar(0, DType::Int64), one = node.scalar(1, DType::Int64);
  const ValueId index = node.cast(node.add(Range{}, {zero, size, one}, "index"), DType::Float64, "position");
  const auto binary = [&](C code, ValueId a, ValueId b, std::string_view name) {
    return node.pointwise(code, {a, b}, 0, 0, name);
  };
  const auto number = [&](double value) { return node.scalar(value, DType::Float64); };
  ValueId period = node.cast(size, DType::Float64, "period");
  if (node.integer("periodic", 1) == 0)
    period = binary(C::Max, binary(C::Sub, period, number(1), "intervals"), number(1), "symmetric_period");
  const ValueId turn = binary(C::Div, index, period, "turn");
  const auto cosine = [&](double turns, const std::string& name) {
    const ValueId angle = binary(C::Mul, turn, number(2 * std::numbers::pi * turns), name + "_angle");
    return node.pointwise(C::Cos, {angle}, 0, 0, name);
  };
  ValueId y = binary(C::Sub, number(a0), binary(C::Mul, cosine(1, "first"), number(a1), "first_part"), "sum");
  if (a2 != 0)
    y = binary(C::Add, y, binary(C::Mul, cosine(2, "second"), number(a2), "second_part"), "window");
  return {node.cast(y, node.element_type("output_datatype", DType::Float32), "")};
}

Values import_hann(NodeImport& node) {
  return add_window(node, 0.5, 0.5, 0);
}
Values import_hamming(NodeImport& node) {
  return add_window(node, 25.0 / 46, 21.0 / 46, 0);
}
Values import_blackman(NodeImport& node) {
  return add_window(node, 0.42, 0.5, 0.08);
}

}  // namespace

std::vector<Importer> signal_importers() {
  return {
      {"BlackmanWindow", 17, kLatestOpset, import_blackman}, {"DFT", 17, kLatestOpset, import_dft},
      {"HammingWindow", 17, kLatestOpset, import_hamming},   {"HannWindow", 17, kLatestOpset, import_hann},
      {"MelWeightMatrix", 17, kLatestOpset, import_mel},     {"STFT", 17, kLatestOpset, import_stft}};
}

}  // namespace lathe::onnx
