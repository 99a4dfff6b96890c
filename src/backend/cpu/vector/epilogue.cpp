// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a layer for tactics: operand types, constants, and application to tiles (see
// pointwise_eval.h).
#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/operand_dtype.h"
#include "base/error.h"

namespace lathe::cpu {
namespace {

PointwiseProgram identity_program() {
  PointwiseProgram program;
  program.input_count = 1;
  program.steps.push_back({PointwiseCode::Identity, 0, 0, {0}});
  return program;
}

}  // namespace

TensorType operand_type(const Value& value, const Shape& result_shape, const TensorType& result,
                        std::string& reason) {
  // A loaded engine keeps the bytes of small constants only; larger ones are read in place.
  const bool constant = value.is_constant();
  if (constant && dtype_bytes(value.dtype, value.constant.size()) <= kKeptConstantBytes) return {};
  TensorType type;
  type.dtype = operand_dtype(value, result_shape, result.dtype);
  type.format = result.format;
  if (byte_grid(value, {result.dtype, {}})) type.dtype = result.dtype;
  if (constant) type = {value.dtype, kLinear};
  if (result.format.is_linear()) return type;
  bool one_element = true;
  for (const Dim& d : value.shape) one_element = one_element && d.is_constant(1);
  if (one_element) {
    type.format = kLinear;
  } else if (constant || value.shape.size() != result_shape.size()) {
    type.format = kLinear;
    const size_t missing = result_shape.size() - value.shape.size();
    const bool has_channels =
        missing <= 1 && result_shape.size() > 1 && !value.shape[1 - missing].is_constant(1);
    const Dim& channels = result_shape[1];
    if (result.format.kind == Format::Kind::ChannelBlocked && has_channels &&
        !(channels.is_constant() && channels.value() % result.format.block == 0))
      reason =
          "operand " + value.name + " has fewer dims than the result and does not fill its channel blocks";
  }
  return type;
}

Support Epilogue::list(const LayerQuery& query, const TensorType& output, std::vector<TensorType>& inputs) {
  const Node& node = query.layer();
  if (node.epilogue.empty()) return {};
  std::vector<DType> types = {DType::Float32};
  std::string reason;
  for (size_t i = node.op_input_count(); i < node.inputs.size(); ++i) {
    const Value& value = query.graph.value(node.inputs[i]);
    inputs.push_back(operand_type(value, query.graph.value(node.outputs[0]).shape, output, reason));
    const bool packed = inputs.back().dtype == DType::Undefined;
    types.push_back(packed ? (value.dtype == DType::Bool ? DType::Bool : DType::Float32)
                    : byte_grid(value, inputs.back()) ? DType::Float32
                                                      : inputs.back().dtype);
    if (value.is_constant() && is_integer(value.dtype))
      reason = "operand " + value.name + " is " + std::string(dtype_name(value.dtype));
  }
  if (!reason.empty()) return Support::no("epilogue: " + reason);
  const bool bytes = byte_grid(query.graph.value(node.outputs[0]), output).has_value();
  Support support = PointwiseEvaluator::supports(node.epilogue, types, bytes ? DType::Float32 : output.dtype);
  if (!support.ok) support.reason = "epilogue: " + support.reason;
  return support;
}

Epilogue::Epilogue(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
    : program_(query.layer().epilogue),
      output_(tactic.outputs[0]),
      output_grid_(byte_grid(query.graph.value(query.layer().outputs[0]), output_)),
      first_operand_(query.layer().op_input_count()),
      isa_(machine.isa()) {
  const Node& node = query.layer();
  for (size_t i = first_operand_; i < node.inputs.size(); ++i) {
    operand_types_.push_back(tactic.inputs[i]);
    operand_grids_.push_back(byte_grid(query.graph.value(node.inputs[i]), tactic.inputs[i]));
    const bool packed = tactic.inputs[i].dtype == DType::Undefined;
    constants_.push_back(packed ? query.graph.value(node.inputs[i]).constant : Tensor());
  }
}

std::shared_ptr<const PreparedEpilogue> Epilogue::prepare(const ShapeContext& context, DType computed) const {
  auto prepared = std::make_shared<PreparedEpilogue>();
  const Extents& result = context.outputs[0];
  std::vector<PointwiseOperand> operands = {{{computed, output_.format}, result}};
  prepared->constants_ = {nullptr};
  prepared->arg_index_ = {0};
  auto kept = std::make_shared<std::vector<Tensor>>();
  for (size_t i = 0; i < operand_types_.size(); ++i) {
    const size_t arg = first_operand_ + i;
    PointwiseOperand operand{operand_types_[i], context.inputs[arg], operand_grids_[i]};
    const void* address = nullptr;
    if (constants_[i]) {
      operand.type.dtype = DType::Float32;
      kept->push_back(
          constant_operand(constants_[i], result, output_.format, operand.extents, operand.type.format));
      address = kept->back().bytes().data();
    }
    operands.push_back(operand);
    prepared->constants_.push_back(address);
    prepared->arg_index_.push_back(arg);
  }
  prepared->keep_alive_ = kept;
  prepared->element_bytes_ = dtype_bytes(output_.dtype, 1);
  prepared->identity_ = program_.empty() && computed == output_.dtype;
  prepared->evaluator_ =
      std::make_unique<PointwiseEvaluator>(program_.empty() ? identity_program() : program_, operands,
                                           PointwiseOperand{output_, result, output_grid_}, isa_);
  return prepared;
}

void PreparedEpilogue::apply(const LayerArgs& args, const void* values, int64_t values_stride, int64_t offset,
                             int64_t rows, int64_t row_stride, int64_t cols) const {
  if (identity_ && values == static_cast<const std::byte*>(args.outputs[0]) + offset * element_bytes_) return;
  const void* addresses[PointwiseEvaluator::kMaxInputs];
  const size_t count = constants_.size();
  for (size_t i = 1; i < count; ++i)
    addresses[i] = constants_[i] ? constants_[i] : args.inputs[arg_index_[i]];
  addresses[0] = values;
  evaluator_->run_tile(values, values_stride, {addresses, count}, args.outputs[0],
                       {offset, rows, row_stride, cols});
}

}  // namespace lathe::cpu
