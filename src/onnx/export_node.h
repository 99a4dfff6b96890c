// SPDX-License-Identifier: Apache-2.0
//
// What each core operator is in ONNX: one function per operator, in the export_*.cpp file of its family.
// Internal to export.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "onnx/export_graph.h"

namespace lathe::onnx {

class NodeExport {
 public:
  NodeExport(GraphExport& graph, const Node& node);
  void write();

  // pointwise, products
  void operator()(const Pointwise& op);
  void operator()(const PointwiseChain& op);
  void operator()(const Cast& op);
  void operator()(const Reformat& op);
  void operator()(const Conv& op);
  void operator()(const ConvTranspose& op);
  void operator()(const DepthwiseBlock& op);
  void operator()(const MatMul& op);
  void operator()(const FeedForward& op);
  void operator()(const Attention& op);
  void operator()(const Rotary& op);
  void operator()(const DeformConv& op);
  void operator()(const QuantizeLinear& op);
  void operator()(const DequantizeLinear& op);
  // pooling, normalization, reduction, recurrence
  void operator()(const Pool& op);
  void operator()(const Reduce& op);
  void operator()(const SqueezeExcite& op);
  void operator()(const ArgReduce& op);
  void operator()(const Softmax& op);
  void operator()(const LayerNorm& op);
  void operator()(const BatchNorm& op);
  void operator()(const GroupNorm& op);
  void operator()(const Lrn& op);
  void operator()(const CumSum& op);
  void operator()(const CumProd& op);
  void operator()(const TopK& op);
  void operator()(const RNN& op);
  void operator()(const GRU& op);
  void operator()(const LSTM& op);
  void operator()(const LinearAttention& op);
  // shape and data movement
  void operator()(const ReshapeOp& op);
  void operator()(const Transpose& op);
  void operator()(const Concat& op);
  void operator()(const Split& op);
  void operator()(const Slice& op);
  void operator()(const Expand& op);
  void operator()(const Tile& op);
  void operator()(const Pad& op);
  void operator()(const Resize& op);
  void operator()(const Gather& op);
  void operator()(const GatherElements& op);
  void operator()(const GatherND& op);
  void operator()(const ScatterElements& op);
  void operator()(const ScatterND& op);
  void operator()(const Trilu& op);
  void operator()(const ReverseSequence& op);
  void operator()(const OneHot& op);
  void operator()(const DepthToSpace& op);
  void operator()(const ShapeTensor& op);
  void operator()(const ShapeOf& op);
  void operator()(const Range& op);
  void operator()(const Fill& op);
  // the rest
  void operator()(const NonZero& op);
  void operator()(const NonMaxSuppression& op);
  void operator()(const GridSample& op);
  void operator()(const RoiAlign& op);
  void operator()(const MaxRoiPool& op);
  void operator()(const Col2Im& op);
  void operator()(const DFT& op);
  void operator()(const STFT& op);
  void operator()(const MelWeightMatrix& op);
  void operator()(const RandomUniform& op);
  void operator()(const RandomNormal& op);
  void operator()(const Det& op);
  void operator()(const Inverse& op);
  void operator()(const TreeEnsemble& op);
  void operator()(const BitCast& op);
  void operator()(const Unique& op);
  void operator()(const TfIdfVectorizer& op);
  void operator()(const DetectionNms& op);
  void operator()(const Plugin& op);
  void operator()(const If& op);
  void operator()(const Loop& op);
  void operator()(const Scan& op);

 private:
  bool has(size_t i) const { return i < op_inputs_ && node_.inputs[i] != kNoValue; }
  std::string in(size_t i) const { return has(i) ? graph_.number_of(node_.inputs[i]) : ""; }
  Names all_inputs() const;
  const Value& value(size_t i) const { return graph_.graph().value(node_.inputs[i]); }
  DType dtype() const { return value(0).number_type(); }
  int64_t rank(size_t i = 0) const { return static_cast<int64_t>(value(i).shape.size()); }

  // The ONNX node that gives the results of the operator.
  void result(std::string_view op_type, Names inputs, Attributes attributes = {}, int64_t since = 1);
  // A node on the way there.
  std::string step(std::string_view op_type, Names inputs, Attributes attributes = {}, int64_t since = 1);
  // `name`: of the result; empty: any.
  std::string node(std::string_view op_type, Names inputs, Attributes attributes, int64_t since,
                   std::string name);
  int64_t opset_of_types(std::string_view op_type) const;
  void result_is(const std::string& value) { result("Identity", {value}); }
  void with_bodies(std::string_view op_type, Names inputs, Attributes attributes,
                   std::vector<GraphWriter::BodyAttribute> bodies);
  std::string body(const Body& body, size_t own_inputs, size_t first_captured);

  // `inputs` have these types; nodes of one operation, the last of which is called `name`.
  std::string pointwise(const PointwiseStep& step, const Names& inputs, DType dtype, std::string name);
  std::string pointwise_parts(const PointwiseStep& step, const Names& inputs, DType dtype,
                              const std::string& name);
  std::string program(const PointwiseProgram& program, Names inputs, std::vector<DType> types, DType to,
                      std::string name);
  std::string program_on(const PointwiseProgram& program, const std::string& value);
  std::string swapped(const std::string& value, int64_t rank, bool swap);
  Attributes window(const Ints& kernel, const Ints& strides, const Ints& dilations, const Ints& begin,
                    const Ints& end, AutoPad auto_pad) const;
  void recurrent(std::string_view op_type, Names activations, const std::vector<float>& alpha,
                 const std::vector<float>& beta, float clip, bool reverse, Attributes more);
  void random(std::string_view op_type, const Shape& shape, DType dtype, Attributes attributes, int64_t seed);
  // The first elements of x's last axis, turned as Rotary says.
  std::string turned(const std::string& x, int64_t rank, int64_t count, bool interleaved);
  // Throws Input: the operator has no form in ONNX's own domain.
  [[noreturn]] void no_form(std::string_view op_type) const;
  // The tensor of `dims`, or input `i` where they are not set.
  std::string dims_or_input(const std::optional<Shape>& dims, size_t i);

  void write_epilogue();
  // The results whose integers are stored, as these.
  void quantize_results();

  GraphExport& graph_;
  const Node& node_;
  size_t op_inputs_ = 0;
  Names results_;  // of the operator, without the epilogue
  Names numbers_;  // with it
};

}  // namespace lathe::onnx
