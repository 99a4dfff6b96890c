// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/cuda/codegen/generated_check.h"

namespace lathe::cuda {
GeneratedFamily detection_nms_family();
GeneratedFamily nms_family();
GeneratedFamily nonzero_family();
GeneratedFamily unique_family();
namespace {

TEST(CudaNonZero, TypesAndRanks) {
  std::vector<LayerCase> cases;
  for (const DType type : {DType::Float32, DType::Int64, DType::Bool})
    for (const Extents& x :
         {Extents{1}, Extents{300}, Extents{4, 5}, Extents{3, 700, 2}, Extents{2, 3, 4, 5}})
      cases.push_back({.op = NonZero{}, .inputs = {{.dtype = type, .extents = x, .low = 0, .high = 1.9}}});
  cases.push_back(
      {.op = NonZero{}, .inputs = {{.dtype = DType::Bool, .extents = {7}, .low = 0, .high = 0.5}}});
  EXPECT_EQ(check_generated(nonzero_family(), cases), 16);
}

// Boxes lie on a coarse grid, so that many overlap and many scores are equal.
TEST(CudaNms, LimitsAndBoxes) {
  const auto number = [](double value, DType type) {
    return CheckedInput{.dtype = type, .extents = {1}, .constant = true, .low = value, .high = value + 1e-6};
  };
  std::vector<LayerCase> cases;
  for (const bool center : {false, true})
    for (const double most : {0.0, 1.0, 5.0, 100.0}) {
      LayerCase layer{.op = NonMaxSuppression{center},
                      .inputs = {{.extents = {2, 130, 4}, .low = 0, .high = 4},
                                 {.extents = {2, 3, 130}, .low = 0, .high = 1},
                                 number(most, DType::Int64),
                                 number(0.25, DType::Float32)}};
      cases.push_back(layer);
      layer.inputs.push_back(number(0.5, DType::Float32));
      cases.push_back(layer);
    }
  cases.push_back({.op = NonMaxSuppression{},
                   .inputs = {{.dtype = DType::Float16, .extents = {1, 4500, 4}, .low = 0, .high = 4},
                              {.dtype = DType::Float16, .extents = {1, 1, 4500}, .low = 0, .high = 1},
                              number(1000, DType::Int64),
                              number(0.75, DType::Float32)}});
  EXPECT_EQ(check_generated(nms_family(), cases), 17);
}

LayerCase detections(const DetectionNms& op, Extents boxes, Extents scores, DType type = DType::Float32) {
  return {.op = op,
          .inputs = {{type, std::move(boxes), false, -1, 3}, {type, std::move(scores), false, 0, 1}},
          .outputs = 4};
}

TEST(CudaDetectionNms, LimitsAndClasses) {
  std::vector<LayerCase> cases;
  for (const bool any_class : {false, true})
    for (const int64_t keep : {1, 7, 200})
      for (const int64_t top_k : {-1, 0, 5}) {
        const DetectionNms op{.keep = keep,
                              .top_k = top_k,
                              .background = top_k == 5 ? 1 : -1,
                              .pad_class = -1,
                              .score_threshold = 0.3f,
                              .iou_threshold = 0.4f,
                              .any_class = any_class,
                              .pixels = keep == 1,
                              .clip = keep == 7};
        if (any_class) cases.push_back(detections(op, {2, 70, 4}, {2, 70, 3}));
        cases.push_back(detections(op, {2, 40, 3, 4}, {2, 40, 3}));
        if (!any_class) cases.push_back(detections(op, {1, 40, 1, 4}, {1, 40, 3}));
      }
  for (const DType type : {DType::Float16, DType::BFloat16})
    cases.push_back(detections({.keep = 30}, {2, 50, 4}, {2, 50, 5}, type));
  cases.push_back(detections({.keep = 50, .score_threshold = 0.9f}, {1, 900, 4}, {1, 900, 5}));
  EXPECT_EQ(check_generated(detection_nms_family(), cases), 39);
}

TEST(CudaUnique, ElementsSlicesAndOrders) {
  std::vector<LayerCase> cases;
  for (const bool sorted : {true, false}) {
    for (const DType type : {DType::Float32, DType::Float16, DType::Int64, DType::UInt8}) {
      const double low = type == DType::UInt8 ? 0 : -9;
      cases.push_back({.op = Unique{.sorted = sorted},
                       .inputs = {{.dtype = type, .extents = {6, 50}, .low = low, .high = 9}},
                       .outputs = 4});
    }
    cases.push_back({.op = Unique{.sorted = sorted},
                     .inputs = {{.dtype = DType::Int32, .extents = {5000}, .low = 0, .high = 3000}},
                     .outputs = 4});
    for (const int64_t axis : {0, 1, -1})
      cases.push_back({.op = Unique{.axis = Ints{axis}, .sorted = sorted},
                       .inputs = {{.dtype = DType::Int64, .extents = {9, 2, 7}, .low = 0, .high = 1.9}},
                       .outputs = 4});
  }
  EXPECT_EQ(check_generated(unique_family(), cases), 16);
}

}  // namespace
}  // namespace lathe::cuda
