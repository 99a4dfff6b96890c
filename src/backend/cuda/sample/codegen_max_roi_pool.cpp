// SPDX-License-Identifier: Apache-2.0
//
// MaxRoiPool: a thread for each element of the result. Places are found as in ops/roi_points.cpp: a product
// in FP32 that lands on a half decides a pixel. Bytes: pixels of the boxes from the caches, the result once.
//
// A box whose coordinates are not finite, or of an image that there is not, gives zeros.
#include "backend/cuda/codegen/own_tactic.h"
#include "backend/cuda/sample/sample.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kRunner = "MaxRoiPool";

std::vector<Tactic> list(const LayerQuery& query, const Device&) {
  if (!std::holds_alternative<MaxRoiPool>(query.layer().op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kRunner, "cuda_max_roi_pool", {type, kLinear}, {type, kLinear});
    if (t.support.ok) t.support = expect_floats(t, {0, 1});
    tactics.push_back(std::move(t));
  }
  return tactics;
}

constexpr std::string_view kSpan = R"(struct Span { idx begin, end; };
DEV double within(double x, double high) { return x > 0 ? (x < high ? x : high) : 0.; }
DEV Span span_of(float low, float high, int index, int bins, idx extent) {
const double first = (double)roundf(low * SCALE), last = (double)roundf(high * SCALE);
const double bin = fmax(last - first + 1, 1.) / bins, limit = (double)extent;
return {(idx)within(floor(index * bin) + first, limit), (idx)within(ceil((index + 1) * bin) + first, limit)};
}
)";

// A row that begins with what is not a number counts for nothing, as in the oracle.
constexpr std::string_view kBody = R"(const idx at = (idx)blockIdx.x * 256 + threadIdx.x;
if (at >= COUNT) return;
const int bin = (int)(at % (OH * OW));
const idx c = at / (OH * OW) % C, roi = at / (OH * OW) / C;
float box[5], v[1] = {0.f};
bool finite = true;
#pragma unroll
for (int i = 0; i < 5; ++i) {
box[i] = widen(BOXES[roi * 5 + i]);
finite = finite && fabsf(box[i]) < infinity();
}
if (finite && box[0] >= 0 && box[0] < (float)N) {
const Span rows = span_of(box[2], box[4], bin / OW, OH, H), columns = span_of(box[1], box[3], bin % OW, OW, W);
if (rows.begin < rows.end && columns.begin < columns.end) {
const auto* plane = FROM + ((idx)box[0] * C + c) * H * W;
v[0] = -infinity();
for (idx y = rows.begin; y < rows.end; ++y) {
float row = widen(plane[y * W + columns.begin]);
for (idx x = columns.begin + 1; x < columns.end; ++x) {
const float pixel = widen(plane[y * W + x]);
if (row < pixel) row = pixel;
}
if (v[0] < row) v[0] = row;
}
}
}
finish1(at, v);)";

LayerSource generate(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<MaxRoiPool>(query.layer().op);
  const Shape& x = input_shape(query, 0);
  const Dim count = element_count(output_shape(query));
  KernelBuilder b = start_kernel(query, tactic, "max_roi_pool", tactic.outputs[0].dtype);
  Tail(query, tactic).emit(b, 1);
  b.kernel().grid[0] = ceil_div(count, Dim(256));
  b.global("constexpr int OH = " + std::to_string(op.output_height) +
           ", OW = " + std::to_string(op.output_width) +
           ";\nconstexpr float SCALE = " + float_literal(static_cast<double>(op.spatial_scale)) + ";");
  b.global(kSpan);
  b.line("#define FROM " + b.input(0, tactic.inputs[0].dtype) + "\n#define BOXES " +
         b.input(1, tactic.inputs[1].dtype) + "\nconst idx COUNT = " + b.number(count) +
         ", N = " + b.number(x[0]) + ", C = " + b.number(x[1]) + ", H = " + b.number(x[2]) +
         ", W = " + b.number(x[3]) + ";");
  b.line(kBody);
  return {{b.finish()}};
}

}  // namespace

GeneratedFamily max_roi_pool_family() {
  return {kRunner, list, generate};
}

}  // namespace lathe::cuda
