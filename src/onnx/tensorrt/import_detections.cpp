// SPDX-License-Identifier: Apache-2.0
//
// TensorRT's plugins that select boxes: EfficientNMS_TRT, EfficientNMS_ONNX_TRT, BatchedNMS_TRT and
// BatchedNMSDynamic_TRT. What comes before the selection (sigmoid, decoding of anchors, corners of centers)
// is written out.
#include "onnx/tensorrt/importers.h"

namespace lathe::onnx {
namespace {

using C = PointwiseCode;

// Attributes that are flags come as integers.
bool flag(const NodeImport& node, std::string_view name, bool otherwise) {
  return node.integer(name, otherwise ? 1 : 0) != 0;
}

// Part `index` of (x, y, w, h) or of two corners, and its partner: the first or the last two numbers of each
// box.
ValueId half(NodeImport& node, ValueId boxes, bool last) {
  const auto axis = static_cast<int64_t>(node.shape_of(boxes).size()) - 1;
  return node.slice(boxes, axis, last ? 2 : 0, last ? 4 : 2, last ? "last" : "first");
}
ValueId join(NodeImport& node, ValueId a, ValueId b) {
  return node.add(Concat{.axis = static_cast<int64_t>(node.shape_of(a).size()) - 1}, {a, b}, "boxes");
}

ValueId corners_of_centers(NodeImport& node, ValueId boxes) {
  const ValueId center = half(node, boxes, false);
  const ValueId reach = node.pointwise(C::Linear, {half(node, boxes, true)}, 0.5F, 0, "half");
  return join(node, node.pointwise(C::Sub, {center, reach}, "low"),
              node.pointwise(C::Add, {center, reach}, "high"));
}

// Corrections of the network to anchors, in the coding of both.
ValueId decode(NodeImport& node, ValueId boxes, ValueId anchors, bool centers) {
  if (node.shape_of(boxes).size() == 4) {  // boxes of each class
    Shape shape = node.shape_of(anchors);
    if (shape.size() < 2) node.fail("its anchors need two dimensions at least (boxes, 4)");
    shape.insert(shape.begin() + 2, 1);
    anchors = node.reshape(anchors, shape, "anchors");
  }
  if (!centers) return node.pointwise(C::Add, {boxes, anchors}, "decoded");
  const ValueId size = half(node, anchors, true);
  const ValueId shift = node.pointwise(C::Mul, {half(node, boxes, false), size}, "shift");
  const ValueId growth = node.pointwise(C::Exp, {half(node, boxes, true)}, "growth");
  return join(node, node.pointwise(C::Add, {shift, half(node, anchors, false)}, "center"),
              node.pointwise(C::Mul, {growth, size}, "size"));
}

Values import_efficient_nms(NodeImport& node) {
  const int64_t coding = node.integer("box_coding", 0);
  if (coding != 0 && coding != 1) node.fail("box_coding is " + std::to_string(coding) + ", expected 0 or 1");
  ValueId boxes = node.in(0), scores = node.in(1);
  if (node.has(2)) boxes = decode(node, boxes, node.in(2), coding == 1);
  if (coding == 1) boxes = corners_of_centers(node, boxes);
  if (flag(node, "score_activation", false)) scores = node.pointwise(C::Sigmoid, {scores}, "activation");
  const DetectionNms op{.keep = node.integer("max_output_boxes", 100),
                        .background = node.integer("background_class", -1),
                        .score_threshold = node.real("score_threshold", 0.25F),
                        .iou_threshold = node.real("iou_threshold", 0.5F),
                        .any_class = flag(node, "class_agnostic", false)};
  return node.add_multi(op, {boxes, scores}, 4);
}

Values import_batched_nms(NodeImport& node) {
  const bool normalized = flag(node, "isNormalized", true);
  const DetectionNms op{.keep = node.integer("keepTopK", 100),
                        .top_k = node.integer("topK", -1),
                        .background = node.integer("backgroundLabelId", -1),
                        .pad_class = -1,
                        .score_threshold = node.real("scoreThreshold", 0),
                        .iou_threshold = node.real("iouThreshold", 0.5F),
                        .pixels = !normalized && flag(node, "caffeSemantics", true),
                        .clip = normalized && flag(node, "clipBoxes", true)};
  Values results = node.add_multi(op, {node.in(0), node.in(1)}, 4);
  results[3] = node.cast(results[3], DType::Float32, "classes");  // this plugin gives classes as floats
  return results;
}

// As ONNX's NonMaxSuppression, in int32, and as many rows as there can be: what was not selected repeats the
// last row (0 where there is none).
Values import_onnx_nms(NodeImport& node) {
  const int64_t most = node.integer("max_output_boxes_per_class", 100);
  const ValueId boxes = node.in(0), scores = node.in(1);
  const ValueId selected =
      node.add(NonMaxSuppression{.center_point_box = flag(node, "center_point_box", false)},
               {boxes, scores, node.scalar(static_cast<double>(most), DType::Int64),
                node.scalar(static_cast<double>(node.real("iou_threshold", 0.5F)), DType::Float32),
                node.scalar(static_cast<double>(node.real("score_threshold", 0.25F)), DType::Float32)},
               "selection");
  const Shape shape = node.shape_of(scores);
  const ValueId total = node.dim_scalar(shape[0] * shape[1] * Dim(most));
  const ValueId none = node.constant(Tensor::allocate(DType::Int64, {1, 3}), "none");
  const ValueId rows = node.add(Concat{.axis = 0}, {none, selected}, "rows");
  // Row 0 is the one for no selection: entry i is row min(i + 1, count).
  const ValueId count =
      node.reshape(node.add(ShapeOf{.start = 0, .end = Ints{1}}, {selected}, "count"), {}, "count_scalar");
  const ValueId numbers =
      node.add(Range{}, {node.scalar(0, DType::Int64), total, node.scalar(1, DType::Int64)}, "numbers");
  const ValueId next = node.pointwise(C::Add, {numbers, node.scalar(1, DType::Int64)}, "next");
  const ValueId indices = node.pointwise(C::Min, {next, count}, "indices");
  return {node.cast(node.add(Gather{.axis = 0}, {rows, indices}, "padded"), DType::Int32, "result")};
}

}  // namespace

std::vector<Importer> tensorrt_detection_importers() {
  const std::string_view domain = kTensorRtDomain;
  return {{"EfficientNMS_TRT", 1, kLatestOpset, import_efficient_nms, domain},
          {"EfficientNMS_ONNX_TRT", 1, kLatestOpset, import_onnx_nms, domain},
          {"BatchedNMS_TRT", 1, kLatestOpset, import_batched_nms, domain},
          {"BatchedNMSDynamic_TRT", 1, kLatestOpset, import_batched_nms, domain}};
}

}  // namespace lathe::onnx
