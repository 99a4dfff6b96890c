// SPDX-License-Identifier: Apache-2.0
//
// Selection, sampling of images, signals, random numbers and control flow.
#include "onnx/export_node.h"

#include <bit>

#include "base/error.h"
#include "ops/control_flow.h"

namespace lathe::onnx {

void NodeExport::operator()(const NonZero&) {
  result("NonZero", {in(0)});
}

void NodeExport::operator()(const NonMaxSuppression& op) {
  result("NonMaxSuppression", all_inputs(), {{"center_point_box", int64_t{op.center_point_box}}});
}

void NodeExport::operator()(const GridSample& op) {
  constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
  constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  result("GridSample", all_inputs(),
         {{"mode", kModes[static_cast<size_t>(op.mode)]},
          {"padding_mode", kPaddings[static_cast<size_t>(op.padding)]},
          {"align_corners", int64_t{op.align_corners}}});
}

void NodeExport::operator()(const RoiAlign& op) {
  result("RoiAlign", all_inputs(),
         {{"mode", op.max ? "max" : "avg"},
          {"coordinate_transformation_mode", op.half_pixel ? "half_pixel" : "output_half_pixel"},
          {"output_height", op.output_height},
          {"output_width", op.output_width},
          {"sampling_ratio", op.sampling_ratio},
          {"spatial_scale", op.spatial_scale}});
}

void NodeExport::operator()(const MaxRoiPool& op) {
  result("MaxRoiPool", all_inputs(),
         {{"pooled_shape", Ints{op.output_height, op.output_width}}, {"spatial_scale", op.spatial_scale}});
}

void NodeExport::operator()(const Col2Im& op) {
  Ints pads = op.pads_begin;
  pads.insert(pads.end(), op.pads_end.begin(), op.pads_end.end());
  result("Col2Im", all_inputs(), {{"strides", op.strides}, {"dilations", op.dilations}, {"pads", pads}});
}

void NodeExport::operator()(const DFT& op) {
  result("DFT", all_inputs(), {{"inverse", int64_t{op.inverse}}, {"onesided", int64_t{op.onesided}}});
}

void NodeExport::operator()(const STFT& op) {
  result("STFT", all_inputs(), {{"onesided", int64_t{op.onesided}}});
}

void NodeExport::operator()(const MelWeightMatrix& op) {
  result("MelWeightMatrix", all_inputs(), {{"output_datatype", static_cast<int64_t>(op.dtype)}});
}

// A shape that is not constant is that of a tensor. ONNX's seed is the real number with the same bits; who
// draws with another generator gets other numbers.
void NodeExport::random(std::string_view op_type, const Shape& shape, DType dtype, Attributes attributes,
                        int64_t seed) {
  attributes.emplace_back("dtype", static_cast<int64_t>(dtype));
  attributes.emplace_back("seed", std::bit_cast<float>(static_cast<int32_t>(seed)));
  const std::string like = std::string(op_type) + "Like";
  if (has(0)) return result(like, {in(0)}, attributes);
  if (!is_static(shape)) return result(like, {step("ConstantOfShape", {graph_.dims(shape)})}, attributes);
  attributes.emplace_back("shape", to_extents(shape));
  result(op_type, {}, attributes);
}

void NodeExport::operator()(const RandomUniform& op) {
  random("RandomUniform", op.shape, op.dtype, {{"low", op.low}, {"high", op.high}}, op.seed);
}
void NodeExport::operator()(const RandomNormal& op) {
  random("RandomNormal", op.shape, op.dtype, {{"mean", op.mean}, {"scale", op.scale}}, op.seed);
}

void NodeExport::operator()(const Det&) {
  result("Det", {in(0)});
}

void NodeExport::operator()(const BitCast& op) {
  result("BitCast", {in(0)}, {{"to", static_cast<int64_t>(op.to)}}, 26);
}

void NodeExport::operator()(const Unique& op) {
  Attributes attributes = {{"sorted", int64_t{op.sorted}}};
  if (op.axis) attributes.emplace_back("axis", op.axis->front());
  result("Unique", {in(0)}, attributes);
}

void NodeExport::no_form(std::string_view op_type) const {
  throw_input_error(std::string(op_type) + " has no form in ONNX's own domain, in which models are written");
}
void NodeExport::operator()(const Inverse&) {
  no_form("Inverse");
}
void NodeExport::operator()(const TreeEnsemble&) {
  no_form("TreeEnsemble");
}

void NodeExport::operator()(const DetectionNms&) {
  no_form("DetectionNms");
}

namespace {

AttributeValue attribute_of(const PluginField& field) {
  const Tensor& value = field.value;
  if (field.is_text)
    return std::string(reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size());
  const bool is_int = value.dtype() == DType::Int64, is_real = value.dtype() == DType::Float32;
  if (value.rank() == 0 && is_int) return value.data<int64_t>()[0];
  if (value.rank() == 0 && is_real) return value.data<float>()[0];
  if (value.rank() == 1 && is_int) return value.to_int64s();
  if (value.rank() == 1 && is_real)
    return std::vector<float>(value.data<float>().begin(), value.data<float>().end());
  return value;
}

}  // namespace

// As TensorRT's exporters write plugins: the operator type is the name, attributes say version and namespace.
void NodeExport::operator()(const Plugin& op) {
  Attributes attributes = {{"plugin_version", op.version}};
  if (!op.name_space.empty()) attributes.emplace_back("plugin_namespace", op.name_space);
  for (const PluginField& field : plugin_fields_from(op.fields))
    attributes.emplace_back(field.name, attribute_of(field));
  result(op.plugin, all_inputs(), attributes);
}

void NodeExport::operator()(const TfIdfVectorizer& op) {
  Attributes attributes = {{"mode", std::string(enum_name(op.mode))},
                           {"min_gram_length", op.min_gram},
                           {"max_gram_length", op.max_gram},
                           {"max_skip_count", op.max_skip},
                           {"ngram_counts", op.ngram_counts},
                           {"ngram_indexes", op.ngram_indexes},
                           {"pool_int64s", op.pool}};
  if (!op.weights.empty()) attributes.emplace_back("weights", op.weights);
  result("TfIdfVectorizer", {in(0)}, attributes);
}

// What a body captures has in ONNX the name that it has outside.
std::string NodeExport::body(const Body& body, size_t own_inputs, size_t first_captured) {
  Names names;
  for (size_t i = 0; i < body.graph().inputs().size(); ++i) {
    const bool own = i < own_inputs;
    names.push_back(own ? graph_.model().unique(body.graph().value(body.graph().inputs()[i]).name)
                        : in(first_captured + i - own_inputs));
  }
  return GraphExport(body.graph(), graph_, names).write(own_inputs);
}

void NodeExport::with_bodies(std::string_view op_type, Names inputs, Attributes attributes,
                             std::vector<GraphWriter::BodyAttribute> bodies) {
  Names outputs = results_;
  for (std::string& output : outputs)
    if (output.empty()) output = graph_.model().unique("unused");
  graph_.node({op_type, node_.name, std::move(inputs), outputs, std::move(attributes), std::move(bodies)}, 1);
}

void NodeExport::operator()(const If& op) {
  with_bodies("If", {in(0)}, {},
              {{"then_branch", body(op.then_branch, 0, 1)}, {"else_branch", body(op.else_branch, 0, 1)}});
}

void NodeExport::operator()(const Loop& op) {
  const size_t own = kLoopOwnInputs + static_cast<size_t>(op.carried);
  Names inputs = all_inputs();
  inputs.resize(own);
  with_bodies("Loop", inputs, {}, {{"body", body(op.body, own, own)}});
}

void NodeExport::operator()(const Scan& op) {
  const size_t own = static_cast<size_t>(op.states) + op.input_axes.size();
  Names inputs = all_inputs();
  inputs.resize(own);
  with_bodies("Scan", inputs,
              {{"num_scan_inputs", static_cast<int64_t>(op.input_axes.size())},
               {"scan_input_axes", op.input_axes},
               {"scan_output_axes", op.output_axes},
               {"scan_input_directions", op.input_reversed},
               {"scan_output_directions", op.output_reversed}},
              {{"body", body(op.body, own, own)}});
}

}  // namespace lathe::onnx
