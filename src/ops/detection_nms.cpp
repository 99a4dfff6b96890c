// SPDX-License-Identifier: Apache-2.0
//
// DetectionNms: the detections of each item of a batch, best first: pairs of box and class above a threshold,
// without those that overlap a better one. Among equal scores the lower box comes first, then the lower
// class.
#include <algorithm>
#include <string>

#include "ops/expected_shapes.h"
#include "ops/families.h"

namespace lathe {
namespace {

struct DetectionBox {
  double x1, y1, x2, y2;
};

struct Candidate {
  double score;
  int64_t box, label;
};

double overlap(const DetectionBox& a, const DetectionBox& b, double pixel) {  // intersection over union
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1) + pixel;
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1) + pixel;
  if (!(width > 0) || !(height > 0)) return 0;
  const auto area = [&](const DetectionBox& c) { return (c.x2 - c.x1 + pixel) * (c.y2 - c.y1 + pixel); };
  const double both = area(a) + area(b) - width * height;
  return both > 0 ? width * height / both : 0;
}

std::vector<ResultInfo> infer_detections(const DetectionNms& op, const InferContext& context) {
  const Value &boxes = context.input(0), &scores = context.input(1);
  if (scores.shape.size() != 3) throw_input_error("scores must be (batch, boxes, classes)");
  if (boxes.shape.size() != 3 && boxes.shape.size() != 4)
    throw_input_error("boxes must be (batch, boxes, 4) or (batch, boxes, 1 or classes, 4)");
  expect_real(context, 0, "boxes");
  expect_real(context, 1, "scores");
  Shape expected = {scores.shape[0], scores.shape[1], 4};
  if (boxes.shape.size() == 4)
    expected.insert(expected.begin() + 2, boxes.shape[2].is_constant(1) ? Dim(1) : scores.shape[2]);
  expect_shape(context, 0, "boxes", expected);
  if (boxes.dtype != scores.dtype) throw_input_error("boxes and scores must have one type");
  if (op.keep < 1)
    throw_input_error("it keeps " + std::to_string(op.keep) + " detections; expected 1 or more");
  const Dim batch = scores.shape[0];
  return {{DType::Int32, {batch, 1}},
          {boxes.dtype, {batch, op.keep, 4}},
          {scores.dtype, {batch, op.keep}},
          {DType::Int32, {batch, op.keep}}};
}

struct Item {
  const DetectionNms& op;
  std::span<const double> boxes, scores;  // of this item
  int64_t count, classes, boxes_per_anchor;

  DetectionBox box(const Candidate& c) const {
    const int64_t which = c.box * boxes_per_anchor + (boxes_per_anchor > 1 ? c.label : 0);
    const double* b = boxes.data() + which * 4;
    return {b[0], b[1], b[2], b[3]};
  }
  std::vector<Candidate> of_class(int64_t label) const {
    std::vector<Candidate> found;
    for (int64_t i = 0; i < count; ++i) {
      const double score = scores[static_cast<size_t>(i * classes + label)];
      if (score > static_cast<double>(op.score_threshold)) found.push_back({score, i, label});
    }
    std::ranges::stable_sort(found, std::ranges::greater(), &Candidate::score);
    if (op.top_k >= 0 && static_cast<int64_t>(found.size()) > op.top_k)
      found.resize(static_cast<size_t>(op.top_k));
    return found;
  }
  std::vector<Candidate> candidates() const {
    std::vector<Candidate> all;
    for (int64_t label = 0; label < classes; ++label) {
      if (label == op.background) continue;
      const auto some = of_class(label);
      all.insert(all.end(), some.begin(), some.end());
    }
    std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
      return a.score != b.score ? a.score > b.score : a.box != b.box ? a.box < b.box : a.label < b.label;
    });
    return all;
  }
  std::vector<Candidate> detections() const {
    std::vector<Candidate> kept;
    for (const Candidate& c : candidates()) {
      if (static_cast<int64_t>(kept.size()) >= op.keep) break;
      const bool hidden = std::ranges::any_of(kept, [&](const Candidate& other) {
        return (op.any_class || other.label == c.label) &&
               overlap(box(other), box(c), op.pixels ? 1 : 0) > static_cast<double>(op.iou_threshold);
      });
      if (!hidden) kept.push_back(c);
    }
    return kept;
  }
};

std::vector<Tensor> evaluate_detections(const DetectionNms& op, const EvaluateContext& context) {
  std::vector<Tensor> shapes = allocate_results(op, context, infer_detections);
  const std::vector<double> boxes = context.input(0).to_doubles(), scores = context.input(1).to_doubles();
  const Extents &extents = context.input(1).extents(), &box_extents = context.input(0).extents();
  const int64_t batch = extents[0], count = extents[1], classes = extents[2];
  const int64_t per_anchor = box_extents.size() == 4 ? box_extents[2] : 1;
  std::vector<int32_t> counts(static_cast<size_t>(batch)),
      labels(static_cast<size_t>(batch * op.keep), static_cast<int32_t>(op.pad_class));
  std::vector<double> out_boxes(labels.size() * 4), out_scores(labels.size());
  context.parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const auto box_count = static_cast<size_t>(count * per_anchor * 4),
                 score_count = static_cast<size_t>(count * classes);
      const Item item{op,
                      std::span(boxes).subspan(static_cast<size_t>(b) * box_count, box_count),
                      std::span(scores).subspan(static_cast<size_t>(b) * score_count, score_count),
                      count,
                      classes,
                      per_anchor};
      const std::vector<Candidate> found = item.detections();
      counts[static_cast<size_t>(b)] = static_cast<int32_t>(found.size());
      for (size_t i = 0; i < found.size(); ++i) {
        const size_t at = static_cast<size_t>(b * op.keep) + i;
        const DetectionBox box = item.box(found[i]);
        const double corners[] = {box.x1, box.y1, box.x2, box.y2};
        for (size_t k = 0; k < 4; ++k)
          out_boxes[at * 4 + k] = op.clip ? std::clamp(corners[k], 0.0, 1.0) : corners[k];
        out_scores[at] = found[i].score;
        labels[at] = static_cast<int32_t>(found[i].label);
      }
    }
  });
  const DType dtype = context.input(0).dtype();
  return {Tensor::from<int32_t>(shapes[0].extents(), counts),
          Tensor::from_doubles(dtype, shapes[1].extents(), out_boxes),
          Tensor::from_doubles(dtype, shapes[2].extents(), out_scores),
          Tensor::from<int32_t>(shapes[3].extents(), labels)};
}

double detection_flops(const Op&, const CostContext& context) {  // a sort and a few overlaps per candidate
  return 20 * static_cast<double>(element_count(context.inputs[1]));
}

}  // namespace

std::vector<OpDef> detection_nms_ops() {
  return {op_def<DetectionNms, infer_detections, evaluate_detections>(detection_flops)};
}

}  // namespace lathe
