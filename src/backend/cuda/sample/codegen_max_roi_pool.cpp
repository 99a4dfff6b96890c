// SPDX-License-Identifier: Apache-2.0
//
// MaxRoiPool: a thread for each element of the result. Places are found as in ops/roi_points.cpp: a product
// in FP32 that lands on a half decides a pixel. Bytes: pixels of the boxes from the caches, the result once.
//
// A box whose coordinates are not finite, or of an image that there is not, gives zeros.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/sample/sample.h"
#include "lathe_device_text/max_roi_pool.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kMaxRoiPoolRunner = "MaxRoiPool";

std::vector<Tactic> list_max_roi_pool(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<MaxRoiPool>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kMaxRoiPoolRunner, "cuda_max_roi_pool", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0, 1});
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_max_roi_pool(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<MaxRoiPool>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  const Dim count = element_count(output_shape(query));
  KernelBuilder b = start_kernel(query, tactic, "max_roi_pool", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid[0] = ceil_div(count, Dim(256));
  b.global("constexpr int OH = " + std::to_string(op.output_height) +
           ", OW = " + std::to_string(op.output_width) +
           ";\nconstexpr float SCALE = " + float_literal(static_cast<double>(op.spatial_scale)) + ";");
  b.global(device_text::max_roi_pool::kSpan);
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype) + "\n#define BOXES " +
         b.input(1, tactic.inputs[1].dtype) + "\nconst idx COUNT = " + b.number(count) +
         ", N = " + b.number(x[0]) + ", C = " + b.number(x[1]) + ", H = " + b.number(x[2]) +
         ", W = " + b.number(x[3]) + ";");
  b.line(device_text::max_roi_pool::kBody);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily max_roi_pool_family() {
  return {kMaxRoiPoolRunner, list_max_roi_pool, generate_max_roi_pool};
}

}  // namespace lathe::cuda
