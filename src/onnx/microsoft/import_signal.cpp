// SPDX-License-Identifier: Apache-2.0
//
// com.microsoft: Fourier transforms of real signals along the last dimension, and back.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

void check_attributes(const NodeImport& node) {
  if (const int64_t dims = node.integer("signal_ndim", 1); dims != 1)
    throw_unsupported("signals of " + std::to_string(dims) +
                      " dimensions (signal_ndim) are not supported, only of 1");
  if (node.integer("onesided", 1) != 1)
    throw_unsupported("two-sided transforms (onesided 0) are not supported; use ONNX's DFT");
  if (node.integer("normalized", 0) != 0)
    throw_unsupported("normalized transforms (normalized) are not supported; scale the result");
}

// (..., n) to (..., n / 2 + 1, real and imaginary part)
Values import_rfft(NodeImport& node) {
  check_attributes(node);
  Shape s = node.shape(0);
  if (s.empty()) node.fail("its input needs a dimension at least");
  s.push_back(1);
  return {node.add(DFT{.onesided = true}, {node.reshape(node.in(0), s, "points")})};
}

// (..., n / 2 + 1, 2) to (..., n), divided by n
Values import_irfft(NodeImport& node) {
  check_attributes(node);
  const Shape given = node.shape(0);
  if (given.size() < 2 || !(given.back() == Dim(2)))
    node.fail("its input needs two dimensions at least, the last one of real and imaginary part");
  const ValueId y = node.add(DFT{.inverse = true, .onesided = true}, {node.in(0)}, "transform");
  Shape s = node.shape_of(y);
  s.pop_back();
  return {node.reshape(y, s, "")};
}

}  // namespace

std::vector<Importer> microsoft_signal_importers() {
  return {{"Irfft", 1, kLatestOpset, import_irfft, kMicrosoftDomain},
          {"Rfft", 1, kLatestOpset, import_rfft, kMicrosoftDomain}};
}

}  // namespace lathe::onnx
