// SPDX-License-Identifier: Apache-2.0
//
// DFT and STFT of any length, with lengths, axes and steps that the model says or that the run brings. Short
// transforms of known length are products before they come here (passes/lower_transforms.cpp).
//
// A result is a sum over the points of its line, in double: n complex multiply-adds, and n more for the roots
// of unity. Where the length is known and is a product of p, q, ..., it is taken in stages, a kernel each, of
// sums of p points, then of q points: with n = 2^20 that are four stages of 32 terms instead of a million.
// What is between stages is FP32 in scratch memory (float64: double).
//
// A stage takes S interleaved transforms of P M points each to S P interleaved transforms of M points:
//   y[q + S (P k + j)] = e(j k, P M) times the sum over r < P of x[q + S (k + M r)] e(r j, P)
// with e(a, n) = e^(-2 pi i a / n), so that the points of the last one are in their order.
#include "backend/cuda/codegen/own_tactic.h"
#include "lathe_device_text/transform.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kTransformRunner = "Transform";
constexpr int64_t kLeastStaged = 64;  // points; fewer are summed at once
constexpr int64_t kMostTerms = 32;    // of a stage, but for larger primes

enum DftInput : size_t { kDftX, kLength, kAxis };
enum StftInput : size_t { kSignal, kFrameStep, kWindow, kFrameLength };

// The number that an operand holds, when the model says it.
std::optional<int64_t> known_number(const LayerQuery& query, size_t i) {
  const Value& value = query.graph.value(query.layer().inputs[i]);
  if (!value.is_constant() || !value.constant.has_bytes() || value.constant.size() != 1) return std::nullopt;
  return value.constant.to_int64s()[0];
}

std::string number_text(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, size_t i) {
  if (const auto number = known_number(query, i)) return std::to_string(*number) + "ll";
  return "(long long)widen(*" + b.input(i, tactic.inputs[i].dtype) + ")";
}

std::vector<Tactic> list_transform(const LayerQuery& query, const Device&) {
  const Node& node = query.layer();
  const bool frames = std::holds_alternative<STFT>(node.op);
  if (!frames && !std::holds_alternative<DFT>(node.op)) return {};
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kTransformRunner, frames ? "cuda_stft" : "cuda_dft", {type, kLinear},
                            {type, kLinear});
    const auto is_real = [](DType t) { return is_kernel_float(t) || t == DType::Float64; };
    if (t.support.ok && !is_real(type))
      t.support = Support::no("no kernel for " + std::string(dtype_name(type)));
    for (const size_t i :
         frames ? std::vector<size_t>{kFrameStep, kFrameLength} : std::vector<size_t>{kLength, kAxis})
      if (query.layer().has_op_input(i) && t.inputs[i].dtype != DType::Int64 &&
          t.inputs[i].dtype != DType::Int32)
        t.support = Support::no("lengths, steps and axes must be int32 or int64");
    if (frames && query.layer().has_op_input(kWindow) && !is_real(t.inputs[kWindow].dtype))
      t.support = Support::no("the window must be of floats");
    tactics.push_back(std::move(t));
  }
  return tactics;
}

// Points of a transform, when the model says them.
std::optional<int64_t> known_points(const LayerQuery& query) {
  const auto constant = [](const Dim& dim) {
    return dim.is_constant() ? std::optional<int64_t>(dim.value()) : std::nullopt;
  };
  const Shape& x = input_shape(query, 0);
  if (std::holds_alternative<STFT>(query.layer().op)) {
    if (query.layer().has_op_input(kWindow)) return constant(input_shape(query, kWindow)[0]);
    return query.layer().has_op_input(kFrameLength) ? known_number(query, kFrameLength) : constant(x[1]);
  }
  const auto& op = std::get<DFT>(query.layer().op);
  const auto axis =
      query.layer().has_op_input(kAxis) ? known_number(query, kAxis) : std::optional<int64_t>(-2);
  if (!axis) return std::nullopt;
  if (query.layer().has_op_input(kLength)) return known_number(query, kLength);
  const auto at = static_cast<size_t>(normalize_axis(*axis, static_cast<int64_t>(x.size()), "DFT"));
  return constant(op.inverse && op.onesided ? output_shape(query)[at] : x[at]);
}

// Terms of each stage, whose product is the number of points; one: the sum is taken at once.
std::vector<int64_t> stages_of(const LayerQuery& query) {
  const auto points = known_points(query);
  if (!points || *points < kLeastStaged || !found_names(query).empty()) return {1};
  std::vector<int64_t> stages = {1};
  int64_t rest = *points;
  for (int64_t prime = 2; rest > 1; ++prime) {
    if (prime * prime > rest) prime = rest;
    for (; rest % prime == 0; rest /= prime) {
      if (stages.back() * prime > kMostTerms && stages.back() > 1) stages.push_back(1);
      stages.back() *= prime;
    }
  }
  return stages;
}

// Lines of a result, each of so many bins.
Dim line_count(const LayerQuery& query) {
  const Shape& y = output_shape(query);
  if (std::holds_alternative<STFT>(query.layer().op)) return y[0] * y[1];
  const auto axis = query.layer().has_op_input(kAxis) ? *known_number(query, kAxis) : int64_t{-2};
  const auto at = static_cast<size_t>(normalize_axis(axis, static_cast<int64_t>(y.size()), "DFT"));
  return product(y, 0, at) * product(y, at + 1, y.size() - 1);
}

std::string dims_text(KernelBuilder& b, const Shape& shape) {
  std::string text;
  for (const Dim& dim : shape) text += (text.empty() ? "" : ", ") + b.number(dim);
  return text;
}

// Defines what the lines of x are.
void add_lines(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic) {
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const auto define = [&](std::string_view name, const std::string& text) {
    b.line("#define " + std::string(name) + " " + text);
  };
  define("FROM", b.input(0, tactic.inputs[0].dtype));
  define("PARTS", b.number(x.back()));
  if (!std::holds_alternative<STFT>(query.layer().op)) {
    define("IN_DIMS", dims_text(b, x));
    define("OUT_DIMS", dims_text(b, y));
    define("GIVEN_AXIS", query.layer().has_op_input(kAxis) ? number_text(b, query, tactic, kAxis) : "-2ll");
    define("GIVEN_POINTS",
           query.layer().has_op_input(kLength) ? number_text(b, query, tactic, kLength) : "0ll");
    b.line(device_text::transform::kLines);
    return;
  }
  define("LENGTH", b.number(x[1]));
  define("STEP", number_text(b, query, tactic, kFrameStep));
  define("FRAMES", b.number(y[1]));
  define("BINS", b.number(y[2]));
  if (query.layer().has_op_input(kWindow)) {
    define("WINDOW(i)", "widen(" + b.input(kWindow, tactic.inputs[kWindow].dtype) + "[i])");
    define("GIVEN_POINTS", "(long long)" + b.number(input_shape(query, kWindow)[0]));
  } else {
    define("WINDOW(i)", "1.");
    define("GIVEN_POINTS", query.layer().has_op_input(kFrameLength)
                               ? number_text(b, query, tactic, kFrameLength)
                               : "(long long)" + b.number(x[1]));
  }
  b.line(device_text::transform::kFrames);
}

// One stage of a transform; the sum at once has one, of no known terms.
struct Stage {
  int64_t terms = 1, rest = 1, apart = 1;  // P, M and S
  bool is_first = true, is_last = true;
  Dim before, behind;  // where points lie in scratch memory
};

// A kernel with a thread for each of `count` sums.
KernelBuilder begin_sums(const LayerQuery& query, const Tactic& tactic, std::string_view entry,
                         const Dim& count, const Stage& stage) {
  const DType type = tactic.outputs[0].dtype;
  const auto* dft = std::get_if<DFT>(&query.layer().op);
  KernelBuilder b = start_kernel(query, tactic, std::string(entry), type);
  b.set_fast_math(false);
  b.constants({{"RANK", static_cast<int64_t>(input_shape(query, 0).size())},
               {"PARTS_OUT", output_shape(query).back().value()},
               {"HALF", dft != nullptr && dft->inverse && dft->onesided},
               {"SIGN", dft != nullptr && dft->inverse ? 1 : -1},
               {"P", stage.terms},
               {"M", stage.rest},
               {"S", stage.apart}});
  b.global("typedef " + std::string(compute_name(type)) + " Result;\ntypedef Result Stored;");
  b.global(device_text::transform::kSums);
  b.kernel().grid[0] = ceil_div(count, Dim(256));
  b.line("const idx at = (idx)blockIdx.x * 256 + threadIdx.x;\nif (at >= " + b.number(count) + ") return;");
  return b;
}

KernelSource stage_kernel(const LayerQuery& query, const Tactic& tactic, const Stage& stage,
                          const Dim& count) {
  const std::string stored(compute_name(tactic.outputs[0].dtype));
  KernelBuilder b = begin_sums(query, tactic, stage.is_last ? "transform" : "transform_stage", count, stage);
  if (stage.is_last) Tail(query, tactic).emit(b, 1);
  if (stage.is_first || stage.is_last) add_lines(b, query, tactic);
  if (!stage.is_first) {
    b.line("#define BEFORE " + b.scratch(stage.before, stored));
    b.line(device_text::transform::kBetween);
  }
  b.line(stage.is_first ? "#define SOURCE point" : "#define SOURCE between");
  if (!stage.is_last) {
    b.line("#define BEHIND " + b.scratch(stage.behind, stored));
    b.line(device_text::transform::kStage);
    return b.finish();
  }
  b.line(stage.is_first ? device_text::transform::kWhole : device_text::transform::kLastStage);
  b.line(device_text::transform::kStore);
  return b.finish();
}

LayerSource generate_transform(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const Shape& y = output_shape(query);
  const Dim results = product(y, 0, y.size() - 1);
  const std::vector<int64_t> terms = stages_of(query);
  if (terms.size() == 1) return {{stage_kernel(query, tactic, {}, results)}};
  const Dim points = line_count(query) * Dim(*known_points(query));
  const Dim bytes = points * Dim(2 * dtype_size(tactic.outputs[0].dtype == DType::Float64 ? DType::Float64
                                                                                          : DType::Float32));
  // Two places take turns.
  const Dim second = ceil_div(bytes, Dim(256)) * Dim(256);
  const auto place = [&](size_t i) { return i % 2 == 0 ? Dim(0) : second; };
  LayerSource source{{}, terms.size() > 2 ? second + bytes : bytes};
  source.numbered = points;
  Stage stage{.rest = *known_points(query)};
  for (size_t i = 0; i < terms.size(); ++i) {
    stage = {.terms = terms[i],
             .rest = stage.rest / terms[i],
             .apart = i == 0 ? 1 : stage.apart * stage.terms,
             .is_first = i == 0,
             .is_last = i + 1 == terms.size(),
             .before = place(i + 1),
             .behind = place(i)};
    source.kernels.push_back(stage_kernel(query, tactic, stage, stage.is_last ? results : points));
  }
  return source;
}

}  // namespace

GeneratedFamily transform_family() {
  return {kTransformRunner, list_transform, generate_transform};
}

}  // namespace lathe::cuda
