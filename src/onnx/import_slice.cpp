// SPDX-License-Identifier: Apache-2.0
//
// Slice: attributes until opset 9, inputs since. Known bounds are resolved to [0, dim] here, as dims.
//
// With a symbolic dim the order of a bound and the dim is not always known. Constant bounds take dims to be
// at least 1, so that x[:, 0:1] has size 1 and not min(1, seq), and symbolic ones that such dims make
// positive are not counted from the end (x[:, :seq - 1]). Slice's rule refuses the sizes for which that is
// wrong. All else is clamped as ONNX says: table[:, :seq] of 512 rows has min(seq, 512), and where no seq of
// the profile is larger, seq.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "onnx/importers.h"
#include "ops/shape_rules.h"

namespace lathe::onnx {

namespace {

// Bounds of this size mean "to the end" (exporters use INT32_MAX and INT64_MAX, and their negatives).
constexpr int64_t kFar = std::numeric_limits<int32_t>::max() - 1;

// True when the dim is >= 0 for all symbols >= 1.
bool is_positive_form(const Dim& dim) {
  std::map<std::string, Dim, std::less<>> next;
  for (const std::string& name : dim.symbols()) next.emplace(name, Dim::symbol(name) + Dim(1));
  const Dim shifted = dim.substitute(next);
  return max(shifted, Dim(0)) == shifted;
}

Dim resolve_symbolic(const Dim& bound, const Dim& dim, int64_t low, int64_t high) {
  if (is_positive_form(bound)) return min(bound, dim + Dim(high));
  return max(min(count_from_front(bound, dim), dim + Dim(high)), Dim(low));
}

// `bound` counted from the front, in [low, high + dim], where low/high are what the direction of the step
// allows.
Dim resolve(const Dim& bound, const Dim& dim, int64_t low, int64_t high) {
  if (!bound.is_constant()) return resolve_symbolic(bound, dim, low, high);
  const int64_t b = bound.value();
  if (dim.is_constant()) {
    const int64_t d = dim.value();
    const int64_t from_front = b < 0 ? (b < -d - 1 ? low : b + d) : b;
    // Backwards through an empty dim: from -1 to -1, so that nothing is left.
    return std::min(std::max(from_front, low), std::max(d + high, int64_t{-1}));
  }
  if (b >= kFar) return dim + high;
  if (b <= -kFar) return low;
  if (b < 0) return b >= low - 1 ? dim + b : max(dim + b, low);
  return b <= 1 + high ? Dim(b) : min(b, dim + high);
}

struct Bounds {
  Shape starts, ends;
  Ints axes, steps;
};

Values add_slice(NodeImport& node, Bounds b) {
  const Shape shape = node.shape(0);
  for (size_t i = 0; i < b.axes.size(); ++i) {
    b.axes[i] = normalize_axis(b.axes[i], node.rank(0), "axes");
    const Dim& dim = shape[static_cast<size_t>(b.axes[i])];
    if (b.steps[i] == 0) node.fail("a step is 0");
    const bool forward = b.steps[i] > 0;
    b.starts[i] = forward ? resolve(b.starts[i], dim, 0, 0) : resolve(b.starts[i], dim, 0, -1);
    b.ends[i] = forward ? resolve(b.ends[i], dim, 0, 0) : resolve(b.ends[i], dim, -1, -1);
  }
  return {
      node.add(Slice{.starts = b.starts, .ends = b.ends, .axes = b.axes, .steps = b.steps}, {node.in(0)})};
}

Ints first_axes(size_t count) {
  Ints axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void check_counts(const NodeImport& node, const Bounds& b) {
  if (b.ends.size() != b.starts.size() || b.axes.size() != b.starts.size() ||
      b.steps.size() != b.starts.size()) {
    node.fail("starts, ends, axes and steps have " + std::to_string(b.starts.size()) + ", " +
              std::to_string(b.ends.size()) + ", " + std::to_string(b.axes.size()) + " and " +
              std::to_string(b.steps.size()) + " entries");
  }
  if (b.axes.size() > static_cast<size_t>(node.rank(0))) node.fail("there are more axes than dimensions");
}

Values import_slice_attributes(NodeImport& node) {
  const auto starts = node.ints("starts"), ends = node.ints("ends");
  if (!starts || !ends) node.fail("starts or ends are missing");
  Bounds b{.starts = to_shape(*starts), .ends = to_shape(*ends)};
  b.axes = node.ints("axes").value_or(first_axes(b.starts.size()));
  b.steps.assign(b.starts.size(), 1);
  check_counts(node, b);
  return add_slice(node, std::move(b));
}

Values import_slice(NodeImport& node) {
  const auto starts = node.contents(1), ends = node.contents(2);
  const auto axes = node.known_ints(3), steps = node.known_ints(4);
  if (!starts || !ends || (node.has(3) && !axes) || (node.has(4) && !steps)) {
    return {node.add(Slice{}, {node.in(0), node.in(1), node.in(2), node.in_or_none(3), node.in_or_none(4)})};
  }
  Bounds b{.starts = *starts, .ends = *ends};
  b.axes = axes.value_or(first_axes(b.starts.size()));
  b.steps = steps.value_or(Ints(b.starts.size(), 1));
  check_counts(node, b);
  return add_slice(node, std::move(b));
}

}  // namespace

std::vector<Importer> slice_importers() {
  return {{"Slice", 1, 9, import_slice_attributes}, {"Slice", 10, kLatestOpset, import_slice}};
}

}  // namespace lathe::onnx
