// SPDX-License-Identifier: Apache-2.0
//
// Pointwise, PointwiseChain and Cast layers in every format, QuantizeLinear and DequantizeLinear in linear
// format, through the vectorised evaluator.
//
// Bytes: each operand read once, the result written once; a chain's intermediate values never leave L1. The
// floor is memory (or L2) bandwidth until a program holds several exp, erf or divisions.
#include <algorithm>
#include <vector>

#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/whole_program.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kPointwiseRunner = "Pointwise";

bool is_pointwise(const Node& node) {
  return std::holds_alternative<Pointwise>(node.op) || std::holds_alternative<PointwiseChain>(node.op) ||
         std::holds_alternative<Cast>(node.op) || is_plain_quantization(node);
}

// How operands come that lie on a grid: as bytes, or as numbers.
enum class Grids : uint8_t { Bytes, Numbers };

Tactic make_tactic(const LayerQuery& query, const Machine& machine, const PointwiseProgram& program,
                   const TensorType& result, Grids grids = Grids::Numbers) {
  const Node& node = query.layer();
  const Value& out = query.graph.value(node.outputs[0]);
  Tactic t = linear_tactic(query, kPointwiseRunner, "pointwise_" + std::string(isa_suffix(machine)));
  t.outputs[0] = result;
  const bool cast = std::holds_alternative<Cast>(node.op), quantizes = is_plain_quantization(node);
  std::string reason;
  std::vector<DType> types;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& value = query.graph.value(node.inputs[i]);
    t.inputs[i] = operand_type(value, out.shape, result, reason);
    const bool on_grid = !value.is_constant() && byte_grid(value, {DType::UInt8, {}});
    if (on_grid && grids == Grids::Bytes) t.inputs[i].dtype = DType::UInt8;
    if (on_grid && grids == Grids::Numbers && !is_float(t.inputs[i].dtype))
      t.inputs[i].dtype = DType::Float32;
    // What is converted keeps its type: floats of 8 bits are no FP32 with fewer digits.
    if ((cast || quantizes) && i == 0 && t.inputs[i].dtype != DType::Undefined)
      t.inputs[i].dtype = value.dtype;
    // A float operand of a result that is no float (a comparison) keeps its own type.
    const bool packed = t.inputs[i].dtype == DType::Undefined;
    if (packed && is_integer(value.dtype) && !cast && !quantizes)
      reason = "operand " + value.name + " is an integer";
    const bool bytes = on_grid && t.inputs[i].dtype == DType::UInt8;
    types.push_back(packed || bytes ? DType::Float32 : t.inputs[i].dtype);
    if (t.inputs[i] == result && value.shape == out.shape && !value.is_constant())
      t.in_place_inputs.push_back(static_cast<int>(i));
  }
  using Integers = PointwiseEvaluator::Integers;
  const bool stores_bytes = byte_grid(out, result).has_value();
  if (stores_bytes) t.keeps_nan = false;
  t.support = PointwiseEvaluator::supports(program, types, stores_bytes ? DType::Float32 : result.dtype,
                                           quantizes ? Integers::Numbers : Integers::Wrap);
  if (t.support.ok && !reason.empty()) t.support = Support::no(reason);
  return t;
}

// The result, the operands, or both as bytes of their grids.
void add_byte_tactics(const LayerQuery& query, const Machine& machine, const PointwiseProgram& program,
                      std::vector<Tactic>& tactics) {
  const Node& node = query.layer();
  const Value& out = query.graph.value(node.outputs[0]);
  const auto on_grid = [&](ValueId v) {
    return v != kNoValue && !query.graph.value(v).is_constant() &&
           byte_grid(query.graph.value(v), {DType::UInt8, {}});
  };
  const bool result = on_grid(node.outputs[0]),
             operands = std::any_of(node.inputs.begin(), node.inputs.end(), on_grid);
  for (const Format& format : {kLinear, kChannelsLast}) {
    if (!format.is_linear() && out.shape.size() < 3) continue;
    const auto add = [&](DType to, Grids grids) {
      tactics.push_back(make_tactic(query, machine, program, {to, format}, grids));
    };
    if (result && operands) add(DType::UInt8, Grids::Bytes);
    if (result) add(DType::UInt8, Grids::Numbers);
    if (operands && is_float(out.number_type())) add(DType::Float32, Grids::Bytes);
  }
}

std::vector<Tactic> list_pointwise(const LayerQuery& query, const Machine& machine) {
  const Node& node = query.layer();
  if (!is_pointwise(node)) return {};
  const Value& out = query.graph.value(node.outputs[0]);
  const PointwiseProgram program = whole_program(node);
  std::vector<Tactic> tactics;
  const bool cast = std::holds_alternative<Cast>(node.op), quantizes = is_plain_quantization(node);
  const std::vector<DType> types = cast || quantizes ? std::vector<DType>{out.dtype} : layer_types(query);
  for (const DType type : types) {
    tactics.push_back(make_tactic(query, machine, program, {type, kLinear}));
    if (out.shape.size() < 3 || quantizes) continue;
    tactics.push_back(make_tactic(query, machine, program, {type, kChannelsLast}));
    const Format blocked{Format::Kind::ChannelBlocked, vector_block(machine)};
    tactics.push_back(make_tactic(query, machine, program, {type, blocked}));
  }
  if (!cast && !quantizes) add_byte_tactics(query, machine, program, tactics);
  return tactics;
}

class PreparedPointwise final : public PreparedLayer {
 public:
  PreparedPointwise(PointwiseEvaluator evaluator, std::vector<Tensor> constants, double nanoseconds)
      : evaluator_(std::move(evaluator)), constants_(std::move(constants)), nanoseconds_(nanoseconds) {}

  int members(int available) const override { return members_for(nanoseconds_, available); }
  void run(const LayerArgs& args, const Worker& worker) const override {
    const Worker::Range part = worker.slice(evaluator_.storage_elements(), 1024);
    const void* inputs[PointwiseEvaluator::kMaxInputs];
    for (size_t i = 0; i < constants_.size(); ++i)
      inputs[i] = constants_[i] ? constants_[i].bytes().data() : args.inputs[i];
    evaluator_.run({inputs, constants_.size()}, args.outputs[0], part.begin, part.end);
  }

 private:
  PointwiseEvaluator evaluator_;
  std::vector<Tensor> constants_;
  double nanoseconds_;
};

class PointwiseLayer final : public LayerKernel {
 public:
  PointwiseLayer(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : program_(whole_program(query.layer())), tactic_(tactic), isa_(machine.isa()) {
    const Node& node = query.layer();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool packed = tactic.inputs[i].dtype == DType::Undefined;
      constants_.push_back(packed ? query.graph.value(node.inputs[i]).constant : Tensor());
      ranks_.push_back(operand_shape(query.graph, node, i).size());
      grids_.push_back(byte_grid(query.graph.value(node.inputs[i]), tactic.inputs[i]));
    }
    result_grid_ = byte_grid(query.graph.value(node.outputs[0]), tactic.outputs[0]);
  }

  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    const Extents& result = context.outputs[0];
    std::vector<PointwiseOperand> operands;
    std::vector<Tensor> constants;
    for (size_t i = 0; i < constants_.size(); ++i) {
      PointwiseOperand operand{tactic_.inputs[i], context.inputs[i], grids_[i]};
      operand.extents.resize(std::max(operand.extents.size(), ranks_[i]), 1);  // a vector along an axis
      Tensor constant;
      if (constants_[i]) {
        operand.type.dtype = DType::Float32;
        constant = constant_operand(constants_[i].reshaped(operand.extents), result,
                                    tactic_.outputs[0].format, operand.extents, operand.type.format);
      }
      constants.push_back(std::move(constant));
      operands.push_back(std::move(operand));
    }
    PointwiseEvaluator evaluator(program_, operands, {tactic_.outputs[0], result, result_grid_}, isa_);
    const double per_element = 0.05 + 0.15 * static_cast<double>(program_.steps.size());
    const double nanoseconds = per_element * static_cast<double>(evaluator.storage_elements());
    return std::make_unique<PreparedPointwise>(std::move(evaluator), std::move(constants), nanoseconds);
  }

 private:
  PointwiseProgram program_;
  Tactic tactic_;
  Isa isa_;
  std::vector<Tensor> constants_;
  std::vector<size_t> ranks_;  // with which operands broadcast
  std::vector<std::optional<ByteGrid>> grids_;
  std::optional<ByteGrid> result_grid_;
};

std::unique_ptr<LayerKernel> make_pointwise(const LayerQuery& query, const Tactic& tactic,
                                            const Machine& machine, const PackContext&) {
  return std::make_unique<PointwiseLayer>(query, tactic, machine);
}

}  // namespace

TacticFamily pointwise_tactics() {
  return {kPointwiseRunner, list_pointwise, make_pointwise};
}

}  // namespace lathe::cpu
