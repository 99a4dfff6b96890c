// SPDX-License-Identifier: Apache-2.0
//
// RoiAlign: a thread for each bin of a box and eight channels. The points of a bin are found once for its
// channels, in double as in ops/roi_points.cpp, and only those inside of the image are walked, whatever the
// size of the box. Bytes: pixels of the boxes from the L2, the result once.
//
// A box whose coordinates are not finite gives NaN, one of an image that there is not zeros.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/sample/sample.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "RoiAlign";
constexpr int kChannels = 8;

std::vector<Tactic> list(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<RoiAlign>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kRunner, "cuda_roi_align", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0, 1});
    tactics.push_back(std::move(t));
  }
  return tactics;
}

constexpr std::string_view kPoints = R"(struct Points { double start, step, first, last, count; };
DEV bool is_finite(double x) { return fabs(x) < 1e300; }
DEV Points points_of(double low, double high, int index, int bins, double extent) {
const double begin = low * SCALE - SHIFT;
double length = high * SCALE - SHIFT - begin;
if (!HALF_PIXEL && !(length >= 1)) length = 1;
const double bin = length / bins, count = RATIO > 0 ? (double)RATIO : ceil(bin);
Points p = {begin + index * bin, bin / count, 0, -1, count > 0 ? count : 0};
if (!(count >= 1)) return p;
double first = p.step == 0 ? -0.5 : (-1 - p.start) / p.step - 0.5;
double last = p.step == 0 ? count : (extent - p.start) / p.step - 0.5;
if (first > last) {
const double other = first;
first = last;
last = other;
}
p.first = fmax(0., floor(first) - 1);
p.last = fmin(count - 1, ceil(last) + 1);
return p;
}
struct Pair { idx low, high; float fraction; };
DEV bool pair_at(double at, idx extent, Pair& pair) {
if (!(at >= -1 && at <= (double)extent)) return false;
at = fmax(at, 0.);
pair.low = (idx)at;
pair.fraction = 0;
if (pair.low >= extent - 1) {
pair.low = pair.high = extent - 1;
} else {
pair.high = pair.low + 1;
pair.fraction = (float)(at - (double)pair.low);
}
return true;
}
)";

constexpr std::string_view kBody = R"(const idx at = (idx)blockIdx.x * 128 + threadIdx.x;
if (at >= ROIS * BINS) return;
const idx roi = at / BINS;
const int bin = (int)(at % BINS);
const idx c0 = (idx)blockIdx.y * CHANNELS;
const long long image = IMAGES[roi];
double box[4];
bool finite = true;
#pragma unroll
for (int i = 0; i < 4; ++i) {
box[i] = (double)widen(BOXES[roi * 4 + i]);
finite = finite && is_finite(box[i]);
}
const bool inside = image >= 0 && image < N && H > 0 && W > 0;
float sum[CHANNELS], top[CHANNELS];
double points = 1;
#pragma unroll
for (int c = 0; c < CHANNELS; ++c) sum[c] = top[c] = 0;
if (inside && finite) {
const Points rows = points_of(box[1], box[3], bin / OW, OH, (double)H);
const Points columns = points_of(box[0], box[2], bin % OW, OW, (double)W);
points = rows.count * columns.count;
double found = 0;
#pragma unroll
for (int c = 0; c < CHANNELS; ++c) top[c] = -infinity();
const auto* plane = FROM + ((idx)image * C + c0) * H * W;
for (double i = rows.first; i <= rows.last; i += 1) {
Pair y;
if (!pair_at(rows.start + (i + 0.5) * rows.step, H, y)) continue;
for (double j = columns.first; j <= columns.last; j += 1) {
Pair x;
if (!pair_at(columns.start + (j + 0.5) * columns.step, W, x)) continue;
found += 1;
const float w00 = (1 - y.fraction) * (1 - x.fraction), w01 = (1 - y.fraction) * x.fraction;
const float w10 = y.fraction * (1 - x.fraction), w11 = y.fraction * x.fraction;
#pragma unroll
for (int c = 0; c < CHANNELS; ++c) {
if (c0 + c >= C) continue;
const auto* from = plane + c * H * W;
const float p00 = w00 * widen(from[y.low * W + x.low]), p01 = w01 * widen(from[y.low * W + x.high]);
const float p10 = w10 * widen(from[y.high * W + x.low]), p11 = w11 * widen(from[y.high * W + x.high]);
sum[c] += p00 + p01 + p10 + p11;
if (p00 > top[c]) top[c] = p00;
if (p01 > top[c]) top[c] = p01;
if (p10 > top[c]) top[c] = p10;
if (p11 > top[c]) top[c] = p11;
}
}
}
// Points outside of the image read zeros.
if (points > found)
#pragma unroll
for (int c = 0; c < CHANNELS; ++c)
if (!(top[c] > 0)) top[c] = 0;
}
#pragma unroll
for (int c = 0; c < CHANNELS; ++c) {
if (c0 + c >= C) continue;
float v[1] = {MAX ? (points < 1 ? 0.f : top[c]) : (float)(sum[c] / fmax(points, 1.))};
if (inside && !finite) v[0] = not_a_number();
finish1((roi * C + c0 + c) * BINS + bin, v);
})";

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
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
  b.global(kPoints);
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype) + "\n#define BOXES " +
         b.input(1, tactic.inputs[1].dtype) + "\n#define IMAGES " + b.input(2, DType::Int64) +
         "\nconst idx ROIS = " + b.number(y[0]) + ", N = " + b.number(x[0]) + ", C = " + b.number(x[1]) +
         ", H = " + b.number(x[2]) + ", W = " + b.number(x[3]) + ";");
  b.line(kBody);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily roi_align_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
