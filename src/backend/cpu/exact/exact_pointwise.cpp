// SPDX-License-Identifier: Apache-2.0
//
// Pointwise, PointwiseChain and Cast layers on what FP32 vectors are wrong for: integers of every width,
// double and floats of 8 bits (those of DequantizeLinear, too). Pieces are read as int64 or double, which
// hold every value, and each step rounds or wraps as its type does. A step runs over a whole piece in L1
// before the next one begins; a piece has several rows where rows are short.
//
// Bytes: operands read once, the result written once; 16 to 24 bytes per step and element between registers
// and L1. The floor is 0.1 ns per element, step and thread for sums and products, 1 to 10 for divisions of
// integers and functions of the C library.
#include <algorithm>

#include "backend/cpu/exact/exact_loops.h"
#include "backend/cpu/exact/exact_rows.h"
#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/whole_program.h"
#include "base/error.h"
#include "ops/pointwise.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kExactPointwiseRunner = "ExactPointwise";

class PreparedExact final : public PreparedLayer {
 public:
  PointwiseProgram program;
  std::vector<DType> types;  // of inputs, then of steps
  DType result = DType::Undefined;
  bool saturate = true;
  ExactWalk walk;
  const ExactTable* table = nullptr;
  int threads = 1;

  // One per input and step, and two for operands that must become double.
  int64_t slots() const { return static_cast<int64_t>(types.size()) + 2; }
  size_t scratch_bytes() const override { return static_cast<size_t>(slots() * kExactPiece * 8 * threads); }
  int members(int available) const override {
    const double elements = static_cast<double>(element_count(walk.extents));
    return members_for(0.2 * (1 + static_cast<double>(types.size())) * elements,
                       std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    std::vector<ExactSlot> slot(static_cast<size_t>(slots()));
    auto* at = reinterpret_cast<int64_t*>(args.scratch) + worker.index * slots() * kExactPiece;
    for (ExactSlot& s : slot) s.integers = std::exchange(at, at + kExactPiece);
    Extents index(walk.extents.size());
    const int64_t elements = element_count(walk.extents);
    const Worker::Range part = worker.slice((elements + kExactPiece - 1) / kExactPiece);
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t begin = i * kExactPiece, n = std::min(kExactPiece, elements - begin);
      for (size_t k = 0; k < walk.operands.size(); ++k)
        walk.load(*table, k, args.inputs[k], begin, n, index, slot[k]);
      for (size_t s = 0; s < program.steps.size(); ++s)
        step(program.steps[s], slot, walk.operands.size() + s, n);
      store_exact(*table, slot[types.size() - 1], types.back(), args.outputs[0], result, begin, n, saturate);
    }
  }

 private:
  const double* as_reals(const std::vector<ExactSlot>& slot, size_t operand, int64_t n, size_t spare) const {
    if (is_float(types[operand])) return slot[operand].reals;
    const int64_t* from = slot[operand].integers;
    double* to = slot[types.size() + spare].reals;
    if (types[operand] == DType::UInt64)
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(static_cast<uint64_t>(from[i]));
    else
      table->to_reals(from, to, n);
    return to;
  }

  void step(const PointwiseStep& s, std::vector<ExactSlot>& slot, size_t result_slot, int64_t n) const {
    const auto number = [&](size_t i) { return static_cast<size_t>(s.operands[i]); };
    const size_t a = number(0), b = s.operands.size() > 1 ? number(1) : a;
    ExactSlot& out = slot[result_slot];
    const DType type = types[result_slot];
    if (s.code == PointwiseCode::Where)
      return table->where(slot[a].integers, slot[b].integers, slot[number(2)].integers, out.integers, n);
    const ExactParameters p{types[a] == DType::UInt64, s.alpha, s.beta};
    if (!is_float(types[a]) && !is_float(types[b])) {
      integer_loop(*table, s.code, p.is_uint64)(slot[a].integers, slot[b].integers, out.integers, n, p);
      if (type != DType::Bool) wrap_exact(*table, type, out.integers, n);
      return;
    }
    const double *x = as_reals(slot, a, n, 0), *y = as_reals(slot, b, n, 1);
    if (type == DType::Bool) return real_test_loop(*table, s.code)(x, y, out.integers, n, p);
    real_loop(*table, s.code)(x, y, out.reals, n, p);
    if (type != DType::Float64) table->round_to_float(out.reals, n);
  }
};

// Types of the program's inputs and steps.
std::vector<DType> program_types(const PointwiseProgram& program, std::vector<DType> types) {
  for (const PointwiseStep& step : program.steps) {
    std::vector<DType> operands;
    for (const int o : step.operands) operands.push_back(types[static_cast<size_t>(o)]);
    types.push_back(pointwise_dtype(step.code, operands));
  }
  return types;
}

std::vector<DType> input_types(const Graph& graph, const Node& node) {
  std::vector<DType> types;
  for (const ValueId id : node.inputs) types.push_back(graph.value(id).dtype);
  return types;
}

class ExactKernel final : public LayerKernel {
 public:
  ExactKernel(const LayerQuery& query, const Tactic& tactic, const Machine& machine)
      : table_(exact_table(machine.isa())),
        program_(whole_program(query.layer())),
        types_(program_types(program_, input_types(query.graph, query.layer()))),
        result_(tactic.outputs[0].dtype) {
    for (size_t i = 0; i < query.layer().inputs.size(); ++i)
      ranks_.push_back(operand_shape(query.graph, query.layer(), i).size());
    if (const auto* cast = std::get_if<Cast>(&query.layer().op)) saturate_ = cast->saturate;
  }
  std::unique_ptr<PreparedLayer> prepare(const ShapeContext& context) const override {
    auto p = std::make_unique<PreparedExact>();
    p->program = program_;
    p->types = types_;
    p->result = result_;
    p->saturate = saturate_;
    p->threads = context.threads;
    p->table = &table_;
    std::vector<Extents> strides;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      Extents extents = context.inputs[i];
      extents.resize(std::max(extents.size(), ranks_[i]), 1);  // a scale for each index of an axis
      strides.push_back(operand_strides(extents, kLinear, context.outputs[0], kLinear));
    }
    p->walk = exact_walk(table_, context.outputs[0], strides,
                         {types_.begin(), types_.begin() + program_.input_count});
    return p;
  }

 private:
  const ExactTable& table_;
  PointwiseProgram program_;
  std::vector<DType> types_;
  DType result_;
  std::vector<size_t> ranks_;  // with which operands broadcast
  bool saturate_ = true;
};

// Integers are dequantised by vectors.
bool dequantizes_floats(const LayerQuery& query) {
  const Node& node = query.layer();
  return std::holds_alternative<DequantizeLinear>(node.op) && is_plain_quantization(node) &&
         is_float(query.graph.value(node.inputs[0]).dtype);
}

Support supports_exact_pointwise(const PointwiseProgram& program, const std::vector<DType>& types,
                                 DType result) {
  for (const DType type : types)
    if (dtype_info(type).bits < 8) return Support::no("elements are smaller than a byte");
  if (dtype_info(result).bits < 8 || result == DType::Float8E8M0)
    return Support::no("no kernel writes " + std::string(dtype_name(result)));
  // An integer raised to a power that is no integer.
  const auto inputs = static_cast<size_t>(program.input_count);
  for (size_t s = inputs; s < types.size(); ++s) {
    const PointwiseStep& step = program.steps[s - inputs];
    const bool from_float =
        step.operands.size() == 2 && is_float(types[static_cast<size_t>(step.operands[1])]);
    if (from_float && !is_float(types[s]) && types[s] != DType::Bool)
      return Support::no("an integer to the power of a float");
  }
  return {};
}

std::vector<Tactic> list_exact_pointwise(const LayerQuery& query, const Machine&) {
  const Node& node = query.layer();
  if (!std::holds_alternative<Pointwise>(node.op) && !std::holds_alternative<PointwiseChain>(node.op) &&
      !std::holds_alternative<Cast>(node.op) && !dequantizes_floats(query))
    return {};
  const PointwiseProgram program = whole_program(node);
  const std::vector<DType> inputs = input_types(query.graph, node);
  const DType result = query.graph.value(node.outputs[0]).dtype;
  // Whatever FP32 is right for is for the vectors.
  if (PointwiseEvaluator::supports(program, inputs, result).ok) return {};
  Tactic t = linear_tactic(query, kExactPointwiseRunner, "pointwise_exact");
  t.support = supports_exact_pointwise(program, program_types(program, inputs), result);
  return {t};
}

std::unique_ptr<LayerKernel> make_exact_pointwise(const LayerQuery& query, const Tactic& tactic,
                                                  const Machine& machine, const PackContext&) {
  return std::make_unique<ExactKernel>(query, tactic, machine);
}

}  // namespace

TacticFamily exact_pointwise_tactics() {
  return {kExactPointwiseRunner, list_exact_pointwise, make_exact_pointwise};
}

}  // namespace lathe::cpu
