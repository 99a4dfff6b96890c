// SPDX-License-Identifier: Apache-2.0
#include "onnx/conv.h"
#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

// The weight's spatial dims; kernel_shape, when given, must say the same.
Ints read_kernel(const NodeImport& node, size_t dims) {
  const Shape w = node.shape(1);
  if (w.size() != dims + 2) node.fail("input and weight must have the same number of dimensions");
  Ints kernel;
  for (size_t i = 0; i < dims; ++i) {
    if (!w[i + 2].is_constant())
      throw_unsupported("its kernel size depends on an input; it must be constant");
    kernel.push_back(w[i + 2].value());
  }
  if (const auto stated = node.ints("kernel_shape"); stated && *stated != kernel) {
    node.fail("kernel_shape " + to_string(Extents(*stated)) + " differs from the weight's " +
              to_string(Extents(kernel)));
  }
  return kernel;
}

int64_t read_groups(const NodeImport& node) {
  const int64_t groups = node.integer("group", 1);
  if (groups < 1) node.fail("group is " + std::to_string(groups));
  return groups;
}

Values import_conv(NodeImport& node) {
  const size_t dims = spatial_dims(node);
  const Window w = read_window(node, dims);
  const Conv op{.kernel = read_kernel(node, dims),
                .strides = w.strides,
                .dilations = w.dilations,
                .pads_begin = w.pads_begin,
                .pads_end = w.pads_end,
                .groups = read_groups(node),
                .auto_pad = w.auto_pad};
  return {node.add(op, {node.in(0), node.in(1), node.in_or_none(2)})};
}

}  // namespace

ValueId conv_transpose(NodeImport& node, const Window& window, ValueId bias) {
  const size_t dims = spatial_dims(node);
  Ints output_shape = node.ints("output_shape").value_or(Ints());
  if (output_shape.size() == dims + 2) output_shape.erase(output_shape.begin(), output_shape.begin() + 2);
  if (!output_shape.empty() && output_shape.size() != dims)
    node.fail("output_shape needs one entry per spatial dimension");
  const ConvTranspose op{.kernel = read_kernel(node, dims),
                         .strides = window.strides,
                         .dilations = window.dilations,
                         .pads_begin = window.pads_begin,
                         .pads_end = window.pads_end,
                         .output_padding = read_spatial(node, "output_padding", dims, 0),
                         .output_shape = output_shape,
                         .groups = read_groups(node),
                         .auto_pad = window.auto_pad};
  return node.add(op, {node.in(0), node.in(1), bias});
}

namespace {

Values import_conv_transpose(NodeImport& node) {
  return {conv_transpose(node, read_window(node, spatial_dims(node)), node.in_or_none(2))};
}

}  // namespace

std::vector<Importer> conv_importers() {
  return {{"Conv", 1, kLatestOpset, import_conv}, {"ConvTranspose", 1, kLatestOpset, import_conv_transpose}};
}

}  // namespace lathe::onnx
