// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign: a thread for each bin of a box and eight channels. The points of a bin are found once for its
// channels, in double as in ops/roi_points.cpp, and only those inside of the image are walked, whatever the
// size of the box. Bytes: pixels of the boxes from the L2, the result once.
//
// A box whose coordinates are not finite gives NaN, one of an image that there is not zeros.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/sample/sample.h"
#include "lathe_device_text/roi_align.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRoiAlignRunner = "RoiAlign";
constexpr int kChannels = 8;

std::vector<Tactic> list_roi_align(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<RoiAlign>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kRoiAlignRunner, "cuda_roi_align", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0, 1});
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_roi_align(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<RoiAlign>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  KernelBuilder b = start_kernel(query, tactic, "roi_align", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  const Dim bins = op.output_height * op.output_width;
  b.kernel().threads = 128;
  b.kernel().grid = {ceil_div(y[0] * bins, Dim(128)), ceil_div(x[1], Dim(kChannels)), 1};
  char scale[40];
  std::snprintf(scale, sizeof scale, "%.17g", static_cast<double>(op.spatial_scale));
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  b.global("constexpr int CHANNELS = " + std::to_string(kChannels) +
           ", OH = " + std::to_string(op.output_height) + ", OW = " + std::to_string(op.output_width) +
           ", RATIO = " + std::to_string(op.sampling_ratio) + ";\nconstexpr idx BINS = (idx)OH * OW;\n" +
           "constexpr bool MAX = " + flag(op.max) + ", HALF_PIXEL = " + flag(op.half_pixel) +
           ";\nconstexpr double SCALE = " + scale + ", SHIFT = " + (op.half_pixel ? "0.5" : "0.") + ";");
  b.global(device_text::roi_align::kPoints);
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype) + "\n#define BOXES " +
         b.input(1, tactic.inputs[1].dtype) + "\n#define IMAGES " + b.input(2, DType::Int64) +
         "\nconst idx ROIS = " + b.number(y[0]) + ", N = " + b.number(x[0]) + ", C = " + b.number(x[1]) +
         ", H = " + b.number(x[2]) + ", W = " + b.number(x[3]) + ";");
  b.line(device_text::roi_align::kBody);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily roi_align_family() {
  return {kRoiAlignRunner, list_roi_align, generate_roi_align};
}

}  // namespace lathe::cuda
