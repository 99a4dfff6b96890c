// SPDX-License-Identifier: Apache-2.0
//
// Reductions, ArgMax/ArgMin, CumSum and CumProd. Axes come as an attribute (older opsets) or as an input.
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

Values finish_reduce(NodeImport& node, const Reduce& op, ValueId axes) {
  const DType dtype = node.dtype(0);
  // Max and Min of booleans (opset 20) are those of 0 and 1.
  const ValueId x = dtype == DType::Bool ? node.cast(node.in(0), DType::UInt8) : node.in(0);
  return {node.cast(node.add(op, {x, axes}), dtype, "result")};
}

template <ReduceKind kind>
Values import_reduce_attribute(NodeImport& node) {
  Reduce op{.kind = kind, .axes = node.ints("axes"), .keepdims = node.integer("keepdims", 1) != 0};
  if (op.axes && op.axes->empty()) op.axes.reset();
  return finish_reduce(node, op, kNoValue);
}

template <ReduceKind kind>
Values import_reduce(NodeImport& node) {
  Reduce op{.kind = kind,
            .keepdims = node.integer("keepdims", 1) != 0,
            .noop_with_empty_axes = node.integer("noop_with_empty_axes", 0) != 0};
  ValueId axes = node.in_or_none(1);
  if (const auto known = node.known_ints(1)) {
    op.axes = *known;
    axes = kNoValue;
  }
  if (axes == kNoValue && op.axes.value_or(Ints()).empty()) {
    op.axes.reset();
    if (op.noop_with_empty_axes) op.axes = Ints();
  }
  if (axes == kNoValue) op.noop_with_empty_axes = false;
  return finish_reduce(node, op, axes);
}

template <bool max>
Values import_arg(NodeImport& node) {
  return {node.add(ArgReduce{.max = max,
                             .axis = node.integer("axis", 0),
                             .keepdims = node.integer("keepdims", 1) != 0,
                             .select_last_index = node.integer("select_last_index", 0) != 0},
                   {node.in(0)})};
}

template <class T>
Values import_running(NodeImport& node) {
  return {
      node.add(T{.exclusive = node.integer("exclusive", 0) != 0, .reverse = node.integer("reverse", 0) != 0},
               {node.in(0), node.in(1)})};
}

template <ReduceKind kind>
void add_reduce(std::vector<Importer>& all, std::string_view name, int64_t axes_input_since) {
  all.push_back({name, 1, axes_input_since - 1, import_reduce_attribute<kind>});
  all.push_back({name, axes_input_since, kLatestOpset, import_reduce<kind>});
}

}  // namespace

std::vector<Importer> reduce_importers() {
  std::vector<Importer> all = {{"ArgMax", 1, kLatestOpset, import_arg<true>},
                               {"ArgMin", 1, kLatestOpset, import_arg<false>},
                               {"CumProd", 26, kLatestOpset, import_running<CumProd>},
                               {"CumSum", 11, kLatestOpset, import_running<CumSum>}};
  add_reduce<ReduceKind::Sum>(all, "ReduceSum", 13);
  add_reduce<ReduceKind::Mean>(all, "ReduceMean", 18);
  add_reduce<ReduceKind::Max>(all, "ReduceMax", 18);
  add_reduce<ReduceKind::Min>(all, "ReduceMin", 18);
  add_reduce<ReduceKind::Prod>(all, "ReduceProd", 18);
  add_reduce<ReduceKind::L1>(all, "ReduceL1", 18);
  add_reduce<ReduceKind::L2>(all, "ReduceL2", 18);
  add_reduce<ReduceKind::LogSum>(all, "ReduceLogSum", 18);
  add_reduce<ReduceKind::LogSumExp>(all, "ReduceLogSumExp", 18);
  add_reduce<ReduceKind::SumSquare>(all, "ReduceSumSquare", 18);
  return all;
}

}  // namespace lathe::onnx
