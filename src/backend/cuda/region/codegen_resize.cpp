// SPDX-License-Identifier: Apache-2.0
//
// Resize. Two ways:
//   - plain: the taps of a dim are written out, with the size that the model says; a thread has one vector of
//            the result, whose last storage dim moves through unchanged where that is so (channels);
//   - any:   scales or sizes that only a run brings, crops, antialiasing, aspects that are kept, exclusion of
//            what lies outside, integers and float64: each thread works out the taps of its element
//            (resize.cuh).
#include <fmt/format.h>

#include "backend/cuda/codegen/element_kernel.h"
#include "lathe_device_text/resize.h"

namespace lathe::cuda {
namespace {

constexpr std::string_view kResizeRunner = "Resize";
enum ResizeInput : size_t { kRoi = 1, kScales, kSizes };

// Whether taps are written out: plain interpolation with a size that the model says.
bool is_plain(const LayerQuery& query, const Resize& op) {
  return !op.antialias && !op.exclude_outside && op.coordinates != CoordinateMode::TfCropAndResize &&
         op.aspect == AspectPolicy::Stretch && (!op.scales.empty() || op.sizes) &&
         (op.mode == ResizeMode::Nearest ||
          is_kernel_float(query.graph.value(query.layer().outputs[0]).dtype));
}

bool has_list(const LayerQuery& query, size_t i) {
  const Node& node = query.layer();
  if (i >= node.op_input_count() || node.inputs[i] == kNoValue) return false;
  const Shape& shape = input_shape(query, i);
  return !(shape.size() == 1 && shape[0].is_constant(0));
}

// Which dims are resized, in the order of the operator's lists.
std::vector<size_t> resized_dims(const LayerQuery& query, const Resize& op) {
  const size_t rank = input_shape(query, 0).size();
  std::vector<size_t> dims;
  for (size_t i = 0; i < (op.axes.empty() ? rank : op.axes.size()); ++i)
    dims.push_back(op.axes.empty() ? i : axis_of(op.axes[i], rank));
  return dims;
}

// What a tactic for everything needs of the operands that the run brings.
Support expect_operands(const LayerQuery& query, const Resize& op, const Tactic& t) {
  const size_t axes = resized_dims(query, op).size();
  const auto expect = [&](size_t i, size_t entries, std::string_view what) {
    if (!has_list(query, i)) return Support::no(fmt::format("there are no {}", what));
    const Shape& shape = input_shape(query, i);
    if (shape.size() != 1 || !shape[0].is_constant(static_cast<int64_t>(entries)))
      return Support::no(fmt::format("there are not as many {} as dims", what));
    return computed(t.inputs[i].dtype);
  };
  if (op.coordinates == CoordinateMode::TfCropAndResize)
    if (const Support s = expect(kRoi, 2 * axes, "bounds of a crop"); !s.ok) return s;
  if (op.scales.empty() && !op.sizes && has_list(query, kScales)) return expect(kScales, axes, "scales");
  if (op.scales.empty() && !op.sizes) return expect(kSizes, axes, "sizes");
  return {};
}

std::string mode_name(const Resize& op) {
  return op.mode == ResizeMode::Nearest ? "nearest" : op.mode == ResizeMode::Linear ? "linear" : "cubic";
}

std::vector<Tactic> list_general(const LayerQuery& query, const Resize& op) {
  std::vector<Tactic> tactics;
  for (const DType type : allowed_types_first(query)) {
    Tactic t = typed_tactic(query, kResizeRunner, "", {type, kLinear}, {type, kLinear});
    if (const Support s = op.mode == ResizeMode::Nearest ? stored(t) : computed(type); !s.ok) t.support = s;
    if (const Support s = expect_operands(query, op, t); !s.ok) t.support = s;
    tactics.push_back(with_variant(t, "cuda_resize_any_" + mode_name(op), {{"any", 1}}));
  }
  return tactics;
}

std::vector<Tactic> list_resize(const LayerQuery& query, const Device&) {
  const auto* op = std::get_if<Resize>(&query.layer().op);
  if (!op) return {};
  if (!is_plain(query, *op)) return list_general(query, *op);
  return element_tactics(query, kResizeRunner, "cuda_resize_" + mode_name(*op));
}

// --- plain ------------------------------------------------------------------------------------------------

// The position in the input that result position c shows, in double: rounding decides which neighbour is
// nearest.
std::string source_position(CoordinateMode mode, const std::string& c, const std::string& scale,
                            const std::string& in, const std::string& out_extent) {
  const std::string out = "(" + scale + " * " + in + ")";
  switch (mode) {
    case CoordinateMode::AlignCorners:
      return "(" + out + " == 1 ? 0. : " + c + " * (" + in + " - 1.) / (" + out + " - 1.))";
    case CoordinateMode::Asymmetric:
      return c + " / " + scale;
    case CoordinateMode::PytorchHalfPixel:
      return "(" + out + " == 1 ? -0.5 : (" + c + " + 0.5) / " + scale + " - 0.5)";
    case CoordinateMode::HalfPixelSymmetric:
      return in + " / 2. * (1. - " + out_extent + " / " + out + ") + (" + c + " + 0.5) / " + scale + " - 0.5";
    case CoordinateMode::TfHalfPixelForNn:
      return "(" + c + " + 0.5) / " + scale;
    default:
      return "(" + c + " + 0.5) / " + scale + " - 0.5";
  }
}

// Which of the pair (left, left + 1) is shown, for a ratio in (0, 1].
std::string takes_right(NearestMode mode) {
  switch (mode) {
    case NearestMode::RoundPreferFloor:
      return "ratio > 0.5";
    case NearestMode::RoundPreferCeil:
      return "ratio >= 0.5";
    case NearestMode::Floor:
      return "ratio == 1.";
    case NearestMode::Ceil:
      return "true";
  }
  return "false";
}

LayerSource generate_plain(const LayerQuery& query, const Tactic& tactic, const Resize& op) {
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const std::vector<Dim> strides = storage_strides(x, tactic.inputs[0].format);
  const std::vector<size_t> order = storage_order(x.size(), tactic.inputs[0].format);
  std::vector<float> scales(x.size(), 1.0f);  // 0: the ratio of the extents
  for (size_t i = 0; i < (op.axes.empty() ? x.size() : op.axes.size()); ++i) {
    const size_t d = op.axes.empty() ? i : axis_of(op.axes[i], x.size());
    scales[d] = op.scales.empty() ? 0.0f : op.scales[i];
  }
  const auto touched = [&](size_t d) { return !(x[d] == y[d]) || (scales[d] != 0 && scales[d] != 1); };
  const int v = touched(order.back()) ? 1 : own_vector(query, tactic, x[order.back()]);
  const bool nearest = op.mode == ResizeMode::Nearest, cubic = op.mode == ResizeMode::Cubic;
  KernelBuilder b = start_kernel(query, tactic, "resize", tactic.outputs[0].dtype);
  if (cubic)
    b.global("DEV double cubic(double x) {\nconst double a = " +
             float_literal(static_cast<double>(op.cubic_coeff_a)) +
             ";\nreturn x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) "
             "* x - "
             "4 * a : 0;\n}");
  begin_elements(b, query, tactic, v);
  std::string offset, weight = "1.f", loops, close;
  for (size_t d = 0; d < x.size(); ++d) {
    const std::string ds = std::to_string(d), c = "c" + ds, in = b.number(x[d]);
    if (!touched(d)) {
      offset += " + " + c + " * " + b.number(strides[d]);
      continue;
    }
    // The float scale is what the model says, so its double is exact.
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", static_cast<double>(scales[d]));
    b.line("const double scale" + ds + " = " +
           (scales[d] != 0 ? std::string(text) : "(double)" + b.number(y[d]) + " / " + in) + ";\nidx left" +
           ds + "; double ratio" + ds + ";\n{\nconst double p = " +
           source_position(op.coordinates, "(double)" + c, "scale" + ds, "(double)" + in,
                           "(double)" + b.number(y[d])) +
           ", whole = floor(p);\nconst double ratio = p == whole ? 1. : p - whole;\nleft" + ds +
           " = (idx)whole - (p == whole ? 1 : 0);\nratio" + ds + " = ratio;");
    if (nearest) b.line("if (" + takes_right(op.nearest) + " || ratio == 1.) ++left" + ds + ";");
    b.line("}");
    if (nearest) {
      offset += " + min(max(left" + ds + ", (idx)0), (idx)" + in + " - 1) * " + b.number(strides[d]);
    } else {
      const std::string k = "k" + ds, first = cubic ? " - 1" : "";
      loops +=
          "#pragma unroll\nfor (int " + k + " = 0; " + k + (cubic ? " < 4; ++" : " < 2; ++") + k + ") {\n";
      close += "}";
      offset += " + min(max(left" + ds + " + " + k + first + ", (idx)0), (idx)" + in + " - 1) * " +
                b.number(strides[d]);
      weight += cubic ? " * (float)cubic(fabs(" + k + " - 1 - ratio" + ds + "))"
                      : " * (float)(" + k + " ? ratio" + ds + " : 1. - ratio" + ds + ")";
    }
  }
  const std::string from = b.input(0, tactic.inputs[0].dtype), vs = std::to_string(v);
  if (nearest || loops.empty())
    b.line("load(" + from + offset + ", v);");
  else
    b.line(loops + "const float weight = " + weight + ";\nif (weight != 0) {\nfloat e[" + vs + "];\nload(" +
           from + offset + ", e);\n#pragma unroll\nfor (int j = 0; j < " + vs +
           "; ++j) v[j] += weight * e[j];\n}\n" + close);
  return {{end_elements(b, v)}};
}

// --- everything else --------------------------------------------------------------------------------------

// The scale that all dims share because the aspect of the image is kept.
std::string kept_scale(KernelBuilder& b, const LayerQuery& query, const Tactic& tactic, const Resize& op) {
  const Shape& x = input_shape(query, 0);
  const std::vector<size_t> dims = resized_dims(query, op);
  std::string scale;
  for (size_t i = 0; i < dims.size(); ++i) {
    const std::string size =
        op.sizes ? b.number((*op.sizes)[i])
                 : "widen(" + b.input(kSizes, tactic.inputs[kSizes].dtype) + "[" + std::to_string(i) + "])";
    const std::string ratio = "(double)" + size + " / (double)" + b.number(x[dims[i]]);
    scale = scale.empty() ? ratio
                          : std::string(op.aspect == AspectPolicy::NotLarger ? "fmin(" : "fmax(") + scale +
                                ", " + ratio + ")";
  }
  return scale;
}

LayerSource generate_any(const LayerQuery& query, const Tactic& tactic, const Resize& op) {
  const Shape &x = input_shape(query, 0), &y = output_shape(query);
  const std::vector<Dim> strides = storage_strides(x, kLinear);
  const std::vector<size_t> dims = resized_dims(query, op);
  const DType type = tactic.outputs[0].dtype;
  const bool crops = op.coordinates == CoordinateMode::TfCropAndResize,
             moves = op.mode == ResizeMode::Nearest && !crops,
             has_scales = !op.scales.empty() || (!op.sizes && has_list(query, kScales));
  KernelBuilder b = start_kernel(query, tactic, "resize_any", type);
  b.set_fast_math(false);
  b.hardware(rounded_products());
  b.constants({{"AXES", static_cast<int64_t>(dims.size())},
               {"MODE", static_cast<int64_t>(op.mode)},
               {"NEAREST", static_cast<int64_t>(op.nearest)},
               {"COORDINATES", static_cast<int64_t>(op.coordinates)},
               {"ANTIALIAS", op.antialias},
               {"EXCLUDE", op.exclude_outside}});
  b.global("#define kCubic ((double)" + float_literal(static_cast<double>(op.cubic_coeff_a)) +
           ")\n#define kExtrapolation ((double)" +
           float_literal(static_cast<double>(op.extrapolation_value)) + ")");
  b.global(device_text::resize::kResize);
  begin_elements(b, query, tactic, 1);
  const bool keeps_aspect = !has_scales && op.aspect != AspectPolicy::Stretch;
  if (keeps_aspect) b.line("const double kept = " + kept_scale(b, query, tactic, op) + ";");
  const auto operand = [&](size_t input, size_t i) {
    return "(double)widen(" + b.input(input, tactic.inputs[input].dtype) + "[" + std::to_string(i) + "])";
  };
  std::string list, offset = "0";
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t d = dims[i];
    std::string scale = "(double)" + b.number(y[d]) + " / (double)" + b.number(x[d]);
    if (keeps_aspect)
      scale = "kept";
    else if (!op.scales.empty())
      scale = "(double)" + float_literal(static_cast<double>(op.scales[i]));
    else if (has_scales)
      scale = "(double)(float)" + operand(kScales, i);
    list += (i ? ", {" : "{") + b.number(x[d]) + ", " + b.number(y[d]) + ", " + b.number(strides[d]) + ", c" +
            std::to_string(d) + ", " + scale + ", " + (crops ? operand(kRoi, i) : "0.") + ", " +
            (crops ? operand(kRoi, i + dims.size()) : "1.") + "}";
  }
  for (size_t d = 0; d < x.size(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end())
      offset += " + c" + std::to_string(d) + " * " + b.number(strides[d]);
  b.line("ResizedDim dims[AXES] = {" + list +
         "};\n#pragma unroll\nfor (int a = 0; a < AXES; ++a) find_taps(dims[a]);");
  const std::string from = b.input(0, tactic.inputs[0].dtype);
  const std::string result = "resized<AXES - 1>(" + from + ", dims, " + offset + ")";
  if (moves)
    b.line("load(" + from + " + nearest_offset(dims, " + offset + "), v);");
  else if (is_float(type))
    b.line("v[0] = (" + std::string(compute_name(type)) + ")" + result + ";");
  else
    b.line("v[0] = widen(Narrow<" + std::string(storage_name(type)) + ">::from(" + result + "));");
  return {{end_elements(b, 1)}};
}

LayerSource generate_resize(const LayerQuery& query, const Tactic& tactic, const Device&) {
  const auto& op = std::get<Resize>(query.layer().op);
  return tactic.params.get_int("any", 0) != 0 ? generate_any(query, tactic, op)
                                              : generate_plain(query, tactic, op);
}

}  // namespace

GeneratedFamily resize_family() {
  return {kResizeRunner, list_resize, generate_resize};
}

}  // namespace lathe::cuda
