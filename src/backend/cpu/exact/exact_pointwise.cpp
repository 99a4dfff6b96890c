// SPDX-License-Identifier: Apache-2.0
//
// Pointwise, PointwiseChain and Cast layers on what FP32 vectors are wrong for: integers of every width,
// double and floats of 8 bits (those of DequantizeLinear, too). Pieces are read as int64 or double, which
// hold every value, and each step rounds or wraps as its type does.
//
// Bytes: operands read once, the result written once; 16 to 24 bytes per step and element between registers
// and L1. The floor is about one element per step and ns: such layers compute positions and masks, which are
// small.
#include <algorithm>
#include <array>

#include "backend/cpu/exact/exact_loops.h"
#include "backend/cpu/vector/operand_strides.h"
#include "backend/cpu/vector/own_tactic.h"
#include "backend/cpu/vector/pointwise_eval.h"
#include "backend/whole_program.h"
#include "base/error.h"
#include "ir/elements.h"
#include "ops/pointwise.h"

namespace lathe::cpu {
namespace {

constexpr std::string_view kExactPointwiseRunner = "ExactPointwise";
constexpr int64_t kExactPiece = 512;

// A piece of an operand or a result: doubles of a float type, else integers.
union Slot {
  double* reals;
  int64_t* integers;
};

struct ExactOperand {
  DType type = DType::Undefined;
  Extents strides;  // per dim of the walk
};

class PreparedExact final : public PreparedLayer {
 public:
  PointwiseProgram program;
  std::vector<DType> types;  // of inputs, then of steps
  DType result = DType::Undefined;
  bool saturate = true;
  std::vector<ExactOperand> operands;
  Extents extents = {1};  // of the walk: dims of the result, merged as far as all operands allow
  int threads = 1;

  int64_t row() const { return extents.back(); }
  int64_t pieces_of_row() const { return (row() + kExactPiece - 1) / kExactPiece; }
  // One per input and step, and two for operands that must become double.
  int64_t slots() const { return static_cast<int64_t>(types.size()) + 2; }
  size_t scratch_bytes() const override { return static_cast<size_t>(slots() * kExactPiece * 8 * threads); }
  int members(int available) const override {
    const double elements = static_cast<double>(element_count(extents));
    return members_for((1 + static_cast<double>(types.size())) * elements, std::min(available, threads));
  }
  void run(const LayerArgs& args, const Worker& worker) const override {
    std::vector<Slot> slot(static_cast<size_t>(slots()));
    auto* at = reinterpret_cast<int64_t*>(args.scratch) + worker.index * slots() * kExactPiece;
    for (Slot& s : slot) s.integers = std::exchange(at, at + kExactPiece);
    const Worker::Range part = worker.slice(element_count(extents) / row() * pieces_of_row());
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t from = i % pieces_of_row() * kExactPiece;
      piece(args, slot, i / pieces_of_row(), from, std::min(kExactPiece, row() - from));
    }
  }

 private:
  void piece(const LayerArgs& args, std::vector<Slot>& slot, int64_t row_index, int64_t from,
             int64_t n) const {
    for (size_t i = 0; i < operands.size(); ++i)
      load(args.inputs[i], operands[i], row_index, from, n, slot[i]);
    for (size_t s = 0; s < program.steps.size(); ++s) step(program.steps[s], slot, operands.size() + s, n);
    const Slot& last = slot[types.size() - 1];
    const ElementWriter writer(result, static_cast<std::byte*>(args.outputs[0]));
    const int64_t begin = row_index * row() + from;
    if (is_float(types.back()))
      writer.store_doubles(begin, n, last.reals, saturate);
    else
      writer.store_int64s(begin, n, last.integers, types.back() == DType::UInt64);
  }

  void load(const void* data, const ExactOperand& operand, int64_t index, int64_t from, int64_t n,
            Slot& to) const {
    const int64_t stride = operand.strides.back();
    int64_t at = from * stride;
    for (size_t d = extents.size() - 1; d-- > 0; index /= extents[d])
      at += index % extents[d] * operand.strides[d];
    const auto* bytes = static_cast<const std::byte*>(data);
    const auto read = [&](auto* out, auto&& load_run) {
      const int64_t count = stride == 0 ? 1 : n;
      if (stride <= 1)
        load_run(operand.type, bytes, at, count, out);
      else
        for (int64_t i = 0; i < n; ++i) load_run(operand.type, bytes, at + i * stride, 1, out + i);
      if (stride == 0) std::fill(out + 1, out + n, *out);
    };
    if (is_float(operand.type))
      read(to.reals, [](auto... a) { load_doubles(a...); });
    else
      read(to.integers, [](auto... a) { load_int64s(a...); });
  }

  const double* as_reals(const std::vector<Slot>& slot, size_t operand, int64_t n, size_t spare) const {
    if (is_float(types[operand])) return slot[operand].reals;
    double* to = slot[types.size() + spare].reals;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t value = slot[operand].integers[i];
      to[i] = types[operand] == DType::UInt64 ? static_cast<double>(static_cast<uint64_t>(value))
                                              : static_cast<double>(value);
    }
    return to;
  }

  void step(const PointwiseStep& s, std::vector<Slot>& slot, size_t result_slot, int64_t n) const {
    const auto number = [&](size_t i) { return static_cast<size_t>(s.operands[i]); };
    const size_t a = number(0), b = s.operands.size() > 1 ? number(1) : a;
    Slot& out = slot[result_slot];
    const DType type = types[result_slot];
    if (s.code == PointwiseCode::Where) return where(slot, a, b, number(2), out, n);
    const ExactParameters p{types[a] == DType::UInt64, s.alpha, s.beta};
    if (!is_float(types[a]) && !is_float(types[b])) {
      integer_loop(s.code)(slot[a].integers, slot[b].integers, out.integers, n, p);
      if (type != DType::Bool) wrap(type, out.integers, n);
      return;
    }
    const double *x = as_reals(slot, a, n, 0), *y = as_reals(slot, b, n, 1);
    if (type == DType::Bool) return real_test_loop(s.code, x, y, out.integers, n, p);
    real_loop(s.code, x, y, out.reals, n, p);
    if (type != DType::Float64)
      for (int64_t i = 0; i < n; ++i) out.reals[i] = static_cast<float>(out.reals[i]);
  }

  static void wrap(DType type, int64_t* values, int64_t n) {
    if (dtype_info(type).bits == 64) return;
    for (int64_t i = 0; i < n; ++i) values[i] = wrap_integer(values[i], type);
  }

  void where(const std::vector<Slot>& slot, size_t condition, size_t yes, size_t no, Slot& out,
             int64_t n) const {
    const int64_t* c = slot[condition].integers;
    if (is_float(types[yes]))
      for (int64_t i = 0; i < n; ++i) out.reals[i] = c[i] ? slot[yes].reals[i] : slot[no].reals[i];
    else
      for (int64_t i = 0; i < n; ++i) out.integers[i] = c[i] ? slot[yes].integers[i] : slot[no].integers[i];
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
  ExactKernel(const LayerQuery& query, const Tactic& tactic)
      : program_(whole_program(query.layer())),
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
    set_walk(*p, context);
    return p;
  }

 private:
  // An inner dim continues the one before it when that holds for every operand.
  void set_walk(PreparedExact& p, const ShapeContext& context) const {
    const Extents& out = context.outputs[0];
    std::vector<Extents> strides;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      Extents extents = context.inputs[i];
      extents.resize(std::max(extents.size(), ranks_[i]), 1);  // a scale for each index of an axis
      strides.push_back(operand_strides(extents, kLinear, out, kLinear));
      p.operands.push_back({types_[i], {0}});
    }
    bool begun = false;
    for (size_t d = 0; d < out.size(); ++d) {
      if (out[d] == 1) continue;
      bool joins = true;
      for (size_t i = 0; i < strides.size(); ++i)
        joins = joins && (!begun || p.operands[i].strides.back() == strides[i][d] * out[d]);
      if (begun && !joins) {
        p.extents.push_back(1);
        for (ExactOperand& operand : p.operands) operand.strides.push_back(0);
      }
      begun = true;
      p.extents.back() *= out[d];
      for (size_t i = 0; i < strides.size(); ++i) p.operands[i].strides.back() = strides[i][d];
    }
  }

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
                                                  const Machine&, const PackContext&) {
  return std::make_unique<ExactKernel>(query, tactic);
}

}  // namespace

TacticFamily exact_pointwise_tactics() {
  return {kExactPointwiseRunner, list_exact_pointwise, make_exact_pointwise};
}

}  // namespace lathe::cpu
