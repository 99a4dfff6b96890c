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

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "GridSample";

std::vector<Tactic> list(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<GridSample>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kRunner, "cuda_grid_sample", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0, 1});
    if (input_shape(query, 0).size() > 5) t.support = Support::no("more than three spatial dims");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// What `op` reads along one dim, as ops/grid_taps.cpp has it.
std::string taps_text(const GridSample& op) {
  const bool nearest = op.mode == ResizeMode::Nearest, cubic = op.mode == ResizeMode::Cubic;
  const bool reflects = op.padding == GridPadding::Reflection;
  std::string text = "constexpr int TAPS = " +
                     std::string(nearest ? "1"
                                 : cubic ? "4"
                                         : "2") +
                     ";\nconstexpr bool CORNERS = " + (op.align_corners ? "true" : "false") + ";\n";
  text += R"(struct Taps { idx index[TAPS]; float weight[TAPS]; };
DEV double within(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
DEV double reflect(double x, double n) {
const double low = CORNERS ? 0. : -0.5, range = CORNERS ? n - 1. : n;
if (range <= 0) return low;
double from_low = fmod(fabs(x - low), 2 * range);
if (from_low > range) from_low = 2 * range - from_low;
return low + from_low;
}
DEV Taps taps_at(double normalized, idx extent) {
const double n = (double)extent;
double x = CORNERS ? (normalized + 1) / 2 * (n - 1) : ((normalized + 1) * n - 1) / 2;
)";
  // Not a number compares false.
  text += "if (!(fabs(x) < 1e300)) {\nx = -2e9;\n} else {\n";
  if (nearest) text += "x = rint(x);\n";
  text += "if (x < (CORNERS ? 0. : -0.5) || x > (CORNERS ? n - 1 : n - 0.5)) {\n";
  if (op.padding == GridPadding::Border && !cubic) text += "x = within(x, 0., n - 1);\n";
  if (reflects) text += "x = reflect(x, n);\n";
  text += "}\nx = within(x, -2e9, 2e9);\n}\nTaps taps;\n";
  if (nearest) {
    text += "const double first = rint(x);\nconst float weights[1] = {1.f};\n";
  } else if (!cubic) {
    text +=
        "const double first = floor(x), t = x - first;\nconst float weights[2] = {(float)(1 - t), "
        "(float)t};\n";
  } else {
    text += R"(const double whole = floor(x), first = whole - 1, a = -0.75;
float weights[4];
#pragma unroll
for (int i = 0; i < 4; ++i) {
const double d = fabs(x - whole + 1 - i);
weights[i] = (float)(d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a);
}
)";
  }
  text +=
      "#pragma unroll\nfor (int i = 0; i < TAPS; ++i) {\ndouble at = first + i;\ntaps.weight[i] = "
      "weights[i];\n"
      "if (!(at >= 0 && at < n)) {\n";
  if (op.padding == GridPadding::Zeros) text += "taps.weight[i] = 0;\n";
  if (reflects) text += "at = trunc(reflect(at, n));\n";
  text +=
      "}\nif (extent < 1) taps.weight[i] = 0;\ntaps.index[i] = (idx)within(at, 0., n - 1);\n}\nreturn "
      "taps;\n}\n";
  return text;
}

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device& device) {
  const auto& op = std::get<GridSample>(query.layer().op);
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const size_t rank = x.size() - 2;
  const Dim places = product(y, 2, y.size()), all = x[0] * places;
  KernelBuilder b = start_kernel(query, tactic, "grid_sample", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  const Dim parts = parts_of_channels(query, ceil_div(all, Dim(128)), x[1], device.properties);
  b.kernel().threads = 128;
  b.kernel().grid = {ceil_div(all, Dim(128)), parts, 1};
  b.global(taps_text(op));
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
         " + c) * " + b.number(stride) + ";\nfloat v[1] = {0.f};\n" + loops + "const float weight = " +
         weight + ";\nif (weight != 0) v[0] += weight * widen(plane[" + offset.substr(3) + "]);\n" + close +
         "\nfinish1((image * " + channels + " + c) * " + count + " + place, v);\n}");
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily grid_sample_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
