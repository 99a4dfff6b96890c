// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cpu/check/layer_check.h"

namespace lathe::cpu {
TacticFamily detection_nms_tactics();
namespace {

// Boxes lie on a coarse grid, so that many overlap and many scores are equal.
LayerCase detections(const DetectionNms& op, Extents boxes, Extents scores, DType type = DType::Float32) {
  return {.op = op,
          .inputs = {{type, std::move(boxes), false, -1, 3}, {type, std::move(scores), false, 0, 1}},
          .outputs = 4};
}

TEST(DetectionNmsTactics, LimitsAndClasses) {
  for (const bool any_class : {false, true})
    for (const bool pixels : {false, true})
      for (const int64_t keep : {1, 7, 200})
        for (const int64_t top_k : {-1, 0, 5}) {
          const DetectionNms op{.keep = keep,
                                .top_k = top_k,
                                .background = top_k == 5 ? 1 : -1,
                                .pad_class = -1,
                                .score_threshold = 0.3f,
                                .iou_threshold = 0.4f,
                                .any_class = any_class,
                                .pixels = pixels,
                                .clip = keep == 7};
          EXPECT_GE(check_layer(detection_nms_tactics(), detections(op, {2, 40, 4}, {2, 40, 3})), 1);
          EXPECT_GE(check_layer(detection_nms_tactics(), detections(op, {2, 40, 3, 4}, {2, 40, 3})), 1);
          EXPECT_GE(check_layer(detection_nms_tactics(), detections(op, {1, 40, 1, 4}, {1, 40, 3})), 1);
        }
}

TEST(DetectionNmsTactics, TypesPiecesAndNothing) {
  for (const DType type : {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64})
    EXPECT_GE(check_layer(detection_nms_tactics(), detections({.keep = 30}, {2, 50, 4}, {2, 50, 5}, type)),
              1);
  EXPECT_GE(check_layer(detection_nms_tactics(),
                        detections({.keep = 50, .score_threshold = 0.95f}, {1, 3000, 4}, {1, 3000, 20})),
            1);
  EXPECT_GE(check_layer(detection_nms_tactics(), detections({}, {2, 0, 4}, {2, 0, 5})), 1);
  EXPECT_GE(check_layer(detection_nms_tactics(), detections({}, {2, 9, 4}, {2, 9, 0})), 1);
}

}  // namespace
}  // namespace lathe::cpu
