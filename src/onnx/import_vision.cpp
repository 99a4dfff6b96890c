// SPDX-License-Identifier: Apache-2.0
//
// Operators that sample images at places that are data: GridSample, AffineGrid, RoiAlign, MaxRoiPool,
// DeformConv; and the opposites of windows, Col2Im and MaxUnpool. AffineGrid and MaxUnpool are written out.
// ImageDecoder is built in (plugin/built_in.h).
#include "onnx/importers.h"
#include "onnx/strings.h"
#include "onnx/window.h"
#include "plugin/built_in.h"

namespace lathe::onnx {

namespace {

using C = PointwiseCode;

Values import_grid_sample(NodeImport& node) {
  GridSample op{.align_corners = node.integer("align_corners", 0) != 0};
  const std::string mode = node.text("mode", "linear"), padding = node.text("padding_mode", "zeros");
  if (mode == "nearest") {
    op.mode = ResizeMode::Nearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    op.mode = ResizeMode::Cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    node.fail("mode is '" + mode + "', expected nearest, linear or cubic");
  }
  if (padding == "border") {
    op.padding = GridPadding::Border;
  } else if (padding == "reflection") {
    op.padding = GridPadding::Reflection;
  } else if (padding != "zeros") {
    node.fail("padding_mode is '" + padding + "', expected zeros, border or reflection");
  }
  return {node.add(op, {node.in(0), node.in(1)})};
}

// --- AffineGrid: at pixel (y, x) of the result, theta times (x, y, 1), with x and y in [-1, 1]. Innermost
// coordinate first.
class AffineGridImport {
 public:
  explicit AffineGridImport(NodeImport& node) : node_(node) {}

  Values run() {
    const Shape theta = node_.shape(0);
    if (theta.size() != 3 || !theta[1].is_constant() || (theta[1].value() != 2 && theta[1].value() != 3) ||
        !(theta[2] == theta[1] + 1))
      node_.fail("theta must have shape (N, 2, 3) or (N, 3, 4)");
    dims_ = static_cast<size_t>(theta[1].value());
    if (node_.rank(1) != 1 || !(node_.shape(1)[0] == Dim(theta[1].value() + 2)))
      node_.fail("size must have " + std::to_string(dims_ + 2) + " entries");
    Values coordinates;
    for (size_t d = 0; d < dims_; ++d) coordinates.push_back(coordinate(d));
    Values columns;
    for (size_t row = 0; row < dims_; ++row) columns.push_back(column(row, coordinates));
    return {node_.add(Concat{.axis = static_cast<int64_t>(dims_) + 1}, columns)};
  }

 private:
  // The number of pixels along spatial dim `d` as an int64 scalar.
  ValueId extent(size_t d) {
    if (const auto sizes = node_.contents(1)) return node_.dim_scalar((*sizes)[d + 2]);
    const auto at = static_cast<int64_t>(d) + 2;
    return node_.reshape(node_.slice(node_.in(1), 0, at, at + 1, "size_part"), {}, "size");
  }

  // Positions along dim `d` in a shape that broadcasts: (1, ..., extent, ..., 1, 1).
  ValueId coordinate(size_t d) {
    const DType type = node_.dtype(0);
    const ValueId count = extent(d), zero = node_.scalar(0, DType::Int64),
                  one = node_.scalar(1, DType::Int64);
    const ValueId index = node_.cast(node_.add(Range{}, {zero, count, one}, "index"), type);
    const ValueId steps = node_.cast(count, type, "extent");
    const bool align = node_.integer("align_corners", 0) != 0;
    // align_corners: 2 i / (n - 1) - 1, and 0 where n is 1; else (2 i + 1) / n - 1.
    ValueId at = node_.pointwise(C::Linear, {index}, 2, align ? 0 : 1, "twice");
    ValueId width = steps;
    if (align) {
      width = node_.pointwise(
          C::Max, {node_.pointwise(C::Linear, {steps}, 1, -1, "intervals"), node_.scalar(1, type)}, 0, 0,
          "width");
    }
    at = node_.pointwise(C::Div, {at, width}, 0, 0, "fraction");
    at = node_.pointwise(C::Linear, {at}, 1, -1, "coordinate");
    if (align) at = zero_when_single(at, steps);
    Shape shape(dims_ + 2, Dim(1));
    shape[d + 1] = node_.shape_of(at)[0];
    return node_.reshape(at, shape, "coordinate_axis");
  }

  ValueId zero_when_single(ValueId at, ValueId extent) {
    const DType type = node_.dtype(0);
    const ValueId single = node_.pointwise(C::Equal, {extent, node_.scalar(1, type)}, 0, 0, "is_single");
    return node_.pointwise(C::Where, {single, node_.scalar(0, type), at}, 0, 0, "centred");
  }

  // Entry (row, column) of each theta as (N, 1, ..., 1).
  ValueId entry(size_t row, size_t column) {
    const auto r = static_cast<int64_t>(row), c = static_cast<int64_t>(column);
    const ValueId v = node_.slice(node_.slice(node_.in(0), 1, r, r + 1, "row"), 2, c, c + 1, "entry");
    Shape shape(dims_ + 2, Dim(1));
    shape[0] = node_.shape(0)[0];
    return node_.reshape(v, shape, "factor");
  }

  // Coordinate `row` of the result: the sum over dims, innermost first, as coordinates are outermost first.
  ValueId column(size_t row, const Values& coordinates) {
    ValueId sum = entry(row, dims_);
    for (size_t i = 0; i < dims_; ++i) {
      const ValueId term = node_.pointwise(C::Mul, {coordinates[dims_ - 1 - i], entry(row, i)}, 0, 0, "term");
      sum = node_.pointwise(C::Add, {sum, term}, 0, 0, "sum");
    }
    return sum;
  }

  NodeImport& node_;
  size_t dims_ = 2;
};

Values import_affine_grid(NodeImport& node) {
  return AffineGridImport(node).run();
}

// --- boxes
Values import_roi_align(NodeImport& node) {
  RoiAlign op{.output_height = node.integer("output_height", 1),
              .output_width = node.integer("output_width", 1),
              .sampling_ratio = node.integer("sampling_ratio", 0),
              .spatial_scale = node.real("spatial_scale", 1)};
  const std::string mode = node.text("mode", "avg");
  // Opset 10 had no shift, and no attribute for it.
  const std::string coordinates =
      node.opset() < 16 ? "output_half_pixel" : node.text("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") node.fail("mode is '" + mode + "', expected avg or max");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    node.fail("coordinate_transformation_mode is '" + coordinates +
              "', expected half_pixel or output_half_pixel");
  op.max = mode == "max";
  op.half_pixel = coordinates == "half_pixel";
  return {node.add(op, {node.in(0), node.in(1), node.cast(node.in(2), DType::Int64, "images")})};
}

Values import_max_roi_pool(NodeImport& node) {
  const Ints shape = node.ints("pooled_shape").value_or(Ints());
  if (shape.size() != 2) node.fail("pooled_shape needs two entries");
  const MaxRoiPool op{
      .output_height = shape[0], .output_width = shape[1], .spatial_scale = node.real("spatial_scale", 1)};
  return {node.add(op, {node.in(0), node.in(1)})};
}

// --- windows
Values import_deform_conv(NodeImport& node) {
  if (node.rank(0) != 4 || node.rank(1) != 4)
    throw_unsupported("only images are supported (inputs of four dimensions)");
  const Window w = read_window(node, 2);
  DeformConv op{.strides = w.strides,
                .dilations = w.dilations,
                .pads_begin = w.pads_begin,
                .pads_end = w.pads_end,
                .groups = node.integer("group", 1),
                .offset_groups = node.integer("offset_group", 1)};
  for (size_t i = 2; i < 4; ++i) {
    const Dim extent = node.shape(1)[i];
    if (!extent.is_constant()) throw_unsupported("its kernel size depends on an input; it must be constant");
    op.kernel.push_back(extent.value());
  }
  if (op.groups < 1 || op.offset_groups < 1) node.fail("group and offset_group must be at least 1");
  return {node.add(op, {node.in(0), node.in(1), node.in(2), node.in_or_none(3), node.in_or_none(4)})};
}

Values import_col2im(NodeImport& node) {
  if (node.rank(1) != 1 || !node.shape(1)[0].is_constant())
    node.fail("the image's shape must be a list of fixed length");
  constexpr int64_t kMostDims = 62;
  if (const int64_t dims = node.shape(1)[0].value(); dims > kMostDims)
    throw_unsupported("images of " + std::to_string(dims) + " dimensions are not supported, " +
                      std::to_string(kMostDims) + " are");
  const Window w = read_window(node, static_cast<size_t>(node.shape(1)[0].value()));
  const Col2Im op{
      .strides = w.strides, .dilations = w.dilations, .pads_begin = w.pads_begin, .pads_end = w.pads_end};
  return {node.add(op, {node.in(0), node.in(1), node.in(2)})};
}

// What MaxPool's window makes of a result of these spatial dims.
Shape unpooled_shape(const NodeImport& node) {
  const size_t dims = spatial_dims(node);
  const Window w = read_window(node, dims);
  if (!node.has_attribute("kernel_shape")) node.fail("attribute 'kernel_shape' is missing");
  const Ints kernel = read_spatial(node, "kernel_shape", dims, 1);
  Shape shape = node.shape(0);
  for (size_t i = 0; i < dims; ++i) {
    const Dim unpadded = (shape[i + 2] - 1) * w.strides[i] + kernel[i];
    shape[i + 2] = unpadded - (w.pads_begin[i] + w.pads_end[i]);
  }
  return shape;
}

// Zeros behind x up to `output_shape`, an input: from its contents, or computed while the model runs.
ValueId padded_to_output_shape(NodeImport& node, ValueId x, const Shape& shape) {
  if (const auto wanted = node.contents(2)) {
    if (wanted->size() != shape.size()) node.fail("output_shape needs one entry per dimension");
    Shape pads(shape.size(), Dim(0));
    for (size_t i = 0; i < shape.size(); ++i) pads.push_back((*wanted)[i] - shape[i]);
    return node.add(Pad{.pads = pads}, {x}, "output_shape");
  }
  const ValueId have = node.add(ShapeTensor{.dims = shape}, {}, "inferred");
  const ValueId behind = node.pointwise(C::Sub, {node.in(2), have}, 0, 0, "missing");
  const ValueId before = node.ints_constant(Ints(shape.size(), 0));
  const ValueId pads = node.add(Concat{.axis = 0}, {before, behind}, "pads");
  return node.add(Pad{}, {x, pads}, "output_shape");
}

// Indices count over the whole result.
Values import_max_unpool(NodeImport& node) {
  const Shape shape = unpooled_shape(node);
  const Dim total = element_count(shape), count = element_count(node.shape(0));
  const ValueId zeros = node.add(Fill{.shape = Shape{total}, .dtype = node.dtype(0)}, {}, "zeros");
  const ValueId flat = node.add(
      ScatterElements{.axis = 0},
      {zeros, node.reshape(node.in(1), {count}, "indices"), node.reshape(node.in(0), {count}, "values")},
      "scattered");
  const ValueId y = node.reshape(flat, shape, "unpooled");
  return {node.has(2) ? padded_to_output_shape(node, y, shape) : y};
}

Values import_image_decoder(NodeImport& node) {
  const std::vector<PluginField> fields = {plugin::text_field("pixels", node.text("pixel_format", "RGB"))};
  const ValueId size = add_built_in(node, "ImageSize", fields, {node.in(0)}, false, 1, "size")[0];
  return add_built_in(node, "ImageDecode", fields, {node.in(0), size}, false);
}

}  // namespace

std::vector<Importer> vision_importers() {
  return {{"AffineGrid", 20, kLatestOpset, import_affine_grid},
          {"Col2Im", 18, kLatestOpset, import_col2im},
          {"DeformConv", 19, kLatestOpset, import_deform_conv},
          {"GridSample", 16, kLatestOpset, import_grid_sample},
          {"ImageDecoder", 20, kLatestOpset, import_image_decoder},
          {"MaxRoiPool", 1, kLatestOpset, import_max_roi_pool},
          {"MaxUnpool", 9, kLatestOpset, import_max_unpool},
          {"RoiAlign", 10, kLatestOpset, import_roi_align}};
}

}  // namespace lathe::onnx
