// SPDX-License-Identifier: Apache-2.0
//
// GridSample: a thread for each place of the grid, which walks over a part of the channels; the pixels and
// weights of its place are found once. Bytes: the grid is read once for each part of the channels, pixels as
// often as places show them, mostly from the caches, and the result is written once. Places are double, as in
// ops/grid_taps.cpp: rounding decides which pixel is nearest.
//
// A place that is not a number, or far outside, is an index inside of the image before memory is read.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/sample/sample.h"
#include "lathe_device_text/grid_sample.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kGridSampleRunner = "GridSample";

std::vector<Tactic> list_grid_sample(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<GridSample>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kGridSampleRunner, "cuda_grid_sample", {type, kLinear}, {type, kLinear});
    if (t.support.ok && type != DType::Float64) t.support = expect_floats(t, {0});
    if (t.support.ok && t.inputs[1].dtype != DType::Float64) t.support = expect_floats(t, {1});
    if (input_shape(query, 0).size() > 5) t.support = Support::no("more than three spatial dims");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

LayerSource generate_grid_sample(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const auto& op = std::get<GridSample>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const size_t rank = x.size() - 2;
  const Dim places = product(y, 2, y.size()), all = x[0] * places;
  const bool wide = tactic.inputs[0].dtype == DType::Float64;
  const std::string number = wide ? "double" : "float";
  KernelBuilder b = start_kernel(query, tactic, "grid_sample", tactic.outputs[0].dtype);
  if (wide) b.set_fast_math(false);
  Tail(query, tactic).emit(b, 1);
  const Dim parts = parts_of_channels(query, ceil_div(all, Dim(128)), x[1], device.properties);
  b.kernel().threads = 128;
  b.kernel().grid = {ceil_div(all, Dim(128)), parts, 1};
  b.constants({{"TAPS", op.mode == ResizeMode::Nearest ? 1
                        : op.mode == ResizeMode::Cubic ? 4
                                                       : 2},
               {"CORNERS", op.align_corners},
               {"PADDING", static_cast<int64_t>(op.padding)}});
  b.global("typedef " + number + " Number;");
  b.global(device_text::grid_sample::kGridSample);
  const std::string channels = b.number(x[1]), count = b.number(places),
                    step = b.number(ceil_div(x[1], parts));
  b.line("const idx at = (idx)blockIdx.x * 128 + threadIdx.x;\nif (at >= " + b.number(all) +
         ") return;\nconst idx image = at / " + count + ", place = at % " + count +
         ", c0 = (idx)blockIdx.y * " + step + ", c1 = min(c0 + " + step + ", (idx)" + channels + ");");
  const std::string grid = b.input(1, tactic.inputs[1].dtype), from = b.input(0, tactic.inputs[0].dtype);
  std::string loops, weight, offset, close;
  Dim stride = 1;
  for (size_t d = rank; d-- > 0;) {
    const std::string n = std::to_string(d), t = "t" + n, i = "i" + n;
    b.line("const Taps " + t + " = taps_at((double)widen(" + grid + "[at * " + std::to_string(rank) + " + " +
           std::to_string(rank - 1 - d) + "]), " + b.number(x[d + 2]) + ");");
    loops += "#pragma unroll\nfor (int " + i + " = 0; " + i + " < TAPS; ++" + i + ") {\n";
    weight += (weight.empty() ? "" : " * ") + t + ".weight[" + i + "]";
    offset += " + " + t + ".index[" + i + "] * " + b.number(stride);
    close += "}";
    stride = stride * x[d + 2];
  }
  b.line("for (idx c = c0; c < c1; ++c) {\nconst auto* plane = " + from + " + (image * " + channels +
         " + c) * " + b.number(stride) + ";\nNumber v[1] = {0};\n" + loops + "const Number weight = " +
         weight + ";\nif (weight != 0) v[0] += weight * widen(plane[" + offset.substr(3) + "]);\n" + close +
         "\nfinish1((image * " + channels + " + c) * " + count + " + place, v);\n}");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily grid_sample_family() {
  return {kGridSampleRunner, list_grid_sample, generate_grid_sample};
}

}  // namespace lathe::cuda
