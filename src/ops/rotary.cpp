// SPDX-License-Identifier: Apache-2.0
//
// Rotary: pairs of elements turn by an angle per position, written as its definition says, in double, element
// by element.
#include <algorithm>

#include "base/error.h"
#include "ops/broadcast.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {

namespace {

bool broadcasts_to(const Shape& angles, const Shape& x) {
  if (angles.size() > x.size()) return false;
  const size_t missing = x.size() - angles.size();
  for (size_t i = 0; i + 1 < angles.size(); ++i) {
    const Dim &from = angles[i], &to = x[missing + i];
    if (!from.is_constant(1) && from.is_constant() && to.is_constant() && from != to) return false;
  }
  return true;
}

// The last dim of cosines and sines: how many elements turn.
Dim turned_width(const InferContext& context) {
  const Shape &cosines = context.input(0).shape, &sines = context.input(1).shape;
  if (cosines.empty() || sines.empty() || cosines.back() != sines.back())
    throw_input_error("cosines and sines must end in one dim, they are " + to_string(cosines) + " and " +
                      to_string(sines));
  const Dim& width = cosines.back();
  if (width.is_constant() && (width.value() < 2 || width.value() % 2 != 0))
    throw_input_error("elements turn in pairs, not " + width.to_string() + " of them");
  return width;
}

std::vector<ResultInfo> infer_rotary(const Rotary&, const InferContext& context) {
  expect_real(context, 0, "cosines");
  expect_real(context, 1, "sines");
  const Dim width = turned_width(context);
  std::vector<ResultInfo> results;
  for (size_t i = Rotary::kOperands; i < Rotary::kOperands + context.output_count; ++i) {
    expect_real(context, i, "x");
    const Shape& x = context.input(i).shape;
    for (const size_t angles : {size_t{0}, size_t{1}})
      if (x.empty() || !broadcasts_to(context.input(angles).shape, x))
        throw_input_error("angles of " + to_string(context.input(angles).shape) + " do not broadcast to x, " +
                          to_string(x));
    if (width.is_constant() && x.back().is_constant() && width.value() > x.back().value())
      throw_input_error("rows of " + x.back().to_string() + " elements have not the " + width.to_string() +
                        " that turn");
    results.push_back({context.input(i).dtype, x});
  }
  return results;
}

Tensor turn(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool interleaved) {
  Extents turned = x.extents();
  const auto row = static_cast<size_t>(turned.back()), width = static_cast<size_t>(cosines.extents().back());
  turned.back() = cosines.extents().back();
  const std::vector<double> in = x.to_doubles(), c = spread(cosines, turned), s = spread(sines, turned);
  std::vector<double> out = in;
  for (size_t r = 0; r < c.size() / width; ++r) {
    for (size_t i = 0; i < width; ++i) {
      const bool first = interleaved ? i % 2 == 0 : i < width / 2;
      const size_t distance = interleaved ? 1 : width / 2, partner = first ? i + distance : i - distance;
      const double pair = in[r * row + partner];
      out[r * row + i] = in[r * row + i] * c[r * width + i] + (first ? -pair : pair) * s[r * width + i];
    }
  }
  return Tensor::from_doubles(x.dtype(), x.extents(), out);
}

std::vector<Tensor> evaluate_rotary(const Rotary& op, const EvaluateContext& context) {
  std::vector<Tensor> results = allocate_results(op, context, infer_rotary);
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& x = context.input(Rotary::kOperands + i);
    if (x.size() > 0) results[i] = turn(x, context.input(0), context.input(1), op.interleaved);
  }
  return results;
}

double rotary_flops(const Op&, const CostContext& context) {
  double elements = 0;
  for (const Extents& x : context.outputs) elements += static_cast<double>(element_count(x));
  return 3 * elements;
}

}  // namespace

std::vector<OpDef> rotary_ops() {
  return {op_def<Rotary, infer_rotary, evaluate_rotary>(rotary_flops)};
}

}  // namespace lathe
