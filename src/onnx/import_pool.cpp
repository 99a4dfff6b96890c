// SPDX-License-Identifier: Apache-2.0
//
// Pools with a window, and global pools as reductions over all spatial axes.
#include <numeric>

#include "onnx/importers.h"
#include "onnx/window.h"

namespace lathe::onnx {

namespace {

Pool read_pool(const NodeImport& node, PoolKind kind) {
  const size_t dims = spatial_dims(node);
  const Window w = read_window(node, dims);
  if (!node.has_attribute("kernel_shape")) node.fail("attribute 'kernel_shape' is missing");
  Pool pool{.kind = kind,
            .kernel = read_spatial(node, "kernel_shape", dims, 1),
            .strides = w.strides,
            .dilations = w.dilations,
            .pads_begin = w.pads_begin,
            .pads_end = w.pads_end,
            .auto_pad = w.auto_pad};
  for (const int64_t k : pool.kernel) {
    if (k < 1) node.fail("kernel_shape has the entry " + std::to_string(k));
  }
  pool.ceil_mode = node.integer("ceil_mode", 0) != 0;
  pool.count_include_pad = node.integer("count_include_pad", 0) != 0;
  return pool;
}

Values import_max_pool(NodeImport& node) {
  Pool pool = read_pool(node, PoolKind::Max);
  pool.column_major = node.integer("storage_order", 0) != 0;
  return node.add_multi(pool, {node.in(0)}, node.wants_output(1) ? 2 : 1);
}

Values import_average_pool(NodeImport& node) {
  return {node.add(read_pool(node, PoolKind::Average), {node.in(0)})};
}

// A real number in opset 1.
int64_t read_p(const NodeImport& node) {
  if (node.opset() > 1) return node.integer("p", 2);
  const float p = node.real("p", 2);
  if (p != 1 && p != 2)
    throw_unsupported("p is " + std::to_string(p) + " in opset 1; only 1 and 2 are supported");
  return static_cast<int64_t>(p);
}

Values import_lp_pool(NodeImport& node) {
  Pool pool = read_pool(node, PoolKind::Lp);
  pool.p = read_p(node);
  return {node.add(pool, {node.in(0)})};
}

Ints spatial_axes(const NodeImport& node) {
  Ints axes(spatial_dims(node));
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

template <ReduceKind kind>
Values import_global(NodeImport& node) {
  return {node.reduce(kind, node.in(0), spatial_axes(node), true, "")};
}

// (sum |x|^p)^(1/p)
Values import_global_lp(NodeImport& node) {
  const int64_t p = read_p(node);
  if (p == 2) return import_global<ReduceKind::L2>(node);
  if (p == 1) return import_global<ReduceKind::L1>(node);
  const DType dtype = node.dtype(0);
  const ValueId magnitude = node.pointwise(PointwiseCode::Abs, {node.in(0)}, 0, 0, "abs");
  const ValueId power = node.pointwise(PointwiseCode::Pow,
                                       {magnitude, node.scalar(static_cast<double>(p), dtype)}, 0, 0, "pow");
  const ValueId sum = node.reduce(ReduceKind::Sum, power, spatial_axes(node), true, "sum");
  return {node.pointwise(PointwiseCode::Pow, {sum, node.scalar(1.0 / static_cast<double>(p), dtype)}, 0, 0,
                         "root")};
}

}  // namespace

std::vector<Importer> pool_importers() {
  return {{"AveragePool", 1, kLatestOpset, import_average_pool},
          {"GlobalAveragePool", 1, kLatestOpset, import_global<ReduceKind::Mean>},
          {"GlobalLpPool", 1, kLatestOpset, import_global_lp},
          {"GlobalMaxPool", 1, kLatestOpset, import_global<ReduceKind::Max>},
          {"LpPool", 1, kLatestOpset, import_lp_pool},
          {"MaxPool", 1, kLatestOpset, import_max_pool}};
}

}  // namespace lathe::onnx
