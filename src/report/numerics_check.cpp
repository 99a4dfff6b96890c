// SPDX-License-Identifier: Apache-2.0
#include "report/numerics_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/elements.h"

namespace lathe {
namespace {

constexpr int64_t kPiece = 4096;

struct Count {
  int64_t nans = 0, infinities = 0, first = -1;
  bool finite() const { return first < 0; }
};

Count count_not_finite(const Tensor& tensor) {
  Count count;
  if (!tensor || !tensor.has_bytes() || !is_float(tensor.dtype())) return count;
  std::vector<double> values(kPiece);
  for (int64_t begin = 0; begin < tensor.size(); begin += kPiece) {
    const int64_t n = std::min(kPiece, tensor.size() - begin);
    load_doubles(tensor, begin, n, values.data());
    for (int64_t i = 0; i < n; ++i) {
      const double value = values[static_cast<size_t>(i)];
      if (std::isfinite(value)) continue;
      ++(std::isnan(value) ? count.nans : count.infinities);
      if (count.first < 0) count.first = begin + i;
    }
  }
  return count;
}

Extents index_of(int64_t element, const Extents& extents) {
  Extents index(extents.size());
  for (size_t d = extents.size(); d-- > 0; element /= extents[d]) index[d] = element % extents[d];
  return index;
}

class NumericsObserver {
 public:
  explicit NumericsObserver(Context& context)
      : context_(context), graph_(context.engine().graph(context.profile())) {}

  // Before the layer runs: it may overwrite its operands.
  void before(size_t layer) {
    operands_are_finite_ = true;
    for (const ValueId input : node(layer).inputs) {
      if (input == kNoValue) continue;
      const bool finite = is_finite(input);
      operands_are_finite_ = operands_are_finite_ && finite;
      if (!finite && graph_.is_input(input)) note(report.inputs, graph_.value(input).name);
    }
  }

  void after(size_t layer) {
    const auto& tactic = context_.engine().choices(context_.profile())[layer].tactic;
    ++report.layers;
    if (!tactic.keeps_nan) report.layers_without_nan.push_back(node(layer).name);
    for (const ValueId output : node(layer).outputs) {
      if (output == kNoValue || !is_float(graph_.value(output).dtype)) continue;
      if (report.first && !graph_.is_output(output)) continue;
      const Tensor tensor = context_.execution().read(output);
      const Count count = count_not_finite(tensor);
      if (count.finite()) continue;
      if (graph_.is_output(output)) note(report.outputs, graph_.value(output).name);
      if (report.first || !operands_are_finite_) continue;
      report.first = NumericsFinding{.layer = node(layer).name,
                                     .type = std::string(op_display_name(node(layer).op)),
                                     .tactic = tactic.name,
                                     .output = graph_.value(output).name,
                                     .origins = node(layer).origins,
                                     .nans = count.nans,
                                     .infinities = count.infinities,
                                     .elements = tensor.size(),
                                     .first = index_of(count.first, tensor.extents())};
    }
  }

  NumericsReport report;

 private:
  const Node& node(size_t layer) const { return graph_.node(graph_.order()[layer]); }

  bool is_finite(ValueId id) {
    const Value& value = graph_.value(id);
    if (!is_float(value.dtype)) return true;
    return count_not_finite(value.is_constant() ? value.constant : context_.execution().read(id)).finite();
  }

  static void note(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  Context& context_;
  const Graph& graph_;
  bool operands_are_finite_ = true;
};

}  // namespace

std::string NumericsFinding::to_string() const {
  std::vector<std::string> nodes;
  for (const Origin& origin : origins) nodes.push_back(origin.name);
  return fmt::format(
      "layer '{}' ({}, {}) makes {} NaN and {} infinite of {} elements of '{}' out of finite operands, the "
      "first at [{}]{}",
      layer, type, tactic, nans, infinities, elements, output, fmt::join(first, ", "),
      nodes.empty() ? "" : fmt::format("; ONNX nodes: {}", fmt::join(nodes, " ")));
}

NumericsReport check_numerics(Context& context, std::span<void* const> bindings, Stream& stream) {
  NumericsObserver observer(context);
  context.enqueue_observed(bindings, stream,
                           {.before = [&](size_t layer) { observer.before(layer); },
                            .after = [&](size_t layer) { observer.after(layer); }});
  stream.synchronize();
  return std::move(observer.report);
}

}  // namespace lathe
