// SPDX-License-Identifier: Apache-2.0
//
// TensorRT's plugins besides those that select boxes, written out with core operators: ROIAlign_TRT,
// CropAndResize(Dynamic), ModulatedDeformConv2d, MultiscaleDeformableAttnPlugin_TRT,
// DisentangledAttention_TRT, InstanceNormalization_TRT, GroupNormalizationPlugin, ScatterND and TopkLastDim.
#include <cmath>

#include "onnx/tensorrt/importers.h"

namespace lathe::onnx {
namespace {

using C = PointwiseCode;

Values import_tensorrt_roi_align(NodeImport& node) {
  return {node.add(RoiAlign{.max = node.integer("mode", 1) == 0,
                            .half_pixel = node.integer("coordinate_transformation_mode", 1) != 0,
                            .output_height = node.integer("output_height", 1),
                            .output_width = node.integer("output_width", 1),
                            .sampling_ratio = node.integer("sampling_ratio", 0),
                            .spatial_scale = node.real("spatial_scale", 1)},
                   {node.in(0), node.in(1), node.cast(node.in(2), DType::Int64, "images")})};
}

Ints pair(const NodeImport& node, std::string_view name, int64_t otherwise) {
  Ints values = node.ints(name).value_or(Ints{otherwise, otherwise});
  if (values.size() != 2) node.fail(std::string(name) + " needs two entries");
  return values;
}

Values import_modulated_deform_conv(NodeImport& node) {
  const Shape weights = node.shape(3);
  if (weights.size() != 4 || !weights[2].is_constant() || !weights[3].is_constant())
    node.fail("the weights must be (out channels, in channels, height, width)");
  const Ints padding = pair(node, "padding", 0);
  const DeformConv op{.kernel = {weights[2].value(), weights[3].value()},
                      .strides = pair(node, "stride", 1),
                      .dilations = pair(node, "dilation", 1),
                      .pads_begin = padding,
                      .pads_end = padding,
                      .groups = node.integer("group", 1),
                      .offset_groups = node.integer("deformable_group", 1)};
  return {node.add(op, {node.in(0), node.in(3), node.in(1), node.in_or_none(4), node.in(2)})};
}

// --- CropAndResize: boxes (N, B, 4, 1) of y1, x1, y2, x2, of which 0 and 1 are the first and last pixel. All
// boxes of an image are one tall grid, so that no image is copied. Samples outside of the image are 0.
class TensorRtCropImport {
 public:
  explicit TensorRtCropImport(NodeImport& node)
      : node_(node),
        height_(node.required_integer("crop_height")),
        width_(node.required_integer("crop_width")) {}

  Values run() {
    const Shape x = node_.shape(0), rois = node_.shape(1);
    if (x.size() != 4 || (rois.size() != 3 && rois.size() != 4))
      node_.fail("expected feature maps (N, C, H, W) and boxes (N, B, 4, 1)");
    if (height_ < 1 || width_ < 1) node_.fail("the crop must have a pixel at least");
    const Dim batch = x[0], boxes = rois[1];
    boxes_ = node_.reshape(node_.in(1), {batch, boxes, 4}, "corners");
    const ValueId down = along(0, height_, {batch, boxes, height_, 1}),
                  across = along(1, width_, {batch, boxes, 1, width_});
    const Shape full = {batch, boxes, height_, width_, 1};
    const ValueId ys = node_.expand(unsqueezed(down), full, "ys"),
                  xs = node_.expand(unsqueezed(across), full, "xs");
    ValueId grid = node_.add(Concat{.axis = 4}, {xs, ys}, "places");
    grid = node_.pointwise(C::Linear, {grid}, 2, -1, "centred");
    grid = node_.reshape(grid, {batch, boxes * Dim(height_), width_, 2}, "grid");
    const ValueId samples = node_.add(GridSample{.align_corners = true}, {node_.in(0), grid}, "samples");
    ValueId crops = node_.reshape(samples, {batch, x[1], boxes, height_, width_}, "rows");
    crops = node_.transpose(crops, {0, 2, 1, 3, 4}, "crops");
    const ValueId inside = node_.pointwise(C::Mul, {is_inside(down), is_inside(across)}, "inside");
    const ValueId mask = node_.reshape(inside, {batch, boxes, 1, height_, width_}, "mask");
    return {node_.pointwise(C::Mul, {crops, mask}, "")};
  }

 private:
  // Places along an axis as fractions of the image: (N, B, count, 1) or (N, B, 1, count).
  ValueId along(int64_t axis, int64_t count, const Shape& shape) {
    const Dim batch = node_.shape(0)[0], boxes = node_.shape(1)[1];
    const auto corner = [&](int64_t k) {
      return node_.reshape(node_.slice(boxes_, 2, k, k + 1, "corner"), {batch, boxes, 1}, "corner_of");
    };
    const ValueId first = corner(axis), last = corner(axis + 2);
    std::vector<double> steps;
    for (int64_t i = 0; i < count; ++i)
      steps.push_back(count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0.5);
    const ValueId fractions =
        node_.constant(Tensor::from_doubles(node_.dtype(1), {count}, steps), "fractions");
    const ValueId extent = node_.pointwise(C::Sub, {last, first}, "extent");
    const ValueId place =
        node_.pointwise(C::Add, {node_.pointwise(C::Mul, {extent, fractions}, "step"), first}, "place");
    return node_.reshape(place, shape, "axis");
  }
  ValueId unsqueezed(ValueId v) {
    Shape shape = node_.shape_of(v);
    shape.push_back(1);
    return node_.reshape(v, shape, "column");
  }
  ValueId is_inside(ValueId place) {
    const DType type = node_.dtype_of(place);
    const ValueId low = node_.pointwise(C::GreaterOrEqual, {place, node_.scalar(0, type)}, "after");
    const ValueId high = node_.pointwise(C::LessOrEqual, {place, node_.scalar(1, type)}, "before");
    return node_.cast(node_.pointwise(C::And, {low, high}, "within"), node_.dtype(0), "is_inside");
  }

  NodeImport& node_;
  const int64_t height_, width_;
  ValueId boxes_ = kNoValue;
};

Values import_tensorrt_crop_and_resize(NodeImport& node) {
  return TensorRtCropImport(node).run();
}

// --- MultiscaleDeformableAttnPlugin_TRT: value (N, S, M, D), shapes of the levels (L, 2), their starts (L),
// places (N, Lq, M, L, P, 2) in 0 .. 1, weights (N, Lq, M, L, P). Each level is sampled as images, one of
// each head; weighted samples are added up.
class DeformableAttentionImport {
 public:
  explicit DeformableAttentionImport(NodeImport& node) : node_(node) {}

  Values run() {
    const auto shapes = node_.known_ints(1), starts = node_.known_ints(2);
    if (!shapes || !starts)
      throw_unsupported(
          "its spatial_shapes and level_start_index are computed while the model runs; they must be "
          "constant");
    const Shape value = node_.shape(0), places = node_.shape(3);
    if (value.size() != 4 || places.size() != 6 || shapes->size() != 2 * starts->size())
      node_.fail(
          "expected value (N, S, M, D), spatial_shapes (L, 2) and sampling_locations (N, Lq, M, L, P, 2)");
    batch_ = value[0], heads_ = value[2], depth_ = value[3], queries_ = places[1], points_ = places[4];
    ValueId sum = kNoValue;
    for (size_t l = 0; l < starts->size(); ++l) {
      const ValueId part =
          level(static_cast<int64_t>(l), (*shapes)[2 * l], (*shapes)[2 * l + 1], (*starts)[l]);
      sum = sum == kNoValue ? part : node_.pointwise(C::Add, {sum, part}, "levels");
    }
    const ValueId heads = node_.reshape(sum, {batch_, heads_, depth_, queries_}, "heads");
    return {node_.transpose(heads, {0, 3, 1, 2}, "")};
  }

 private:
  ValueId level(int64_t index, int64_t height, int64_t width, int64_t start) {
    if (height < 1 || width < 1 || start < 0) node_.fail("a level has no pixels, or starts before the value");
    ValueId image = node_.slice(node_.in(0), 1, start, start + height * width, "level");
    image = node_.transpose(image, {0, 2, 3, 1}, "channels");
    image = node_.reshape(image, {batch_ * heads_, depth_, height, width}, "image");
    ValueId grid = node_.reshape(node_.slice(node_.in(3), 3, index, index + 1, "places"),
                                 {batch_, queries_, heads_, points_, 2}, "places_of");
    grid = node_.transpose(grid, {0, 2, 1, 3, 4}, "by_head");
    grid = node_.pointwise(C::Linear, {grid}, 2, -1, "centred");
    grid = node_.reshape(grid, {batch_ * heads_, queries_, points_, 2}, "grid");
    const ValueId samples = node_.add(GridSample{}, {image, grid}, "samples");
    ValueId weights = node_.reshape(node_.slice(node_.in(4), 3, index, index + 1, "weights"),
                                    {batch_, queries_, heads_, points_}, "weights_of");
    weights = node_.transpose(weights, {0, 2, 1, 3}, "weights_by_head");
    weights = node_.reshape(weights, {batch_ * heads_, 1, queries_, points_}, "factors");
    return node_.reduce(ReduceKind::Sum, node_.pointwise(C::Mul, {samples, weights}, "weighted"), {3}, false,
                        "sum");
  }

  NodeImport& node_;
  Dim batch_, heads_, depth_, queries_, points_;
};

Values import_deformable_attention(NodeImport& node) {
  return DeformableAttentionImport(node).run();
}

// --- DisentangledAttention_TRT (DeBERTa v2): scores of content with content, and of both with the relative
// position, which is exact for the span's inner half and logarithmic outside.
class DisentangledImport {
 public:
  explicit DisentangledImport(NodeImport& node) : node_(node), span_(node.required_integer("span")) {}

  Values run() {
    const Shape scores = node_.shape(0);
    if (scores.size() != 3 || node_.rank(1) != 3 || node_.rank(2) != 3)
      node_.fail("its inputs must have rank 3");
    const Dim relative = node_.shape(1)[2];
    if (span_ < 2 || !relative.is_constant() || relative.value() < 2 * span_)
      node_.fail("the span must be 2 or more, and the positions' last dim twice the span");
    const ValueId index = positions(scores[1], relative.value());
    const Shape full = {scores[0], scores[1], scores[1]};
    const ValueId by_query = node_.expand(index, full, "query_positions");
    const ValueId by_key = node_.expand(node_.transpose(index, {1, 0}, "turned"), full, "key_positions");
    const ValueId content = node_.add(GatherElements{.axis = 2}, {node_.in(1), by_query}, "content_position");
    const ValueId position = node_.add(GatherElements{.axis = 2}, {node_.in(2), by_key}, "position_content");
    const ValueId both =
        node_.pointwise(C::Add, {content, node_.transpose(position, {0, 2, 1}, "by_row")}, "positions");
    const ValueId sum = node_.pointwise(C::Add, {node_.in(0), both}, "sum");
    return {node_.pointwise(
        C::Mul, {sum, node_.scalar(static_cast<double>(node_.real("factor", 1)), node_.dtype(0))}, "")};
  }

 private:
  ValueId number(double value) { return node_.scalar(value, DType::Float32); }

  // (S, S): the place of row - column among the relative positions.
  ValueId positions(const Dim& length, int64_t relative) {
    const ValueId count = node_.dim_scalar(length);
    const ValueId range = node_.cast(
        node_.add(Range{}, {node_.scalar(0, DType::Int64), count, node_.scalar(1, DType::Int64)}, "range"),
        DType::Float32, "steps");
    const ValueId distance = node_.pointwise(
        C::Sub, {node_.reshape(range, {length, 1}, "rows"), node_.reshape(range, {1, length}, "columns")},
        "distance");
    const auto middle = static_cast<float>(span_ / 2);
    const float log_middle = std::log(middle), epsilon = 1e-7F;
    const float factor =
        (middle - 1) / (std::log(static_cast<float>(relative - 1)) - log_middle) * (1 - epsilon);
    const ValueId size = node_.pointwise(C::Abs, {distance}, "size");
    // Where the distance is small the logarithm is not used; 1 keeps it finite there.
    const ValueId log =
        node_.pointwise(C::Log, {node_.pointwise(C::Max, {size, number(1)}, "at_least_1")}, "log");
    const ValueId above = node_.pointwise(C::Sub, {log, number(static_cast<double>(log_middle))}, "above");
    const ValueId steps = node_.pointwise(C::Mul, {above, number(static_cast<double>(factor))}, "log_steps");
    const ValueId far = node_.pointwise(
        C::Add, {node_.pointwise(C::Ceil, {steps}, "whole"), number(static_cast<double>(middle))}, "far");
    const ValueId signed_far =
        node_.pointwise(C::Mul, {far, node_.pointwise(C::Sign, {distance}, "sign")}, "signed");
    const ValueId is_near =
        node_.pointwise(C::LessOrEqual, {size, number(static_cast<double>(middle))}, "is_near");
    const ValueId bucket = node_.pointwise(C::Where, {is_near, distance, signed_far}, "bucket");
    const ValueId moved = node_.pointwise(C::Add, {bucket, number(static_cast<double>(span_))}, "moved");
    const ValueId low = node_.pointwise(C::Max, {moved, number(0)}, "low");
    const ValueId bounded =
        node_.pointwise(C::Min, {low, number(static_cast<double>(2 * span_ - 1))}, "bounded");
    return node_.cast(bounded, DType::Int64, "index");
  }

  NodeImport& node_;
  const int64_t span_;
};

Values import_disentangled(NodeImport& node) {
  return DisentangledImport(node).run();
}

Values import_tensorrt_instance_norm(NodeImport& node) {
  const ValueId y = node.add(GroupNorm{.groups = 0, .epsilon = node.real("epsilon", 1e-5F)},
                             {node.in(0), node.in(1), node.in(2)});
  if (node.integer("relu", 0) == 0) return {y};
  return {node.pointwise(C::LeakyRelu, {y}, node.real("alpha", 0), 0, "relu")};
}

Values import_tensorrt_group_norm(NodeImport& node) {
  const auto flat = [&](size_t i) {
    Dim count = element_count(node.shape(i));
    return node.reshape(node.in(i), {count}, i == 1 ? "scale" : "bias");
  };
  return {
      node.add(GroupNorm{.groups = node.required_integer("num_groups"), .epsilon = node.real("eps", 1e-5F)},
               {node.in(0), flat(1), flat(2)})};
}

Values import_tensorrt_scatter_nd(NodeImport& node) {
  return {node.add(ScatterND{}, {node.in(0), node.cast(node.in(1), DType::Int64, "indices"), node.in(2)})};
}

// The k largest or smallest of each row, in order, and their places.
Values import_topk_last_dim(NodeImport& node) {
  const TopK op{.axis = static_cast<int64_t>(node.rank(0)) - 1,
                .largest = node.integer("is_largest", 1) != 0};
  const Values found = node.add_multi(op, {node.in(0), node.ints_constant({node.required_integer("k")})}, 2);
  return {found[0], node.cast(found[1], DType::Int32, "places")};
}

}  // namespace

std::vector<Importer> tensorrt_plugin_importers() {
  const std::string_view domain = kTensorRtDomain;
  return {{"ROIAlign_TRT", 1, kLatestOpset, import_tensorrt_roi_align, domain},
          {"CropAndResize", 1, kLatestOpset, import_tensorrt_crop_and_resize, domain},
          {"CropAndResizeDynamic", 1, kLatestOpset, import_tensorrt_crop_and_resize, domain},
          {"ModulatedDeformConv2d", 1, kLatestOpset, import_modulated_deform_conv, domain},
          {"MultiscaleDeformableAttnPlugin_TRT", 1, kLatestOpset, import_deformable_attention, domain},
          {"DisentangledAttention_TRT", 1, kLatestOpset, import_disentangled, domain},
          {"InstanceNormalization_TRT", 1, kLatestOpset, import_tensorrt_instance_norm, domain},
          {"GroupNormalizationPlugin", 1, kLatestOpset, import_tensorrt_group_norm, domain},
          {"ScatterND", 1, kLatestOpset, import_tensorrt_scatter_nd, domain},
          {"TopkLastDim", 1, kLatestOpset, import_topk_last_dim, domain}};
}

}  // namespace lathe::onnx
