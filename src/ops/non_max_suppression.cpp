// SPDX-License-Identifier: Apache-2.0
//
// NonMaxSuppression: for each batch and class, boxes in the order of falling scores; a box that overlaps one
// already chosen by more than the threshold goes. Among equal scores the lower index comes first.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/expected_shapes.h"
#include "ops/families.h"
#include "ops/movement.h"

namespace lathe {
namespace {

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

// Corners may be given in any order.
Box box_at(const float* data, bool center_point) {
  if (center_point) {  // x, y, width, height
    const float half_width = data[2] / 2, half_height = data[3] / 2;
    return {data[1] - half_height, data[0] - half_width, data[1] + half_height, data[0] + half_width};
  }
  return {std::min(data[0], data[2]), std::min(data[1], data[3]), std::max(data[0], data[2]),
          std::max(data[1], data[3])};
}

float overlap(const Box& a, const Box& b) {  // intersection over union
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0)) return 0;
  const float intersection = height * width, both = a.area() + b.area() - intersection;
  return both > 0 ? intersection / both : 0;
}

struct Limits {
  int64_t max_boxes = 0;
  float iou_threshold = 0;
  bool has_score_threshold = false;
  float score_threshold = 0;
};

std::vector<int64_t> selected_boxes(const std::vector<Box>& boxes, const float* scores,
                                    const Limits& limits) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < boxes.size(); ++i) {
    // NaN compares false and goes: a score that is no number selects nothing.
    if (limits.has_score_threshold ? scores[i] > limits.score_threshold : scores[i] == scores[i]) {
      order.push_back(static_cast<int64_t>(i));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  std::vector<int64_t> selected;
  for (const int64_t i : order) {
    if (static_cast<int64_t>(selected.size()) >= limits.max_boxes) break;
    const bool suppressed = std::any_of(selected.begin(), selected.end(), [&](int64_t s) {
      return overlap(boxes[static_cast<size_t>(i)], boxes[static_cast<size_t>(s)]) > limits.iou_threshold;
    });
    if (!suppressed) selected.push_back(i);
  }
  return selected;
}

double scalar_input(const EvaluateContext& context, size_t i, double otherwise) {
  if (!context.has(i) || context.input(i).size() == 0) return otherwise;
  return context.input(i).to_doubles()[0];
}

Limits limits_of(const EvaluateContext& context) {
  Limits limits;
  limits.max_boxes = static_cast<int64_t>(std::clamp(scalar_input(context, 2, 0), 0.0, 1e15));
  limits.iou_threshold = static_cast<float>(scalar_input(context, 3, 0));
  limits.has_score_threshold = context.has(4) && context.input(4).size() > 0;
  limits.score_threshold = static_cast<float>(scalar_input(context, 4, 0));
  if (!(limits.iou_threshold >= 0 && limits.iou_threshold <= 1)) {
    throw_input_error("iou_threshold = " + std::to_string(limits.iou_threshold) + " is not between 0 and 1");
  }
  return limits;
}

std::vector<Tensor> evaluate_nms(const NonMaxSuppression& op, const EvaluateContext& context) {
  const Tensor &boxes = context.input(0), &scores = context.input(1);
  const int64_t batches = scores.extents()[0], classes = scores.extents()[1], count = scores.extents()[2];
  if (boxes.extents() != Extents{batches, count, 4}) {
    throw_input_error("boxes of " + to_string(boxes.extents()) + " do not fit to scores of " +
                      to_string(scores.extents()) +
                      ": expected (batch, boxes, 4) and (batch, classes, boxes)");
  }
  const Limits limits = limits_of(context);
  const std::vector<double> box_values = boxes.to_doubles(), score_values = scores.to_doubles();
  const std::vector<float> box_data(box_values.begin(), box_values.end());
  const std::vector<float> score_data(score_values.begin(), score_values.end());
  std::vector<std::vector<int64_t>> selected(static_cast<size_t>(batches * classes));
  context.parallel_for(batches * classes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::vector<Box> all;
      for (int64_t k = 0; k < count; ++k) {
        all.push_back(box_at(box_data.data() + (i / classes * count + k) * 4, op.center_point_box));
      }
      selected[static_cast<size_t>(i)] = selected_boxes(all, score_data.data() + i * count, limits);
    }
  });
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < batches * classes; ++i) {
    for (const int64_t box : selected[static_cast<size_t>(i)])
      rows.insert(rows.end(), {i / classes, i % classes, box});
  }
  return {Tensor::from<int64_t>({static_cast<int64_t>(rows.size()) / 3, 3}, rows)};
}

std::vector<ResultInfo> infer_nms(const NonMaxSuppression&, const InferContext& context) {
  const Value &boxes = context.input(0), &scores = context.input(1);
  const bool last_is_four =
      boxes.shape.size() == 3 && (!boxes.shape[2].is_constant() || boxes.shape[2].value() == 4);
  if (!last_is_four || scores.shape.size() != 3) {
    throw_input_error("boxes must have shape (batch, boxes, 4) and scores (batch, classes, boxes)");
  }
  if (!is_float(boxes.dtype) || !is_float(scores.dtype)) throw_input_error("boxes and scores must be floats");
  for (size_t i = 2; i < 5; ++i)
    if (context.has(i)) expect_elements(context, i, "a limit", 1);
  // Without a limit nothing is selected; a constant one bounds the result.
  Dim per_class = scores.shape[2];
  if (!context.has(2)) {
    per_class = 0;
  } else if (const auto most = known_integers(context, 2, "the most boxes of a class");
             most && most->size() == 1 && (*most)[0].is_constant()) {
    per_class = min(per_class, Dim(std::max<int64_t>(0, (*most)[0].value())));
  }
  const Dim upper = scores.shape[0] * scores.shape[1] * per_class;
  const Dim count = upper.is_constant(0) ? Dim(0) : Dim::data_dependent(context.dim_name("selected"), upper);
  return {{DType::Int64, {count, 3}}};
}

double nms_flops(const Op&, const CostContext& context) {  // a sort and a few overlaps per box
  return 20 * static_cast<double>(element_count(context.inputs[1]));
}

}  // namespace

std::vector<OpDef> non_max_suppression_ops() {
  return {op_def<NonMaxSuppression, infer_nms, evaluate_nms>(nms_flops)};
}

}  // namespace lathe
