// SPDX-License-Identifier: Apache-2.0
//
// Resize of all versions, and Upsample, which was its name until opset 9.
#include <utility>

#include "onnx/importers.h"

namespace lathe::onnx {

namespace {

template <class E>
E choose(const NodeImport& node, std::string_view attribute, std::string_view otherwise,
         std::initializer_list<std::pair<std::string_view, E>> choices) {
  const std::string text = node.text(attribute, otherwise);
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
  }
  node.fail(std::string(attribute) + " is '" + text + "', which is not known");
}

ResizeMode read_resize_mode(const NodeImport& node) {
  return choose<ResizeMode>(node, "mode", "nearest",
                            {{"nearest", ResizeMode::Nearest},
                             {"linear", ResizeMode::Linear},
                             {"bilinear", ResizeMode::Linear},
                             {"cubic", ResizeMode::Cubic}});
}

std::vector<float> to_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

void check_scales(const NodeImport& node, const Resize& op) {
  const size_t want = op.axes.empty() ? node.shape(0).size() : op.axes.size();
  if (!op.scales.empty() && op.scales.size() != want)
    node.fail("scales needs " + std::to_string(want) + " entries");
  if (op.sizes && op.sizes->size() != want) node.fail("sizes needs " + std::to_string(want) + " entries");
  for (const float s : op.scales) {
    if (!(s > 0)) node.fail("a scale is " + std::to_string(s));
  }
}

// Until opset 10 coordinates are scaled from the corner, and the nearest is the one before.
Resize old_resize(const NodeImport& node) {
  return {.mode = read_resize_mode(node),
          .coordinates = CoordinateMode::Asymmetric,
          .nearest = NearestMode::Floor};
}

Values with_scales(NodeImport& node, Resize op, size_t input) {
  if (const Tensor scales = node.constant(input)) {
    op.scales = to_floats(scales.to_doubles());
    check_scales(node, op);
    return {node.add(op, {node.in(0)})};
  }
  return {node.add(op, {node.in(0), kNoValue, node.in(input)})};
}

Values import_upsample_attribute(NodeImport& node) {
  Resize op = old_resize(node);
  op.scales = node.reals("scales").value_or(std::vector<float>());
  if (op.scales.empty()) node.fail("attribute 'scales' is missing");
  check_scales(node, op);
  return {node.add(op, {node.in(0)})};
}

Values import_scales_input(NodeImport& node) {
  return with_scales(node, old_resize(node), 1);
}

Resize read_resize(const NodeImport& node) {
  Resize op{.mode = read_resize_mode(node)};
  op.coordinates = choose<CoordinateMode>(node, "coordinate_transformation_mode", "half_pixel",
                                          {{"half_pixel", CoordinateMode::HalfPixel},
                                           {"half_pixel_symmetric", CoordinateMode::HalfPixelSymmetric},
                                           {"pytorch_half_pixel", CoordinateMode::PytorchHalfPixel},
                                           {"align_corners", CoordinateMode::AlignCorners},
                                           {"asymmetric", CoordinateMode::Asymmetric},
                                           {"tf_half_pixel_for_nn", CoordinateMode::TfHalfPixelForNn},
                                           {"tf_crop_and_resize", CoordinateMode::TfCropAndResize}});
  op.nearest = choose<NearestMode>(node, "nearest_mode", "round_prefer_floor",
                                   {{"round_prefer_floor", NearestMode::RoundPreferFloor},
                                    {"round_prefer_ceil", NearestMode::RoundPreferCeil},
                                    {"floor", NearestMode::Floor},
                                    {"ceil", NearestMode::Ceil}});
  op.aspect = choose<AspectPolicy>(node, "keep_aspect_ratio_policy", "stretch",
                                   {{"stretch", AspectPolicy::Stretch},
                                    {"not_larger", AspectPolicy::NotLarger},
                                    {"not_smaller", AspectPolicy::NotSmaller}});
  op.cubic_coeff_a = node.real("cubic_coeff_a", -0.75f);
  op.extrapolation_value = node.real("extrapolation_value", 0);
  op.exclude_outside = node.integer("exclude_outside", 0) != 0;
  op.antialias = node.integer("antialias", 0) != 0;
  op.axes = node.ints("axes").value_or(Ints());
  for (int64_t& a : op.axes) a = normalize_axis(a, node.rank(0), "axes");
  return op;
}

// An empty tensor in the place of roi, scales or sizes means that it is absent.
ValueId present(const NodeImport& node, size_t i) {
  if (!node.has(i)) return kNoValue;
  const Shape shape = node.shape(i);
  return shape.size() == 1 && shape[0].is_constant(0) ? kNoValue : node.in(i);
}

Values import_resize(NodeImport& node) {
  Resize op = read_resize(node);
  ValueId roi = present(node, 1), scales = present(node, 2), sizes = present(node, 3);
  if (op.coordinates != CoordinateMode::TfCropAndResize) roi = kNoValue;
  if ((scales == kNoValue) == (sizes == kNoValue)) node.fail("it needs scales or sizes, and not both");
  if (scales != kNoValue && node.constant(2)) {
    op.scales = to_floats(node.constant(2).to_doubles());
    scales = kNoValue;
  }
  if (sizes != kNoValue && node.contents(3)) {
    op.sizes = node.contents(3);
    sizes = kNoValue;
  }
  check_scales(node, op);
  return {node.add(op, {node.in(0), roi, scales, sizes})};
}

}  // namespace

std::vector<Importer> resize_importers() {
  return {{"Upsample", 7, 8, import_upsample_attribute},
          {"Upsample", 9, 10, import_scales_input},
          {"Resize", 10, 10, import_scales_input},
          {"Resize", 11, kLatestOpset, import_resize}};
}

}  // namespace lathe::onnx
